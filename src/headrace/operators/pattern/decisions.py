"""Which transitions a partial match makes with an event, found once for each set of conditions that hold.

What a partial match becomes depends on its state and on the conditions that are asked for on the way. Where these look
at the event alone, the answer is kept by the bits that hold, and a visit costs one look into a table. Else the
conditions are evaluated, and the answer is kept by the transitions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headrace.operators.pattern.automaton import Action, Automaton, StateKind, Transition
from headrace.operators.pattern.conditions import EventBit, EventFacts, Facts, IterativeCall
from headrace.operators.pattern.matches import PartialMatch, Step, steps_of

Program = tuple[tuple[int, int, bool], ...]
"""What a partial match becomes, for each result: the state that takes the event, or -1 where it is ignored; the state
that the partial match comes to, or -1 for none; whether it is a match."""

Evaluate = Callable[[Any, int], bool]

_MOST_KEPT: Final = 1 << 16
"""So many answers are kept at most; then all are forgotten."""


class Decisions:
    """Finds the programs of partial matches.

    Args:
        automaton: the compiled pattern.
        evaluate: evaluates an event condition of which it is not known whether it holds.
        current_processing_time: the clock that iterative conditions see.
    """

    def __init__(
        self, automaton: Automaton, evaluate: Evaluate | None, current_processing_time: Callable[[], int]
    ) -> None:
        self._automaton = automaton
        self._evaluate = evaluate or self._test
        self._clock = current_processing_time
        self._stages = tuple(state.stage for state in automaton.states)
        reach = [_asked_for(automaton, at) for at in range(len(automaton.states))]
        self._bits = [bits for bits, _ in reach]
        self._is_plain = [is_plain for _, is_plain in reach]
        self._by_bits: list[dict[int, Program | None]] = [{} for _ in automaton.states]
        self._by_transitions: dict[tuple[int, tuple[tuple[Transition, int, bool], ...]], Program | None] = {}
        self._moving: dict[tuple[int, int], int] = {}
        self._all_bits = 0
        for bits in self._bits:
            self._all_bits |= bits

    # --- answers -----------------------------------------------------------------------------------------------------

    def begins(self, holds: int) -> bool:
        """Return whether an event may begin a match."""
        start = self._automaton.start
        return not self._is_plain[start] or bool(self._plain(start, holds))

    def moving(self, live: int, holds: int) -> int:
        """The states, as bits, in which partial matches may not stay as they are."""
        key = live, holds & self._all_bits
        moving = self._moving.get(key)
        if moving is None:
            if len(self._moving) >= _MOST_KEPT:
                self._moving.clear()
            moving = self._moving[key] = sum(
                1 << at
                for at in range(len(self._automaton.states))
                if live >> at & 1 and not (self._is_plain[at] and self._plain(at, holds) is None)
            )
        return moving

    def of_start(self, event: Any, timestamp: int, holds: int, unknown: int) -> Program:
        """What begins with an event."""
        start = self._automaton.start
        if self._is_plain[start] and not unknown & self._bits[start]:
            return self._plain(start, holds) or ()
        facts = _Asked(self, (event, timestamp, holds, unknown), None)
        return self._by_asking(start, facts) or ()

    def of_match(self, match: PartialMatch, facts: tuple[Any, int, int, int]) -> Program | None:
        """What a partial match becomes; None where it stays as it is."""
        at = match[1]
        if self._is_plain[at] and not facts[3] & self._bits[at]:
            return self._plain(at, facts[2])
        return self._by_asking(at, _Asked(self, facts, match[2]))

    def _test(self, event: Any, index: int) -> bool:
        return self._automaton.event_conditions[index].holds(EventFacts(event))

    # --- how they are found ------------------------------------------------------------------------------------------

    def _plain(self, at: int, holds: int) -> Program | None:
        known = self._by_bits[at]
        bits = holds & self._bits[at]
        try:
            return known[bits]
        except KeyError:
            if len(known) >= _MOST_KEPT:
                known.clear()
            program = known[bits] = self._by_asking(at, _Known(bits))
            return program

    def _by_asking(self, at: int, facts: Facts) -> Program | None:
        edges = tuple(self._edges(at, facts))
        key = at, edges
        try:
            return self._by_transitions[key]
        except KeyError:
            program = self._by_transitions[key] = self._program(at, edges)
            return program

    def _edges(self, at: int, facts: Facts) -> list[tuple[Transition, int, bool]]:
        """The transitions that are made, each with the state that it leaves, and whether a match is complete by it."""
        states = self._automaton.states
        edges: list[tuple[Transition, int]] = []
        waiting = [at]
        while waiting:
            source = waiting.pop()
            for transition in states[source].transitions:
                if transition.condition.holds(facts):
                    if transition.action is Action.PROCEED:
                        waiting.append(transition.target)
                    else:
                        edges.append((transition, source))
        return [(edge, source, edge.action is Action.TAKE and self._ends(edge.target, facts)) for edge, source in edges]

    def _ends(self, at: int, facts: Facts) -> bool:
        """Return whether a final state can be reached without a further event."""
        states = self._automaton.states
        waiting = [at]
        while waiting:
            for transition in states[waiting.pop()].transitions:
                if transition.action is Action.PROCEED and transition.condition.holds(facts):
                    if states[transition.target].kind is StateKind.FINAL:
                        return True
                    waiting.append(transition.target)
        return False

    def _program(self, at: int, edges: tuple[tuple[Transition, int, bool], ...]) -> Program | None:
        states = self._automaton.states
        is_start = states[at].kind is StateKind.START
        results: list[tuple[int, int, bool]] = []
        is_dropped = False
        for edge, source, ends in edges:
            if edge.action is Action.IGNORE and is_start:
                continue
            kind = states[edge.target].kind
            is_dropped |= kind is StateKind.STOP
            goes_on = kind not in (StateKind.STOP, StateKind.FINAL)
            taker = source if edge.action is Action.TAKE else -1
            results.append((taker, edge.target if goes_on else -1, ends or kind is StateKind.FINAL))
        if is_dropped:
            results = [(taker, -1, is_final) for taker, _, is_final in results if is_final]
        return None if not is_start and results == [(-1, at, False)] else tuple(results)


class _Known(Facts):
    """All event conditions are known; no others are asked for."""

    __slots__ = ("_holds",)

    def __init__(self, holds: int) -> None:
        self._holds = holds

    def bit(self, index: int) -> bool:
        return bool(self._holds >> index & 1)


class _Asked(Facts):
    """Evaluates what is asked for, once for an event and a partial match; the context of iterative conditions too."""

    __slots__ = ("_answers", "_by_stage", "_decisions", "_event", "_holds", "_step", "_timestamp", "_unknown")

    def __init__(self, decisions: Decisions, facts: tuple[Any, int, int, int], step: Step | None) -> None:
        self._decisions = decisions
        self._event, self._timestamp, self._holds, self._unknown = facts
        self._step = step
        self._by_stage: dict[str, list[Any]] | None = None
        self._answers: dict[IterativeCall, bool] = {}

    def bit(self, index: int) -> bool:
        if self._unknown >> index & 1:
            self._unknown &= ~(1 << index)
            if self._decisions._evaluate(self._event, index):
                self._holds |= 1 << index
        return bool(self._holds >> index & 1)

    def call(self, condition: IterativeCall) -> bool:
        answer = self._answers.get(condition)
        if answer is None:
            answer = self._answers[condition] = bool(condition.function(self._event, self))
        return answer

    # --- the context of iterative conditions ---

    def events(self, stage: str) -> list[Any]:
        if self._by_stage is None:
            self._by_stage = {}
            names = self._decisions._stages
            for taker, _, event, _ in steps_of(self._step):
                self._by_stage.setdefault(names[taker], []).append(event)
            for events in self._by_stage.values():
                events.reverse()
        return self._by_stage.get(stage, [])

    def get_events_for_pattern(self, name: str) -> list[Any]:
        return self.events(name)

    def timestamp(self) -> int:
        return self._timestamp

    def current_processing_time(self) -> int:
        return self._decisions._clock()


def _asked_for(automaton: Automaton, at: int) -> tuple[int, bool]:
    """The event conditions, as bits, that decide what becomes of a partial match; whether no others do."""
    ways = [way for state in _proceeding(automaton, at) for way in automaton.states[state].transitions]
    ends = {state for way in ways if way.action is Action.TAKE for state in _proceeding(automaton, way.target)}
    ways += [way for state in ends for way in automaton.states[state].transitions if way.action is Action.PROCEED]
    leaves = [leaf for way in ways for leaf in way.condition.leaves()]
    bits = sum({1 << leaf.index for leaf in leaves if isinstance(leaf, EventBit)})
    return bits, all(leaf.looks_at_event_alone for leaf in leaves)


def _proceeding(automaton: Automaton, at: int) -> set[int]:
    """The states that are reached without an event, with the one where that begins."""
    seen: set[int] = set()
    waiting = [at]
    while waiting:
        state = waiting.pop()
        if state not in seen:
            seen.add(state)
            waiting += [way.target for way in automaton.states[state].transitions if way.action is Action.PROCEED]
    return seen
