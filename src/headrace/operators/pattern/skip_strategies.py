"""Skip strategies: which other matches are dropped when one has been found.

A strategy finds an event of the match that was found: other matches, partial and finished ones, that began before it
are dropped. Events are compared by their ids, a timestamp and a number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from headrace.common.errors import JobExecutionError
from headrace.operators.pattern.matches import EventId, Step, steps_of


class SkipStrategy(ABC):
    """What happens to matches that overlap one that has been found.

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
