"""Finds the transitions of a partial match with an event, once for each set of conditions that hold.

What a partial match becomes depends on its state and on the conditions that are evaluated on the way. Where these look
at the event alone, the answer is kept by the bits that hold, and it costs one lookup in a table. Where there are
iterative conditions, it is kept in a decision tree of them, which grows with partial matches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from headrace.common.other_names import names_explained
from headrace.operators.pattern.automaton import Action, Automaton, StateType, Transition
from headrace.operators.pattern.conditions import Condition, EventBit, EventFacts, Facts, IterativeCall
from headrace.operators.pattern.shared_buffer import PartialMatch, Step

Program = tuple[tuple[int, int, int, bool], ...]
"""The results for a partial match, each as: the state that takes the event, or -1 where it is ignored; the next state,
or -1 for none; that state as a bit, or 0; and True for a match."""


class EachMatch(Enum):
    """Stands for the program of a state whose conditions are evaluated for each partial match."""

    EACH_MATCH = "each match"


EACH_MATCH: Final = EachMatch.EACH_MATCH

Plan = tuple[Program | EachMatch, dict[int, Program | EachMatch]]
"""The effect of an event: the partial matches that it begins, and the programs of the states in which partial matches
may not stay."""

Evaluate = Callable[[Any, int], bool]

EvaluateOfRows = Callable[[Any, Any, Step | None], bool]
"""Evaluates a condition over columns for an event and the last step of the partial match that it meets."""

_Edge = tuple[Transition, int, bool]
"""A transition that is made, the state that it leaves, and whether a match is complete by it."""

_MOST_KEPT: Final = 1 << 16
"""The largest number of answers that are kept; then all are forgotten."""


@dataclass(slots=True)
class _Question:
    """An iterative condition, and what follows of each answer."""

    condition: Condition
    no: _Node
    yes: _Node


class _Unknown:
    """No event has come here yet."""


_UNKNOWN: Final = _Unknown()

_Node = _Question | Program | _Unknown | None
"""A branch of the decision: another condition, a program, or one that has not been found yet."""


class Decisions:
    """Finds the programs of partial matches.

    Args:
        automaton: the compiled pattern.
        evaluate: evaluates an event condition of which it is not known whether it holds.
        current_processing_time: the clock of iterative conditions.
    """

    def __init__(
        self, automaton: Automaton, evaluate: Evaluate | None, current_processing_time: Callable[[], int]
    ) -> None:
        self.stages = tuple(state.stage for state in automaton.states)
        self.clock = current_processing_time
        self.value_of: Callable[[Any], Any] = _same
        self.evaluate = evaluate or self._test
        self.evaluate_of_rows: EvaluateOfRows | None = None
        self._automaton = automaton
        self._bits = [_conditions_of(automaton, at) for at in range(len(automaton.states))]
        self.plans: dict[tuple[int, int, int], Plan] = {}
        self._trees: dict[tuple[int, int], _Node] = {}
        self._by_edges: dict[tuple[int, tuple[_Edge, ...]], Program | None] = {}
        self._conditions_at: dict[int, int] = {}

    # --- answers -----------------------------------------------------------------------------------------------------

    def plan(self, live: int, holds: int, unknown: int) -> Plan:
        """The effect of an event on a key with partial matches in some states, given as bits."""
        plan = self.plans.get((live, holds, unknown))
        if plan is None:
            if len(self.plans) >= _MOST_KEPT:
                self.plans.clear()
            plan = self.plans[live, holds, unknown] = self._new_plan(live, holds, unknown)
        return plan

    def conditions_at(self, states: int) -> int:
        """The event conditions that decide what becomes of partial matches in some states; both are bits."""
        bits = self._conditions_at.get(states)
        if bits is None:
            bits = 0
            for at, own in enumerate(self._bits):
                bits |= own if states >> at & 1 else 0
            self._conditions_at[states] = bits
        return bits

    def of_start(self, event: Any, timestamp: int, holds: int, unknown: int) -> Program:
        """The partial matches that begin with an event, where that depends on conditions that are not evaluated yet."""
        return self._decide(self._automaton.start, LazyFacts(self, event, timestamp, holds, unknown, None)) or ()

    def of_match(self, match: PartialMatch, event: Any, timestamp: int, holds: int, unknown: int) -> Program | None:
        """The results for a partial match, by conditions that are not evaluated yet; None if it stays as it is."""
        return self._decide(match[1], LazyFacts(self, event, timestamp, holds, unknown, match[2]))

    # --- how they are found ------------------------------------------------------------------------------------------

    def _new_plan(self, live: int, holds: int, unknown: int) -> Plan:
        table: dict[int, Program | EachMatch] = {}
        for at in range(len(self._automaton.states)):
            if live >> at & 1:
                program = self._known(at, holds, unknown)
                if program is not None:
                    table[at] = program
        return self._known(self._automaton.start, holds, unknown) or (), table

    def _known(self, at: int, holds: int, unknown: int) -> Program | EachMatch | None:
        try:
            return self._by_transitions(at, _Known(holds, unknown))
        except _NotKnownError:
            return EACH_MATCH

    def _decide(self, at: int, facts: LazyFacts) -> Program | None:
        """Follow the tree of questions; where it has not grown yet, decide by the transitions, and let it grow."""
        bits = self._bits[at]
        if facts.unknown & bits:
            return self._by_transitions(at, facts)
        root = at, facts.holds & bits
        node: _Node = self._trees.get(root, _UNKNOWN)
        while isinstance(node, _Question):
            node = node.yes if facts.answer(node.condition) else node.no
        if not isinstance(node, _Unknown):
            return node
        program = self._by_transitions(at, facts)
        self._grow(root, facts.answers(), program)
        return program

    def _grow(self, root: tuple[int, int], answers: list[tuple[Condition, bool]], program: Program | None) -> None:
        """Add the conditions that were evaluated, with their answers, to a tree."""
        if len(self._trees) >= _MOST_KEPT:
            self._trees.clear()
        leaf: _Node = program
        for condition, answer in reversed(answers):
            leaf = _Question(condition, *((_UNKNOWN, leaf) if answer else (leaf, _UNKNOWN)))
        self._trees[root] = _merged(self._trees.get(root, _UNKNOWN), leaf)

    def _test(self, event: Any, index: int) -> bool:
        return self._automaton.event_conditions[index].holds(EventFacts(event))

    def _by_transitions(self, at: int, facts: Facts) -> Program | None:
        edges = tuple(self._edges(at, facts))
        key = at, edges
        try:
            return self._by_edges[key]
        except KeyError:
            program = self._by_edges[key] = self._program(at, edges)
            return program

    def _edges(self, at: int, facts: Facts) -> list[_Edge]:
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
                    if states[transition.target].kind is StateType.FINAL:
                        return True
                    waiting.append(transition.target)
        return False

    def _program(self, at: int, edges: tuple[_Edge, ...]) -> Program | None:
        states = self._automaton.states
        is_start = states[at].kind is StateType.START
        results: list[tuple[int, int, int, bool]] = []
        is_dropped = False
        for edge, source, ends in edges:
            if edge.action is Action.IGNORE and is_start:
                continue
            kind = states[edge.target].kind
            is_dropped |= kind is StateType.STOP
            goes_on = kind not in (StateType.STOP, StateType.FINAL)
            taker = source if edge.action is Action.TAKE else -1
            is_final = ends or kind is StateType.FINAL
            results.append((taker, edge.target, 1 << edge.target, is_final) if goes_on else (taker, -1, 0, is_final))
        if is_dropped:
            results = [(taker, -1, 0, True) for taker, _, _, is_final in results if is_final]
        return None if not is_start and results == [(-1, at, 1 << at, False)] else tuple(results)


class _NotKnownError(Exception):
    """A condition does not depend on the event alone."""


class _Known(Facts):
    """The facts about an event before it meets a partial match."""

    __slots__ = ("_holds", "_unknown")

    def __init__(self, holds: int, unknown: int) -> None:
        self._holds, self._unknown = holds, unknown

    def bit(self, index: int) -> bool:
        if self._unknown >> index & 1:
            raise _NotKnownError
        return bool(self._holds >> index & 1)

    def call(self, condition: IterativeCall) -> bool:
        raise _NotKnownError

    def of_rows(self, condition: Condition) -> bool:
        raise _NotKnownError


@names_explained("ConditionContext")
class LazyFacts(Facts):
    """Evaluates conditions on demand, once for an event and a partial match; the context of iterative ones, too."""

    __slots__ = ("_answers", "_by_stage", "_decisions", "_place", "_step", "_timestamp", "event", "holds", "unknown")

    def __init__(
        self, decisions: Decisions, event: Any, timestamp: int, holds: int, unknown: int, step: Step | None
    ) -> None:
        self.holds = holds
        self.unknown = unknown
        self._decisions = decisions
        self._place = event
        self.event = decisions.value_of(event)
        self._timestamp = timestamp
        self._step = step
        self._by_stage: dict[str, list[Any]] | None = None
        self._answers: dict[Condition, bool] | None = None

    def bit(self, index: int) -> bool:
        if self.unknown >> index & 1:
            answer = self._decisions.evaluate(self._place, index)
            self.unknown &= ~(1 << index)
            self.holds |= bool(answer) << index
        return bool(self.holds >> index & 1)

    def call(self, condition: IterativeCall) -> bool:
        return self._known(condition)

    def of_rows(self, condition: Condition) -> bool:
        return self._known(condition)

    def _known(self, condition: Condition) -> bool:
        if self._answers is None:
            self._answers = {}
        answer = self._answers.get(condition)
        if answer is None:
            answer = self._answers[condition] = bool(self.answer(condition))
        return answer

    def answer(self, condition: Condition) -> object:
        """Evaluate an iterative condition; the caller keeps the answer."""
        if isinstance(condition, IterativeCall):
            return condition.function(self.event, self)
        assert self._decisions.evaluate_of_rows is not None, "such conditions come with the rows"
        return self._decisions.evaluate_of_rows(condition, self._place, self._step)

    def answers(self) -> list[tuple[Condition, bool]]:
        """The iterative conditions that were evaluated, in order, with their answers."""
        return [*(self._answers or {}).items()]

    # --- the context of iterative conditions ---

    def events(self, stage: str) -> list[Any]:
        if self._by_stage is None:
            self._by_stage = self._events_by_stage()
        return self._by_stage.get(stage, [])

    def _events_by_stage(self) -> dict[str, list[Any]]:
        stages, value_of = self._decisions.stages, self._decisions.value_of
        by_stage: dict[str, list[Any]] = {}
        step = self._step
        while step is not None:
            taker, _, event, step = step
            stage = stages[taker]
            if stage in by_stage:
                by_stage[stage].append(value_of(event))
            else:
                by_stage[stage] = [value_of(event)]
        for events in by_stage.values():
            events.reverse()
        return by_stage

    def get_events_for_pattern(self, name: str) -> list[Any]:
        return self.events(name)

    def timestamp(self) -> int:
        return self._timestamp

    def current_processing_time(self) -> int:
        return self._decisions.clock()


def _same(event: Any) -> Any:
    return event


def _merged(tree: _Node, branch: _Node) -> _Node:
    """A tree with one more branch, which has the same conditions up to there."""
    if not (isinstance(tree, _Question) and isinstance(branch, _Question)):
        return tree if branch is _UNKNOWN else branch
    return _Question(tree.condition, _merged(tree.no, branch.no), _merged(tree.yes, branch.yes))


def _conditions_of(automaton: Automaton, at: int) -> int:
    """The event conditions, as bits, that decide what becomes of a partial match."""
    ways = [way for state in automaton.proceeding(at) for way in automaton.states[state].transitions]
    ends = {state for way in ways if way.action is Action.TAKE for state in automaton.proceeding(way.target)}
    ways += [way for state in ends for way in automaton.states[state].transitions if way.action is Action.PROCEED]
    return sum({1 << leaf.index for way in ways for leaf in way.condition.leaves() if isinstance(leaf, EventBit)})
