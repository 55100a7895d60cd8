"""``KeyedStream``, records after ``key_by``, and interval joins of two of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Generic, NoReturn, Self, overload

from headrace.common.arguments import check_returns, warn_without_results
from headrace.common.constants import MAX_WATERMARK
from headrace.common.errors import expect, refused
from headrace.common.output_tag import OutputTag
from headrace.common.time import Duration, Time, to_millis
from headrace.common.type_variables import OUT, K_co, SupportsReduce, T_co, V, V_co, W
from headrace.common.typeinfo import DeclaredType, TypeInformation
from headrace.common.typeinfo.composite import declares_changes
from headrace.common.types import Row
from headrace.datastream.functions import KeyedProcessFunction, ProcessJoinFunction, ReduceFunction
from headrace.datastream.streams.adapters import with_keyed_state
from headrace.datastream.streams.checks import (
    check_function,
    check_object,
    check_same_environment,
    checked_field,
    selected,
    titled,
)
from headrace.datastream.streams.data_stream import DataStream
from headrace.datastream.streams.joined_streams import outer_of
from headrace.datastream.streams.keying import check_same_keys
from headrace.datastream.streams.partition_windowed_stream import PartitionWindowedStream, RecordsOf
from headrace.datastream.streams.stream import Stream, not_an_operator
from headrace.datastream.streams.types import (
    Role,
    SupportsKeyedProcess,
    SupportsProcessJoin,
    TypeOrigin,
    is_untyped,
    origin_of,
    result_type,
)
from headrace.datastream.streams.windowed_stream import WindowedStream, check_aggregates, full_windows
from headrace.expressions import Bound, Expression
from headrace.graph import specs
from headrace.graph.partitioning import HASH, KeySelection, Partitioning
from headrace.graph.process_specs import KeyedProcessSpec
from headrace.graph.specs import OperatorSpec
from headrace.graph.stream_graph import Edge
from headrace.graph.window_specs import GroupAggregateSpec, IntervalJoinSpec
from headrace.operators.aggregates.aggregate import Aggregate
from headrace.operators.join.find_pairs import LEFT, RIGHT, JoinInterval
from headrace.operators.join.results import INNER, Outer
from headrace.windowing.assigners import WindowAssigner
from headrace.windowing.count_assigners import GlobalWindows
from headrace.windowing.evictors import CountEvictor
from headrace.windowing.triggers import CountTrigger
from headrace.windowing.windows import CountWindow, GlobalWindow

Span = int | Time | Duration | timedelta


_NO_CLOCK = "an interval join goes by event time; in processing time there is none, as in Flink: use window joins"


class IntervalJoin(Generic[T_co, V_co, K_co]):
    """Two keyed streams that are to be joined; ``between`` says which times match.

    Args:
        left: the one that ``interval_join`` was called on.
        right: the one that it was given.
        how: ``"inner"``, ``"left"``, ``"right"`` or ``"outer"``.

    Examples:
        >>> from headrace.common import Time
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> keyed = env.from_collection(["a", "b"]).key_by(lambda text: text, key_type=str)
        >>> keyed.interval_join(keyed).between(Time.seconds(-30), Time.seconds(30))
        IntervalJoined(String, String, -30000 ms to 30000 ms)
    """

    def __init__(self, left: KeyedStream[T_co, K_co], right: KeyedStream[V_co, K_co], how: str = "inner") -> None:
        expect(right, type(left), "interval_join")
        check_same_environment(left.get_execution_environment(), right.get_execution_environment(), "interval_join")
        check_same_keys(left.get_key_type(), right.get_key_type(), "interval_join")
        self._left, self._right = left, right
        self._outer = outer_of(how, "interval_join", "the keys are those of key_by(...)")

    def in_event_time(self) -> Self:
        """Joins by event time, as it does anyway."""
        return self

    def in_processing_time(self) -> Self:
        """Refused, as in Flink.

        Raises:
            InvalidProgramError: always.
        """
        raise refused(_NO_CLOCK)

    def between(self, lower_bound: Span, upper_bound: Span) -> IntervalJoined[T_co, V_co, K_co]:
        """Has records match where the right time lies from ``lower_bound`` to ``upper_bound`` after the left one.

        Args:
            lower_bound: milliseconds, or a time, which may be negative; the bound itself is included.
            upper_bound: the same.

        Raises:
            InvalidTypeError: when one is no time.
            InvalidProgramError: when the upper bound is below the lower one, or one is further away than the times of
                records can be (73 million years).
        """
        lower, upper = to_millis(lower_bound, "between"), to_millis(upper_bound, "between")
        for bound in (lower, upper):
            if not -MAX_WATERMARK // 4 <= bound <= MAX_WATERMARK // 4:
                raise refused(f"between takes bounds of less than 73 million years, not {bound} ms")
        check_bounds(lower, upper, "between")
        return IntervalJoined(self._left, self._right, JoinInterval(lower, upper), self._outer)


class IntervalJoined(Generic[T_co, V_co, K_co]):
    """Two keyed streams whose records match by key and time. Its settings change it, and return it.

    Args:
        left: the left stream.
        right: the right stream.
        interval: which times match.
        outer: of which streams records without a partner are shown as well.

    Examples:
        >>> from headrace.datastream import OutputTag, ProcessJoinFunction
        >>> from headrace.testing import JobHarness
        >>> class Both(ProcessJoinFunction):
        ...     def process_element(self, left, right, ctx):
        ...         yield left, right
        >>> def job(harness):
        ...     clicks = harness.add_source("clicks", int).key_by(lambda n: n % 2, key_type=int)
        ...     views = harness.add_source("views", int).key_by(lambda n: n % 2, key_type=int)
        ...     near = clicks.interval_join(views).between(-10, 10).upper_bound_exclusive()
        ...     harness.add_sink("pairs", near.process(Both()))
        >>> with JobHarness(job) as harness:
        ...     harness.push_all("clicks", [1, 2], [100, 100])
        ...     harness.push_all("views", [11, 12, 13], [90, 109, 110])
        ...     harness.finish()
        ...     print(sorted(harness.results("pairs")))
        [(1, 11), (2, 12)]
    """

    def __init__(
        self,
        left: KeyedStream[T_co, K_co],
        right: KeyedStream[V_co, K_co],
        interval: JoinInterval,
        outer: Outer = INNER,
    ) -> None:
        self._left, self._right = left, right
        self._interval = interval
        self._outer = outer
        self._is_exclusive = [False, False]
        self._late_tags: list[OutputTag | None] = [None, None]

    def lower_bound_exclusive(self) -> Self:
        """Has times that are the lower bound apart match no more."""
        self._is_exclusive[0] = True
        return self

    def upper_bound_exclusive(self) -> Self:
        """Has times that are the upper bound apart match no more."""
        self._is_exclusive[1] = True
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> Self:
        """Sends records of the left stream that are late to a side output; otherwise they are dropped and counted.

        Late is what has a time below the watermark. Their type is that of the records, so the tag need not say it.
        """
        return self._send_late(LEFT, output_tag, "side_output_left_late_data")

    def side_output_right_late_data(self, output_tag: OutputTag) -> Self:
        """Sends records of the right stream that are late to a side output; otherwise they are dropped and counted."""
        return self._send_late(RIGHT, output_tag, "side_output_right_late_data")

    @overload
    def process(
        self, process_join_function: SupportsProcessJoin[T_co, V_co, OUT], output_type: None = None
    ) -> DataStream[OUT]: ...
    @overload
    def process(
        self, process_join_function: SupportsProcessJoin[T_co, V_co, Any], output_type: DeclaredType[OUT]
    ) -> DataStream[OUT]: ...
    def process(self, process_join_function: Any, output_type: Any = None) -> DataStream:
        """Applies a ``ProcessJoinFunction`` to each pair; what it yields has the later one of the two times.

        In an outer join it is called for records without a partner as well, with None in its place.

        Args:
            process_join_function: the function.
            output_type: the type of what it yields; taken from its annotations when left out.

        Raises:
            InvalidProgramError: when exclusive bounds leave no time that matches.
        """
        check_object(process_join_function, ProcessJoinFunction, "process_element")
        warn_without_results(process_join_function, "process_element")
        found = result_type(output_type, process_join_function, Role.MANY)
        return self._applied("Interval Join", process_join_function, found, (), origin_of(output_type))

    def select(self, *columns: Expression) -> DataStream[Row]:
        """Makes a row of each pair, column by column, without a function; not in Flink.

        ``select(left("id"), left("amount"), right("time").alias("paid"))``, with ``left`` and ``right`` of
        ``headrace.expressions``. In an outer join the fields of a record that is not there are null.

        Raises:
            InvalidTypeError: when there is no such field, or types do not go together.
            InvalidProgramError: when a field has no name, or two have the same; and as for :meth:`process`.
        """
        values, found = selected(columns, self._left.get_type(), self._right.get_type())
        name = titled("Interval Join", *columns)
        return self._applied(name, None, found, values, TypeOrigin.DECLARED)

    def _applied(
        self, name: str, function: Any, found: TypeInformation, columns: tuple[Bound, ...], origin: TypeOrigin
    ) -> DataStream:
        first, second = self._late_tags
        spec = IntervalJoinSpec(function, found, self._inner_interval(), (first, second), columns, self._outer)
        return self._left._apply(spec, name, self._right, origin=origin)

    def _inner_interval(self) -> JoinInterval:
        lower, upper = self._is_exclusive
        inner = replace(self._interval, lower=self._interval.lower + lower, upper=self._interval.upper - upper)
        check_bounds(inner.lower, inner.upper, "with exclusive bounds, between")
        return inner

    def _send_late(self, side: int, output_tag: OutputTag, method: str) -> Self:
        expect(output_tag, OutputTag, method)
        self._late_tags[side] = output_tag
        return self

    def __repr__(self) -> str:
        interval = f"{self._interval.lower} ms to {self._interval.upper} ms"
        return f"{type(self).__name__}({self._left.get_type()}, {self._right.get_type()}, {interval})"


def check_bounds(lower: int, upper: int, method: str) -> None:
    """Refuse an interval in which nothing lies.

    Raises:
        InvalidProgramError: when the upper bound is below the lower one.
    """
    if lower > upper:
        raise refused(f"{method} has an upper bound below its lower one, so no times match: {lower} ms to {upper} ms")


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
    def process(self, func: Any, output_type: Any = None) -> DataStream:
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

    def aggregate(
        self, *aggregates: Aggregate, update_before: bool = True, takes_changes: bool | None = None
    ) -> DataStream[Row]:
        """Built-in aggregates of all records of a key so far, as a changelog; not in Flink's DataStream API.

        Results are those of ``GROUP BY`` in Flink: the first record of a key gives an insertion, each one after it an
        update, unless the result stays the same. Records that are deletions or former rows of updates are taken back;
        with the last one of a key its result is deleted. In batch mode each key gives one result, an insertion.

        Args:
            aggregates: such as ``count()`` and ``sum("amount")`` of ``headrace.datastream.aggregates``.
            update_before: whether an update is two rows, the former result (``-U``) and the new one (``+U``). The new
                one alone is enough for what replaces rows by their key.
            takes_changes: whether records may be more than insertions. By default they may where the program says so:
                by their type (``changelog=True``) or by what makes them. To take them back costs memory for ``min``,
                ``max`` and others, and is impossible for some.

        Raises:
            InvalidTypeError: when an aggregate does not fit the records.
            InvalidProgramError: when there is none, two give columns of the same name, or one cannot take records back.

        Examples:
            >>> from headrace.common import Row, RowKind, Types
            >>> from headrace.datastream import StreamExecutionEnvironment
            >>> from headrace.datastream.aggregates import count, sum
            >>> env = StreamExecutionEnvironment.get_execution_environment()
            >>> stock = Types.ROW_NAMED(["item", "pieces"], [str, int], changelog=True)
            >>> rows = [Row("tea", 5), Row("tea", 2), Row.of_kind(RowKind.DELETE, "tea", 5)]
            >>> totals = env.from_collection(rows, stock).key_by("item").aggregate(count(), sum("pieces"))
            >>> for row in totals.execute_and_collect(limit=10):
            ...     print(row)
            +I Row(item='tea', count=1, sum_pieces=5)
            -U Row(item='tea', count=1, sum_pieces=5)
            +U Row(item='tea', count=2, sum_pieces=7)
            -U Row(item='tea', count=2, sum_pieces=7)
            +U Row(item='tea', count=1, sum_pieces=2)
        """
        check_aggregates(aggregates)
        if takes_changes is None:
            graph = self._transformations.graph
            is_known = any(graph[edge.source].has_changes(edge.side_output) for edge in self._edges)
            takes_changes = is_known or declares_changes(self._type)
        spec = GroupAggregateSpec(aggregates, update_before, takes_changes)
        return self._apply(spec, "GroupAggregate", origin=TypeOrigin.DECLARED)

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

    def _apply(self, spec: OperatorSpec, name: str, *more: Stream, origin: TypeOrigin | None = None) -> DataStream:
        if spec.functions:
            spec = with_keyed_state(spec, self._type)
        return super()._apply(spec, name, *more, origin=origin)

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
