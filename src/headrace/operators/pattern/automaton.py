"""The automaton of a pattern: states, transitions between them, and what is dropped when a match has been found.

A transition takes an event, ignores it, or proceeds without one. A skip strategy finds an event of the match that was
found: other matches, partial and finished ones, that began before it are dropped.

An automaton is made by ``headrace.cep.compiler``, pickles, and travels to the tasks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar, Self

from headrace.common.errors import JobExecutionError
from headrace.operators.pattern.conditions import Condition, EventCall, IterativeCall
from headrace.operators.pattern.shared_buffer import EventId, Step, steps_of


class SkipStrategy(ABC):
    """The strategy for matches that overlap one that has been found.

    Examples:
        >>> from headrace.cep import AfterMatchSkipStrategy
        >>> AfterMatchSkipStrategy.skip_to_last("fall").throw_exception_on_miss().stage
        'fall'
    """

    skips: ClassVar[bool] = True
    """True if it drops any: then a match waits for partial matches that began before it."""

    @property
    def named_stage(self) -> str | None:
        """The stage that it names; None for most."""
        return None

    @abstractmethod
    def find(self, last: Step, stages: Sequence[str]) -> EventId | None:
        """The event up to which matches that begin are dropped; None where none are.

        Args:
            last: the last step of the match that was found.
            stages: the stage of each state.

        Raises:
            JobExecutionError: when the match has no such event, and that is to fail the job.
        """


@dataclass(frozen=True, slots=True)
class NoSkip(SkipStrategy):
    """Every possible match is emitted, as soon as it is found."""

    skips: ClassVar[bool] = False

    def find(self, last: Step, stages: Sequence[str]) -> EventId | None:
        return None

    def __str__(self) -> str:
        return "no_skip()"


@dataclass(frozen=True, slots=True)
class SkipToNext(SkipStrategy):
    """Every match that began with the same event is dropped."""

    def find(self, last: Step, stages: Sequence[str]) -> EventId | None:
        return min(event for _, event, _, _ in steps_of(last))

    def __str__(self) -> str:
        return "skip_to_next()"


@dataclass(frozen=True, slots=True)
class SkipPastLastEvent(SkipStrategy):
    """Every match that began before the match ended is dropped."""

    def find(self, last: Step, stages: Sequence[str]) -> EventId | None:
        _, latest, _, step = last  # as a rule, but time may have gone back
        while step is not None:
            _, event, _, step = step
            latest = max(latest, event)
        return latest

    def __str__(self) -> str:
        return "skip_past_last_event()"


@dataclass(frozen=True, slots=True)
class SkipToStage(SkipStrategy):
    """Every match that began before an event of a stage is dropped.

    Attributes:
        stage: the name of the stage.
        is_last: whether the last event of the stage is meant, or the first.
        fails_on_miss: whether a match without such an event, or that begins with it, fails the job.
        parts: the stages that the name stands for, where it is not that of a stage.
    """

    stage: str
    is_last: bool = False
    fails_on_miss: bool = False
    parts: tuple[str, ...] = ()

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages whose events are meant."""
        return self.parts or (self.stage,)

    @property
    def named_stage(self) -> str | None:
        return None if self.parts else self.stage

    def throw_exception_on_miss(self) -> Self:
        """The same, which fails the job when a match has no event of the stage, or begins with it."""
        return replace(self, fails_on_miss=True)

    def find(self, last: Step, stages: Sequence[str]) -> EventId | None:
        wanted = self.stages
        events = [event for taker, event, _, _ in steps_of(last) if stages[taker] in wanted]
        if not events:
            if self.fails_on_miss:
                raise self.missing(reversed([stages[taker] for taker, _, _, _ in steps_of(last)]))
            return None
        found = events[0 if self.is_last else -1]
        if self.fails_on_miss and found == min(event for _, event, _, _ in steps_of(last)):
            raise self.endless()
        return found[0], found[1] - 1

    def missing(self, taken: Iterable[str]) -> JobExecutionError:
        """The error of a match that has no event of the stage, but of others."""
        shown = ", ".join(dict.fromkeys(taken))
        return JobExecutionError(
            f"Could not skip to {self.stage}. No such element in the found match, which has events of {shown}"
        )

    def endless(self) -> JobExecutionError:
        """The error of a match that begins with the event to skip to."""
        return JobExecutionError(
            f"Could not skip to first element of a match. The match begins with the event of {self.stage} to skip "
            "to, and would be found again without end: skip to another stage, to the next event or past the last"
        )

    def __str__(self) -> str:
        return f"skip_to_{'last' if self.is_last else 'first'}({self.stage!r})"


class Action(Enum):
    """The action of a transition on the event."""

    TAKE = "take"
    IGNORE = "ignore"
    PROCEED = "proceed"


class StateType(Enum):
    """The outcome for a partial match that has come to a state."""

    START = "start"
    NORMAL = "normal"
    PENDING = "pending"
    """It becomes a match once the window has passed: the pattern ends with an event that must not follow."""

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
    """The additions to an automaton that finds the preferred match instead of every match.

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
        event_conditions: what is evaluated of events alone: bit ``i`` of an event is set if it satisfies that one.
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
