"""From where tables are read in place of what their options say: the position that a materialized table begins with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_NOW: Final = "now "
_EXPECTED: Final = "a time in milliseconds, or 'now' and one: 'now 1767268800000'"


@dataclass(frozen=True, slots=True)
class StartPosition:
    """The first rows that are read.

    Attributes:
        since: the time of the first of them, in milliseconds.
        is_now: whether that is the present, so that a table without times begins with what comes next.
    """

    since: int
    is_now: bool = False

    @classmethod
    def parse(cls, text: str) -> StartPosition:
        """Read a position as ``str`` writes it.

        Raises:
            ValueError: when it is none, with what is expected.
        """
        millis = text.removeprefix(_NOW).strip()
        if not millis.isdecimal():
            raise ValueError(_EXPECTED)
        return cls(int(millis), text.startswith(_NOW))

    def __str__(self) -> str:
        return f"{_NOW if self.is_now else ''}{self.since}"
