"""Functions that read and write dates and times as text or as numbers."""

import re
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.table.functions.kernels import shapes
from headrace.table.functions.kernels.calendar import (
    MICROS_PER_DAY,
    Moments,
    column_of,
    day_number,
    is_temporal,
    last_day,
    moments_of,
)
from headrace.table.functions.kernels.kernel import (
    TEXT,
    Datum,
    Invocation,
    constant,
    from_numpy,
    is_constant,
    map_rows,
    null_mask,
    numeric,
    on_arrays,
    to_numpy,
)
from headrace.table.functions.kernels.temporal import MICROS
from headrace.table.functions.kernels.time_patterns import (
    DEFAULT,
    SIMPLE_DATE_FORMAT,
    Dialect,
    micros_of,
    reader,
    written,
)
from headrace.table.functions.kernels.zones import known_zone, offsets_of, to_local, to_utc

_SMALLEST: Final = -(1 << 63)

_DATE: Final = re.compile(r"\s*(\d{1,4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")
_TIME: Final = re.compile(r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d+))?)?)?")


def date_of(text: str) -> int | None:
    """The days since 1970 of a text such as ``2024-02-29``; month and day may be left out. None for any other."""
    text = text.strip()
    date = _DATE.fullmatch(text.partition(" ")[0].partition("T")[0] if " " in text else text)
    if date is None:
        return None
    return day_number(int(date[1]), int(date[2] or 1), int(date[3] or 1))


