"""``CEP`` and ``PatternStream``: patterns applied to streams, and what becomes of what they find."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, overload

from headrace.cep.functions import (
    EventComparator,
    FlatSelected,
    PatternFlatSelectFunction,
    PatternFlatTimeoutFunction,
    PatternProcessFunction,
    PatternSelectFunction,
    PatternTimeoutFunction,
    Selected,
    TimedOutPartialMatchHandler,
    WithTimeout,
)
from headrace.cep.pattern import Pattern
from headrace.cep.rules import PatternRuleReader, compiled
from headrace.common.arguments import check_call, check_returns, check_yields, warn_without_results
from headrace.common.errors import InvalidTypeError, expect, refused, shown, uncalled
from headrace.common.output_tag import OutputTag
from headrace.common.type_variables import OUT, T
from headrace.common.typeinfo import BasicTypeInfo, DeclaredType, TypeInformation, Types
from headrace.datastream import BroadcastStream, DataStream, KeyedStream
from headrace.datastream.streams.checks import (
    check_event_time_comes,
    check_function,
    check_object,
    check_same_environment,
)
from headrace.datastream.streams.types import Role, one_key, origin_of, result_type
from headrace.graph.pattern_specs import DynamicPatternSpec, PatternSpec
from headrace.graph.specs import OperatorSpec
from headrace.operators.functions import has_own, method_of

TIMED_OUT = "process_timed_out_match"


class CEP:
    """Applies patterns to streams.

    Examples:
        >>> from headrace.cep import CEP, Pattern
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> logins = env.from_collection([("ann", "failed"), ("ann", "failed"), ("ann", "ok")])
        >>> guessed = Pattern.begin("failed").where(lambda event: event[1] == "failed").times(2).next("ok")
        >>> found = CEP.pattern(logins.key_by(0), guessed).in_processing_time()
        >>> found.select(lambda match: match["ok"][0][0], str).execute_and_collect(limit=10)
        ['ann']
    """

    @staticmethod
    def pattern(
        input: DataStream[T],
        pattern: Pattern[T],
        comparator: EventComparator[T] | Callable[[T, T], int] | None = None,
    ) -> PatternStream[T]:
        """Looks for a pattern in a stream; on a keyed stream among the events of each key, for itself.

        Args:
            input: the stream. On one without keys one subtask looks at all events.
            pattern: the pattern.
            comparator: orders events with one timestamp, which come as they have arrived otherwise.

        Raises:
            InvalidTypeError: when an argument is something else.
        """
        expect(input, DataStream, "pattern")
        if isinstance(pattern, DataStream):
            raise refused(
                "pattern takes one Pattern, not a stream: CEP.dynamic_patterns(stream, rules) takes a stream of rules",
                InvalidTypeError,
            )
        expect(pattern, Pattern, "pattern")
        if comparator is not None:
            _check_comparator(comparator)
        return PatternStream(input, pattern, comparator)

    @staticmethod
    def dynamic_patterns(
        input: DataStream[T],
        rules: DataStream[Any],
        comparator: EventComparator[T] | Callable[[T, T], int] | None = None,
    ) -> PatternStream[T]:
        """Looks for the patterns of rules, which are added, changed and withdrawn while the job runs.

        A rule holds for events from its own timestamp on, whatever is read first; in processing time from the epoch on
        in which it is read. Partial matches of a rule that is changed or withdrawn end there; those of others stay. A
        record that is no rule, or no rule for these events, is rejected: see
        :meth:`PatternStream.side_output_rejected_rules`.

        Args:
            input: the stream of events. On one without keys one subtask looks at all of them.
            rules: a stream of :class:`PatternRule`, or of texts that are JSON of one. It is broadcast. Events wait for
                its event time, too: give it a ``WatermarkStrategy`` with idleness where rules are rare.
            comparator: as of :meth:`pattern`.

        Raises:
            InvalidTypeError: when an argument is something else.
            InvalidProgramError: when the streams are of different environments; and from :meth:`PatternStream.process`
                and its like when the rules have no event time and never end.

        Examples:
            >>> from headrace.cep import CEP, PatternProcessFunction, PatternRule
            >>> from headrace.common import Types
            >>> from headrace.testing import JobHarness
            >>> class Described(PatternProcessFunction):
            ...     def process_match(self, match, ctx):
            ...         yield f"{ctx.rule_id()} {ctx.rule_version()}: {[*match.values()]}"
            >>> def job(harness):
            ...     numbers = harness.add_source("numbers", int).key_by(lambda n: n % 2, key_type=int)
            ...     rules = harness.add_source("rules", str)
            ...     harness.add_sink("found", CEP.dynamic_patterns(numbers, rules).process(Described(), str))
            >>> with JobHarness(job) as harness:
            ...     for time, pattern in [(0, "low next high"), (25, "low")]:
            ...         rule = PatternRule("r", pattern, {name: f"value {sign} 5" for name, sign in [
            ...             ("low", "<"), ("high", ">")] if name in pattern})
            ...         harness.push("rules", rule.to_json(), time)
            ...     harness.push_all("numbers", [2, 8, 4, 6], [10, 20, 30, 40])
            ...     harness.finish()
            ...     print(harness.results("found"))
            ['r 1: [[2], [8]]', 'r 2: [[4]]']
        """
        _check_rules(input, rules)
        if comparator is not None:
            _check_comparator(comparator)
        return PatternStream(input, rules, comparator)


def _check_rules(input: DataStream[Any], rules: DataStream[Any]) -> None:
    """Refuse what cannot be a stream of rules for the events of another one."""
    expect(input, DataStream, "dynamic_patterns")
    if isinstance(rules, BroadcastStream):
        raise refused("dynamic_patterns broadcasts the rules itself: leave broadcast(...) out", InvalidTypeError)
    expect(rules, DataStream, "dynamic_patterns")
    if isinstance(type_ := rules.get_type(), BasicTypeInfo) and type_ != Types.STRING():
        raise refused(
            f"dynamic_patterns takes a stream of PatternRule or of texts that are JSON of one, not one of {type_}",
            InvalidTypeError,
        )
    check_same_environment(input.get_execution_environment(), rules.get_execution_environment(), "dynamic_patterns")


def _check_comparator(comparator: object) -> None:
    compare = method_of(comparator, "compare")
    if isinstance(comparator, type) or not callable(compare):
        raise refused(
            f"pattern takes an EventComparator or a function of two events, not {shown(comparator)}"
            f"{uncalled(comparator, EventComparator)}",
            InvalidTypeError,
        )
    check_call(compare, "compare", "first", "second")


@dataclass(frozen=True, slots=True)
class _Settings:
    """The settings with which a pattern is looked for.

    Attributes:
        comparator: see :meth:`CEP.pattern`.
        in_processing_time: whether the time of events is that of the clock.
        late_tag: the side output for late events.
        rejected_tag: the side output for what is no rule.
    """

    comparator: Any = None
    in_processing_time: bool = False
    late_tag: OutputTag | None = None
    rejected_tag: OutputTag | None = None


class PatternStream(Generic[T]):
    """A stream in which a pattern is looked for. Its settings give another one, as in Flink.

    Args:
        input_stream: the stream.
        pattern: the pattern, or the stream of rules.
        comparator: see :meth:`CEP.pattern`.

    Examples:
        >>> from headrace.cep import CEP, Pattern
        >>> from headrace.datastream import OutputTag, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> rising = Pattern.begin("low").where(lambda price: price < 10).next("high").where(lambda price: price > 20)
        >>> prices = CEP.pattern(env.from_collection([5, 25, 7, 15]), rising).in_processing_time()
        >>> prices.select(lambda match: match["high"][0] - match["low"][0], int).execute_and_collect(limit=10)
        [20]
    """

    def __init__(
        self, input_stream: DataStream[T], pattern: Pattern[T] | DataStream[Any], comparator: Any = None
    ) -> None:
        self._input = input_stream
        self._pattern = pattern
        self._settings = _Settings(comparator)

    def get_input_type(self) -> TypeInformation[T]:
        """The type of the events."""
        return self._input.get_type()

    def in_event_time(self) -> PatternStream[T]:
        """Has events wait for the watermark, and be looked at in the order of their timestamps; it is so anyway."""
        return self._with(in_processing_time=False)

    def in_processing_time(self) -> PatternStream[T]:
        """Has events be looked at as they come, at the time of the clock. With a comparator they wait for its tick.

        Rules that change hold from the epoch on in which they are read, for all its events.

        Raises:
            InvalidProgramError: for rules with a comparator, for which events would wait for another epoch.
        """
        if isinstance(self._pattern, DataStream) and self._settings.comparator is not None:
            raise refused(
                "in_processing_time(): where rules change, events of one time come in the order in which they are "
                "read; leave out the comparator, or stay in event time"
            )
        return self._with(in_processing_time=True)

    def side_output_late_data(self, late_data_output_tag: OutputTag) -> PatternStream[T]:
        """Sends events whose time the watermark has reached already to a side output; otherwise they are dropped.

        Their type is that of the events, so the tag need not say it.
        """
        expect(late_data_output_tag, OutputTag, "side_output_late_data")
        return self._with(late_tag=late_data_output_tag)

    def side_output_rejected_rules(self, rejected_rules_output_tag: OutputTag) -> PatternStream[T]:
        """Sends what is no rule, or no rule for these events, to a side output; otherwise it is counted, and logged.

        Its records are ``(where, raw, reason)``, as those of sources and sinks for what these cannot read or write; the
        tag need not say the type.

        Raises:
            InvalidProgramError: for one pattern.
        """
        expect(rejected_rules_output_tag, OutputTag, "side_output_rejected_rules")
        if isinstance(self._pattern, Pattern):
            raise refused(
                "side_output_rejected_rules(): there are no rules; CEP.dynamic_patterns(...) takes a stream of them"
            )
        return self._with(rejected_tag=rejected_rules_output_tag)

    @overload
    def process(
        self, pattern_process_function: PatternProcessFunction[T, OUT], output_type: None = None
    ) -> DataStream[OUT]: ...
    @overload
    def process(
        self, pattern_process_function: PatternProcessFunction[T, Any], output_type: DeclaredType[OUT]
    ) -> DataStream[OUT]: ...
    def process(self, pattern_process_function: Any, output_type: Any = None) -> DataStream:
        """Applies a ``PatternProcessFunction`` to each match.

        Args:
            pattern_process_function: the function. One that is a ``TimedOutPartialMatchHandler`` as well gets
                partial matches that have timed out.
            output_type: the type of what it yields; taken from its annotations when left out.

        Raises:
            InvalidTypeError: when it is no such function.
            InvalidProgramError: when Flink would refuse the pattern as well.
        """
        check_object(pattern_process_function, PatternProcessFunction, "process_match")
        if has_own(pattern_process_function, TIMED_OUT):
            check_call(method_of(pattern_process_function, TIMED_OUT), TIMED_OUT, "match", "ctx")
        warn_without_results(pattern_process_function, "process_match", TIMED_OUT)
        found = result_type(output_type, method_of(pattern_process_function, "process_match"), Role.MANY)
        return self._applied(pattern_process_function, found, output_type)

    @overload
    def select(
        self,
        pattern_select_function: Callable[[Mapping[str, list[T]]], OUT] | PatternSelectFunction[T, OUT],
        output_type: None = None,
        /,
    ) -> DataStream[OUT]: ...
    @overload
    def select(
        self,
        pattern_select_function: Callable[[Mapping[str, list[T]]], Any] | PatternSelectFunction[T, Any],
        output_type: DeclaredType[OUT],
        /,
    ) -> DataStream[OUT]: ...
    @overload
    def select(
        self,
        timed_out_partial_matches_tag: OutputTag,
        pattern_timeout_function: Callable[[Mapping[str, list[T]], int], Any] | PatternTimeoutFunction[T, Any],
        pattern_select_function: Callable[[Mapping[str, list[T]]], OUT] | PatternSelectFunction[T, OUT],
        output_type: DeclaredType[OUT] | None = None,
        /,
    ) -> DataStream[OUT]: ...
    def select(self, *arguments: Any, output_type: Any = None) -> DataStream:
        """Makes one record of each match.

        ``select(function, output_type)``; or, with partial matches that have timed out as records of a side output,
        ``select(tag, timeout_function, select_function, output_type)``.

        Args:
            arguments: a function of the match, or a ``PatternSelectFunction``; before it the tag, and a function of a
                partial match and the time at which it has timed out, or a ``PatternTimeoutFunction``.
            output_type: the type of the records; taken from annotations when left out. It may be the last argument.

        Raises:
            InvalidTypeError: when an argument is something else.
            InvalidProgramError: when Flink would refuse the pattern as well, or a function gives nothing.
        """
        return self._selected("select", arguments, output_type)

    @overload
    def flat_select(
        self,
        pattern_flat_select_function: Callable[[Mapping[str, list[T]]], Iterable[OUT] | None]
        | PatternFlatSelectFunction[T, OUT],
        output_type: None = None,
        /,
    ) -> DataStream[OUT]: ...
    @overload
    def flat_select(
        self,
        pattern_flat_select_function: Callable[[Mapping[str, list[T]]], Iterable[Any] | None]
        | PatternFlatSelectFunction[T, Any],
        output_type: DeclaredType[OUT],
        /,
    ) -> DataStream[OUT]: ...
    @overload
    def flat_select(
        self,
        timed_out_partial_matches_tag: OutputTag,
        pattern_flat_timeout_function: Callable[[Mapping[str, list[T]], int], Iterable[Any] | None]
        | PatternFlatTimeoutFunction[T, Any],
        pattern_flat_select_function: Callable[[Mapping[str, list[T]]], Iterable[OUT] | None]
        | PatternFlatSelectFunction[T, OUT],
        output_type: DeclaredType[OUT] | None = None,
        /,
    ) -> DataStream[OUT]: ...
    def flat_select(self, *arguments: Any, output_type: Any = None) -> DataStream:
        """Makes any number of records of each match; arguments and errors are those of :meth:`select`."""
        return self._selected("flat_select", arguments, output_type)

    def _selected(self, method: str, arguments: tuple[Any, ...], output_type: Any) -> DataStream:
        kind = _KINDS[method]
        given, tag = list(arguments), None
        if given and isinstance(given[0], OutputTag):
            tag = given.pop(0)
        wanted = 1 if tag is None else 2
        if len(given) == wanted + 1 and output_type is None:
            output_type = given.pop()
        if len(given) != wanted:
            raise refused(f"{method} takes {kind.usage}, not {len(arguments)} arguments")
        check_function(given[-1], kind.base, method)
        kind.check(given[-1], method)
        called = method_of(given[-1], method)
        function: Any = kind.adapter(given[-1])
        if tag is not None:
            check_function(given[0], kind.timeout, "timeout")
            kind.check(given[0], "timeout")
            function = WithTimeout(function, given[0], tag, is_flat=kind.role is Role.MANY)
        return self._applied(function, result_type(output_type, called, kind.role), output_type)

    def _applied(self, function: Any, found: TypeInformation, declared: Any) -> DataStream:
        stream, settings = self._input, self._settings
        keyed = stream if isinstance(stream, KeyedStream) else stream.key_by(one_key, key_type=Types.BYTE())
        said: dict[str, Any] = {
            "in_processing_time": settings.in_processing_time,
            "comparator": settings.comparator,
            "late_tag": settings.late_tag,
            "handles_timeout": isinstance(function, TimedOutPartialMatchHandler) or has_own(function, TIMED_OUT),
        }
        event_type, name = self.get_input_type(), "CepOperator"
        spec: OperatorSpec
        more: tuple[DataStream, ...] = ()
        if isinstance(self._pattern, Pattern):
            automaton = compiled(self._pattern, event_type)
            spec = PatternSpec(function, found, automaton=automaton, **said)
        else:
            rules = self._pattern
            if not settings.in_processing_time:
                check_event_time_comes(rules._transformations.graph, rules._operator_ids(), "rules", "dynamic_patterns")
            reader, rejected_tag = PatternRuleReader(event_type), settings.rejected_tag
            spec = DynamicPatternSpec(function, found, reader=reader, rejected_tag=rejected_tag, **said)
            name, more = "DynamicCepOperator", (rules.broadcast(),)
        if keyed is stream:
            return keyed._apply(spec, name, *more, origin=origin_of(declared))
        return keyed._apply(spec, f"Global{name}", *more, origin=origin_of(declared)).force_non_parallel()

    def _with(self, **changes: Any) -> Self:
        made = type(self)(self._input, self._pattern)
        made._settings = replace(self._settings, **changes)
        return made

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.get_input_type()}, {self._pattern!r})"


@dataclass(frozen=True, slots=True)
class _Kind:
    """One of ``select`` and ``flat_select``, with what it takes.

    Attributes:
        base: the class of its functions.
        timeout: that of functions of partial matches.
        adapter: makes a ``PatternProcessFunction`` of one.
        role: how they give results.
        check: refuses functions that give none.
        usage: the arguments, for messages.
    """

    base: type[Any]
    timeout: type[Any]
    adapter: type[Selected]
    role: Role
    check: Callable[[Any, str], None]
    usage: str


_KINDS = {
    "select": _Kind(
        PatternSelectFunction,
        PatternTimeoutFunction,
        Selected,
        Role.ONE,
        check_returns,
        "a function and an output_type, or a tag, a timeout function, a select function and an output_type",
    ),
    "flat_select": _Kind(
        PatternFlatSelectFunction,
        PatternFlatTimeoutFunction,
        FlatSelected,
        Role.MANY,
        check_yields,
        "a function and an output_type, or a tag, a timeout function, a select function and an output_type",
    ),
}
