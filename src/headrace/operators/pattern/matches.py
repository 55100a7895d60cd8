"""Partial matches of one key as chains of steps, finished ones that wait, and matches as functions see them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

EventId = tuple[int, int]
"""The timestamp of an event, and a number that grows with the events of a key that partial matches take."""

Step = tuple[int, EventId, Any, Optional["Step"]]
"""An event that was taken: the index of the state that took it, its id, the event, and the step before.

Partial matches that go on from the same events share them, so one costs what is new in it.
"""

PartialMatch = tuple[EventId, int, Step]
"""The id of its first event, the index of the state that it is in, and its last step."""

FinishedMatch = tuple[EventId, Step]
"""The id of its first event, and its last step."""


@dataclass(frozen=True, slots=True)
class KnownRows:
    """The rows that a key has in state; where nothing of them changes, they have not been read.

    Attributes:
        next_row: the number that the next row gets.
        is_part: whether the key has others, which nothing changes.
        columns: the columns of the rows.
        steps: the step of each row.
        standing: the match that stands at each row; None for none.
    """

    next_row: int
    columns: Sequence[list[int]] = ()
    steps: Sequence[Step] = ()
    standing: Sequence[PartialMatch | FinishedMatch | None] = ()
    is_part: bool = False


@dataclass(slots=True)
class NfaState:
    """What the automaton knows of one key.

    Attributes:
        partial: the partial matches, by their first events, those with one first event in the order of Flink's heap.
            The start state is not among them.
        finished: matches that wait for partial ones that began before them, as the array of Flink's heap.
        is_changed: whether it differs from what was last stored; whoever stores it sets this back.
        has_new_start: whether a match has begun, at a positive timestamp, since this was last set back.
        live: a bit for each state that partial matches are in; there may be more.
        next_number: what the id of the next event that is taken gets.
        known: the rows that the key has in state; None where it has none.
    """

    partial: list[PartialMatch] = field(default_factory=list)
    finished: list[FinishedMatch] = field(default_factory=list)
    is_changed: bool = False
    has_new_start: bool = False
    live: int = 0
    next_number: int = 0
    known: KnownRows | None = None

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to store."""
        return not (self.partial or self.finished)


@dataclass(slots=True)  # one that is frozen takes twice as long to make
class MatchedEvents:
    """The events of a match, or of one that timed out.

    Attributes:
        path: the stages and the events that they took, in the order in which the events were taken.
    """

    path: tuple[tuple[str, Any], ...]

    def by_stage(self, values: Mapping[Any, Any] | None = None) -> dict[str, list[Any]]:
        """The events of each stage, the stages in the order of their first events.

        Args:
            values: what stands for each event; by default it is the event itself.
        """
        stages: dict[str, list[Any]] = {}
        for stage, event in self.path:
            value = event if values is None else values[event]
            known = stages.get(stage)
            if known is None:
                stages[stage] = [value]
            else:
                known.append(value)
        return stages


@dataclass(slots=True)
class PreferredMatch(MatchedEvents):
    """The match that a pattern prefers among those that begin with a row; it may have no rows.

    Attributes:
        begins_with: the row with which it begins.
        before: the rows before that, as far as they are looked at.
        excluded: the places in ``path`` of rows that are not shown.
    """

    begins_with: Any
    before: tuple[Any, ...] = ()
    excluded: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TimedOutMatch:
    """A partial match that no event can complete any more.

    Attributes:
        match: what it had taken.
        timestamp: its deadline.
    """

    match: MatchedEvents
    timestamp: int


@dataclass(frozen=True, slots=True)
class TimeAdvance:
    """What came of an advance of time.

    Attributes:
        matches: matches that were complete but for the time, and those that waited for partial matches now gone.
        timed_out: partial matches that have timed out.
    """

    matches: list[MatchedEvents]
    timed_out: list[TimedOutMatch]


def steps_of(step: Step | None) -> Iterator[Step]:
    """The steps of a match, from its last one back."""
    while step is not None:
        yield step
        step = step[3]