def time_of(text: str) -> int | None:
    """The microseconds since midnight of a text such as ``10:11:12.5``; None for any other."""
    found = _TIME.fullmatch(text.strip())
    if found is None:
        return None
    hour, minute, second = int(found[1]), int(found[2] or 0), int(found[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        return None
    return ((hour * 60 + minute) * 60 + second) * MICROS["SECOND"] + int(((found[4] or "") + "000000")[:6])


_TIMESTAMP: Final = re.compile(r"(\d{1,4})-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{0,9}))?)?")


def timestamp_of(text: str) -> int | None:
    """The nanoseconds since 1970 of a text such as ``2024-02-29 10:11:12.5``; the time may be left out.

    A day that the month does not have is its last one, and 24 o'clock is the next day, as in Flink.
    """
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return None
    year, month, day = int(found[1]), int(found[2]), int(found[3])
    days = day_number(year, month, min(day, last_day(year, month))) if 1 <= month <= 12 and 1 <= day <= 31 else None
    if days is None:
        return None
    hour, minute, second = (int(part or 0) for part in found.group(4, 5, 6))
    if hour > 24 or minute > 59 or second > 59:
        return None
    clock = ((hour * 60 + minute) * 60 + second) * 1_000_000_000 + int(((found[7] or "") + "0" * 9)[:9])
    return days * MICROS_PER_DAY * 1000 + clock


# --- writing -------------------------------------------------------------------------------------------------------


def date_format(call: Invocation, value: Datum, pattern: Datum) -> Datum:
    """A point in time, or a text that says one, as a text of a pattern."""
    if is_temporal(value):
        return _formatted(call, value, pattern, None)
    times = _lenient_micros(value, DEFAULT).cast(pa.timestamp("us"))
    return _formatted(call, times, pattern, SIMPLE_DATE_FORMAT)


def _formatted(call: Invocation, value: Datum, pattern: Datum, dialect: Dialect | None) -> Datum:
    if not isinstance(pattern, pa.Scalar):
        return _each_row(lambda time, shape: _formatted(call, time, shape, dialect), value, pattern)
    if not pattern.is_valid:
        return constant(None, TEXT)
    shape, zone = pattern.as_py(), call.time_zone
    return on_arrays(lambda column: written(moments_of(column, zone), shape, dialect=dialect))(value)


def _each_row(function: Callable[..., Datum], *operands: Datum) -> Datum:
    """A function that wants operands to be constants which are none, called for each row."""

    def compute(*columns: pa.Array) -> pa.Array:
        rows = (function(*(column[place] for column in columns)) for place in range(len(columns[0])))
        made = list(rows)
        return pa.array([one.as_py() for one in made], made[0].type) if made else pa.array([], TEXT)

    return on_arrays(compute)(*operands)


def from_unixtime(call: Invocation, seconds: Datum, pattern: Datum | None = None) -> Datum:
    """The text of so many seconds since 1970 in the session's zone."""
    zone = call.time_zone
    if pattern is not None and not isinstance(pattern, pa.Scalar):
        return _each_row(lambda *row: from_unixtime(call, *row), seconds, pattern)
    shape = DEFAULT if pattern is None else pattern.as_py()

    def compute(column: pa.Array) -> pa.Array:
        micros = to_numpy(column.cast(pa.int64())) * MICROS["SECOND"]
        at = Moments(to_local(micros, zone), null_mask(column))
        return written(at, shape, offsets_of(micros, zone), dialect=SIMPLE_DATE_FORMAT)

    return constant(None, TEXT) if shape is None else on_arrays(compute)(seconds)


def convert_tz(call: Invocation, text: Datum, source: Datum, target: Datum) -> Datum:
    """A time that a clock of one zone shows, as one of another does."""
    if not is_constant(source, target):
        return _each_row(partial(convert_tz, call), text, source, target)
    if not source.is_valid or not target.is_valid:
        return constant(None, TEXT)
    one, other = known_zone(source.as_py()), known_zone(target.as_py())

    def compute(shown: pa.Array) -> pa.Array:
        local = to_local(to_utc(to_numpy(shown), one, is_later=True), other)
        return written(Moments(local, null_mask(shown)), DEFAULT)

    return on_arrays(compute)(_lenient_micros(text, DEFAULT))


# --- reading -------------------------------------------------------------------------------------------------------


def _by_pattern(text: str, pattern: str) -> int | None:
    """The microseconds that a text of a pattern says; a text as SQL writes it is taken too, as in Flink."""
    try:
        fields = reader(pattern).read(text)
    except ValueError:  # it is no pattern
        return None
    micros = None if fields is None else micros_of(fields)
    if micros is None:
        nanos = timestamp_of(text.strip())
        micros = None if nanos is None else nanos // 1000
    return micros


def _lenient(text: str, pattern: str) -> int | None:
    """The microseconds that the beginning of a text says; fields that are too large count on."""
    fields = reader(pattern, is_lenient=True).read(text, is_whole=False)
    return None if fields is None else micros_of(fields, is_lenient=True)


def _lenient_micros(text: Datum, pattern: str) -> Datum:
    """The same for a column."""

    def one_by_one(other: Datum) -> Datum:
        return map_rows(lambda value: _lenient(value, pattern), pa.int64(), other)

    return shapes.by_shape(shapes.SECONDS, _as_micros, one_by_one)(text) if pattern == DEFAULT else one_by_one(text)


def to_timestamp(call: Invocation, text: Datum, pattern: Datum | None = None) -> Datum:
    """The point in time that a text says, NULL where it says none."""
    if pattern is None:
        return truncated(call, micros_of_texts(text))
    if isinstance(pattern, pa.Scalar) and pattern.as_py() == DEFAULT:
        return truncated(call, shapes.by_shape(shapes.TIMESTAMP, _as_micros, _by_default)(text))
    return truncated(call, map_rows(_by_pattern, pa.int64(), text, pattern))


def micros_of_texts(text: Datum) -> Datum:
    """The microseconds since 1970 of texts as SQL writes points in time."""
    return shapes.by_shape(shapes.TIMESTAMP, _as_micros, _one_by_one)(text)


def _one_by_one(text: Datum) -> Datum:
    return map_rows(_timestamp_micros, pa.int64(), text)


def _by_default(text: Datum) -> Datum:
    return map_rows(lambda value: _by_pattern(value, DEFAULT), pa.int64(), text)


def _as_micros(text: Datum) -> Datum:
    return text.cast(pa.timestamp("us")).cast(pa.int64())


def truncated(call: Invocation, micros: Datum) -> Datum:
    """Points in time that a clock of the session shows, with no more digits than the result has."""
    digits = getattr(call.result, "size", 6)
    step = 10 ** max(6 - digits, 0)

    def compute(column: pa.Array) -> pa.Array:
        at = Moments(to_numpy(column) // step * step, null_mask(column))
        return column_of(at, call.storage, call.time_zone)

    return on_arrays(compute)(micros)


def _timestamp_micros(text: str) -> int | None:
    nanos = timestamp_of(text)
    return None if nanos is None else nanos // 1000


def to_date(call: Invocation, text: Datum, pattern: Datum | None = None) -> Datum:
    """The date that a text says, NULL where it says none."""
    if pattern is None:
        return days_of_texts(text).cast(call.storage)
    return map_rows(_date_by_pattern, pa.int32(), text, pattern).cast(call.storage)


def days_of_texts(text: Datum) -> Datum:
    """The days since 1970 of texts as SQL writes dates."""

    def one_by_one(other: Datum) -> Datum:
        return map_rows(date_of, pa.int32(), other)

    def usual(dates: Datum) -> Datum:
        return pc.utf8_slice_codeunits(dates, 0, _DATE_LENGTH).cast(pa.date32()).cast(pa.int32())

    return shapes.by_shape(shapes.DATE, usual, one_by_one)(text)


_DATE_LENGTH: Final = 10


def _date_by_pattern(text: str, pattern: str) -> int | None:
    micros = _lenient(text, pattern)
    return None if micros is None else micros // MICROS_PER_DAY


def unix_timestamp(call: Invocation, text: Datum, pattern: Datum | None = None) -> Datum:
    """The seconds since 1970 of a text in the session's zone; the smallest number where it says no time."""
    if is_temporal(text):
        return on_arrays(_unix_seconds)(text)
    if isinstance(pattern, pa.Array):
        return _each_row(partial(unix_timestamp, call), text, pattern)
    shape = DEFAULT if pattern is None else pattern.as_py()
    if shape is None:
        return constant(None, pa.int64())
    micros = _lenient_micros(text, shape)
    seconds = numeric(
        lambda local: to_utc(local, call.time_zone, is_later=True) // MICROS["SECOND"], pa.int64(), micros
    )
    return pc.if_else(pc.and_(pc.is_null(micros), pc.is_valid(text)), constant(_SMALLEST, pa.int64()), seconds)


def _unix_seconds(column: pa.Array) -> pa.Array:
    return from_numpy(moments_of(column, "UTC").micros // MICROS["SECOND"], pa.int64(), null_mask(column))


def to_timestamp_ltz(call: Invocation, value: Datum, *more: Datum) -> Datum:
    """The point in time of a number of seconds or milliseconds since 1970, or of a text."""
    if pa.types.is_string(value.type):
        return _ltz_of_text(call, value, *more)
    precision = more[0] if more else constant(3, pa.int32())
    unit = 9 if call.storage.unit == "ns" else 6
    if pa.types.is_integer(value.type) and isinstance(precision, pa.Scalar) and precision.is_valid:
        counted = precision.as_py()
        known = _within_years(value.cast(pa.int64()), counted)
        if counted <= unit:
            return pc.multiply_checked(known, constant(10 ** (unit - counted), pa.int64())).cast(call.storage)
    return map_rows(partial(_ltz_count, unit), pa.int64(), value, precision).cast(call.storage)


def _within_years(value: Datum, precision: int) -> Datum:
    """The numbers that are points in time of the years 1 to 9999; NULL for others, as in Flink."""
    low = max(_FIRST_SECOND * 10**precision, _SMALLEST)
    high = min(_END_SECOND * 10**precision - 1, ~_SMALLEST)
    is_known = pc.and_(
        pc.greater_equal(value, constant(low, pa.int64())), pc.less_equal(value, constant(high, pa.int64()))
    )
    return pc.if_else(is_known, value, constant(None, pa.int64()))


_FIRST_SECOND: Final = -62_135_596_800
_END_SECOND: Final = 253_402_300_800


def _ltz_count(unit: int, number: float | Decimal, precision: int) -> int | None:
    """The number in so many digits behind the second.

    A double has a fraction, up to the digits of the result; a decimal has none, as in Flink.
    """
    if not 0 <= precision <= 9:
        raise ValueError(f"TO_TIMESTAMP_LTZ counts seconds (0) to nanoseconds (9), not {precision}")
    digits = max(precision, 3)
    whole = number if isinstance(number, float) else int(number)
    count: int = int(whole * 10 ** (digits - precision)) * 10**unit // 10**digits
    return count if _FIRST_SECOND <= count // 10**unit < _END_SECOND else None


def _ltz_of_text(call: Invocation, text: Datum, *more: Datum) -> Datum:
    def of_row(value: str, pattern: str = DEFAULT, zone: str = "UTC") -> int | None:
        micros = _by_pattern(value, pattern)
        if micros is None and more:
            return None
        if micros is None:
            raise ValueError(f"{value!r} is not a time of the pattern {pattern!r}")
        return int(to_utc(np.array([micros]), zone)[0])

    return map_rows(of_row, pa.int64(), text, *more).cast(call.storage)
