"""Casts of text and bytes. Text that says no value of a type gives NULL, which ``CAST`` refuses afterwards."""

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.logical_types import MAX_LENGTH, AtomicType
from headrace.table.functions.kernels import decimals, texts, times
from headrace.table.functions.kernels.calendar import MICROS_PER_DAY
from headrace.table.functions.kernels.kernel import TEXT, Datum, Invocation, map_rows
from headrace.table.functions.kernels.shapes import NUMBER, by_shape
from headrace.table.functions.kernels.spelling import double_of
from headrace.table.functions.kernels.zones import to_utc

_WHOLE: Final = re.compile(r"\s*([+-]?)(?:(\d+)(?:\.\d*)?|\.\d+)\s*", re.ASCII)
_TRUE: Final = frozenset({"t", "true", "y", "yes", "1"})
_FALSE: Final = frozenset({"f", "false", "n", "no", "0"})


def to_boolean(_: Invocation, text: Datum) -> Datum:
    """The truth value of ``true``, ``yes``, ``1`` and their like."""
    return map_rows(_boolean, pa.bool_(), text)


def _boolean(text: str) -> bool | None:
    word = text.lower()
    return True if word in _TRUE else False if word in _FALSE else None


def to_number(call: Invocation, text: Datum) -> Datum:
    """The number that a text says; of an integer what is behind the point is left out."""
    storage = call.storage
    one: Callable[[str], int | Decimal | None]
    if pa.types.is_integer(storage):
        limits = np.iinfo(storage.to_pandas_dtype())
        one = partial(_integer, low=int(limits.min), high=int(limits.max))
        shape = rf"\A-?[0-9]{{1,{len(str(limits.max)) - 1}}}\z"
    elif pa.types.is_decimal(storage):
        one, shape = partial(_decimal, storage=storage), _decimal_shape(storage)
    else:
        return _to_double(text).cast(storage, safe=False)
    return by_shape(shape, lambda usual: usual.cast(storage), partial(_rounded, storage, one))(text)


def _rounded(storage: pa.DataType, one: Callable[[str], int | Decimal | None], text: Datum) -> Datum:
    """Numbers with more digits behind the point than their type has, and texts that say a number in another way."""

    def one_by_one(other: Datum) -> Datum:
        return map_rows(one, storage, other)

    if not pa.types.is_decimal(storage) or storage.precision > _MOST_DIGITS - _MORE_DIGITS:
        return one_by_one(text)
    wide = pa.decimal128(storage.precision + _MORE_DIGITS, storage.scale + _MORE_DIGITS)
    return by_shape(_decimal_shape(wide), lambda usual: decimals.rescaled(usual.cast(wide), storage), one_by_one)(text)


_MOST_DIGITS: Final = 38
_MORE_DIGITS: Final = 6


def _decimal_shape(storage: pa.DataType) -> str:
    """The shape of decimals that fit as they are; none when there is no digit before the point."""
    whole, fraction = storage.precision - storage.scale, storage.scale
    if not whole:
        return r"\A\z"
    return rf"\A-?[0-9]{{1,{whole}}}(\.[0-9]{{1,{fraction}}})?\z" if fraction else rf"\A-?[0-9]{{1,{whole}}}\z"


def _to_double(text: Datum) -> Datum:
    def one_by_one(other: Datum) -> Datum:
        return map_rows(double_of, pa.float64(), other)

    return by_shape(NUMBER, lambda usual: usual.cast(pa.float64()), one_by_one)(text)


def _integer(text: str, low: int, high: int) -> int | None:
    found = _WHOLE.fullmatch(text)
    number = None if found is None else int(found[1] + (found[2] or "0"))
    return number if number is not None and low <= number <= high else None


def _decimal(text: str, storage: pa.DataType) -> Decimal | None:
    try:
        return decimals.fitted(Decimal(text.strip()), storage)
    except InvalidOperation:
        return None


def to_date(call: Invocation, text: Datum) -> Datum:
    """The date that a text says."""
    return times.days_of_texts(text).cast(call.storage)


def to_time(call: Invocation, text: Datum) -> Datum:
    """The time of day that a text says."""
    return map_rows(lambda value: _within_day(times.time_of(value)), pa.int64(), text).cast(call.storage)


def _within_day(micros: int | None) -> int | None:
    return None if micros is None else micros % MICROS_PER_DAY


def to_timestamp(call: Invocation, text: Datum) -> Datum:
    """The point in time that a text says."""
    if not _has_nanoseconds(call.storage):
        return times.truncated(call, times.micros_of_texts(text))

    def of_row(value: str) -> int | None:
        nanos = times.timestamp_of(value)
        if nanos is None or not call.storage.tz:
            return nanos
        micros, rest = divmod(nanos, 1000)
        return int(to_utc(np.array([micros]), call.time_zone)[0]) * 1000 + rest

    return map_rows(of_row, pa.int64(), text).cast(call.storage)


def _has_nanoseconds(storage: pa.DataType) -> bool:
    return bool(storage.unit == "ns")


def to_text(call: Invocation, text: Datum) -> Datum:
    """A text of another length: cut, and for CHAR padded with spaces."""
    return fitted(text, call.result)


def fitted(text: Datum, target: object) -> Datum:
    """A text of the length of a type."""
    assert isinstance(target, AtomicType)
    size = target.size or 0
    return text if size == MAX_LENGTH else texts.fitted(text, size, pads=target.root.value == "CHAR")


def to_bytes(call: Invocation, value: Datum) -> Datum:
    """The bytes of a text in UTF-8, or other bytes, of a length: cut, and for BINARY padded with zeros."""
    target = call.result
    assert isinstance(target, AtomicType)
    made, size = value.cast(pa.binary()), target.size or 0
    if size == MAX_LENGTH:
        return made
    pads = target.root.value == "BINARY"
    return map_rows(lambda data: data[:size].ljust(size, b"\0") if pads else data[:size], pa.binary(), made)


def bytes_to_text(call: Invocation, value: Datum) -> Datum:
    """The text that bytes say in UTF-8."""
    try:
        text = value.cast(TEXT)
    except pa.ArrowInvalid:  # some bytes are no text
        text = map_rows(lambda data: data.decode("utf-8", "replace"), TEXT, value)
    return fitted(text, call.result)


def failed(value: Datum, made: Datum) -> Datum:
    """Return which values became NULL."""
    return pc.and_(pc.is_valid(value), pc.is_null(made))
