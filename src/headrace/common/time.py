"""Lengths of time and points in time, under PyFlink's names."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Final

from headrace.common.errors import InvalidTypeError, refused
from headrace.common.public_module import public_module

__all__ = ["Duration", "Instant", "Time"]

NANOS_PER_MILLI: Final = 1_000_000
NANOS_PER_SECOND: Final = 1_000_000_000
_MILLISECOND: Final = datetime.timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """An amount of time, to the nanosecond.

    Examples:
        >>> from headrace.common import Duration
        >>> Duration.of_minutes(2) > Duration.of_seconds(90)
        True
        >>> Duration.of_seconds(5).to_millis()
        5000
    """

    nanos: int

    @staticmethod
    def of_days(days: int) -> Duration:
        """A duration of ``days`` days of 24 hours."""
        return Duration.of_hours(days * 24)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """A duration of ``hours`` hours."""
        return Duration.of_minutes(hours * 60)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """A duration of ``minutes`` minutes."""
        return Duration.of_seconds(minutes * 60)

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        """A duration of ``seconds`` seconds."""
        return Duration(seconds * NANOS_PER_SECOND)

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """A duration of ``millis`` milliseconds."""
        return Duration(millis * NANOS_PER_MILLI)

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        """A duration of ``nanos`` nanoseconds."""
        return Duration(nanos)

    def to_millis(self) -> int:
        """The whole milliseconds in it, rounded towards the past as Java does."""
        return self.nanos // NANOS_PER_MILLI

    def __str__(self) -> str:
        return f"{self.nanos / NANOS_PER_SECOND:g} s"


@dataclass(frozen=True, slots=True, order=True)
class Time:
    """A time interval in milliseconds, as windows take it.

    Examples:
        >>> from headrace.common import Time
        >>> Time.minutes(1).to_milliseconds()
        60000
    """

    _milliseconds: int

    def to_milliseconds(self) -> int:
        """Its length in milliseconds."""
        return self._milliseconds

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        """A time of ``milliseconds`` milliseconds."""
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        """A time of ``seconds`` seconds."""
        return Time(seconds * 1000)

    @staticmethod
    def minutes(minutes: int) -> Time:
        """A time of ``minutes`` minutes."""
        return Time(minutes * 60_000)

    @staticmethod
    def hours(hours: int) -> Time:
        """A time of ``hours`` hours."""
        return Time(hours * 3_600_000)

    @staticmethod
    def days(days: int) -> Time:
        """A time of ``days`` days of 24 hours."""
        return Time(days * 86_400_000)

    def __str__(self) -> str:
        return f"{self._milliseconds} ms"


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """A point in time: seconds since the epoch, and nanoseconds after that second.

    Examples:
        >>> from headrace.common import Instant
        >>> Instant.of_epoch_milli(1_500)
        Instant<1, 500000000>
        >>> Instant(1, 500_000_000).to_epoch_milli()
        1500
    """

    seconds: int
    nanos: int

    def __post_init__(self) -> None:
        if not 0 <= self.nanos < NANOS_PER_SECOND:
            raise InvalidTypeError(f"an Instant's nanos are from 0 to {NANOS_PER_SECOND - 1}, not {self.nanos}")

    def to_epoch_milli(self) -> int:
        """Milliseconds since the epoch, rounded towards the past."""
        return self.seconds * 1000 + self.nanos // NANOS_PER_MILLI

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        """The instant that many milliseconds after the epoch."""
        seconds, millis = divmod(epoch_milli, 1000)
        return Instant(seconds, millis * NANOS_PER_MILLI)

    def __repr__(self) -> str:
        return f"Instant<{self.seconds}, {self.nanos}>"


def to_millis(value: Duration | Time | datetime.timedelta | int, argument: str = "") -> int:
    """A length of time in milliseconds; a plain ``int`` already is one.

    Args:
        value: the length.
        argument: what the program calls it, for messages.

    Raises:
        InvalidTypeError: when it is none of these, or has a fraction of a millisecond.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    prefix = f"{argument}: " if argument else ""
    if isinstance(value, Time):
        return value.to_milliseconds()
    if isinstance(value, Duration | datetime.timedelta):
        parts = divmod(value.nanos, NANOS_PER_MILLI) if isinstance(value, Duration) else divmod(value, _MILLISECOND)
        if not parts[1]:
            return parts[0]
        raise refused(f"{prefix}{value} is not a whole number of milliseconds", InvalidTypeError)
    raise refused(
        f"{prefix}expected a Duration, a Time, a datetime.timedelta or milliseconds as an int, got {value!r}: "
        "write Time.minutes(5), say",
        InvalidTypeError,
    )


public_module(__name__)
