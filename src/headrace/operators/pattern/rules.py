"""Rules: patterns that are added, changed and withdrawn while a job runs; and what reads them from a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from headrace.operators.pattern.automaton import Automaton


@dataclass(frozen=True, slots=True)
class RuleChange:
    """A record of the stream of rules.

    Attributes:
        id: the id of the rule.
        version: the version in the record; None without one.
        pattern: the pattern as JSON; or, where it has functions of the user, pickled. None withdraws the rule.
    """

    id: str
    version: int | None
    pattern: str | bytes | None


@dataclass(frozen=True, slots=True)
class RuleVersion:
    """A version of a rule.

    Attributes:
        id: the id of the rule.
        version: the version.
        number: the number of its stores, which no other version of any rule has meanwhile.
    """

    id: str
    version: int
    number: int

    def __str__(self) -> str:
        return f"rule {self.id!r}, version {self.version}"


class RuleReader(Protocol):
    """Reads rules; it travels to the tasks."""

    def read(self, record: Any) -> RuleChange:
        """Parse a record.

        Raises:
            Exception: when it holds no rule; the error gives the reason.
        """

    def compile(self, pattern: str | bytes) -> Automaton:
        """Return a pattern as it is at work.

        Raises:
            Exception: when it is no pattern for the events; the error gives the reason.
        """

    def text_of(self, record: Any) -> str:
        """A record as errors show it to the user who has to correct it."""


@dataclass(frozen=True, slots=True)
class RejectedRule:
    """A record of the stream of rules that changes nothing.

    Attributes:
        time: the time from which on it was to hold.
        text: the record.
        reason: the reason.
    """

    time: int
    text: str
    reason: str
