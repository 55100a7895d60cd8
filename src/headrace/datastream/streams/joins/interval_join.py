"""``IntervalJoin`` and ``IntervalJoined``: two keyed streams whose records match by key and time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Self, overload

from headrace.common.arguments import expect, refused
from headrace.common.constants import MAX_WATERMARK
from headrace.common.function_types import Role
from headrace.common.output_tag import OutputTag
from headrace.common.signatures import warn_without_results
from headrace.common.time import to_millis
from headrace.common.type_variables import OUT, K_co, T_co, V_co
from headrace.datastream.functions import ProcessJoinFunction
from headrace.datastream.streams.checks import check_object, check_same_environment
from headrace.datastream.streams.columns import selected, titled
from headrace.datastream.streams.joins.kinds import outer_of
from headrace.datastream.streams.keying import check_same_keys
from headrace.datastream.streams.types import TypeOrigin, origin_of, result_type
from headrace.graph.join_specs import IntervalJoinSpec
from headrace.operators.join.interval import LEFT, RIGHT, JoinInterval
from headrace.operators.join.tagged import INNER, Outer

if TYPE_CHECKING:
    from datetime import timedelta

    from headrace.common.row import Row
    from headrace.common.time import Duration, Time
    from headrace.common.typeinfo import DeclaredType, TypeInformation
    from headrace.datastream.streams.data_stream import DataStream
    from headrace.datastream.streams.keyed_stream import KeyedStream
    from headrace.datastream.streams.process_protocols import SupportsProcessJoin
    from headrace.expressions import Bound, Expression

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

    def side_output_left_late_data(self, output_tag: OutputTag[Any]) -> Self:
        """Sends records of the left stream that are late to a side output; otherwise they are dropped and counted.

        Late is what has a time below the watermark. Their type is that of the records, so the tag need not say it.
        """
        return self._send_late(LEFT, output_tag, "side_output_left_late_data")

    def side_output_right_late_data(self, output_tag: OutputTag[Any]) -> Self:
        """The same for the right stream."""
        return self._send_late(RIGHT, output_tag, "side_output_right_late_data")

    @overload
    def process(
        self, process_join_function: SupportsProcessJoin[T_co, V_co, OUT], output_type: None = None
    ) -> DataStream[OUT]: ...
    @overload
    def process(
        self, process_join_function: SupportsProcessJoin[T_co, V_co, Any], output_type: DeclaredType[OUT]
    ) -> DataStream[OUT]: ...
    def process(self, process_join_function: Any, output_type: Any = None) -> DataStream[Any]:
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
    ) -> DataStream[Any]:
        first, second = self._late_tags
        spec = IntervalJoinSpec(function, found, self._inner_interval(), (first, second), columns, self._outer)
        return self._left._apply(spec, name, self._right, origin=origin)

    def _inner_interval(self) -> JoinInterval:
        lower, upper = self._is_exclusive
        inner = replace(self._interval, lower=self._interval.lower + lower, upper=self._interval.upper - upper)
        check_bounds(inner.lower, inner.upper, "with exclusive bounds, between")
        return inner

    def _send_late(self, side: int, output_tag: OutputTag[Any], method: str) -> Self:
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
