"""Patterns are built step by step, never change, and are refused where they could not be matched."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle
import pytest

from headrace.cep import (
    CEP,
    AfterMatchSkipStrategy,
    GroupPattern,
    IterativeCondition,
    Pattern,
    PatternStream,
    SimpleCondition,
    WithinType,
)
from headrace.cep.compiler import compile_pattern
from headrace.common import Duration
from headrace.common.errors import (
    HeadraceError,
    InvalidProgramError,
    InvalidTypeError,
    UnknownNameError,
    UnsupportedOperationError,
)
from headrace.datastream import FilterFunction, StreamExecutionEnvironment
from headrace.expressions import col
from headrace.operators.pattern.automaton import StateType
from headrace.operators.pattern.conditions import ALWAYS, EventCall, EventExpression, IterativeCall


class IsLarge(SimpleCondition[Any]):
    def filter(self, value: Any) -> bool:
        return bool(value > 5)


class IsLarger(IterativeCondition[Any]):
    def filter(self, value: Any, ctx: Any) -> bool:
        return all(value > before for before in ctx.events("a"))


def test_a_pattern_never_changes() -> None:
    begun = Pattern.begin("a")
    repeated = begun.where(col("x") > 1).times(2).next("b")
    assert str(begun) == "a"
    assert begun.get_condition() is ALWAYS
    assert str(repeated) == "a{2} next b"


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (col("x") > 1, EventExpression),
        (lambda event: event > 1, EventCall),
        (lambda event, limit=1: event > limit, EventCall),
        (IsLarge(), EventCall),
        (lambda event, context: event > len(context.events("a")), IterativeCall),
        (IsLarger(), IterativeCall),
    ],
)
def test_a_condition_is_what_its_parameters_say(given: Any, kind: type) -> None:
    condition = Pattern.begin("a").where(given).get_condition()
    assert isinstance(condition, kind)
    assert condition.looks_at_event_alone == (kind is not IterativeCall)


def test_a_simple_condition_of_a_function_is_that_function() -> None:
    def is_large(event: int) -> bool:
        return event > 1

    class Odd(FilterFunction[int]):
        def filter(self, value: int) -> bool:
            return value % 2 == 1

    large, odd = SimpleCondition.of(is_large), SimpleCondition.of(Odd())
    pattern = Pattern.begin("a").where(large).next("b").where(odd)
    assert pattern.explain().splitlines()[::2] == ["● a: is_large", "● b: Odd"]
    assert [condition.filter(2) for condition in (large, odd)] == [True, False]
    condition = pattern.get_condition()
    assert isinstance(condition, EventCall)
    assert [condition.test(event) for event in (2, 3)] == [False, True]


@pytest.mark.parametrize("given", [1, lambda event, context: True, col("x") > 1, IsLarger, None])
def test_a_simple_condition_is_of_functions_of_the_event_alone(given: Any) -> None:
    with pytest.raises(InvalidTypeError, match=r"of\(\) takes"):
        SimpleCondition.of(given)


def yields(event: Any) -> Iterator[bool]:
    yield event > 1


async def is_awaited(event: Any, context: Any) -> bool:
    return bool(event > context.timestamp())


def forgets_to_return(event: Any) -> None:
    event > 1  # noqa: B015


class Yields(IterativeCondition[Any]):
    def filter(self, value: Any, ctx: Any) -> Any:
        yield value > 1


@pytest.mark.parametrize("method", ["where", "or_", "until"])
@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (yields, InvalidTypeError, "a function that yields is true of every record: return the answer"),
        (Yields(), InvalidTypeError, "a function that yields is true of every record"),
        (is_awaited, InvalidTypeError, "is called and not awaited"),
        (forgets_to_return, InvalidProgramError, "never returns a value"),
    ],
)
def test_a_condition_without_an_answer_is_refused(
    method: str, given: Any, error: type[HeadraceError], message: str
) -> None:
    with pytest.raises(error, match=message):
        getattr(Pattern.begin("a").one_or_more(), method)(given)


@pytest.mark.parametrize("window", [-1, 1 << 63])
def test_a_window_that_no_time_has_is_refused(window: int) -> None:
    with pytest.raises(InvalidProgramError, match=r"within\(\) takes 0 to 2\^63 - 1 ms"):
        ONE.within(window)


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_a_name_that_no_stage_can_have_is_refused(name: str) -> None:
    with pytest.raises(InvalidProgramError, match="not empty and has no null character"):
        ONE.next(name)


@pytest.mark.parametrize("given", [1, IsLarge, None, lambda: True, lambda a, b, c: True])
def test_what_is_no_condition_is_refused(given: Any) -> None:
    with pytest.raises(InvalidTypeError, match=r"where\(\)"):
        Pattern.begin("a").where(given)


def test_text_and_drawing() -> None:
    pattern = (
        Pattern.begin("a", AfterMatchSkipStrategy.skip_to_last("b"))
        .where(col("x") > 1)
        .one_or_more()
        .greedy()
        .not_followed_by("n")
        .where(col("x") == 7)
        .followed_by_any("b")
        .times(2, 3)
        .allow_combinations()
        .followed_by(Pattern.begin("c").next("d").times_or_more(2).until(col("x") < 0))
        .optional()
        .within(Duration.of_minutes(10))
    )
    text = (
        "a+ greedy not_followed_by n followed_by_any b{2,3} combinations followed_by (c next d{2,})? within 10 min "
        "skip_to_last b"
    )
    assert str(pattern) == text
    assert repr(pattern) == f"Pattern({text})"
    assert pattern.explain().splitlines() == [
        '● a + greedy: col("x") > 1',
        "┊   until the next stage never",
        '● n: col("x") == 7',
        "┊   at any later event that fits",
        "● b {2,3} combinations: any event",
        "┊   at the next event that fits",
        "● group ?",
        "    ● c: any event",
        "    │   directly",
        "    ● d {2,}: any event",
        '      until col("x") < 0',
        "within 10 min of the first event",
        "after a match: skip_to_last('b')",
    ]
    assert "until the window has passed never" in Pattern.begin("a").not_followed_by("n").within(5).explain()


def test_notebooks_show_the_drawing() -> None:
    assert "● a: col(&quot;x&quot;) &lt; 1" in Pattern.begin("a").where(col("x") < 1)._repr_html_()


ONE = Pattern.begin("a").where(lambda event: True)

WITHOUT_MATCH: list[tuple[Any, type[HeadraceError], str]] = [
    (lambda: Pattern.begin(""), InvalidProgramError, "name of a stage"),
    (lambda: Pattern.begin(7), InvalidTypeError, r"begin\(\) takes a"),
    (lambda: ONE.times(3, Duration.of_seconds(1)), InvalidTypeError, r"write times\(3, window_time=...\)"),  # type: ignore[arg-type]
    (lambda: ONE.times(0), InvalidProgramError, r"no event is times\(0, n\)"),
    (lambda: ONE.within("5 s"), InvalidTypeError, r"within\(\): expected a Duration"),  # type: ignore[arg-type]
    (lambda: Pattern.begin("a", "skip"), InvalidTypeError, r"begin\(\) takes a"),
    (lambda: ONE.not_next(Pattern.begin("b")), InvalidTypeError, "not a group"),
    (lambda: ONE.optional().one_or_more(), InvalidProgramError, r"optional\(\) before one_or_more\(\) would be lost"),
    (lambda: ONE.optional().not_next("b"), UnsupportedOperationError, "optional path to NOT"),
    (lambda: ONE.next("b").within(5, "soon"), InvalidTypeError, r"within\(\) takes a"),
    (lambda: Pattern.begin(ONE).where(col("x") > 1), UnsupportedOperationError, "where clause"),
    (lambda: Pattern.begin(ONE).or_(col("x") > 1), UnsupportedOperationError, "or clause"),
    (
        lambda: ONE.next(Pattern.begin("b", AfterMatchSkipStrategy.skip_to_next())),
        InvalidProgramError,
        r"skip strategy skip_to_next\(\) of a group would be lost",
    ),
]


@pytest.mark.parametrize(("build", "error", "message"), WITHOUT_MATCH)
def test_what_cannot_be_built_is_refused_at_its_line(build: Any, error: type[HeadraceError], message: str) -> None:
    with pytest.raises(error, match=message) as refusal:
        build()
    assert f"  at {__file__}:" in str(refusal.value)


WITHOUT_AUTOMATON: list[tuple[Pattern[Any], type[HeadraceError], str]] = [
    (ONE.next("b").next("a"), InvalidProgramError, "Duplicate pattern name: a"),
    (ONE.next(Pattern.begin("a")), InvalidProgramError, "Duplicate pattern name: a"),
    (ONE.not_followed_by("b"), InvalidProgramError, "without windowTime"),
    (Pattern.begin("a").times(99_999_999_999), InvalidProgramError, "more than 32768 states"),
    (ONE.next(Pattern.begin("b").not_followed_by("c")).next("d"), InvalidProgramError, "last part of a group"),
    (Pattern.begin(ONE.optional()).one_or_more(), InvalidProgramError, "only optional stages"),
    (Pattern.begin(ONE.optional()).not_next("b").next("c"), UnsupportedOperationError, "optional path to NOT"),
    (ONE.next(Pattern.begin("b").within(5)).next("c"), InvalidProgramError, "would be lost: call it on the group"),
    (ONE.next("b").within(9, WithinType.PREVIOUS_AND_CURRENT).within(5), InvalidProgramError, "cannot be larger"),
    (
        Pattern.begin("a", AfterMatchSkipStrategy.skip_to_first("z")).next("b"),
        InvalidProgramError,
        "AfterMatchSkipStrategy can not be found",
    ),
]


@pytest.mark.parametrize(("pattern", "error", "message"), WITHOUT_AUTOMATON)
def test_what_cannot_be_compiled_is_refused_at_its_line(
    pattern: Pattern[Any], error: type[HeadraceError], message: str
) -> None:
    with pytest.raises(error, match=message) as refusal:
        compile_pattern(pattern)
    assert f"  at {__file__}:" in str(refusal.value)


def test_an_automaton_travels() -> None:
    pattern = ONE.followed_by("b").where(IsLarger()).one_or_more().within(10)
    automaton = pickle.loads(cloudpickle.dumps(compile_pattern(pattern)))
    assert [state.name for state in automaton.states] == ["$endState$", "b", "b:0", "b:1", "a"]
    assert automaton.states[automaton.start].kind is StateType.START
    assert automaton.window == 10
    assert len(automaton.event_conditions) == 1
    assert len(automaton.iterative_calls()) == 1


def test_windows_that_change_nothing_are_told() -> None:
    soon = WithinType.PREVIOUS_AND_CURRENT
    for pattern in (
        ONE.within(5, soon).next("b"),
        ONE.next("b").one_or_more().within(5, soon),
        ONE.next(Pattern.begin("b")).within(5, soon),
        ONE.next(Pattern.begin("b")).times(2, window_time=5),
    ):
        with pytest.warns(UserWarning, match="changes nothing"):
            compile_pattern(pattern)


PATTERNS: Any = CEP.pattern(StreamExecutionEnvironment.get_execution_environment().from_collection([1]), ONE)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: ONE.followedBy("b"), "Pattern has no 'followedBy': did you mean followed_by"),
        (lambda: ONE.oneOrMore(window_time=1), "did you mean one_or_more"),
        (lambda: ONE.timesOrMore(2), "did you mean times_or_more"),
        (lambda: ONE.notFollowedBy("b"), "did you mean not_followed_by"),
        (lambda: ONE.allowCombinations, "did you mean allow_combinations"),
        (lambda: ONE.select(len), r"CEP.pattern\(stream, pattern\) looks for it, and has select"),
        (lambda: ONE.and_("x"), r"use where\(...\)"),
        (lambda: PATTERNS.map(len), r"say first what becomes of a match: select"),
        (lambda: PATTERNS.inProcessingTime, "did you mean in_processing_time"),
        (lambda: PATTERNS.within(5), "it belongs to the pattern"),
    ],
)
def test_names_of_flink_and_of_streams_are_answered(ask: Callable[[], Any], said: str) -> None:
    with pytest.raises(UnknownNameError, match=said) as caught:
        ask()
    assert f"at {__file__}" in str(caught.value)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Pattern("a"), r"write Pattern.begin\(name\)"),  # type: ignore[call-arg]
        (lambda: GroupPattern(name="a"), r"give a pattern to begin\(\)"),  # type: ignore[call-arg]
        (lambda: PatternStream("a"), r"write CEP.pattern\(stream, pattern\)"),  # type: ignore[call-arg, arg-type]
    ],
)
def test_classes_that_are_not_called_say_what_makes_one(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(InvalidTypeError, match=said) as caught:
        call()
    assert f"at {__file__}" in str(caught.value)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("from headrace.cep import RichIterativeCondition", "use IterativeCondition"),
        ("from headrace.cep import PatternProcessorDiscoverer", r"use PatternRule and CEP.dynamic_patterns"),
        ("from headrace.cep import Patern", "did you mean Pattern"),
        ("from headrace.datastream import CEP", "from headrace.cep import CEP"),
        ("from headrace.datastream.cep import CEP", "it is headrace.cep"),
    ],
)
def test_wrong_imports_are_answered(program: str, said: str) -> None:
    with pytest.raises(ImportError, match=said):
        exec(program, {})
