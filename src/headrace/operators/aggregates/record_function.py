"""User-defined aggregate functions that update an accumulator in place, one record at a time."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar, Final, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import fixed_width, gather, list_lengths, lists_of
from headrace.common.columns import array_to_values, values_to_array
from headrace.common.errors import UnsupportedOperationError, UserFunctionError
from headrace.common.typeinfo import TypeInformation, Types
from headrace.operators.aggregates.aggregator import Fields, GroupedRows, Input, Longs
from headrace.operators.aggregates.user_defined import UserParts
from headrace.operators.base import UserCode
from headrace.operators.functions import OpenedFunction
from headrace.operators.user_code import OperatorPlace, is_interruption, record_text, what_happened
from headrace.state.runs.grouping import Segments

_MERGED: Final = 0
"""The step of a part that is an accumulator; records have 1 when they are added, and -1 when retracted."""


class RecordFunction(Protocol):
    """An aggregate function that updates an accumulator in place, record by record."""

    def create_accumulator(self) -> Any:
        """The accumulator of no records."""

    def accumulate(self, accumulator: Any, *args: Any) -> None:
        """Add a record."""

    def retract(self, accumulator: Any, *args: Any) -> None:
        """Retract a record."""

    def merge(self, accumulator: Any, accumulators: Iterable[Any]) -> None:
        """Merge accumulators into one."""

    def get_value(self, accumulator: Any) -> Any:
        """The value of an accumulator."""

    def open(self, function_context: Any) -> None:
        """Called before any other method."""

    def close(self) -> None:
        """Called after all other methods."""


@dataclass(frozen=True, slots=True)
class RecordAggregator(UserParts):
    """Calls a user-defined function for each record, in the order of arrival.

    An accumulator is a list of parts: accumulators of the function, and records that are yet to be added to one or
    taken back. So a function needs ``merge`` only where records of one group meet elsewhere first.

    Attributes:
        function: the function.
        title: its name in messages.
        can_merge: whether it has ``merge``.
        source: the arguments as one column of structs; null for a record that does not count.
        accumulator: the type of an accumulator.
        arguments: the types of the arguments.
        result_type: the type of the result.
        place: the operator, once that is known.
    """

    grows: ClassVar[bool] = True
    function: RecordFunction
    title: str
    can_merge: bool
    source: Input
    accumulator: TypeInformation
    arguments: tuple[TypeInformation, ...]
    result_type: TypeInformation
    place: OperatorPlace | None = None

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.source,)

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        return (OpenedFunction(self.function),)

    def of_operator(self, place: OperatorPlace) -> Self:
        return replace(self, place=place)

    @property
    def _records_type(self) -> TypeInformation:
        """The type of records as accumulators keep them: rows of the arguments."""
        return Types.ROW_NAMED([f"f{place}" for place in range(len(self.arguments))], list(self.arguments))

    @property
    def fields(self) -> Fields:
        kinds = (self.accumulator, self._records_type, Types.LONG(), Types.LONG())
        return tuple((f"{self.name}.{place}", Types.LIST(kind)) for place, kind in enumerate(kinds))

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        found = self._records(rows)
        return self.settle(found) if self.can_merge and not rows.groups.segments.are_single else found

    def retract(self, rows: GroupedRows) -> list[pa.Array]:
        return self.negate(self._records(rows))

    def negate(self, columns: list[pa.Array]) -> list[pa.Array]:
        accumulators, records, steps, arrivals = columns
        if pc.any(pc.equal(steps.flatten(), _MERGED)).as_py():
            raise UnsupportedOperationError(f"{self.title}: cannot retract from accumulators that were merged")
        return [accumulators, records, lists_of(pc.negate(steps.flatten()), list_lengths(steps)), arrivals]

    def settle(self, columns: list[pa.Array]) -> list[pa.Array]:
        lengths = list_lengths(columns[0])
        folded = [self._folded(None, parts) for parts in self._parts(columns)]
        arrivals = np.zeros(len(lengths), np.int64)
        times = fixed_width(columns[3].flatten())
        np.maximum.at(arrivals, np.repeat(np.arange(len(lengths)), lengths), times)
        return self._lists(values_to_array(self.accumulator, folded), arrivals)

    def result(self, columns: list[pa.Array]) -> pa.Array:
        return self._values([self._value(self._folded(None, parts)) for parts in self._parts(columns)])

    def running_results(self, columns: list[pa.Array], segments: Segments) -> pa.Array:
        found: list[Any] = []
        parts = self._parts(columns)
        for count in segments.counts:
            accumulator = None
            for each in islice(parts, int(count)):
                accumulator = self._folded(accumulator, each)
                found.append(self._value(accumulator))
        return self._values(found)

    def _records(self, rows: GroupedRows) -> list[pa.Array]:
        records, arrivals, lengths = rows.column(self.source), rows.arrivals(), rows.groups.segments.counts
        if records.null_count:
            counts = np.asarray(records.is_valid())
            lengths = rows.groups.segments.reduce(np.add, counts.astype(np.int64))
            records, arrivals = records.drop_null(), arrivals[counts]
        count = len(records)
        columns = [
            pa.nulls(count, self.accumulator.storage_type),
            records.cast(self._records_type.storage_type),
            pa.array(np.ones(count, np.int64)),
            pa.array(arrivals),
        ]
        return [lists_of(column, lengths) for column in columns]

    def _lists(self, accumulators: pa.Array, arrivals: Longs) -> list[pa.Array]:
        count = len(accumulators)
        records = pa.nulls(count, self._records_type.storage_type)
        columns = [accumulators, records, pa.array(np.full(count, _MERGED)), pa.array(arrivals)]
        return [lists_of(column, np.ones(count, np.int64)) for column in columns]

    def _parts(self, columns: list[pa.Array]) -> Iterator[list[tuple[int, Any]]]:
        """The parts of each accumulator in the order of arrival: steps, with a record or an accumulator."""
        lengths = list_lengths(columns[0])
        accumulators, records, steps, arrivals = (column.flatten() for column in columns)
        groups, times = np.repeat(np.arange(len(lengths)), lengths), fixed_width(arrivals)
        if ((np.diff(times) < 0) & (np.diff(groups) == 0)).any():
            order = np.lexsort((times, groups))
            accumulators, records, steps = (gather(flat, order) for flat in (accumulators, records, steps))
        is_merged = pc.equal(steps, _MERGED)
        merged = iter(array_to_values(self.accumulator, accumulators.filter(is_merged)))
        added = self._arguments(records.filter(pc.invert(is_merged)))
        parts = iter([(step, next(added) if step else next(merged)) for step in steps.to_pylist()])
        return (list(islice(parts, int(length))) for length in lengths)

    def _arguments(self, records: pa.Array) -> Iterator[tuple[Any, ...]]:
        if not self.arguments:
            return iter([()] * len(records))
        columns = (array_to_values(kind, records.field(place)) for place, kind in enumerate(self.arguments))
        return zip(*columns, strict=True)

    def _folded(self, accumulator: Any, parts: Sequence[tuple[int, Any]]) -> Any:
        """An accumulator with parts added to it; None for that of no records."""
        function, part = self.function, None
        method: Callable[..., Any] = function.create_accumulator
        try:
            for step, part in parts:
                if step == _MERGED and accumulator is None:
                    accumulator = part
                    continue
                if accumulator is None:
                    method = function.create_accumulator
                    accumulator = method()
                method = function.merge if step == _MERGED else function.accumulate if step > 0 else function.retract
                method(accumulator, *([[part]] if step == _MERGED else part))
            return function.create_accumulator() if accumulator is None else accumulator
        except BaseException as error:
            raise self._failure(method, part, error) from error

    def _value(self, accumulator: Any) -> Any:
        try:
            found = self.function.get_value(accumulator)
        except BaseException as error:
            raise self._failure(self.function.get_value, accumulator, error) from error
        return found if self.result_type.is_immutable else deepcopy(found)  # it may be a part of the accumulator

    def _values(self, values: list[Any]) -> pa.Array:
        try:
            return values_to_array(self.result_type, values)
        except Exception as error:
            raise self._failure(self.function.get_value, None, error) from error

    def _failure(self, method: Callable[..., Any], part: Any, error: BaseException) -> BaseException:
        if is_interruption(error):
            return error
        lines = [
            f"{self.place} failed" if self.place else "",
            f"  {self.title}: {method.__name__}() failed",
            *what_happened(error),
            "" if part is None else f"  arguments: {record_text(part)}",
            f"  operator defined at {self.place.call_site}" if self.place else "",
        ]
        return UserFunctionError("\n".join(filter(None, lines)))
