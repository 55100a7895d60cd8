"""Skip strategies: which other matches are dropped when one has been found.

A strategy names an event of the match that was found; partial and finished matches that begin before it are dropped,
or at it as well. Events are compared by their ids, a timestamp and a number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from headrace.common.errors import JobExecutionError

EventId = tuple[int, int]
"""The timestamp of an event, and a number that grows with the events of a key that partial matches take."""

Taken = tuple[str, EventId]
"""The stage that took an event, and the event."""


class SkipStrategy(ABC):
    """What happens to matches that overlap one that has been found."""

    skips: ClassVar[bool] = True
    """Whether it drops any: then a match waits for partial matches that began before it."""

    drops_the_event: ClassVar[bool] = True
    """Whether matches that begin at the event are dropped, or only those that begin before it."""

    @property
    def named_stage(self) -> str | None:
        """The stage that it names; None for most."""
        return None

    @abstractmethod
    def find(self, path: Sequence[Taken]) -> EventId | None:
        """The event that decides which matches are dropped; None where none are.

        Args:
            path: what the match that was found has taken, in order.

        Raises:
            JobExecutionError: when the match has none, and that is to fail the job.
        """


@dataclass(frozen=True, slots=True)
class NoSkip(SkipStrategy):
    """Every possible match is emitted, as soon as it is found."""

    skips: ClassVar[bool] = False

    def find(self, path: Sequence[Taken]) -> EventId | None:
        return None

    def __str__(self) -> str:
        return "no_skip()"


@dataclass(frozen=True, slots=True)
class SkipToNext(SkipStrategy):
    """Every match that began with the same event is dropped."""

    def find(self, path: Sequence[Taken]) -> EventId | None:
        return min(event for _, event in path)

    def __str__(self) -> str:
        return "skip_to_next()"


@dataclass(frozen=True, slots=True)
class SkipPastLastEvent(SkipStrategy):
    """Every match that began before the match ended is dropped."""

    def find(self, path: Sequence[Taken]) -> EventId | None:
        return max(event for _, event in path)

    def __str__(self) -> str:
        return "skip_past_last_event()"


@dataclass(frozen=True, slots=True)
class SkipToStage(SkipStrategy):
    """Every match that began before an event of a stage is dropped.

    Attributes:
        stage: the name of the stage.
        is_last: whether the last event of the stage is meant, or the first.
        fails_on_miss: whether a match without such an event, or that begins with it, fails the job.
    """

    drops_the_event: ClassVar[bool] = False

    stage: str
    is_last: bool = False
    fails_on_miss: bool = False

    @property
    def named_stage(self) -> str | None:
        return self.stage

    def throw_exception_on_miss(self) -> Self:
        """The same, which fails the job when a match has no event of the stage, or begins with it."""
        return replace(self, fails_on_miss=True)

    def find(self, path: Sequence[Taken]) -> EventId | None:
        events = [event for stage, event in path if stage == self.stage]
        found = events[-1 if self.is_last else 0] if events else None
        if self.fails_on_miss and found is None:
            stages = ", ".join(dict.fromkeys(stage for stage, _ in path))
            raise JobExecutionError(
                f"Could not skip to {self.stage}. No such element in the found match, which has taken events for "
                f"{stages}"
            )
        if self.fails_on_miss and found == min(event for _, event in path):
            raise JobExecutionError("Could not skip to first element of a match.")
        return found

    def __str__(self) -> str:
        return f"skip_to_{'last' if self.is_last else 'first'}({self.stage!r})"
