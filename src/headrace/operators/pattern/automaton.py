"""The automaton of a pattern: states, and transitions that take an event, ignore it, or proceed without one.

It is made by ``headrace.cep.compiler``, pickles, and travels to the tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from headrace.operators.pattern.conditions import Condition, EventCall, IterativeCall
from headrace.operators.pattern.skip_strategies import SkipStrategy


class Action(Enum):
    """What a transition does with the event."""

    TAKE = "take"
    IGNORE = "ignore"
    PROCEED = "proceed"


class StateType(Enum):
    """What a partial match is that has come to a state."""

    START = "start"
    NORMAL = "normal"
    PENDING = "pending"
    """It is a match once the window has passed: the pattern ends with an event that must not follow."""

    STOP = "stop"
    """It has met an event that must not follow, and is dropped."""

    FINAL = "final"


@dataclass(frozen=True, slots=True)
class Transition:
    """A way out of a state.

    Attributes:
        action: what it does with the event.
        target: the index of the state that it leads to.
        condition: what the event has to satisfy.
    """

    action: Action
    target: int
    condition: Condition


@dataclass(frozen=True, slots=True)
class AutomatonState:
    """A state of the automaton.

    Attributes:
        name: its name, which no other state has: the name of the stage, and a number from the second on.
        stage: the name of the stage whose events it takes.
        kind: what it means to be there.
        transitions: the ways out, in the order in which they are tried.
        gap: milliseconds after the last event that was taken until a partial match in this state times out; 0 for none.
    """

    name: str
    stage: str
    kind: StateType
    transitions: tuple[Transition, ...]
    gap: int = 0


@dataclass(frozen=True, slots=True)
class Preference:
    """What an automaton has that finds the match that is preferred, instead of every match.

    A state of it stands behind the row that it has taken, and its transitions are in the order of preference: the match
    is the one of the first way that leads to the end. Rows directly follow one another.

    Attributes:
        rows_before: how many rows before the first one of a match are looked at.
        passed: the index of the state that stands for such rows.
        excluded: the states whose rows are not shown.
    """

    rows_before: int
    passed: int
    excluded: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Automaton:
    """A compiled pattern.

    Attributes:
        states: all states; transitions name them by their index.
        start: the index of the state in which every match begins.
        window: milliseconds after its first event until a partial match times out; 0 for none.
        skip: what happens to matches that overlap one that has been found.
        event_conditions: what is evaluated of events alone: bit ``i`` of an event says whether it satisfies that one.
        can_match_nothing: whether the pattern is satisfied by no events at all. No such match is ever emitted, unless
            it is the preferred one.
        preference: how the preferred match is found; None where every match is.
    """

    states: tuple[AutomatonState, ...]
    start: int
    window: int
    skip: SkipStrategy
    event_conditions: tuple[Condition, ...]
    can_match_nothing: bool = False
    preference: Preference | None = None

    @property
    def has_gaps(self) -> bool:
        """True if partial matches may time out because no event followed the last one for too long."""
        return any(state.gap for state in self.states)

    def proceeding(self, at: int) -> set[int]:
        """The states that are reached without an event, with the one where that begins."""
        seen: set[int] = set()
        waiting = [at]
        while waiting:
            state = waiting.pop()
            if state not in seen:
                seen.add(state)
                waiting += [way.target for way in self.states[state].transitions if way.action is Action.PROCEED]
        return seen

    def leaves(self) -> Iterator[Condition]:
        """The leaves of the conditions of all transitions, each once."""
        ways = (way for state in self.states for way in state.transitions)
        return iter(dict.fromkeys(leaf for way in ways for leaf in way.condition.leaves()))

    def with_leaves(self, by: Callable[[Condition], Condition]) -> Automaton:
        """The same automaton, with others in the places of the leaves of its conditions."""
        return self.with_transitions(lambda _, way: replace(way, condition=way.condition.with_leaves(by)))

    def with_transitions(self, by: Callable[[int, Transition], Transition]) -> Automaton:
        """The same automaton with other transitions, each made of the index of its state and the one that was there."""
        states = (
            replace(state, transitions=tuple(by(at, way) for way in state.transitions))
            for at, state in enumerate(self.states)
        )
        return replace(self, states=tuple(states))

    def iterative_calls(self) -> tuple[IterativeCall, ...]:
        """The iterative conditions that are functions, each once."""
        return tuple(leaf for leaf in self.leaves() if isinstance(leaf, IterativeCall))

    def functions(self) -> tuple[object, ...]:
        """The objects of the user that conditions call, each once."""
        leaves = [leaf for condition in self.event_conditions for leaf in condition.leaves()]
        given = [leaf.given for leaf in leaves if isinstance(leaf, EventCall)]
        given += [call.given for call in self.iterative_calls()]
        return tuple({id(each): each for each in given if each is not None}.values())
