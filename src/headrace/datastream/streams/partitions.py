"""Functions over all records of a partition as functions over windows, and sorting."""

from __future__ import annotations

from enum import Enum
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.errors import InvalidTypeError
from headrace.datastream.functions import AggregateFunction, MapFunction, ReduceFunction, RuntimeContext, WindowFunction
from headrace.datastream.streams.adapters import Adapter
from headrace.operators.functions import method_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


class Order(Enum):
    """Which records come first.

    Examples:
        >>> from headrace.datastream import Order
        >>> Order.DESCENDING.value
        'descending'
    """

    ASCENDING = "ascending"
    DESCENDING = "descending"


class RecordsOf(Enum):
    """What stands for a record in a partition."""

    RECORDS = "itself"
    """A record itself, where partitions are keys of the program."""
    PAIRS = "a pair of the number of a subtask and a record"

    def each(self, elements: Iterable[Any]) -> Iterator[Any]:
        """The records."""
        return map(itemgetter(1), elements) if self is RecordsOf.PAIRS else iter(elements)


class Numbered(MapFunction):
    """Each record with the number of its subtask."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._subtask = runtime_context.get_index_of_this_subtask()

    def map(self, value: Any) -> tuple[int, Any]:
        return self._subtask, value


class PartitionMap(Adapter, WindowFunction):
    """Calls a ``MapPartitionFunction``, or a function of records."""

    method = "map_partition"

    def __init__(self, function: Any, records_of: RecordsOf) -> None:
        super().__init__(function)
        self._records_of = records_of

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any] | None:
        results: Iterable[Any] | None = method_of(self.function, self.method)(self._records_of.each(inputs))
        return results


class PartitionReduce(Adapter, ReduceFunction):
    """Calls a ``ReduceFunction``, or a function of two records."""

    method = "reduce"

    def __init__(self, function: Any, records_of: RecordsOf) -> None:
        super().__init__(function)
        self._records_of = records_of

    def reduce(self, value1: Any, value2: Any) -> Any:
        combine = method_of(self.function, self.method)
        if self._records_of is RecordsOf.RECORDS:
            return combine(value1, value2)
        return value1[0], combine(value1[1], value2[1])


class PartitionResult(WindowFunction):
    """The one record that a partition was reduced to."""

    def __init__(self, records_of: RecordsOf) -> None:
        self._records_of = records_of

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        return self._records_of.each(inputs)


class PartitionAggregate(Adapter, AggregateFunction):
    """Calls an ``AggregateFunction``."""

    method = "add"

    def __init__(self, function: Any, records_of: RecordsOf) -> None:
        super().__init__(function)
        self._records_of = records_of

    def create_accumulator(self) -> Any:
        return self.function.create_accumulator()

    def add(self, value: Any, accumulator: Any) -> Any:
        return self.function.add(value if self._records_of is RecordsOf.RECORDS else value[1], accumulator)

    def get_result(self, accumulator: Any) -> Any:
        return self.function.get_result(accumulator)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return self.function.merge(acc_a, acc_b)


class PartitionSort(WindowFunction):
    """Sorts the records.

    Args:
        key: gives what a record is sorted by; None for the record itself.
        order: which come first.
        records_of: the records of what a partition holds.
    """

    def __init__(self, key: Callable[[Any], Any] | None, order: Order, records_of: RecordsOf) -> None:
        self._key = key
        self._order = order
        self._records_of = records_of

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        records = list(self._records_of.each(inputs))
        keys = records if self._key is None else list(map(self._key, records))
        return [records[row] for row in sorted_rows(keys, self._order)]


def sorted_rows(keys: Sequence[Any], order: Order) -> list[int]:
    """The rows in the order of their keys, the equal ones as they are; NaN and then null are last.

    Raises:
        InvalidTypeError: when the keys are of several types, or of one without an order.
    """
    try:
        columns = list(zip(*keys, strict=True)) if isinstance(keys[0], tuple) else [keys]
        table = pa.table({str(number): _column(column) for number, column in enumerate(columns)})
        sort_keys = [(name, order.value) for name in table.column_names]
        rows: list[int] = pc.sort_indices(table, sort_keys=sort_keys).to_pylist()
    except (pa.ArrowException, TypeError, ValueError) as error:
        text = f"sort_partition: records cannot be ordered by keys such as {keys[0]!r}: {error}"
        raise InvalidTypeError(text) from None
    return rows


def _column(values: Sequence[Any]) -> pa.Array:
    """The values as a column; integers beyond 64 bits by their places among all."""
    try:
        return pa.array(values)
    except OverflowError:
        places = {value: place for place, value in enumerate(sorted(value for value in values if value is not None))}
        return pa.array([None if value is None else places[value] for value in values])
