"""Iterative expressions that need not be asked for each partial match, since all in a state read the same rows.

Where the stages of a pattern directly follow one another, the last event that a partial match has taken is the event of
the key before the current one. ``col("price") < last("fall").price`` is then a condition on these two events, whatever
partial matches there are: it is computed as a column, and the automaton knows it as a bit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.operators.pattern.automaton import Action, Automaton, StateType, Transition
from headrace.operators.pattern.conditions import Condition, EventBit, Facts
from headrace.operators.pattern.matched_rows import AggregateOfMatch, RowOfMatch, ValueOfMatch
from headrace.operators.pattern.row_conditions import Reach, RowCondition, RowTable, Shape

_STANDING: Final = (StateType.START, StateType.NORMAL, StateType.PENDING)
"""The kinds of states in which a partial match meets an event, or in which it begins."""

_NOTHING: Final[Reach] = range(0)
_CURRENT: Final[Reach] = range(1)
_BEFORE: Final[Reach] = range(1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class LaggedCondition(Condition):
    """A condition over an event and the one of its key before that.

    Attributes:
        condition: the condition.
        shape: the rows that it reads.
    """

    condition: RowCondition
    shape: Shape

    @property
    def looks_back(self) -> bool:
        """Return whether it reads the event before."""
        return any(reach == _BEFORE for reach in self.shape)

    def of_events(self, columns: pa.RecordBatch, clock: int) -> npt.NDArray[np.bool_]:
        """Return whether each of some events satisfies it, where it does not look back.

        Raises:
            EvaluationError: when there is no value for one of them.
        """
        rows = np.arange(columns.num_rows)
        return self.condition.holds_for(RowTable(columns, rows, clock), rows, self.shape)

    def holds(self, facts: Facts) -> bool:
        return facts.of_rows(self)

    def __str__(self) -> str:
        return str(self.condition)


def with_lags(automaton: Automaton) -> Automaton:
    """The same automaton, in which bits stand for iterative expressions wherever these read the same rows."""
    if automaton.preference is not None or not any(isinstance(leaf, RowCondition) for leaf in automaton.leaves()):
        return automaton
    return _Lags(automaton).automaton()


class _Lags:
    """What can be said of the events that partial matches have taken that are in a state.

    Args:
        automaton: the automaton.
    """

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self._stages = [state.stage for state in automaton.states]
        self._moves: list[tuple[int, int, Transition]] = []
        self._standing = self._reached()
        self._taken = self._taken_stages()
        self._bits: dict[tuple[RowCondition, Shape], int] = {}

    def automaton(self) -> Automaton:
        """The automaton with bits."""
        made = self._automaton.with_transitions(self._with_bits)
        lagged = tuple(LaggedCondition(condition, shape) for condition, shape in self._bits)
        return replace(made, event_conditions=(*self._automaton.event_conditions, *lagged))

    def _reached(self) -> list[int]:
        """The states in which partial matches may be, whose moves are noted; others are passed without an event."""
        reached: set[int] = set()
        waiting = [self._automaton.start]
        while waiting:
            at = waiting.pop()
            if at not in reached and self._automaton.states[at].kind in _STANDING:
                reached.add(at)
                moves = [(at, source, way) for source, way in self._ways(at)]
                self._moves += moves
                waiting += [way.target for _, _, way in moves]
        return sorted(reached)

    def _ways(self, at: int) -> list[tuple[int, Transition]]:
        """The transitions of a partial match in a state that take an event or ignore one, with where they begin."""
        states = self._automaton.states
        ways = [(source, way) for source in self._automaton.proceeding(at) for way in states[source].transitions]
        return [(source, way) for source, way in ways if way.action is not Action.PROCEED]

    def _taken_stages(self) -> list[set[str]]:
        """For each state the stages that may have taken an event before a partial match comes there."""
        taken: list[set[str]] = [set() for _ in self._stages]
        is_done = False
        while not is_done:
            is_done = True
            for at, source, way in self._moves:
                stages = taken[at] | ({self._stages[source]} if way.action is Action.TAKE else set())
                if not stages <= taken[way.target]:
                    taken[way.target] |= stages
                    is_done = False
        return taken

    def _with_bits(self, at: int, way: Transition) -> Transition:
        met_by = self._met_by(at, way)

        def lagged(leaf: Condition) -> Condition:
            if not isinstance(leaf, RowCondition) or not met_by:
                return leaf
            shapes = [self._shape(leaf, standing) for standing in met_by]
            shape = shapes[0]
            if shape is None or any(other != shape for other in shapes):
                return leaf
            index = self._bits.setdefault((leaf, shape), len(self._bits))
            return EventBit(len(self._automaton.event_conditions) + index)

        return replace(way, condition=way.condition.with_leaves(lagged))

    def _met_by(self, at: int, way: Transition) -> list[int]:
        """The states in which partial matches are that meet the condition of a transition.

        They also do when one of their own leads to where the pattern can end without a further event.
        """
        automaton = self._automaton
        met = {standing for standing in self._standing if at in automaton.proceeding(standing)}
        if way.action is Action.PROCEED:
            takes = ((standing, each) for standing, _, each in self._moves if each.action is Action.TAKE)
            met |= {standing for standing, each in takes if at in automaton.proceeding(each.target)}
        return sorted(met)

    def _shape(self, condition: RowCondition, at: int) -> Shape | None:
        """The rows that a condition reads for all partial matches in a state; None where they differ."""
        shape: list[Reach] = []
        for value in condition.expressions.values:
            reach = self._reach(condition, value, at)
            if reach is None:
                return None
            shape.append(reach)
        return tuple(shape)

    def _reach(self, condition: RowCondition, value: ValueOfMatch, at: int) -> Reach | None:
        if not isinstance(value, RowOfMatch | AggregateOfMatch):
            return _NOTHING
        names, has_current = {*condition.names_of(value)}, condition.has_current(value)
        has_taken = bool(names & self._taken[at])
        if isinstance(value, RowOfMatch):
            taken_by = names if has_taken else set()
            return None if value.physical else self._reach_of_row(value, at, taken_by, has_current=has_current)
        return None if has_taken else _CURRENT if has_current else _NOTHING

    def _reach_of_row(self, value: RowOfMatch, at: int, taken_by: set[str], *, has_current: bool) -> Reach | None:
        back = value.offset - has_current
        if not taken_by:
            return _CURRENT if has_current and not value.offset else _NOTHING
        if value.is_first:
            return _BEFORE if not value.offset and self._is_before(at, taken_by, is_only=True) else None
        if back < 0:
            return _CURRENT
        return _BEFORE if not back and self._is_before(at, taken_by, is_only=False) else None

    def _is_before(self, at: int, names: set[str], *, is_only: bool) -> bool:
        """Return whether some stages have taken the event before the current one; whether it is their only one."""
        for standing, source, way in self._moves:
            if way.target != at:
                continue
            if way.action is Action.IGNORE:
                if self._automaton.states[standing].kind is StateType.START:
                    continue  # a match begins with the event that it takes
                return False
            if self._stages[source] not in names or (is_only and names & self._taken[standing]):
                return False
        return True
