"""``KeyedStream``: records after ``key_by``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, NoReturn, overload

from headrace.common.arguments import refused
from headrace.common.signatures import check_returns, warn_without_results
from headrace.common.type_variables import OUT, K_co, T_co, V, W
from headrace.datastream.functions import KeyedProcessFunction, ReduceFunction
from headrace.datastream.streams.adapters import with_keyed_state
from headrace.datastream.streams.checks import check_function, check_object
from headrace.datastream.streams.data_stream import DataStream
from headrace.datastream.streams.handle import not_an_operator
from headrace.datastream.streams.joins.interval_join import IntervalJoin
from headrace.datastream.streams.partition_windowed_stream import PartitionWindowedStream
from headrace.datastream.streams.partitions import RecordsOf
from headrace.datastream.streams.rolling import checked_field
from headrace.datastream.streams.types import TypeOrigin, is_untyped
from headrace.datastream.streams.windowed_stream import WindowedStream, full_windows
from headrace.graph import specs
from headrace.graph.nodes import Edge
from headrace.graph.partitioning import HASH
from headrace.graph.process_specs import KeyedProcessSpec
from headrace.windowing.assigners.global_windows import GlobalWindows
from headrace.windowing.evictors.count import CountEvictor
from headrace.windowing.triggers.count import CountTrigger

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.common.function_protocols import SupportsReduce
    from headrace.common.typeinfo import DeclaredType, TypeInformation
    from headrace.datastream.streams.process_protocols import SupportsKeyedProcess
    from headrace.datastream.streams.stream import Stream
    from headrace.graph.keys import KeySelection
    from headrace.graph.partitioning import Partitioning
    from headrace.graph.specs import OperatorSpec
    from headrace.windowing.assigner import WindowAssigner
    from headrace.windowing.windows import CountWindow, GlobalWindow


class KeyedStream(DataStream[T_co], Generic[T_co, K_co]):
    """A stream after ``key_by``; what operators make of it is not keyed any more.

    ``map``, ``flat_map`` and ``filter`` may use keyed state, which their functions get in ``open``. It is no operator,
    so it has neither name nor uid nor parallelism.

    Args:
        origin: the stream that is keyed.
        key: by what.
        partitioning: how its records are brought to the subtasks of their keys.

    Examples:
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> clicks = env.from_collection([("ann", 1), ("bob", 1), ("ann", 2)])
        >>> clicks.key_by(lambda click: click[0]).sum(1).execute_and_collect(limit=10)
        [('ann', 1), ('bob', 1), ('ann', 3)]
    """

    def __init__(self, origin: DataStream[T_co], key: KeySelection, partitioning: Partitioning = HASH) -> None:
        edges = tuple(Edge(edge.source, partitioning, edge.side_output, key=key) for edge in origin._edges)
        super().__init__(origin._environment, edges, origin=origin._type_origin)
        self._origin = origin
        self._key = key
        self._partitioning = partitioning

    def get_key_type(self) -> TypeInformation[K_co]:
        """The type of the keys."""
        return self._key.codec.type

    @overload
    def process(self, func: SupportsKeyedProcess[T_co, OUT, K_co], output_type: None = None) -> DataStream[OUT]: ...
    @overload
    def process(
        self, func: SupportsKeyedProcess[T_co, Any, K_co], output_type: DeclaredType[OUT]
    ) -> DataStream[OUT]: ...
    def process(self, func: Any, output_type: Any = None) -> DataStream[Any]:
        """Applies a ``KeyedProcessFunction``, with state and timers for each key.

        Args:
            func: the function; a ``ProcessFunction`` does as well.
            output_type: the type of what it yields; taken from its annotations when left out.
        """
        check_object(func, KeyedProcessFunction, "process_element")
        warn_without_results(func, "process_element", "on_timer")
        return self._transform(KeyedProcessSpec, "KeyedProcess", func, output_type)

    def reduce(self, func: Callable[[T_co, T_co], T_co] | SupportsReduce[T_co]) -> DataStream[T_co]:
        """Combines the records of a key, one after the other, into one of the same type.

        In streaming mode each record gives one result, the combination up to it; in batch mode each key gives one. None
        is a record like any other.
        """
        check_function(func, ReduceFunction, "reduce")
        check_returns(func, "reduce")
        return self._for_any_result()._apply(specs.RollingReduceSpec(func), "Reduce")

    def sum(self, position_to_sum: int | str = 0) -> DataStream[T_co]:
        """The records of a key so far as one: the first of them, with the sum in a field of numbers.

        Args:
            position_to_sum: name or position of the field; 0 for records that are plain numbers.

        Raises:
            InvalidTypeError: when there is no such field, or it does not hold numbers.
        """
        return self._roll("sum", position_to_sum)

    def min(self, position_to_min: int | str = 0) -> DataStream[T_co]:
        """The records of a key so far as one: the first of them, with the smallest value in a field."""
        return self._roll("min", position_to_min)

    def max(self, position_to_max: int | str = 0) -> DataStream[T_co]:
        """The records of a key so far as one: the first of them, with the largest value in a field."""
        return self._roll("max", position_to_max)

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream[T_co]:
        """The record of a key so far that has the smallest value in a field, the first among equals."""
        return self._roll("min_by", position_to_min_by)

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream[T_co]:
        """The record of a key so far that has the largest value in a field, the first among equals."""
        return self._roll("max_by", position_to_max_by)

    def window(self, window_assigner: WindowAssigner[Any, W]) -> WindowedStream[T_co, K_co, W]:
        """Cuts the records of each key into windows: ``TumblingEventTimeWindows.of(Time.minutes(1))``, say.

        Raises:
            InvalidTypeError: when it is no window assigner.
        """
        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream[T_co, K_co, CountWindow]:
        """Cuts the records of each key into windows of ``size`` records, which fire when they are full, as in PyFlink.

        Args:
            size: how many records a window holds.
            slide: after how many records the next window begins; 0 has windows follow one another.

        Raises:
            InvalidProgramError: when ``size`` is not positive, or ``slide`` is negative.
        """
        assigner, trigger = full_windows(size, slide)
        return self.window(assigner).trigger(trigger)

    def trailing_count_window(self, size: int, slide: int) -> WindowedStream[T_co, K_co, GlobalWindow]:
        """Shows, after each ``slide`` records of a key, the last ``size`` of them, or all while there are fewer.

        That is what ``countWindow(size, slide)`` of Flink's Java API means.

        Raises:
            InvalidProgramError: when one of the numbers is not positive.
        """
        windows = self.window(GlobalWindows.create()).evictor(CountEvictor.of(size))
        return windows.trigger(CountTrigger.of(slide))

    def interval_join(self, other: KeyedStream[V, K_co], how: str = "inner") -> IntervalJoin[T_co, V, K_co]:
        """Joins each record with those of another stream that have the same key and are near in time; not in PyFlink.

        ``orders.interval_join(payments).between(Time.seconds(-5), Time.minutes(1)).process(...)``; this stream is the
        left one.

        Args:
            other: the right stream.
            how: ``"inner"``; or ``"left"``, ``"right"`` or ``"outer"``, which show records of that stream, or of both,
                that have found no partner, once they cannot find one any more.

        Raises:
            InvalidTypeError: when the other one is no keyed stream, or has keys of another type.
            InvalidProgramError: when it belongs to another environment, or there is no such kind of join.
        """
        return IntervalJoin(self, other, how)

    def full_window_partition(self) -> PartitionWindowedStream[T_co]:
        """Has all records of each key as one window, which fires when the input has ended; not in PyFlink."""
        return PartitionWindowedStream(self, RecordsOf.RECORDS, self._type, self._type_origin)

    # --- for the classes of this package -----------------------------------------------------------------------------

    def _for_any_result(self) -> KeyedStream[T_co, K_co]:
        """This stream for a function whose results are of the same type, if the type is more than an observation."""
        if self._type_origin is not TypeOrigin.OBSERVED or is_untyped(self._type) or self._key.selector is None:
            return self
        key = replace(self._key, fields=None, is_single=True, expression=None)
        return KeyedStream(self._origin._untyped(), key, self._partitioning)

    def _roll(self, aggregation: str, position: int | str) -> DataStream:
        field = checked_field(self._type, aggregation, position)
        name = "".join(map(str.capitalize, aggregation.split("_")))
        return self._apply(specs.RollingAggregateSpec(aggregation, field), name)

    def _apply(self, spec: OperatorSpec, name: str, *more: Stream[Any], origin: TypeOrigin | None = None) -> DataStream:
        return super()._apply(with_keyed_state(spec, self._type), name, *more, origin=origin)

    def _spread(self, partitioning: Partitioning) -> NoReturn:
        raise refused("a keyed stream is spread by its keys: spread the stream before key_by(...) in another way")

    def _unkeyed_edges(self) -> tuple[Edge, ...]:
        return self._origin._edges

    def _without_keys(self) -> DataStream[T_co]:
        return self._origin

    def _facts(self) -> dict[str, object]:
        return super()._facts() | {"keyed by": f"{self._key.label}: {self.get_key_type()}"}

    def _operator(self) -> NoReturn:
        raise not_an_operator("a keyed stream")
