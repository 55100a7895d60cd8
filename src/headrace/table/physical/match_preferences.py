"""Patterns of ``MATCH_RECOGNIZE`` that go beyond Flink's: automatons that find the match that is preferred.

A pattern becomes a program of a few instructions, in which each way to go on stands before those that are preferred
less. From that the states are made: one for each place of the pattern that takes a row, with the places that may take
the next one in the order of preference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.operators.pattern.automaton import (
    Action,
    Automaton,
    AutomatonState,
    Preference,
    SkipStrategy,
    StateType,
    Transition,
)
from headrace.operators.pattern.conditions import ALWAYS, Condition, EventBit
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.match import MatchClauses, PatternExclusion, PatternGroup, PatternQuantity

RowPattern = str | PatternGroup | PatternQuantity | PatternExclusion

_MOST_STATES: Final = 1 << 15
"""State has the numbers of states in 16 bits."""

_START, _END, _PASSED, _FIRST = range(4)


@dataclass(frozen=True, slots=True)
class _Take:
    """Takes a row."""

    state: int


@dataclass(slots=True)
class _Choice:
    """Goes on at one of two places; the first is preferred."""

    preferred: int = 0
    other: int = 0


@dataclass(slots=True)
class _Jump:
    """Goes on somewhere else."""

    target: int = 0


@dataclass(frozen=True, slots=True)
class _Enter:
    """Begins a round that need not be."""

    round: int


@dataclass(frozen=True, slots=True)
class _Leave:
    """Ends a round that need not be; one without rows is no way to go on."""

    round: int


_Instruction = _Take | _Choice | _Jump | _Enter | _Leave


def preferred_automaton(
    clauses: MatchClauses, conditions: Mapping[str, Condition], window: int, skip: SkipStrategy
) -> Automaton:
    """The automaton that finds the preferred match.

    Args:
        clauses: the clauses.
        conditions: what a row has to satisfy to be mapped to a variable; any does where there is none.
        window: the time that a match does not reach, in milliseconds; 0 for any.
        skip: where the search goes on.

    Raises:
        PlanningError: when the pattern has too many states.
    """
    program = _Program()
    program.add(clauses.pattern)
    bits = _Bits({name: conditions.get(name, ALWAYS) for name in dict.fromkeys(program.variables)})
    ways = [program.ways(0), *(program.ways(place + 1) for place in program.places)]
    made = [
        tuple(
            Transition(Action.PROCEED, _END, ALWAYS)
            if target == _END
            else Transition(Action.TAKE, target, bits.conditions[program.variables[target - _FIRST]])
            for target in each
        )
        for each in ways
    ]
    states = [
        AutomatonState("$start", "", StateType.START, made[0]),
        AutomatonState("$end", "", StateType.FINAL, ()),
        AutomatonState("$passed", "", StateType.NORMAL, ()),
    ]
    for number, (variable, out) in enumerate(zip(program.variables, made[1:], strict=True)):
        states.append(AutomatonState(f"{variable}\0{number}", variable, StateType.NORMAL, out))
    preference = Preference(clauses.rows_before, _PASSED, frozenset(program.excluded))
    can_match_nothing = any(way.target == _END for way in made[0])
    return Automaton(tuple(states), _START, window, skip, tuple(bits.of_events), can_match_nothing, preference)


class _Bits:
    """The conditions of variables, in which what looks at the row alone is a bit.

    Attributes:
        conditions: those of variables.
        of_events: what the bits stand for.
    """

    def __init__(self, conditions: Mapping[str, Condition]) -> None:
        self.of_events: list[Condition] = []
        self.conditions = {name: self._lifted(condition) for name, condition in conditions.items()}

    def _lifted(self, condition: Condition) -> Condition:
        if condition is ALWAYS:
            return condition
        if condition.looks_at_event_alone:
            self.of_events.append(condition)
            return EventBit(len(self.of_events) - 1)
        parts = condition.parts()
        return type(condition)(*map(self._lifted, parts)) if parts else condition


class _Program:
    """The instructions of a pattern.

    Attributes:
        variables: the variable of each state that takes rows.
        places: the instruction of each of them.
        excluded: the states whose rows are not shown.
    """

    def __init__(self) -> None:
        self.variables: list[str] = []
        self.places: list[int] = []
        self.excluded: set[int] = set()
        self._instructions: list[_Instruction] = []
        self._rounds = 0
        self._exclusions = 0

    # --- from patterns -----------------------------------------------------------------------------------------------

    def add(self, pattern: RowPattern) -> None:
        """Add the instructions of a pattern, behind those that are there."""
        match pattern:
            case str():
                self._take(pattern)
            case PatternExclusion(part):
                self._exclusions += 1
                self.add(part)
                self._exclusions -= 1
            case PatternQuantity():
                self._repeat(pattern)
            case PatternGroup(parts, is_alternatives):
                if is_alternatives:
                    self._add_alternatives(parts)
                else:
                    for part in parts:
                        self.add(part)

    def _take(self, variable: str) -> None:
        state = _FIRST + len(self.variables)
        if state == _MOST_STATES:
            raise PlanningError(f"the pattern has more than {_MOST_STATES} states: repeat its variables less often")
        self.variables.append(variable)
        self.places.append(len(self._instructions))
        if self._exclusions:
            self.excluded.add(state)
        self._instructions.append(_Take(state))

    def _add_alternatives(self, parts: Sequence[RowPattern]) -> None:
        ends: list[_Jump] = []
        for part in parts[:-1]:
            choice = self._choice(is_reluctant=False)
            self.add(part)
            ends.append(_Jump())
            self._instructions.append(ends[-1])
            choice.other = len(self._instructions)
        self.add(parts[-1])
        for end in ends:
            end.target = len(self._instructions)

    def _repeat(self, quantity: PatternQuantity) -> None:
        part, least, most = quantity.part, quantity.least, quantity.most
        if most is None and least and isinstance(part, str):
            for _ in range(least - 1):
                self.add(part)
            self._loop_behind(part, is_reluctant=quantity.is_reluctant)
            return
        for _ in range(least):
            self.add(part)
        if most is None:
            head = len(self._instructions)
            choice = self._choice(is_reluctant=quantity.is_reluctant)
            self._round(part)
            self._instructions.append(_Jump(head))
            self._set_exits([choice], is_reluctant=quantity.is_reluctant)
            return
        choices = []
        for _ in range(most - least):
            choices.append(self._choice(is_reluctant=quantity.is_reluctant))
            self._round(part)
        self._set_exits(choices, is_reluctant=quantity.is_reluctant)

    def _loop_behind(self, variable: str, *, is_reluctant: bool) -> None:
        """Add a variable that takes one row or more, in a single state."""
        head = len(self._instructions)
        self._take(variable)
        behind = len(self._instructions) + 1
        self._instructions.append(_Choice(behind, head) if is_reluctant else _Choice(head, behind))

    def _choice(self, *, is_reluctant: bool) -> _Choice:
        """Add a choice between the next instruction and another one, which is not known yet."""
        behind = len(self._instructions) + 1
        choice = _Choice(0, behind) if is_reluctant else _Choice(behind, 0)
        self._instructions.append(choice)
        return choice

    def _set_exits(self, choices: Sequence[_Choice], *, is_reluctant: bool) -> None:
        here = len(self._instructions)
        for choice in choices:
            if is_reluctant:
                choice.preferred = here
            else:
                choice.other = here

    def _round(self, part: RowPattern) -> None:
        self._rounds += 1
        number = self._rounds
        self._instructions.append(_Enter(number))
        self.add(part)
        self._instructions.append(_Leave(number))

    # --- to states ---------------------------------------------------------------------------------------------------

    def ways(self, place: int) -> list[int]:
        """The states that may take the next row when an instruction is the next one, in the order of preference.

        The end is the last of them where the match may end; what is preferred less than the end is never chosen.
        """
        found: dict[int, None] = {}
        nothing: frozenset[int] = frozenset()
        seen: set[tuple[int, frozenset[int]]] = set()
        waiting = [(place, nothing)]
        while waiting:
            at, entered = waiting.pop()
            if (at, entered) in seen:
                continue
            seen.add((at, entered))
            if at == len(self._instructions):
                found[_END] = None
                break
            match self._instructions[at]:
                case _Take(state):
                    found.setdefault(state)
                case _Choice(preferred, other):
                    waiting += [(other, entered), (preferred, entered)]
                case _Jump(target):
                    waiting.append((target, entered))
                case _Enter(number):
                    waiting.append((at + 1, entered | {number}))
                case _Leave(number):
                    if number not in entered:
                        waiting.append((at + 1, entered))
        return list(found)
