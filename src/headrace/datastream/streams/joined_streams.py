"""Two streams whose records come together by key and window: joins and co-groups."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic

from headrace.common.arguments import check_returns, method_of_object, warn_without_results
from headrace.common.errors import InvalidTypeError, expect, refused, shown
from headrace.common.type_variables import OUT, K_co, T_co, V_co, W_co
from headrace.common.typeinfo import DeclaredType
from headrace.common.types import Row
from headrace.datastream.functions import CoGroupFunction, FlatJoinFunction, JoinFunction
from headrace.datastream.streams.adapters import (
    FlatJoinApply,
    JoinApply,
    KeylessWindowCall,
    SelectApply,
    records_of_both,
)
from headrace.datastream.streams.checks import check_function, check_instance, check_same_environment, selected, titled
from headrace.datastream.streams.keying import check_same_keys
from headrace.datastream.streams.stream import Stream
from headrace.datastream.streams.types import Role, TypeOrigin, origin_of, result_type
from headrace.datastream.streams.windowed_stream import WindowsOfStream
from headrace.expressions import Expression
from headrace.graph.window_specs import CoGroupSpec
from headrace.operators.join.results import INNER, Outer
from headrace.windowing.assigners import WindowAssigner
from headrace.windowing.definition import WindowFunctions

if TYPE_CHECKING:
    from headrace.datastream.streams.data_stream import DataStream
    from headrace.datastream.streams.keyed_stream import KeyedStream


_HOW: Final = {
    "inner": INNER,
    "left": Outer(left=True, right=False),
    "right": Outer(left=False, right=True),
    "outer": Outer(left=True, right=True),
}
_OF_SPARK: Final = {
    "leftouter": "left",
    "rightouter": "right",
    **dict.fromkeys(("full", "fullouter"), "outer"),
}


def outer_of(how: str, method: str, keys: str) -> Outer:
    """The streams whose records are shown without a partner as well.

    Args:
        how: the kind.
        method: what it was given to, for messages.
        keys: how the keys are given, which others give in its place; begins in lower case.

    Raises:
        InvalidTypeError: when it is no text.
        InvalidProgramError: when there is no such kind.
    """
    if not isinstance(how, str):
        raise refused(f"{method} takes 'left' or the like as how, not {shown(how)}: {keys}", InvalidTypeError)
    if how not in _HOW:
        same = _OF_SPARK.get(how.lower().replace("_", ""))
        hint = f"write how={same!r}" if same else keys
        raise refused(f"{method} takes one of {', '.join(map(repr, _HOW))} as how, not {how!r}: {hint}")
    return _HOW[how]


class TwoStreams(Generic[T_co, V_co, W_co]):
    """Two streams that come together; ``where`` and ``equal_to`` say by what.

    Args:
        first: the stream that the method was called on.
        second: the one that it was given.
        method: the method.
        windows: makes of both streams with their keys, and an assigner, what says what to do with the windows.
    """

    def __init__(self, first: Any, second: DataStream[V_co], method: str, windows: Callable[..., W_co]) -> None:
        expect(second, Stream, method)
        check_same_environment(first.get_execution_environment(), second.get_execution_environment(), method)
        self._first: DataStream[T_co] = first
        self._second = second
        self._windows = windows

    def where(self, key_selector: Any, *more: Any, key_type: Any = None) -> Where[T_co, V_co, W_co]:
        """Says what the key of a record of the first stream is; the arguments are those of ``key_by``."""
        first = self._first.key_by(key_selector, *more, key_type=key_type)
        return Where(first, self._second, self._windows)


class Where(Generic[T_co, V_co, W_co]):
    """Two streams of which the first one has its key.

    Args:
        first: the first one by its key.
        second: the second one.
        windows: as of :class:`TwoStreams`.
    """

    def __init__(self, first: KeyedStream[T_co, Any], second: DataStream[V_co], windows: Callable[..., W_co]) -> None:
        self._first, self._second, self._windows = first, second, windows

    def equal_to(self, key_selector: Any, *more: Any, key_type: Any = None) -> EqualTo[T_co, V_co, W_co]:
        """Says what the key of a record of the second stream is; the arguments are those of ``key_by``.

        Raises:
            InvalidTypeError: when keys of the two streams are of different types.
        """
        second = self._second.key_by(key_selector, *more, key_type=key_type)
        check_same_keys(self._first.get_key_type(), second.get_key_type(), "equal_to", "where(...) and equal_to(...)")
        return EqualTo(self._first, second, self._windows)


class EqualTo(Generic[T_co, V_co, W_co]):
    """Two streams by their keys.

    Args:
        first: the first one by its key.
        second: the second one by its key.
        windows: as of :class:`TwoStreams`.
    """

    def __init__(
        self, first: KeyedStream[T_co, Any], second: KeyedStream[V_co, Any], windows: Callable[..., W_co]
    ) -> None:
        self._first, self._second, self._windows = first, second, windows

    def window(self, assigner: WindowAssigner) -> W_co:
        """Cuts the records of both streams into windows.

        Raises:
            InvalidTypeError: when it is no window assigner.
        """
        return self._windows(self._first, self._second, assigner)


class WindowsOfTwo(WindowsOfStream[T_co, K_co], Generic[T_co, V_co, K_co]):
    """Windows over two streams. Their settings change them, and return them, as those of one stream do.

    Triggers, evictors and the side output of late records get tuples: whether the record is of the first stream, that
    record, and that of the second one; one of both is None.

    Args:
        first: the first stream.
        second: the second stream.
        assigner: puts records into windows.
    """

    def __init__(
        self, first: KeyedStream[T_co, K_co], second: KeyedStream[V_co, K_co], assigner: WindowAssigner
    ) -> None:
        super().__init__(first, assigner)
        self._second = second

    def __repr__(self) -> str:
        types = f"{self.get_input_type()}, {self._second.get_type()}"
        return f"{type(self).__name__}({types}, {self._assigner})"

    def _applied(self, name: str, adapter: object, function: object, output_type: object, role: Role) -> Any:
        found = result_type(output_type, function, role)
        functions = WindowFunctions(window_function=adapter)
        spec = CoGroupSpec(self._definition_for(found), found, functions)
        return self._keyed_stream._apply(spec, name, self._second, origin=origin_of(output_type))


class CoGroupedWindows(WindowsOfTwo[T_co, V_co, K_co], Generic[T_co, V_co, K_co]):
    """The windows of ``co_group``.

    Examples:
        >>> from headrace.datastream.window import TumblingEventTimeWindows
        >>> from headrace.testing import JobHarness
        >>> def unpaid(orders, payments):
        ...     if not payments:
        ...         yield from orders
        >>> def job(harness):
        ...     orders, payments = harness.add_source("orders", str), harness.add_source("payments", str)
        ...     both = orders.co_group(payments).where(str.lower, key_type=str).equal_to(str.lower, key_type=str)
        ...     late = both.window(TumblingEventTimeWindows.of(60_000)).apply(unpaid, output_type=str)
        ...     harness.add_sink("unpaid", late)
        >>> with JobHarness(job) as harness:
        ...     harness.push_all("orders", ["a1", "b2"], [1_000, 2_000])
        ...     harness.push("payments", "a1", timestamp=9_000)
        ...     harness.finish()
        ...     print(harness.results("unpaid"))
        ['b2']
    """

    def apply(
        self,
        function: CoGroupFunction[T_co, V_co, OUT] | Callable[[list[T_co], list[V_co]], Iterable[OUT] | None],
        output_type: DeclaredType[OUT] | None = None,
    ) -> DataStream[OUT]:
        """Applies a function to the records of each window and key that has some of one of the streams.

        Args:
            function: a ``CoGroupFunction``, or a function of the records of both streams, which are lists.
            output_type: the type of what it yields; taken from its annotations when left out.
        """
        check_function(function, CoGroupFunction, "co_group")
        warn_without_results(function, "co_group")
        called = KeylessWindowCall(function, "co_group", records_of_both)
        found: DataStream[OUT] = self._applied("CoGroup", called, function, output_type, Role.MANY)
        return found


class CoGroupedStreams(TwoStreams[T_co, V_co, CoGroupedWindows[T_co, V_co, Any]], Generic[T_co, V_co]):
    """Two streams behind ``co_group``.

    Args:
        first: the stream that it was called on.
        second: the one that it was given.

    Examples:
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.window import TumblingEventTimeWindows
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> a, b = env.from_collection([("a", 1)]), env.from_collection([("a", 2.0)])
        >>> a.co_group(b).where(0).equal_to(0).window(TumblingEventTimeWindows.of(1_000))
        CoGroupedWindows(TupleTypeInfo(String, Long), TupleTypeInfo(String, Double), TumblingEventTimeWindows(1000 ms))
    """

    def __init__(self, first: object, second: DataStream[V_co]) -> None:
        super().__init__(first, second, "co_group", CoGroupedWindows)


class JoinedWindows(WindowsOfTwo[T_co, V_co, K_co], Generic[T_co, V_co, K_co]):
    """The windows of ``join``.

    Args:
        first: the first stream.
        second: the second stream.
        assigner: puts records into windows.
        outer: of which streams records without a partner are shown as well.

    Examples:
        >>> from headrace.datastream.window import EventTimeSessionWindows
        >>> from headrace.testing import JobHarness
        >>> def job(harness):
        ...     clicks, buys = harness.add_source("clicks", str), harness.add_source("buys", str)
        ...     same = clicks.join(buys).where(len).equal_to(len)
        ...     pairs = same.window(EventTimeSessionWindows.with_gap(5_000)).apply(lambda click, buy: (click, buy))
        ...     harness.add_sink("pairs", pairs)
        >>> with JobHarness(job) as harness:
        ...     harness.push_all("clicks", ["tea", "jam"], [1_000, 4_000])
        ...     harness.push("buys", "pie", timestamp=8_000)
        ...     harness.finish()
        ...     print(harness.results("pairs"))
        [('tea', 'pie'), ('jam', 'pie')]
    """

    def __init__(
        self,
        first: KeyedStream[T_co, K_co],
        second: KeyedStream[V_co, K_co],
        assigner: WindowAssigner,
        outer: Outer = INNER,
    ) -> None:
        super().__init__(first, second, assigner)
        self._outer = outer

    def apply(
        self,
        function: JoinFunction[T_co, V_co, OUT] | FlatJoinFunction[T_co, V_co, OUT] | Callable[[T_co, V_co], Any],
        output_type: DeclaredType[OUT] | None = None,
    ) -> DataStream[OUT]:
        """Applies a function to each pair of records, one of each stream, that have a key and a window in common.

        Args:
            function: a ``JoinFunction`` or a function of two records, for one result; a ``FlatJoinFunction`` or a
                function that yields, for any number of them.
            output_type: the type of the results; taken from annotations when left out.
        """
        is_flat = _is_flat(function)
        check_instance(function, FlatJoinFunction)
        check_function(function, FlatJoinFunction if is_flat else JoinFunction, "join")
        if not is_flat:
            check_returns(function, "join")
        types = self._keyed_stream.get_type(), self._second.get_type()
        adapter = (FlatJoinApply if is_flat else JoinApply)(function, self._outer, types)
        role = Role.MANY if is_flat else Role.ONE
        found: DataStream[OUT] = self._applied("Join", adapter, function, output_type, role)
        return found

    def select(self, *columns: Expression) -> DataStream[Row]:
        """Makes a row of each pair, without a function; not in Flink.

        ``select(left("id"), left("amount"), right("time").alias("paid"))``, with ``left`` and ``right`` of
        ``headrace.expressions``. In an outer join the fields of a record that is not there are null.

        Raises:
            InvalidTypeError: when there is no such field, or types do not go together.
            InvalidProgramError: when a field has no name, or two have the same.
        """
        types = self._keyed_stream.get_type(), self._second.get_type()
        values, found = selected(columns, *types)
        spec = CoGroupSpec(self._definition_for(found), found, WindowFunctions(), values, self._outer)
        if not spec.ends_at_once:
            by_pair = WindowFunctions(window_function=SelectApply(values, types, self._outer))
            spec = CoGroupSpec(spec.definition, found, by_pair)
        name = titled("Join", *columns)
        return self._keyed_stream._apply(spec, name, self._second, origin=TypeOrigin.DECLARED)


def _is_flat(function: object) -> bool:
    """Returns True for a function that gives any number of results, and not one."""
    if isinstance(function, FlatJoinFunction):
        return True
    called = method_of_object(function, "join") or function
    return inspect.isgeneratorfunction(called) or inspect.isgeneratorfunction(type(called).__call__)


class JoinedStreams(TwoStreams[T_co, V_co, JoinedWindows[T_co, V_co, Any]], Generic[T_co, V_co]):
    """Two streams behind ``join``.

    Args:
        first: the stream that it was called on.
        second: the one that it was given.
        how: ``"inner"``, ``"left"``, ``"right"`` or ``"outer"``.

    Examples:
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.window import TumblingEventTimeWindows
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> a, b = env.from_collection([("a", 1)]), env.from_collection([("a", 2.0)])
        >>> a.join(b, how="left").where(0).equal_to(0).window(TumblingEventTimeWindows.of(1_000))
        JoinedWindows(TupleTypeInfo(String, Long), TupleTypeInfo(String, Double), TumblingEventTimeWindows(1000 ms))
    """

    def __init__(self, first: object, second: DataStream[V_co], how: str = "inner") -> None:
        outer = outer_of(how, "join", "the keys are told by where(...).equal_to(...)")
        super().__init__(first, second, "join", partial(JoinedWindows, outer=outer))
