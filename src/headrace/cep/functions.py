"""Functions of the user for what a pattern has found: Flink's ``org.apache.flink.cep.functions``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Generic

from headrace.common.output_tag import OutputTag, ToSideOutput
from headrace.common.type_variables import OUT_co, T_contra
from headrace.datastream.functions import Function
from headrace.datastream.streams.adapters import Adapter
from headrace.operators.collector import results_of
from headrace.operators.functions import RuntimeContext, method_of


class PatternProcessFunction(Function, Generic[T_contra, OUT_co]):
    """Works on the matches of a pattern one by one.

    One that is a :class:`TimedOutPartialMatchHandler` too gets partial matches that have timed out. It has no
    keyed state and no timers, as in Flink.

    Examples:
        >>> from headrace.cep import CEP, Pattern, PatternProcessFunction
        >>> from headrace.testing import JobHarness
        >>> class Alert(PatternProcessFunction):
        ...     def process_match(self, match, ctx):
        ...         yield f"{match['small']} then {match['large']} at {ctx.timestamp()}"
        >>> small_then_large = (
        ...     Pattern.begin("small").where(lambda amount: amount < 1)
        ...     .followed_by("large").where(lambda amount: amount > 500).within(60_000)
        ... )
        >>> def job(harness):
        ...     payments = harness.add_source("payments", float).key_by(lambda amount: 1, key_type=int)
        ...     harness.add_sink("alerts", CEP.pattern(payments, small_then_large).process(Alert(), output_type=str))
        >>> with JobHarness(job) as harness:
        ...     harness.push_all("payments", [0.5, 20.0, 900.0], [1_000, 2_000, 3_000])
        ...     harness.finish()
        ...     print(harness.results("alerts"))
        ['[0.5] then [900.0] at 3000']
    """

    class Context(ABC):
        """Tells a function about the match; only valid during the call."""

        @abstractmethod
        def timestamp(self) -> int:
            """The time of the match, in milliseconds, which what is emitted gets as its timestamp in event time.

            It is that of the event that completed the match. What becomes a match because nothing has come has the
            time that was reached then, and a partial match that has timed out the time at which it did.
            """

        @abstractmethod
        def current_processing_time(self) -> int:
            """The clock's reading; it stands still within an epoch."""

        @abstractmethod
        def rule_id(self) -> str:
            """The id of the rule whose pattern was found, behind ``CEP.dynamic_patterns``.

            Raises:
                InvalidProgramError: behind ``CEP.pattern``, which has one pattern.
            """

        @abstractmethod
        def rule_version(self) -> int:
            """The version of that rule; errors as of :meth:`rule_id`."""

    @abstractmethod
    def process_match(
        self, match: Mapping[str, list[T_contra]], ctx: PatternProcessFunction.Context
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each match.

        ``yield value`` emits a record, ``yield tag, value`` emits one to the side output of an ``OutputTag``.

        Args:
            match: the events by the name of their stage, in the order of the first event of each. A stage that has
                taken none is not in it.
            ctx: tells the time.
        """


class TimedOutPartialMatchHandler(ABC, Generic[T_contra]):
    """A base of a :class:`PatternProcessFunction` that also gets partial matches that have timed out.

    Examples:
        >>> from headrace.cep import CEP, Pattern, PatternProcessFunction, TimedOutPartialMatchHandler
        >>> from headrace.datastream import OutputTag
        >>> from headrace.testing import JobHarness
        >>> unpaid = OutputTag("unpaid", str)
        >>> class Paid(PatternProcessFunction, TimedOutPartialMatchHandler):
        ...     def process_match(self, match, ctx):
        ...         yield "paid"
        ...     def process_timed_out_match(self, match, ctx):
        ...         yield unpaid, f"ordered at {ctx.timestamp() - 1_000}, and not paid"
        >>> ordered_then_paid = (
        ...     Pattern.begin("order").where(lambda event: event == "order")
        ...     .next("payment").where(lambda event: event == "payment").within(1_000)
        ... )
        >>> def job(harness):
        ...     events = harness.add_source("events", str)
        ...     found = CEP.pattern(events, ordered_then_paid).process(Paid(), output_type=str)
        ...     harness.add_sink("paid", found)
        ...     harness.add_sink("unpaid", found.get_side_output(unpaid))
        >>> with JobHarness(job) as harness:
        ...     harness.push_all("events", ["order", "payment", "order"], [10, 20, 30])
        ...     harness.finish()
        ...     print(harness.results("paid"), harness.results("unpaid"))
        ['paid'] ['ordered at 30, and not paid']
    """

    @abstractmethod
    def process_timed_out_match(
        self, match: Mapping[str, list[T_contra]], ctx: PatternProcessFunction.Context
    ) -> Iterable[ToSideOutput] | None:
        """Called for each partial match that has timed out; its results go to side outputs: ``yield tag, value``.

        Args:
            match: as that of :meth:`PatternProcessFunction.process_match`, as far as it has come.
            ctx: tells the time.
        """


class PatternSelectFunction(Function, Generic[T_contra, OUT_co]):
    """Makes one record of each match of a pattern; a function of the match does as well.

    Examples:
        >>> from headrace.cep import PatternSelectFunction
        >>> class Price(PatternSelectFunction):
        ...     def select(self, pattern: dict[str, list[float]]) -> float:
        ...         return pattern["end"][0] - pattern["start"][0]
        >>> Price().select({"start": [2.0], "end": [5.0]})
        3.0
    """

    @abstractmethod
    def select(self, pattern: Mapping[str, list[T_contra]]) -> OUT_co:
        """The record that a match becomes; the events are by the name of their stage."""


class PatternFlatSelectFunction(Function, Generic[T_contra, OUT_co]):
    """Makes any number of records of each match of a pattern; a function of the match that yields does as well.

    Examples:
        >>> from collections.abc import Iterator
        >>> from headrace.cep import PatternFlatSelectFunction
        >>> class Each(PatternFlatSelectFunction):
        ...     def flat_select(self, pattern: dict[str, list[str]]) -> Iterator[str]:
        ...         yield from pattern["failure"]
        >>> list(Each().flat_select({"failure": ["a", "b"], "success": ["c"]}))
        ['a', 'b']
    """

    @abstractmethod
    def flat_select(self, pattern: Mapping[str, list[T_contra]]) -> Iterable[OUT_co] | None:
        """Yields the records that a match becomes, or returns something to iterate over."""


class PatternTimeoutFunction(Function, Generic[T_contra, OUT_co]):
    """Makes one record of each partial match that has timed out; a function of both does as well.

    Examples:
        >>> from headrace.cep import PatternTimeoutFunction
        >>> class Unpaid(PatternTimeoutFunction):
        ...     def timeout(self, pattern: dict[str, list[str]], timeout_timestamp: int) -> str:
        ...         return f"{pattern['order'][0]} by {timeout_timestamp}"
        >>> Unpaid().timeout({"order": ["tea"]}, 5_000)
        'tea by 5000'
    """

    @abstractmethod
    def timeout(self, pattern: Mapping[str, list[T_contra]], timeout_timestamp: int) -> OUT_co:
        """The record that a partial match becomes, which has timed out at ``timeout_timestamp``."""


class PatternFlatTimeoutFunction(Function, Generic[T_contra, OUT_co]):
    """Makes any number of records of each partial match that has timed out; a function of both does as well.

    Examples:
        >>> from collections.abc import Iterator
        >>> from headrace.cep import PatternFlatTimeoutFunction
        >>> class Unpaid(PatternFlatTimeoutFunction):
        ...     def timeout(self, pattern: dict[str, list[str]], timeout_timestamp: int) -> Iterator[str]:
        ...         yield from pattern["order"]
        >>> list(Unpaid().timeout({"order": ["tea"]}, 5_000))
        ['tea']
    """

    @abstractmethod
    def timeout(self, pattern: Mapping[str, list[T_contra]], timeout_timestamp: int) -> Iterable[OUT_co] | None:
        """Yields the records that a partial match becomes, or returns something to iterate over."""


class EventComparator(ABC, Generic[T_contra]):
    """Orders events with one timestamp, which come as they have arrived otherwise; a function of two does as well.

    Examples:
        >>> from headrace.cep import EventComparator
        >>> class DearestFirst(EventComparator):
        ...     def compare(self, first: float, second: float) -> int:
        ...         return (first < second) - (first > second)
        >>> DearestFirst().compare(2.0, 5.0)
        1
    """

    @abstractmethod
    def compare(self, first: T_contra, second: T_contra) -> int:
        """A negative number where the first event comes first, a positive one where the second does, 0 for neither."""


class Selected(Adapter, PatternProcessFunction):
    """Calls a ``PatternSelectFunction``.

    Args:
        function: the function.
    """

    method = "select"

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._select = method_of(function, self.method)

    def process_match(self, match: Mapping[str, list[Any]], ctx: PatternProcessFunction.Context) -> Iterable[Any]:
        return (self._select(match),)


class FlatSelected(Selected):
    """Calls a ``PatternFlatSelectFunction``."""

    method = "flat_select"

    def process_match(self, match: Mapping[str, list[Any]], ctx: PatternProcessFunction.Context) -> Iterable[Any]:
        return results_of(self._select(match), self._select)


class WithTimeout(PatternProcessFunction, TimedOutPartialMatchHandler):
    """Calls a function for matches, and another one for partial matches that have timed out.

    Attributes:
        function: the first one, for messages.

    Args:
        selected: the first one.
        timeout_function: the other one.
        tag: the side output for its results.
        is_flat: whether it gives any number of results.
    """

    def __init__(self, selected: Selected, timeout_function: Any, tag: OutputTag, *, is_flat: bool) -> None:
        self.function = selected.function
        self.timeout_function = timeout_function
        self._selected = selected
        self._timeout = method_of(timeout_function, "timeout")
        self._tag = tag
        self._is_flat = is_flat

    def __headrace_adapted__(self, name: str) -> Any:
        """The method of the user's function that is called in the method ``name`` of this object."""
        return self._timeout if name == "process_timed_out_match" else method_of(self.function, self._selected.method)

    def open(self, runtime_context: RuntimeContext) -> None:
        for function in (self.function, self.timeout_function):
            if callable(opened := getattr(function, "open", None)):
                opened(runtime_context)

    def close(self) -> None:
        for function in (self.timeout_function, self.function):
            if callable(closed := getattr(function, "close", None)):
                closed()

    def process_match(self, match: Mapping[str, list[Any]], ctx: PatternProcessFunction.Context) -> Iterable[Any]:
        return self._selected.process_match(match, ctx)

    def process_timed_out_match(
        self, match: Mapping[str, list[Any]], ctx: PatternProcessFunction.Context
    ) -> Iterable[ToSideOutput]:
        given = self._timeout(match, ctx.timestamp())
        results = results_of(given, self._timeout) if self._is_flat else (given,)
        return ((self._tag, result) for result in results)
