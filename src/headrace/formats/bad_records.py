"""Records that cannot be read, whatever their format: what is told of them, and to whom."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.common.errors import BadRecordError
from headrace.common.serialization import reason_of


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


def reason_alone(error: ValueError) -> str:
    """Why something cannot be read that was alone in what Arrow was given, which counts rows from there."""
    return reason_of(error).removesuffix(" in row 0")


def shorten(data: bytes, limit: int = 1000) -> str:
    """Raw bytes as text for a message; what is not UTF-8 is shown as escapes."""
    text = data[:limit].rstrip(b"\r\n").decode("utf-8", errors="backslashreplace")
    return text + "…" if len(data) > limit else text
