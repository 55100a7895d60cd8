"""Codecs of values without parts."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from operator import attrgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.columns import coercions
from headrace.common.columns.codec import ARROW_ERRORS, Codec, WrongValueError, one_array, valid_mask
from headrace.common.time import NANOS_PER_SECOND, Instant
from headrace.common.typeinfo import BasicType, BasicTypeInfo

_NONE: Final = type(None)
_BITS_AS_DECIMAL: Final = 2048
_Encoder = Callable[[Sequence[Any], pa.DataType], pa.Array]
_Decoder = Callable[[pa.Array], list[Any]]


@dataclass(frozen=True, slots=True)
class ScalarCodec(Codec):
    """Encodes the values of a basic type.

    Attributes:
        info: the type.
        exact: classes whose instances go to Arrow as they are.
        coerce: makes a value of another class fit, or raises ``ValueError``.
        expected: what the values have to be, for error messages.
        to_arrow: makes the array of values of the exact classes and ``None``.
        to_python: makes the values of an array.
    """

    info: BasicTypeInfo
    exact: frozenset[type]
    coerce: Callable[[Any], Any]
    expected: str
    to_arrow: _Encoder
    to_python: _Decoder

    @property
    def storage(self) -> pa.DataType:
        return self.info.arrow_type

    def encode(self, values: Sequence[Any]) -> pa.Array:
        # Arrow itself takes bytes for text, an aware time for a naive one and a datetime for a date: so the classes
        # are looked at first, which costs little, since `map(type, ...)` stays within C.
        try:
            if not self.exact.issuperset(set(map(type, values))):
                values = [value if type(value) in self.exact else self.coerce(value) for value in values]
            array = self.to_arrow(values, self.storage)
        except ARROW_ERRORS as error:
            raise WrongValueError(values[0] if values else None, self.expected) from error
        return one_array(array, values)

    def decode(self, array: pa.Array) -> list[Any]:
        return self.to_python(array)


def _plain(values: Sequence[Any], storage: pa.DataType) -> pa.Array:
    return pa.array(values, storage)


def _numbers(array: pa.Array) -> list[Any]:
    if not array.null_count:
        return _listed(array)
    return _patched(_listed(array.fill_null(0)), array)


def _booleans(array: pa.Array) -> list[Any]:
    if not array.null_count:
        return _listed(array)
    return _patched(_listed(array.fill_null(False)), array)


def _objects(array: pa.Array) -> list[Any]:
    values: list[Any] = array.to_pylist()
    return values


def _listed(array: pa.Array) -> list[Any]:
    values: list[Any] = array.to_numpy(zero_copy_only=False).tolist()
    return values


def _patched(values: list[Any], array: pa.Array) -> list[Any]:
    """The values with ``None`` where the array has nulls; numpy itself would make floats of integers with nulls."""
    for position in np.flatnonzero(~valid_mask(array)).tolist():
        values[position] = None
    return values


def _whole(array: pa.Array, integers: pa.DataType) -> np.ndarray[Any, Any]:
    """The integers that stand behind dates and times; zero for nulls."""
    numbers: np.ndarray[Any, Any] = array.view(integers).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _single(values: Sequence[Any], storage: pa.DataType) -> pa.Array:
    wide = pa.array(values, pa.float64())
    narrow = wide.cast(storage)
    if pc.sum(pc.is_inf(narrow)) != pc.sum(pc.is_inf(wide)):
        raise ValueError("a finite number is beyond the largest float")
    return narrow


def _character(values: Sequence[Any], storage: pa.DataType) -> pa.Array:
    array = pa.array(values, storage)
    lengths = pc.min_max(pc.utf8_length(array)).as_py()
    if set(lengths.values()) - {1, None}:
        raise ValueError("not one character")
    return array


_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _dates(array: pa.Array) -> list[Any]:
    return _patched(_whole(array, pa.int32()).astype("datetime64[D]").tolist(), array)


def _naive(values: Sequence[Any], storage: pa.DataType) -> pa.Array:
    zones = set(map(type, map(attrgetter("tzinfo"), filter(None, values))))
    if not zones <= {_NONE}:
        raise ValueError("has a time zone")
    return pa.array(values, storage)


def _aware(values: Sequence[Any], storage: pa.DataType) -> pa.Array:
    if None in map(attrgetter("tzinfo"), filter(None, values)):
        raise ValueError("has no time zone")
    return pa.array(values, storage)


def _times(array: pa.Array) -> list[Any]:
    seconds, micros = np.divmod(_whole(array, pa.int64()), 1_000_000)
    minutes, seconds = np.divmod(seconds, 60)
    hours, minutes = np.divmod(minutes, 60)
    parts = (part.tolist() for part in (hours, minutes, seconds, micros))
    return _patched(list(map(datetime.time, *parts)), array)


def _timestamps(array: pa.Array) -> list[Any]:
    return _patched(_whole(array, pa.int64()).view("datetime64[us]").tolist(), array)


def _zoned_timestamps(array: pa.Array) -> list[Any]:
    # Adding to an aware moment makes aware moments in C; replacing the zone of naive ones takes five times as long.
    since_epoch = _whole(array, pa.int64()).view("timedelta64[us]").tolist()
    return _patched(list(map(_EPOCH.__add__, since_epoch)), array)


def _instants_to_arrow(values: Sequence[Any], storage: pa.DataType) -> pa.Array:
    nanos = [None if value is None else value.seconds * NANOS_PER_SECOND + value.nanos for value in values]
    return pa.array(nanos, pa.int64()).view(storage)


def _instants(array: pa.Array) -> list[Any]:
    seconds, nanos = np.divmod(_whole(array, pa.int64()), NANOS_PER_SECOND)
    return _patched(list(map(Instant, seconds.tolist(), nanos.tolist())), array)


def _digits(value: int) -> str:
    # Python may refuse to write or read integers of more than 640 digits in base 10, but not in base 16.
    return str(value) if value.bit_length() <= _BITS_AS_DECIMAL else hex(value)


def _spelled(spell: Callable[[Any], str]) -> _Encoder:
    def encode(values: Sequence[Any], storage: pa.DataType) -> pa.Array:
        return pa.array([None if value is None else spell(value) for value in values], storage)

    return encode


def _read(read: Callable[[str], Any]) -> _Decoder:
    def decode(array: pa.Array) -> list[Any]:
        return [None if text is None else read(text) for text in array.to_pylist()]

    return decode


def _integers(bits: int) -> tuple[type, Callable[[Any], Any], str, _Encoder, _Decoder]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return int, coercions.integer, f"an int from {low} to {high}", _plain, _numbers


_ROWS: Final[dict[BasicType, tuple[type, Callable[[Any], Any], str, _Encoder, _Decoder]]] = {
    BasicType.STRING: (str, coercions.text, "a str that UTF-8 can encode", _plain, _objects),
    BasicType.BYTE: _integers(8),
    BasicType.BOOLEAN: (bool, coercions.boolean, "a bool", _plain, _booleans),
    BasicType.SHORT: _integers(16),
    BasicType.INT: _integers(32),
    BasicType.LONG: _integers(64),
    BasicType.FLOAT: (float, coercions.floating, "a float of 32 bits", _single, _numbers),
    BasicType.DOUBLE: (
        float,
        coercions.floating,
        "a float, or an int that a float holds exactly",
        _plain,
        _numbers,
    ),
    BasicType.CHAR: (str, coercions.text, "a str of one character", _character, _objects),
    BasicType.BIG_INT: (int, coercions.integer, "an int", _spelled(_digits), _read(lambda text: int(text, 0))),
    BasicType.BIG_DEC: (Decimal, coercions.decimal, "a decimal.Decimal or an int", _spelled(str), _read(Decimal)),
    BasicType.BYTES: (bytes, coercions.binary, "bytes", _plain, _objects),
    BasicType.INSTANT: (
        Instant,
        coercions.refuse,
        "a headrace.common.time.Instant from the years 1678 to 2261",
        _instants_to_arrow,
        _instants,
    ),
    BasicType.SQL_DATE: (datetime.date, coercions.refuse, "a datetime.date, not a datetime", _plain, _dates),
    BasicType.SQL_TIME: (datetime.time, coercions.refuse, "a datetime.time without time zone", _naive, _times),
    BasicType.SQL_TIMESTAMP: (
        datetime.datetime,
        coercions.moment,
        (
            "a datetime without time zone (for those with one declare Types.TIMESTAMP_LTZ(), in a type hint"
            " Annotated[datetime, Types.TIMESTAMP_LTZ()])"
        ),
        _naive,
        _timestamps,
    ),
    BasicType.TIMESTAMP_LTZ: (
        datetime.datetime,
        coercions.moment,
        "a datetime with a time zone (for those without one declare Types.SQL_TIMESTAMP())",
        _aware,
        _zoned_timestamps,
    ),
}


def scalar_codec(info: BasicTypeInfo) -> ScalarCodec:
    """The codec of a basic type."""
    exact, coerce, expected, to_arrow, to_python = _ROWS[info.basic_type]
    return ScalarCodec(info, frozenset({exact, _NONE}), coerce, expected, to_arrow, to_python)


def exact_class(kind: BasicType) -> type:
    """The class of which the values of a basic type come back."""
    return _ROWS[kind][0]
