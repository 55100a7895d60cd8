"""Casts of dates, times and points in time."""

from dataclasses import replace

import pyarrow as pa

from headrace.common.logical_types import AtomicType, LogicalType
from headrace.table.functions.kernels.calendar import Moments, column_of, moments_of
from headrace.table.functions.kernels.kernel import Datum, Invocation, on_arrays
from headrace.table.functions.kernels.time_patterns import DEFAULT, written


def to_temporal(call: Invocation, value: Datum) -> Datum:
    """A date, a time or a point in time as one of another type, in the session's zone."""
    return on_arrays(lambda column: column_of(_cut(column, call), call.storage, call.time_zone))(value)


def _cut(column: pa.Array, call: Invocation) -> Moments:
    """The local time, cut to the digits of the result."""
    at = moments_of(column, call.time_zone)
    digits = _digits(call.result)
    if digits > 6:
        return at
    step = 10 ** (6 - digits)
    return replace(at, micros=at.micros // step * step, nanos=None)


def _digits(kind: LogicalType) -> int:
    return kind.size or 0 if isinstance(kind, AtomicType) and kind.size is not None else 6


def to_text(call: Invocation, value: Datum) -> Datum:
    """A date, a time or a point in time as SQL writes it."""
    source = call.operands[0]
    digits = _digits(source)
    pattern = {"DATE": "yyyy-MM-dd", "TIME": "HH:mm:ss"}.get(str(source).partition("(")[0].partition(" ")[0], DEFAULT)
    if digits and pattern != "yyyy-MM-dd":
        pattern += "." + "S" * digits
    return on_arrays(lambda column: written(moments_of(column, call.time_zone), pattern))(value)
