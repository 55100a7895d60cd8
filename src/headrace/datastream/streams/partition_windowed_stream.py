"""``PartitionWindowedStream``: all records of a partition together, when the input has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arguments import check_returns, warn_without_results
from headrace.common.errors import InvalidTypeError, UnsupportedOperationError, expect, refused
from headrace.common.type_variables import T_co
from headrace.common.typeinfo import TypeInformation, Types
from headrace.datastream.functions import (
    AggregateFunction,
    MapFunction,
    MapPartitionFunction,
    ReduceFunction,
    RuntimeContext,
    WindowFunction,
)
from headrace.datastream.streams.adapters import Adapter, KeylessWindowCall
from headrace.datastream.streams.checks import check_function, check_object, checked_field
from headrace.datastream.streams.keying import selector_of
from headrace.datastream.streams.stream import Stream
from headrace.datastream.streams.types import Role, TypeOrigin, result_type
from headrace.datastream.streams.windowed_stream import WindowedStream
from headrace.graph.specs import MapSpec
from headrace.operators.aggregates.aggregate import Aggregate
from headrace.operators.functions import method_of
from headrace.windowing.count_assigners import GlobalWindows

if TYPE_CHECKING:
    from headrace.datastream.stream_execution_environment import StreamExecutionEnvironment
    from headrace.datastream.streams.data_stream import DataStream
    from headrace.datastream.streams.keyed_stream import KeyedStream


class Order(Enum):
    """The order of sorted records.

    Examples:
        >>> from headrace.datastream import Order
        >>> Order.DESCENDING.value
        'descending'
    """

    ASCENDING = "ascending"
    DESCENDING = "descending"


class RecordsOf(Enum):
    """The form that records have in a partition."""

    RECORDS = "itself"
    """A record itself, where partitions are keys of the program."""
    PAIRS = "a pair of the number of a subtask and a record"

    def each(self, elements: Iterable[Any]) -> Iterator[Any]:
        """The records."""
        return map(itemgetter(1), elements) if self is RecordsOf.PAIRS else iter(elements)

    def arguments(self, _window: Any, elements: Iterable[Any]) -> tuple[Iterator[Any]]:
        """The arguments of ``MapPartitionFunction.map_partition``."""
        return (self.each(elements),)


class Numbered(MapFunction):
    """Each record with the number of its subtask."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._subtask = runtime_context.get_index_of_this_subtask()

    def map(self, value: Any) -> tuple[int, Any]:
        return self._subtask, value


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


