"""Arithmetic with dates, times, points in time and intervals, and their fields."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.table.functions.kernels.calendar import (
    FIRST_GREGORIAN_DAY,
    MICROS_PER_DAY,
    Moments,
    civil_of,
    column_of,
    days_of,
    is_temporal,
    julian_of,
    moments_of,
    months_later,
)
from headrace.table.functions.kernels.kernel import (
    BOOLEAN,
    Datum,
    Invocation,
    Kernel,
    Numbers,
    constant,
    from_numpy,
    null_mask,
    on_arrays,
    to_numpy,
)

MICROS: Final = {
    "MICROSECOND": 1,
    "MILLISECOND": 1000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": MICROS_PER_DAY,
    "WEEK": 7 * MICROS_PER_DAY,
}
"""The microseconds of each unit that has the same number always."""

MONTHS: Final = {"MONTH": 1, "QUARTER": 3, "YEAR": 12, "DECADE": 120, "CENTURY": 1200, "MILLENNIUM": 12_000}
"""The months of each longer unit."""


# --- fields --------------------------------------------------------------------------------------------------------

_FIELDS: Final[dict[str, Callable[[Moments], Numbers]]] = {
    "MILLENNIUM": lambda at: (at.year + 999) // 1000,
    "CENTURY": lambda at: (at.year + 99) // 100,
    "DECADE": lambda at: at.year // 10,
    "YEAR": lambda at: at.year,
    "ISOYEAR": lambda at: at.iso[0],
    "QUARTER": lambda at: (at.month + 2) // 3,
    "MONTH": lambda at: at.month,
    "WEEK": lambda at: at.iso[1],
    "DAY": lambda at: at.day,
    "DOW": lambda at: (at.weekday + 1) % 7 + 1,
    "ISODOW": lambda at: at.weekday + 1,
    "DOY": lambda at: at.day_of_year,
    "HOUR": lambda at: at.of_day // MICROS["HOUR"],
    "MINUTE": lambda at: at.of_day // MICROS["MINUTE"] % 60,
    "SECOND": lambda at: at.of_day // MICROS["SECOND"] % 60,
    "MILLISECOND": lambda at: at.of_day % MICROS["SECOND"] // 1000,
    "MICROSECOND": lambda at: at.of_day % MICROS["SECOND"],
    "NANOSECOND": lambda at: at.of_day % MICROS["SECOND"] * 1000 + (0 if at.nanos is None else at.nanos),
}


def extract(call: Invocation, value: Datum) -> Datum:
    """A field of a date, a time or an interval; which one is the option ``unit``."""
    unit = str(call.option("unit"))
    if pa.types.is_duration(value.type) or pa.types.is_integer(value.type):
        return on_arrays(lambda column: _field_of_interval(column, unit, call.storage))(value)
    return on_arrays(lambda column: _field(column, unit, call))(value)


def field(unit: str) -> Kernel:
    """A kernel of a function that is named after a field: ``YEAR(d)``."""

    def compute(call: Invocation, value: Datum) -> Datum:
        return extract(replace(call, options=(("unit", unit),)), value)

    return compute


def _field(column: pa.Array, unit: str, call: Invocation) -> pa.Array:
    if unit == "EPOCH":
        at = moments_of(column, "UTC")
        found = np.sign(at.micros) * (abs(at.micros) // MICROS["SECOND"])  # towards zero, as Flink divides
    elif unit in _FIELDS:
        at = moments_of(column, call.time_zone)
        found = _FIELDS[unit](at)
    else:
        raise pa.ArrowInvalid(f"there is no field {unit} to extract")
    return from_numpy(found, pa.int64(), at.mask).cast(call.storage)


def _field_of_interval(column: pa.Array, unit: str, storage: pa.DataType) -> pa.Array:
    values = to_numpy(column.cast(pa.int64()))
    if unit in MONTHS:
        found = np.fix(values / MONTHS[unit]) if unit == "YEAR" else np.fmod(values, 12) // MONTHS[unit]
    else:
        limits = {"HOUR": 24, "MINUTE": 60, "SECOND": 60, "MILLISECOND": 1000}
        found = np.fix(values / MICROS[unit])
        found = np.fmod(found, limits[unit]) if unit in limits else found
    return from_numpy(found.astype(np.int64), pa.int64(), null_mask(column)).cast(storage)


# --- rounding ------------------------------------------------------------------------------------------------------


def rounded(*, up: bool) -> Kernel:
    """A kernel of ``FLOOR(t TO unit)`` or ``CEIL``; weeks begin on Sunday."""

    def compute(call: Invocation, value: Datum) -> Datum:
        unit = str(call.option("unit"))
        return on_arrays(lambda column: _rounded(column, unit, call, up=up))(value)

    return compute


def _rounded(column: pa.Array, unit: str, call: Invocation, *, up: bool) -> pa.Array:
    at = moments_of(column, call.time_zone)
    read = at if unit in MICROS and unit != "WEEK" else _by_flink(at)
    low = _floor(read, unit, at.weekday)
    if up:
        exact = (low == read.micros) & (True if at.nanos is None else at.nanos == 0)
        low = np.where(exact, low, _later(low, unit))
    return column_of(Moments(low, at.mask), column.type, call.time_zone).cast(call.storage)


def _floor(at: Moments, unit: str, weekday: Numbers) -> Numbers:
    if unit == "WEEK":
        sunday: Numbers = (at.days - (weekday + 1) % 7) * MICROS_PER_DAY
        return sunday
    if unit in MICROS:
        whole: Numbers = at.micros // MICROS[unit] * MICROS[unit]
        return whole
    first = _first_month(at, unit)
    return days_of(first // 12, first % 12 + 1, 1) * MICROS_PER_DAY


def _by_flink(at: Moments) -> Moments:
    """The moments as Flink rounds them: it reads days before 15 October 1582 by the Julian calendar."""
    if not len(at.days) or int(at.days.min()) >= FIRST_GREGORIAN_DAY:
        return at
    days = np.where(at.days < FIRST_GREGORIAN_DAY, days_of(*julian_of(at.days)), at.days)
    return Moments(days * MICROS_PER_DAY + at.of_day, at.mask, at.nanos)


def _first_month(at: Moments, unit: str) -> Numbers:
    if unit not in MONTHS:
        raise pa.ArrowInvalid(f"a time is not rounded to {unit}")
    if unit in ("CENTURY", "MILLENNIUM"):  # which begin in a year 1
        years = MONTHS[unit] // 12
        return ((at.year - 1) // years * years + 1) * 12
    months = at.year * 12 + at.month - 1
    return months // MONTHS[unit] * MONTHS[unit]


def _later(micros: Numbers, unit: str) -> Numbers:
    if unit in MICROS:
        return micros + MICROS[unit]
    return months_later(micros // MICROS_PER_DAY, np.array(MONTHS[unit])) * MICROS_PER_DAY


floor: Final = rounded(up=False)
ceil: Final = rounded(up=True)


# --- sums and differences ------------------------------------------------------------------------------------------


def add(call: Invocation, left: Datum, right: Datum) -> Datum:
    """A time and an interval, in any order, or two intervals."""
    if is_temporal(right):
        left, right = right, left
    return _moved(call, left, right, 1) if is_temporal(left) else pc.add(left, right)


def subtract(call: Invocation, left: Datum, right: Datum) -> Datum:
    """A time less an interval, two intervals, or the interval between two times."""
    if is_temporal(left) and is_temporal(right):
        return _between(call, left, right)
    return _moved(call, left, right, -1) if is_temporal(left) else pc.subtract(left, right)


def _moved(call: Invocation, time: Datum, interval: Datum, sign: int) -> Datum:
    def compute(times: pa.Array, amounts: pa.Array) -> pa.Array:
        at = moments_of(times, "UTC")  # months, too, are those of UTC, as in Flink
        amount = sign * to_numpy(amounts.cast(pa.int64()))
        mask = null_mask(times, amounts)
        if pa.types.is_integer(amounts.type):
            micros = months_later(at.days, amount) * MICROS_PER_DAY + at.of_day
            return column_of(Moments(micros, mask, at.nanos), times.type, "UTC").cast(call.storage)
        if pa.types.is_date(times.type):
            amount = np.fix(amount / MICROS_PER_DAY).astype(np.int64) * MICROS_PER_DAY  # a date has no hours to add to
        return column_of(Moments(at.micros + amount, mask, at.nanos), times.type, "UTC").cast(call.storage)

    return on_arrays(compute)(time, interval)


def multiply_interval(call: Invocation, left: Datum, right: Datum) -> Datum:
    """An interval so many times."""
    if not pa.types.is_duration(call.storage):
        return pc.multiply(left.cast(call.storage), right.cast(call.storage))
    factors = (each.cast(pa.int64()) for each in (left, right))
    return pc.multiply(*factors).cast(call.storage)


def divide_interval(call: Invocation, left: Datum, right: Datum) -> Datum:
    """An interval divided by a number, towards zero."""
    count = pa.int64() if pa.types.is_duration(call.storage) else pa.int32()
    return pc.divide(left.cast(count), right.cast(count)).cast(call.storage)


def _between(call: Invocation, left: Datum, right: Datum) -> Datum:
    if pa.types.is_integer(call.storage):
        return _months_between(call, right, left)

    def compute(later: pa.Array, earlier: pa.Array) -> pa.Array:
        between = (moments_of(later, "UTC").micros // 1000 - moments_of(earlier, "UTC").micros // 1000) * 1000
        return from_numpy(between, pa.int64(), null_mask(later, earlier)).cast(call.storage)

    return on_arrays(compute)(left, right)


def timestampadd(call: Invocation, amount: Datum, time: Datum) -> Datum:
    """A time so many units later; the unit is an option."""
    unit = str(call.option("unit"))
    if pa.types.is_date(time.type) and pa.types.is_timestamp(call.storage):
        time = time.cast(call.storage)
    if unit in MONTHS:
        return _moved(call, time, pc.multiply(amount.cast(pa.int32()), constant(MONTHS[unit], pa.int32())), 1)
    micros = pc.multiply(amount.cast(pa.int64()), constant(MICROS[unit], pa.int64()))
    return _moved(call, time, micros.cast(pa.duration("us")), 1)


def timestampdiff(call: Invocation, earlier: Datum, later: Datum) -> Datum:
    """The number of whole units between two times; the unit is an option."""
    unit = str(call.option("unit"))
    if unit in MONTHS:
        months = _months_between(call, earlier, later)
        return months if unit == "MONTH" else pc.divide(months, constant(MONTHS[unit], months.type))

    def compute(first: pa.Array, second: pa.Array) -> pa.Array:
        millis = moments_of(second, "UTC").micros // 1000 - moments_of(first, "UTC").micros // 1000
        step = max(MICROS[unit] // 1000, 1)
        whole = np.sign(millis) * (np.abs(millis) // step) * (1 if MICROS[unit] >= 1000 else 1000)
        return from_numpy(whole, pa.int64(), null_mask(first, second)).cast(call.storage, safe=False)

    return on_arrays(compute)(earlier, later)


def _months_between(call: Invocation, earlier: Datum, later: Datum) -> Datum:
    def compute(first: pa.Array, second: pa.Array) -> pa.Array:
        months = _whole_months(moments_of(first, "UTC"), moments_of(second, "UTC"))
        return from_numpy(months.astype(np.int32), pa.int32(), null_mask(first, second)).cast(call.storage)

    return on_arrays(compute)(earlier, later)


def _whole_months(first: Moments, second: Moments) -> Numbers:
    forward = second.days >= first.days
    low, high = np.where(forward, first.days, second.days), np.where(forward, second.days, first.days)
    (low_year, low_month, _), (year, month, _) = civil_of(low), civil_of(high)
    months = (year * 12 + month) - (low_year * 12 + low_month)
    months -= months_later(low, months) > high
    months = np.where(forward, months, -months)
    lands = months_later(first.days, months) == second.days
    found: Numbers = months - (lands & (second.of_day < first.of_day))
    return found


def overlaps(call: Invocation, *ends: Datum) -> Datum:
    """Return where two periods have a point in time in common; the second end may be an interval."""
    first, second = (_period(call, *ends[place : place + 2]) for place in (0, 2))
    low_then_high = pc.and_kleene(pc.greater_equal(first[1], second[0]), pc.greater_equal(second[1], first[0]))
    return low_then_high.cast(BOOLEAN)


def _period(call: Invocation, start: Datum, end: Datum) -> tuple[Datum, Datum]:
    if not is_temporal(end):
        end = _moved(replace(call, result=call.operands[0]), start, end, 1)
    is_in_order = pc.fill_null(pc.less_equal(start, end), False)  # so an unknown end is the second one
    return pc.if_else(is_in_order, start, end), pc.if_else(is_in_order, end, start)
