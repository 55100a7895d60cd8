"""Partial matches of one key, finished ones that wait, and matches as functions see them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace.operators.pattern.steps import EventId, Step

PartialMatch = tuple[EventId, int, Step]
"""The id of its first event, the index of the state that it is in, and its last step."""

FinishedMatch = tuple[EventId, Step]
"""The id of its first event, and its last step."""


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
    """

    partial: list[PartialMatch] = field(default_factory=list)
    finished: list[FinishedMatch] = field(default_factory=list)
    is_changed: bool = False
    has_new_start: bool = False
    live: int = 0
    next_number: int = 0

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to store."""
        return not (self.partial or self.finished)


@dataclass(frozen=True, slots=True)
class Match:
    """The events of a match, or of one that timed out.

    Attributes:
        path: the stages and the events that they took, in the order in which the events were taken.
    """

    path: tuple[tuple[str, Any], ...]

    def by_stage(self) -> dict[str, list[Any]]:
        """The events of each stage, the stages in the order of their first events."""
        stages: dict[str, list[Any]] = {}
        for stage, event in self.path:
            stages.setdefault(stage, []).append(event)
        return stages


@dataclass(frozen=True, slots=True)
class TimedOutMatch:
    """A partial match that no event can complete any more.

    Attributes:
        match: what it had taken.
        timestamp: its deadline.
    """

    match: Match
    timestamp: int


@dataclass(frozen=True, slots=True)
class TimeAdvance:
    """What came of an advance of time.

    Attributes:
        matches: matches that were complete but for the time, and those that waited for partial matches now gone.
        timed_out: partial matches that have timed out.
    """

    matches: list[Match]
    timed_out: list[TimedOutMatch]