class PartitionWindowedStream(Generic[T_co]):
    """A stream after ``full_window_partition``: each partition is one window, which fires when the input has ended.

    Partitions are the keys of a keyed stream, and the subtasks of any other. Nothing comes of a stream without end. Not
    in PyFlink; the methods are those of Flink's Java API.

    Args:
        keyed_stream: the records by partition.
        records_of: the records of what a partition holds.
        record_type: their type.
        origin: where that comes from.

    Examples:
        >>> from headrace.datastream import Order, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env = env.set_parallelism(1)
        >>> numbers = env.from_collection([3, 1, 2])
        >>> numbers.full_window_partition().sort_partition(0, Order.DESCENDING).execute_and_collect(limit=10)
        [3, 2, 1]
    """

    def __init__(
        self,
        keyed_stream: KeyedStream,
        records_of: RecordsOf,
        record_type: TypeInformation[T_co],
        origin: TypeOrigin,
    ) -> None:
        self._keyed_stream = keyed_stream
        self._records_of = records_of
        self._type = record_type
        self._origin = origin

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment that the stream belongs to."""
        return self._keyed_stream.get_execution_environment()

    def map_partition(self, map_partition_function: Any, output_type: Any = None) -> DataStream:
        """Makes any number of records of all records of a partition.

        Args:
            map_partition_function: a ``MapPartitionFunction``, or a function of an iterable of records.
            output_type: the type of what it gives; taken from its annotations when left out.
        """
        check_function(map_partition_function, MapPartitionFunction, "map_partition")
        warn_without_results(map_partition_function, "map_partition")
        found = result_type(output_type, map_partition_function, Role.MANY)
        called = KeylessWindowCall(map_partition_function, "map_partition", self._records_of.arguments)
        return self._window().apply(called, found).name("MapPartition")

    def sort_partition(self, key: Any, order: Order = Order.ASCENDING) -> DataStream[T_co]:
        """The records of each partition in order; those that are equal keep the order in which they came.

        NaN comes behind all numbers and null behind everything, whatever the order.

        Args:
            key: name or position of a field (0 for records that are plain values), or a ``KeySelector`` or function of
                a record; a tuple is compared field by field.
            order: which come first.

        Raises:
            InvalidTypeError: when there is no such field, or its values have no order.
        """
        expect(order, Order, "sort_partition")
        by = self._sort_key(key)
        return self._window().apply(PartitionSort(by, order, self._records_of), self._type).name("SortPartition")

    def reduce(self, reduce_function: Any) -> DataStream[T_co]:
        """Combines the records of a partition, as they come, into one of the same type.

        Args:
            reduce_function: a ``ReduceFunction`` or a function of two records.
        """
        check_function(reduce_function, ReduceFunction, "reduce")
        check_returns(reduce_function, "reduce")
        # What elements were seen to be says nothing of what a function makes of two of them.
        found = Types.PICKLED_BYTE_ARRAY() if self._origin is TypeOrigin.OBSERVED else self._type
        function = PartitionReduce(reduce_function, self._records_of)
        reduced = self._window().reduce(function, PartitionResult(self._records_of), found)
        return reduced.name("ReducePartition")

    def aggregate(self, aggregate_function: Any, accumulator_type: Any = None, output_type: Any = None) -> DataStream:
        """Folds the records of a partition, as they come.

        Args:
            aggregate_function: an ``AggregateFunction``.
            accumulator_type: the type of the accumulators; pickled objects when left out.
            output_type: the type of the results; taken from annotations when left out.

        Raises:
            UnsupportedOperationError: when it is a built-in aggregate.
        """
        if isinstance(aggregate_function, Aggregate):
            raise refused(
                "built-in aggregates take windows: all records of a key until the end of the input are in "
                "key_by(...).window(GlobalWindows.create_with_end_of_stream_trigger())",
                UnsupportedOperationError,
            )
        check_object(aggregate_function, AggregateFunction, "get_result")
        for method in ("add", "get_result"):
            check_returns(aggregate_function, method)
        aggregated = self._window().aggregate(
            PartitionAggregate(aggregate_function, self._records_of),
            accumulator_type=accumulator_type,
            output_type=result_type(output_type, aggregate_function.get_result),
        )
        return aggregated.name("AggregatePartition")

    def _window(self) -> WindowedStream:
        return self._keyed_stream.window(GlobalWindows.create_with_end_of_stream_trigger())

    def _sort_key(self, key: Any) -> Any:
        if isinstance(key, str | int) and not isinstance(key, bool):
            field = checked_field(self._type, "sort_partition", key)
            return None if field is None else selector_of(self._type, field, "sort_partition")
        return selector_of(self._type, key, "sort_partition")


def by_subtask(stream: Stream[T_co]) -> PartitionWindowedStream[T_co]:
    """The records of each subtask as a partition: each record goes on with the number of its subtask, as its key."""
    record_type = stream.get_type()
    numbered = Types.TUPLE([Types.INT(), record_type])
    spec = MapSpec(Numbered(), numbered, is_hidden=True)
    pairs = stream._apply(spec, "Partition", origin=stream._type_origin)
    keyed = pairs.key_by(0)
    return PartitionWindowedStream(keyed, RecordsOf.PAIRS, record_type, stream._type_origin)
