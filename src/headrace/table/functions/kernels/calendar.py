"""The proleptic Gregorian calendar, for whole columns of any year."""

from calendar import monthrange
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.table.functions.kernels.kernel import Datum, Numbers, from_numpy, null_mask, to_numpy
from headrace.table.functions.kernels.zones import to_local, to_utc

_ORDINAL_OF_1970: Final = date(1970, 1, 1).toordinal()

_MOST_MICROS: Final = 9_214_646_400_000_000
"""Beyond the end of 2261, and before 1678, nanoseconds are too many for 64 bits."""

FIRST_GREGORIAN_DAY: Final = date(1582, 10, 15).toordinal() - _ORDINAL_OF_1970
"""The days since 1970 of the day on which the Gregorian calendar began."""

MICROS_PER_DAY: Final = 86_400_000_000
_MONTH_ENDS: Final = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])


@dataclass(frozen=True)
class Moments:
    """Points in time as a clock shows them, in microseconds since 1970.

    Attributes:
        micros: the microseconds.
        mask: where there is none.
        nanos: the nanoseconds beyond the microsecond, where the column has some.
    """

    micros: Numbers
    mask: Numbers | None
    nanos: Numbers | None = None

    @cached_property
    def days(self) -> Numbers:
        """The days since 1970."""
        found: Numbers = self.micros // MICROS_PER_DAY
        return found

    @cached_property
    def of_day(self) -> Numbers:
        """The microseconds since midnight."""
        found: Numbers = self.micros - self.days * MICROS_PER_DAY
        return found

    @cached_property
    def civil(self) -> tuple[Numbers, Numbers, Numbers]:
        """Years, months and days of the month."""
        return civil_of(self.days)

    @property
    def year(self) -> Numbers:
        """The years; there is a year 0."""
        return self.civil[0]

    @property
    def month(self) -> Numbers:
        """The months, from 1."""
        return self.civil[1]

    @property
    def day(self) -> Numbers:
        """The days of the month, from 1."""
        return self.civil[2]

    @property
    def weekday(self) -> Numbers:
        """The days of the week, Monday being 0."""
        found: Numbers = (self.days + 3) % 7
        return found

    @property
    def day_of_year(self) -> Numbers:
        """The days of the year, from 1."""
        found: Numbers = self.days - days_of(self.year, 1, 1) + 1
        return found

    @cached_property
    def iso(self) -> tuple[Numbers, Numbers]:
        """The years and weeks of ISO 8601: a week belongs to the year that its Thursday is in."""
        thursday = self.days - self.weekday + 3
        year = civil_of(thursday)[0]
        return year, (thursday - days_of(year, 1, 1)) // 7 + 1


def civil_of(days: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Years, months and days of the month, of days since 1970; computed once for each day if there are few."""
    low, high = (int(days.min()), int(days.max())) if days.size else (0, 0)
    if high - low >= days.size // 4:
        return _civil_of(days)
    places = days - low
    year, month, day = (part[places] for part in _civil_of(np.arange(low, high + 1)))
    return year, month, day


def _civil_of(days: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    shifted = days + 719_468  # since 0000-03-01: leap days are last in a year that begins in March
    era = shifted // 146_097
    of_era = shifted - era * 146_097
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    from_march = (5 * of_year + 2) // 153
    day = of_year - (153 * from_march + 2) // 5 + 1
    month = np.where(from_march < 10, from_march + 3, from_march - 9)
    return year_of_era + era * 400 + (month <= 2), month, day


def julian_of(days: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Years, months and days of the month in the Julian calendar, of days since 1970."""
    shifted = days + 719_470  # since 1 March of the year 0, which is two days before that of the Gregorian calendar
    year, of_year = (4 * shifted + 3) // 1461, (4 * shifted + 3) % 1461 // 4
    from_march = (5 * of_year + 2) // 153
    day = of_year - (153 * from_march + 2) // 5 + 1
    month = np.where(from_march < 10, from_march + 3, from_march - 9)
    return year + (month <= 2), month, day


def day_number(year: int, month: int, day: int) -> int | None:
    """The days since 1970 of a date; None when the month has no such day."""
    if 1 <= year <= 9999:
        try:
            return date(year, month, day).toordinal() - _ORDINAL_OF_1970
        except ValueError:
            return None
    if not 1 <= month <= 12 or not 1 <= day <= last_day(year, month):
        return None
    return int(days_of(np.array(year), month, day))


def last_day(year: int, month: int) -> int:
    """The number of days in a month."""
    if 1 <= year <= 9999:
        return monthrange(year, month)[1]
    return int(days_in_month(np.array(year), np.array(month)))


def days_of(year: Numbers, month: Numbers | int, day: Numbers | int) -> Numbers:
    """The days since 1970 of dates."""
    year = year - (np.asarray(month) <= 2)
    era = year // 400
    year_of_era = year - era * 400
    of_year = (153 * (month + np.where(np.asarray(month) > 2, -3, 9)) + 2) // 5 + day - 1
    found: Numbers = era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + of_year - 719_468
    return found


def days_in_month(year: Numbers, month: Numbers) -> Numbers:
    """Return how many days a month has."""
    is_leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    found: Numbers = _MONTH_ENDS[month - 1] + (is_leap & (month == 2))
    return found


def months_later(days: Numbers, months: Numbers) -> Numbers:
    """Dates so many months later, the last day of the month where it has no such day."""
    year, month, day = civil_of(days)
    total = year * 12 + (month - 1) + months
    year, month = total // 12, total % 12 + 1
    return days_of(year, month, np.minimum(day, days_in_month(year, month)))


def moments_of(column: pa.Array, zone: str) -> Moments:
    """A column of dates, times or points in time, as a clock of the session shows them."""
    kind, mask = column.type, null_mask(column)
    if pa.types.is_date(kind):
        return Moments(to_numpy(column.cast(pa.int32())).astype(np.int64) * MICROS_PER_DAY, mask)
    values = to_numpy(column.cast(pa.int64()))
    micros, nanos = (values // 1000, values % 1000) if kind in _NANOS else (values, None)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        micros = to_local(micros, zone)
    return Moments(micros, mask, nanos)


_NANOS: Final = (pa.timestamp("ns"), pa.timestamp("ns", "UTC"))


def column_of(moments: Moments, storage: pa.DataType, zone: str) -> pa.Array:
    """The column of a type of SQL of what a clock of the session shows."""
    if pa.types.is_date(storage):
        return from_numpy(moments.days.astype(np.int32), pa.int32(), moments.mask).cast(storage)
    if pa.types.is_time(storage):
        return from_numpy(moments.of_day, pa.int64(), moments.mask).cast(storage)
    micros = to_utc(moments.micros, zone) if storage.tz is not None else moments.micros
    if storage.unit == "us":
        return from_numpy(micros, pa.int64(), moments.mask).cast(storage)
    if np.any(np.abs(micros if moments.mask is None else micros[~moments.mask]) > _MOST_MICROS):
        raise pa.ArrowInvalid("with more than six digits behind the second, times are of the years 1678 to 2261")
    values = micros * 1000 + (0 if moments.nanos is None else moments.nanos)
    return from_numpy(values, pa.int64(), moments.mask).cast(storage)


def is_temporal(operand: Datum) -> bool:
    """Return whether values are dates, times or points in time."""
    return pa.types.is_temporal(operand.type) and not pa.types.is_duration(operand.type)
