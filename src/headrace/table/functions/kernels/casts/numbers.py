"""Casts of numbers, booleans and intervals to each other, and to text."""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.logical_types import IntervalType
from headrace.table.functions.kernels import decimals, numbers
from headrace.table.functions.kernels.kernel import TEXT, Datum, Invocation, constant, map_rows
from headrace.table.functions.kernels.spelling import double_text, float_text, spelled

MICROS_PER_MILLI: Final = 1000


def to_number(call: Invocation, value: Datum) -> Datum:
    """A number as one of another type."""
    return numbers.converted(value, call.storage)


def boolean_to_number(call: Invocation, value: Datum) -> Datum:
    """1 for true, 0 for false."""
    if pa.types.is_decimal(call.storage):
        return decimals.rescaled(value.cast(pa.int8()).cast(pa.decimal128(3, 0)), call.storage)
    return value.cast(call.storage)


def number_to_boolean(_: Invocation, value: Datum) -> Datum:
    """Return which numbers are not zero."""
    return pc.not_equal(pc.sign(value).cast(pa.int64()), constant(0, pa.int64()))


def boolean_to_text(_: Invocation, value: Datum) -> Datum:
    """``TRUE`` or ``FALSE``."""
    return pc.if_else(value, constant("TRUE", TEXT), constant("FALSE", TEXT))


def number_to_text(_: Invocation, value: Datum) -> Datum:
    """A number as Java writes it."""
    if isinstance(value, pa.Array):
        return spelled(value)
    if pa.types.is_floating(value.type):
        return map_rows(float_text if pa.types.is_float32(value.type) else double_text, TEXT, value)
    if pa.types.is_decimal(value.type):
        return map_rows(lambda number: f"{number:f}", TEXT, value)
    return value.cast(TEXT)


def interval_to_text(call: Invocation, value: Datum) -> Datum:
    """An interval as SQL writes it: ``+1-02``, ``+1 02:03:04.500``."""
    source = call.operands[0]
    assert isinstance(source, IntervalType)
    return map_rows(_months_text if source.unit.is_of_months else _micros_text, TEXT, value.cast(_count_type(source)))


def _count_type(source: IntervalType) -> pa.DataType:
    return pa.int32() if source.unit.is_of_months else pa.int64()


def _months_text(months: int) -> str:
    years, rest = divmod(abs(months), 12)
    return f"{'-' if months < 0 else '+'}{years}-{rest:02}"


def _micros_text(micros: int) -> str:
    seconds, rest = divmod(abs(micros), 1_000_000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    day, hour = divmod(hours, 24)
    sign = "-" if micros < 0 else "+"
    return f"{sign}{day} {hour:02}:{minute:02}:{second:02}.{rest // MICROS_PER_MILLI:03}"


def number_to_interval(call: Invocation, value: Datum) -> Datum:
    """So many months, or milliseconds."""
    if not pa.types.is_duration(call.storage):
        return numbers.converted(value, call.storage)
    millis = numbers.converted(value, pa.int64())
    return pc.multiply(millis, constant(MICROS_PER_MILLI, pa.int64())).cast(call.storage)


def interval_to_interval(call: Invocation, value: Datum) -> Datum:
    """The same amount of time."""
    return value.cast(call.storage)
