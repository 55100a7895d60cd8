"""Functions of the time at which a row is processed: they read columns that an operator adds before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headrace.common.logical_types import AtomicType, TypeRoot
from headrace.graph.specs import RecordTimesSpec
from headrace.operators.record_times import RecordTime
from headrace.table.logical.scalars import Call, Cast, InputRef, Scalar
from headrace.table.logical.schema import Field, Schema
from headrace.table.physical.node import Edges
from headrace.table.physical.translation import GraphBuilder

_INSTANT: Final = AtomicType(TypeRoot.TIMESTAMP_LTZ, 6)

_FUNCTIONS: Final = {
    **dict.fromkeys(
        (
            "PROCTIME",
            "CURRENT_TIMESTAMP",
            "NOW",
            "CURRENT_ROW_TIMESTAMP",
            "LOCALTIMESTAMP",
            "LOCALTIME",
            "CURRENT_TIME",
            "CURRENT_DATE",
        ),
        RecordTime.PROCESSING_TIME,
    ),
    "CURRENT_WATERMARK": RecordTime.WATERMARK,
}


@dataclass(frozen=True)
class UsedTimes:
    """The times that some scalars read.

    Attributes:
        times: which.
    """

    times: tuple[RecordTime, ...]

    @staticmethod
    def of(scalars: Sequence[Scalar]) -> UsedTimes:
        """The times that scalars read."""
        calls = (node.function for each in scalars for node in each.walk() if isinstance(node, Call))
        return UsedTimes(tuple(dict.fromkeys(_FUNCTIONS[name] for name in calls if name in _FUNCTIONS)))

    def added(self, builder: GraphBuilder, edges: Edges, schema: Schema) -> tuple[Edges, Schema]:
        """The edges of rows with columns of these times behind, and their schema."""
        if not self.times:
            return edges, schema
        names = tuple(f"${time.value}" for time in self.times)
        widened = Schema((*schema, *(Field(name, _INSTANT) for name in names)))
        return builder.add(RecordTimesSpec(self.times, names), "RecordTimes", edges), widened

    def read(self, scalar: Scalar, schema: Schema) -> Scalar:
        """A scalar with the columns in place of the functions.

        Args:
            scalar: the scalar.
            schema: the columns before those of times.
        """
        if not self.times:
            return scalar

        def column(node: Scalar) -> Scalar:
            if not isinstance(node, Call) or node.function not in _FUNCTIONS:
                return node
            place = len(schema) + self.times.index(_FUNCTIONS[node.function])
            return Cast(InputRef(place, type=_INSTANT), type=node.type)

        return scalar.transform(column)
