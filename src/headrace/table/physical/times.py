"""Functions of the current time, which read columns that an operator adds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final

import pyarrow as pa

from headrace.common.logical_types import AtomicType, IntervalType, TypeRoot
from headrace.graph.row_specs import RecordTimesSpec
from headrace.operators.record_times import RecordTime
from headrace.table.logical.scalars import Call, Cast, InputRef, Literal, Scalar
from headrace.table.logical.schema import Field, Schema
from headrace.table.physical.node import Edges
from headrace.table.physical.translation import GraphBuilder

_INSTANT: Final = AtomicType(TypeRoot.TIMESTAMP_LTZ, 6)

_BITS: Final = AtomicType(TypeRoot.BIGINT, nullable=False)
_RANDOM: Final = ("RAND", "RAND_INTEGER", "UUID")

_FUNCTIONS: Final = {
    **dict.fromkeys(
        (
            "PROCTIME",
            "PROCTIME_MATERIALIZE",
            "CURRENT_TIMESTAMP",
            "NOW",
            "CURRENT_ROW_TIMESTAMP",
            "LOCALTIMESTAMP",
            "LOCALTIME",
            "CURRENT_TIME",
            "CURRENT_DATE",
            "UNIX_TIMESTAMP",
        ),
        RecordTime.PROCESSING_TIME,
    ),
    "CURRENT_WATERMARK": RecordTime.WATERMARK,
    **dict.fromkeys(_RANDOM, RecordTime.RANDOM),
}


@dataclass(frozen=True)
class UsedTimes:
    """The times that scalars read.

    Attributes:
        times: the times.
        numbers: numbers the calls that read the same random bits.
    """

    times: tuple[RecordTime, ...]
    numbers: Iterator[int] = field(default_factory=count, compare=False)

    @staticmethod
    def of(scalars: Sequence[Scalar]) -> UsedTimes:
        """The times that scalars read."""
        read = (read_by(node) for each in scalars for node in each.walk())
        return UsedTimes(tuple(dict.fromkeys(time for time in read if time is not None)))

    def added(self, builder: GraphBuilder, edges: Edges, schema: Schema) -> tuple[Edges, Schema]:
        """The edges of rows with columns of these times appended, and their schema."""
        if not self.times:
            return edges, schema
        names = tuple(f"${time.value}" for time in self.times)
        columns = (Field(name, _type_of(time)) for name, time in zip(names, self.times, strict=True))
        widened = Schema((*schema, *columns))
        return builder.add(RecordTimesSpec(self.times, names), "RecordTimes", edges), widened

    def read(self, scalar: Scalar, schema: Schema) -> Scalar:
        """A scalar with its functions of time replaced by the columns.

        Args:
            scalar: the scalar.
            schema: the columns before those of times.
        """
        if not self.times:
            return scalar

        def column(node: Scalar) -> Scalar:
            time = read_by(node)
            if not isinstance(node, Call) or time is None:
                return node
            read = InputRef(len(schema) + self.times.index(time), type=_type_of(time))
            if time is RecordTime.RANDOM:  # so that calls in one row, which read the same bits, differ
                options = (*node.options, ("call", next(self.numbers)))
                return replace(node, operands=(read, *node.operands), options=options)
            return replace(node, operands=(read,)) if node.function in _OF_TIME else Cast(read, type=node.type)

        return scalar.transform(column)


def shifted_column(scalar: Scalar) -> tuple[InputRef, int] | None:
    """A column and the constant interval added to it, in milliseconds; None for other scalars."""
    if isinstance(scalar, InputRef):
        return scalar, 0
    if isinstance(scalar, Cast) and scalar.is_implicit:
        return shifted_column(scalar.operand)
    if not isinstance(scalar, Call) or scalar.function not in ("+", "-") or len(scalar.operands) != 2:
        return None
    operand, added = scalar.operands
    found = shifted_column(operand)
    if found is None or not isinstance(added, Literal) or not isinstance(added.type, IntervalType):
        return None
    if not isinstance(added.value, int) or not pa.types.is_duration(added.type.arrow_type):
        return None
    millis = added.value // _MICROSECONDS
    return found[0], found[1] + (millis if scalar.function == "+" else -millis)


_MICROSECONDS: Final = 1000
"""The number of microseconds in a millisecond."""


_OF_TIME: Final = frozenset({"UNIX_TIMESTAMP"})
"""Functions that compute a value from the time, and do not only cast it."""


def read_by(node: Scalar) -> RecordTime | None:
    """The time, or the random bits, that the call itself reads, apart from its operands."""
    if not isinstance(node, Call) or (node.function in _OF_TIME and node.operands):
        return None
    return _FUNCTIONS.get(node.function)


def _type_of(time: RecordTime) -> AtomicType:
    return _BITS if time is RecordTime.RANDOM else _INSTANT
