"""Records that cannot be read, whatever their format: what is told of them, and to whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headrace.common.columns import layout_of
from headrace.common.errors import BadRecordError
from headrace.common.serialization import DeserializedBatch, reason_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.common.typeinfo import TypeInformation

_SHOWN: Final = 200
"""Characters of a bad value that a reason shows."""


class BadValueError(ValueError):
    """A value of a record does not fit its field. Its text is the reason: which field, which value, what was expected.

    Args:
        value: the value, as the format spells it.
        expected: what it should be, as ``a whole number from 0 to 9``.
        path: the field; within nested records, lists and maps ``order.items[2].price``.
    """

    def __init__(self, value: str, expected: str, path: str = "") -> None:
        super().__init__(value, expected, path)
        self.value = value
        self.expected = expected
        self.path = path

    def inside(self, segment: str) -> BadValueError:
        """The same, seen from the record, or the list, in which the value is.

        Args:
            segment: the name of the field, or the place in brackets.
        """
        separator = "." if self.path and not self.path.startswith("[") else ""
        return BadValueError(self.value, self.expected, f"{segment}{separator}{self.path}")

    def __str__(self) -> str:
        shown = self.value if len(self.value) <= _SHOWN else f"{self.value[:_SHOWN]}..."
        text = f"{f'field {self.path!r}: ' if self.path else ''}{shown} is not {self.expected}"
        return text.encode("utf-8", errors="backslashreplace").decode()  # there may be lone surrogates in it


@dataclass(frozen=True, slots=True)
class BadRecords:
    """What becomes of records that cannot be read: they are dead letters, or the first one is an error.

    Attributes:
        reject: whether there is an output for dead letters.
        what: what a record is called.
        way_out: what to do to go on without such records, as a command.
    """

    reject: bool
    what: str
    way_out: str

    def letter(self, where: str, raw: bytes, reason: str, hint: str = "") -> tuple[str, str, str]:
        """What to hand over about one of them: where it is, what it is, and why it cannot be read.

        Raises:
            BadRecordError: where there is no output for it, with the hint as well.
        """
        if not self.reject:
            raise BadRecordError(
                f"{where}: {reason}; the {self.what} is {shorten(raw)!r}{hint}. To go on without such {self.what}s, "
                f"{self.way_out}"
            )
        return where, shorten(raw), reason


def refuse_unreadable(columns: pa.RecordBatch, kind: TypeInformation) -> None:
    """Refuse records of which no values can be made, as what was read says more than Python can hold.

    Raises:
        ValueError: for the first of them.
    """
    for _, reason in unreadable(columns, kind):
        raise ValueError(reason)


def unreadable(columns: pa.RecordBatch, kind: TypeInformation) -> list[tuple[int, str]]:
    """The records, by rising index, of which no values can be made, with the reasons."""
    return [
        (index, reason.removeprefix(", ").removeprefix(": ")) for index, reason in layout_of(kind).unreadable(columns)
    ]


def without(columns: pa.RecordBatch, indices: Sequence[int]) -> pa.RecordBatch:
    """The records that are not at some places."""
    if not indices:
        return columns
    good = np.ones(len(columns), np.bool_)
    good[list(indices)] = False
    return columns.filter(pa.array(good))


def without_unreadable(read: DeserializedBatch, kind: TypeInformation) -> DeserializedBatch:
    """What was read, without messages of which a record is unreadable: these are bad ones."""
    found = [] if read.columns is None else unreadable(read.columns, kind)
    if read.columns is None or not found:
        return read
    messages = np.arange(len(read), dtype=np.int64) if read.messages is None else read.messages
    bad = {int(messages[index]): reason for index, reason in reversed(found)}
    good = np.isin(messages, list(bad), invert=True)
    rejected = sorted([*read.rejected, *bad.items()])
    return DeserializedBatch(read.columns.filter(pa.array(good)), messages=messages[good], rejected=rejected)


def reason_alone(error: ValueError) -> str:
    """Why something cannot be read that was alone in what Arrow was given, which counts rows from there."""
    return reason_of(error).removesuffix(" in row 0")


def inside_field(name: str, reason: str) -> str:
    """A reason, seen from the record that has the field which it is about: ``field 'order.price': ...``."""
    inner = reason.removeprefix("field '")
    return f"field {name!r}: {reason}" if inner == reason else f"field '{name}.{inner}"


def shorten(data: bytes, limit: int = 1000) -> str:
    """Raw bytes as text for a message; what is not UTF-8 is shown as escapes."""
    text = data[:limit].rstrip(b"\r\n").decode("utf-8", errors="backslashreplace")
    return text + "…" if len(data) > limit else text
