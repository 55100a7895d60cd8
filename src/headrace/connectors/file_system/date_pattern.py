"""The part of Java's date patterns that names of folders are made of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.common.errors import InvalidProgramError

if TYPE_CHECKING:
    import datetime

_TOKEN = re.compile(r"''|'((?:[^']|'')+)'|([A-Za-z])\2*|[^A-Za-z']+")

_FIELDS = {
    "yyyy": "{0.year:04}",
    "uuuu": "{0.year:04}",
    "yy": "{0:%y}",
    "uu": "{0:%y}",
    "MM": "{0.month:02}",
    "M": "{0.month}",
    "dd": "{0.day:02}",
    "d": "{0.day}",
    "DDD": "{0:%j}",
    "HH": "{0.hour:02}",
    "H": "{0.hour}",
    "mm": "{0.minute:02}",
    "m": "{0.minute}",
    "ss": "{0.second:02}",
    "s": "{0.second}",
    "SSS": "{1:03}",
}

_STEPS = {_FIELDS["SSS"]: 1, "{0.second": 1000}


@dataclass(frozen=True, slots=True)
class DatePattern:
    """A pattern that was understood.

    Attributes:
        template: the same as a template of :meth:`str.format` for the moment and its milliseconds.
    """

    template: str

    @staticmethod
    def parse(pattern: str) -> DatePattern:
        """Understand a pattern of Java's ``DateTimeFormatter``.

        Raises:
            InvalidProgramError: naming what is not supported.
        """
        parts, position = [], 0
        while position < len(pattern):
            token = _TOKEN.match(pattern, position)
            if token is None:
                raise InvalidProgramError(f"the date pattern {pattern!r} has a quote that is not closed")
            parts.append(_template(token, pattern))
            position = token.end()
        return DatePattern("".join(parts))

    @property
    def step(self) -> int:
        """Milliseconds: from one multiple of it to the next a text is the same, in zones of whole minutes off UTC."""
        return next((step for field, step in _STEPS.items() if field in self.template), 60_000)

    def format(self, moment: datetime.datetime) -> str:
        """The moment under the pattern."""
        return self.template.format(moment, moment.microsecond // 1000)


def _template(token: re.Match[str], pattern: str) -> str:
    text = token[0]
    if text == "''":
        return "'"
    if token[1] is not None:
        return _literal(token[1].replace("''", "'"))
    if token[2] is None:
        return _literal(text)
    if text not in _FIELDS:
        known = ", ".join(_FIELDS)
        raise InvalidProgramError(f"the date pattern {pattern!r} holds {text!r}; supported are {known} and 'text'")
    return _FIELDS[text]


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
