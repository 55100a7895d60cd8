"""Patterns find the same, and in the same order, however the input is cut: the automaton, event by event, says what.

Only the time of a match that waits for time to pass depends on the watermarks that come, as in Flink.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from unittest.mock import patch

from hypothesis import strategies as st

from headrace.cep import CEP, AfterMatchSkipStrategy, Pattern, PatternProcessFunction, TimedOutPartialMatchHandler
from headrace.cep.compiler import compile_pattern
from headrace.common.constants import MAX_WATERMARK
from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import Types
from headrace.expressions import col
from headrace.operators.pattern import found_matches, pattern_filter
from headrace.operators.pattern.nfa import Nfa
from headrace.operators.pattern.shared_buffer import NfaState
from tests.invariance.driver import Cut, Event, Job, deaths, examples, per_key, run
from tests.invariance.test_two_inputs import DISORDER, at_times

TOLD = Types.TUPLE([Types.STRING(), Types.STRING()])
TIMED_OUT = OutputTag("timed-out", TOLD)

FIRST: Final = 1_000
"""Later than the beginning of time, where Flink sets no timers."""


def is_small(event: Event) -> bool:
    return event[1] < 5


def is_large(event: Event) -> bool:
    return event[1] >= 7


def rises(event: Event, context: Any) -> bool:
    taken = context.events("rise")
    return not taken or event[1] > taken[-1][1]


SMALL, LARGE = col("f1") < 5, col("f1") >= 7
PAST_LAST: Final = AfterMatchSkipStrategy.skip_past_last_event()

PATTERNS: Final[dict[str, tuple[Pattern[Event], Pattern[Event]]]] = {
    "within": (
        Pattern.begin("small").where(SMALL).followed_by("large").where(LARGE).within(10),
        Pattern.begin("small").where(is_small).followed_by("large").where(is_large).within(10),
    ),
    "loop": (
        Pattern.begin("small").where(SMALL).one_or_more().next("large").where(LARGE).within(8),
        Pattern.begin("small").where(is_small).one_or_more().next("large").where(is_large).within(8),
    ),
    "without a window": (
        Pattern.begin("a").where(SMALL).times(2).not_followed_by("b").where(LARGE).followed_by_any("c").where(SMALL),
        Pattern.begin("a")
        .where(is_small)
        .times(2)
        .not_followed_by("b")
        .where(is_large)
        .followed_by_any("c")
        .where(is_small),
    ),
    "skips": (
        Pattern.begin("rise", PAST_LAST)
        .where(SMALL)
        .where(rises)
        .one_or_more()
        .followed_by("end")
        .where(LARGE)
        .within(9),
        Pattern.begin("rise", PAST_LAST)
        .where(is_small)
        .where(rises)
        .one_or_more()
        .followed_by("end")
        .where(is_large)
        .within(9),
    ),
    "ends with what does not follow": (
        Pattern.begin("small").where(SMALL).not_followed_by("large").where(LARGE).within(6),
        Pattern.begin("small").where(is_small).not_followed_by("large").where(is_large).within(6),
    ),
}
"""Each with expressions, and with functions, of which the automaton can evaluate events one by one."""

WAITING: Final = ("skips", "ends with what does not follow")
"""Patterns whose matches wait for time to pass."""


def told(match: Mapping[str, list[Event]]) -> tuple[str, str]:
    (key, *_), *_ = next(iter(match.values()))
    return key, str({stage: [event[1:] for event in events] for stage, events in match.items()})


class Matches(PatternProcessFunction[Event, Any]):
    """Is not told of timeouts, so that much may be left out and unread."""

    def process_match(self, match: Mapping[str, list[Event]], ctx: PatternProcessFunction.Context) -> Iterator[Any]:
        yield told(match)


class Told(Matches, TimedOutPartialMatchHandler[Event]):
    def process_timed_out_match(
        self, match: Mapping[str, list[Event]], ctx: PatternProcessFunction.Context
    ) -> Iterator[tuple[OutputTag, Any]]:
        yield TIMED_OUT, told(match)


def expected(pattern: Pattern[Event], events: list[Event]) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """The matches and the timeouts of each key, in order, with their times."""
    nfa = Nfa(compile_pattern(pattern))
    states: dict[str, NfaState] = defaultdict(NfaState)
    matches, timeouts = defaultdict(list), defaultdict(list)

    def advance(key: str, time: int) -> None:
        found = nfa.advance_time(states[key], time)
        matches[key] += [(*told(match.by_stage()), time) for match in found.matches]
        timeouts[key] += [(*told(late.match.by_stage()), late.timestamp) for late in found.timed_out]

    for event in sorted(events, key=lambda one: one[2]):
        key, _, time = event
        advance(key, time)
        unknown = (1 << len(nfa.automaton.event_conditions)) - 1
        found = nfa.process(states[key], event, time, 0, unknown)
        matches[key] += [(*told(match.by_stage()), time) for match in found]
    for key in list(states):
        advance(key, MAX_WATERMARK)
    return tuple({key: found for key, found in each.items() if found} for each in (matches, timeouts))  # type: ignore[return-value]


def without_times(found: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    return {key: [one[:-1] for one in of_key] for key, of_key in found.items()}


def in_order(steps: Sequence[tuple[str, int, int, int]]) -> list[Event]:
    """Events of which none is late, after the beginning of time."""
    return [(key, value, FIRST + time) for key, value, time in at_times(steps)]


steps = st.tuples(
    st.sampled_from("ab"), st.sampled_from([1, 2, 3, 4, 6, 8]), st.integers(0, 3), st.integers(0, DISORDER)
)
events_in_order = st.lists(steps, min_size=8, max_size=20).map(in_order)
"""Few keys and mostly small values, close to one another: matches are begun when an epoch ends."""

short_epochs = st.builds(replace, deaths, shares=st.lists(st.integers(2, 6), min_size=1, max_size=3).map(tuple))


@examples(
    40,
    events=events_in_order,
    name=st.sampled_from(sorted(PATTERNS)),
    are_columns=st.booleans(),
    is_batch=st.sampled_from([False, False, False, True]),
    handles_timeout=st.booleans(),
    summarized=st.sampled_from([1, 3, found_matches.MANY]),
    cut=short_epochs,
)
def test_what_a_pattern_finds(
    events: list[Event], name: str, are_columns: bool, is_batch: bool, handles_timeout: bool, summarized: int, cut: Cut
) -> None:
    """Records of one split keep their order, so all that happens to a key is known."""
    columns, functions = PATTERNS[name]

    def build(job: Job) -> None:
        stream = job.source("events", [events], DISORDER).key_by("f0")
        function = Told() if handles_timeout else Matches()
        pattern = CEP.pattern(stream, columns if are_columns else functions)
        found = job.keyed("pattern", pattern.process(function, TOLD))
        job.sink("matches", found)
        job.sink("timeouts", found.get_side_output(TIMED_OUT))

    filtering = {"FEWEST": summarized, "RARE": 1}
    with patch.object(found_matches, "MANY", summarized), patch.multiple(pattern_filter, **filtering):
        found = run(build, cut, is_batch=is_batch)
    matches, timeouts = expected(functions, events)
    got = per_key(found["matches"])
    if name in WAITING:
        assert without_times(got) == without_times(matches)
    else:
        assert got == matches
    assert per_key(found["timeouts"]) == (timeouts if handles_timeout else {})
