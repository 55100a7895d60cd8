"""The automaton visits what an event can change, asks what it has to, and orders matches as Java's heap does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cep import AfterMatchSkipStrategy, Pattern
from headrace.cep.compiler import compile_pattern
from headrace.operators.pattern import nfa
from headrace.operators.pattern.conditions import EventFacts
from headrace.operators.pattern.nfa import Nfa
from headrace.operators.pattern.shared_buffer import MatchedEvents, NfaState
from tests.draws import draws

PATTERNS: dict[str, Pattern[Any]] = {
    "followed": Pattern.begin("a").where(lambda e: e == "a").followed_by("b").where(lambda e: e == "b").within(6),
    "held": Pattern.begin("a", AfterMatchSkipStrategy.skip_past_last_event())
    .where(lambda e: e == "a")
    .followed_by_any("b")
    .where(lambda e: e in "bc")
    .one_or_more()
    .within(9),
    "never": Pattern.begin("a").where(lambda e: e == "a").not_followed_by("b").where(lambda e: e == "b").within(4),
    "strict": Pattern.begin("a").where(lambda e: e == "a").next("b").where(lambda e: e == "b").times(2).consecutive(),
    "iterative": Pattern.begin("a")
    .where(lambda e: e != "d")
    .followed_by("b")
    .where(lambda e, context: e > context.events("a")[-1])
    .one_or_more()
    .within(5),
}


def holds(nfa: Nfa, event: Any) -> int:
    conditions = nfa.automaton.event_conditions
    return sum(condition.holds(EventFacts(event)) << at for at, condition in enumerate(conditions))


def run(nfa: Nfa, events: list[tuple[int, str]], *, visits_all: bool) -> list[Any]:
    state = NfaState()
    out: list[Any] = []
    time = 1
    for step, event in events:
        time += step
        bits = holds(nfa, event)
        if visits_all or time >= nfa.deadline(state):
            advance = nfa.advance_time(state, time)
            out += [(time, match) for match in advance.matches] + advance.timed_out
        if visits_all or not nfa.is_idle(state, bits):
            out += [(time, match) for match in nfa.process(state, event, time, bits)]
    out += nfa.advance_time(state, time + 100).timed_out
    return [*out, len(state.partial), len(state.finished)]


@pytest.mark.parametrize("name", PATTERNS)
@given(events=st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abcd")), max_size=25))
@settings(max_examples=draws(120), deadline=None)
def test_what_is_left_out_changes_nothing(name: str, events: list[tuple[int, str]]) -> None:
    nfa = Nfa(compile_pattern(PATTERNS[name]))
    assert run(nfa, events, visits_all=False) == run(nfa, events, visits_all=True)


@pytest.mark.parametrize("name", PATTERNS)
@given(events=st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abcd")), max_size=25))
@settings(max_examples=draws(60), deadline=None)
def test_conditions_that_are_not_known_are_evaluated_when_asked_for(name: str, events: list[tuple[int, str]]) -> None:
    nfa = Nfa(compile_pattern(PATTERNS[name]))
    known, unknown = NfaState(), NfaState()
    every = (1 << len(nfa.automaton.event_conditions)) - 1
    for time, (_, event) in enumerate(events):
        bits = holds(nfa, event)
        assert nfa.process(known, event, time, bits) == nfa.process(unknown, event, time, 0, every)
    assert known.partial == unknown.partial


def test_a_condition_is_not_asked_for_where_nothing_depends_on_it() -> None:
    asked = []

    def is_b(event: str) -> bool:
        asked.append(event)
        return event == "b"

    nfa = Nfa(compile_pattern(Pattern.begin("a").where(lambda e: e == "a").next("b").where(is_b)))
    state = NfaState()
    for time, event in enumerate("bbabb"):
        nfa.process(state, event, time, 0, 0b11)
    assert asked == ["b"]


def test_a_match_shows_its_events_in_order_and_by_stage() -> None:
    loop = Pattern.begin("x").where(lambda e: e < 3).times(2)
    nfa = Nfa(compile_pattern(Pattern.begin(loop.next("y")).times(1)))
    state = NfaState()
    found = [
        match for time, event in enumerate([1, 2, 9]) for match in nfa.process(state, event, time, holds(nfa, event))
    ]
    assert found == [MatchedEvents((("x", 1), ("x", 2), ("y", 9)))]
    assert list(found[0].by_stage().items()) == [("x", [1, 2]), ("y", [9])]


def test_the_context_of_a_condition() -> None:
    seen = []

    def is_next(event: int, context: Any) -> bool:
        seen.append(
            (event, context.events("a"), context.get_events_for_pattern("b"), context.events("c"), context.timestamp())
        )
        return context.current_processing_time() == 77

    nfa = Nfa(compile_pattern(Pattern.begin("a").next("b").where(is_next)), current_processing_time=lambda: 77)
    state = NfaState()
    nfa.process(state, 1, 10, 0)
    assert len(nfa.process(state, 2, 11, 0)) == 1
    assert seen == [(2, [1], [], [], 11)]


def test_a_key_with_many_partial_matches_is_not_scanned() -> None:
    nfa = Nfa(compile_pattern(PATTERNS["followed"].within(1_000_000)))
    state = NfaState()
    begins = holds(nfa, "a")
    for time in range(50_000):  # quadratic, this would take minutes
        nfa.process(state, "a", time + 1, begins)
        assert nfa.is_idle(state, holds(nfa, "x"))
    assert len(state.partial) == 50_000
    assert len(nfa.process(state, "b", 50_001, holds(nfa, "b"))) == 50_000
    assert state.is_empty


def test_the_heap_moves_equal_elements_as_java_does() -> None:
    elements: list[tuple[int, str]] = []
    for key, name in [(1, "a"), (1, "b"), (0, "c"), (1, "d"), (0, "e"), (1, "f")]:
        nfa.offer(elements, (key, name))
    # What java.util.PriorityQueue holds and gives, ordered by the number alone.
    assert [name for _, name in elements] == ["c", "e", "a", "d", "b", "f"]
    assert nfa.remove(elements, lambda element: element[1] == "e")
    assert [name for _, name in elements] == ["c", "a", "d", "b", "f"]
    assert [nfa.poll(elements)[1] for _ in range(5)] == ["c", "f", "b", "d", "a"]
