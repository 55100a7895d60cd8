"""One binary encoding of Python values that can be keys: equal values, and only those, have the same bytes.

What Python calls equal is encoded alike: ``1``, ``True``, ``1.0``, ``Decimal("1.00")`` and ``numpy.int64(1)``;
``0.0`` and ``-0.0``; a named tuple and the tuple of its fields; a member of an ``IntEnum`` and its number; the same
instant in two time zones. All NaNs count as one key. A value begins with a tag and says itself where it ends. Columns
of Arrow get the same bytes without becoming Python objects.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from importlib import import_module
from math import isnan
from struct import Struct, pack
from typing import Any, Final
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import binary_array, binary_parts, fixed_width_array, unscaled_words
from headrace.common.errors import InvalidTypeError
from headrace.common.types import Row, RowKind

TAG_NONE: Final = 0
TAG_INT: Final = 1
TAG_BIG_INT: Final = 2
TAG_FLOAT: Final = 3
TAG_DECIMAL: Final = 4
TAG_STRING: Final = 5
TAG_BYTES: Final = 6
TAG_TUPLE: Final = 7
TAG_DATACLASS: Final = 8
TAG_ENUM: Final = 9
TAG_DATE: Final = 10
TAG_DATETIME: Final = 11
TAG_DATETIME_UTC: Final = 12
TAG_TIME: Final = 13
TAG_TIMEDELTA: Final = 14
TAG_UUID: Final = 15
TAG_FROZENSET: Final = 16
TAG_ROW: Final = 17

MAX_DECIMAL_EXPONENT: Final = 4096
"""A whole Decimal with more zeros at its end is refused: it would have to be written as an integer of that length."""

_INT: Final = Struct("<Bq")
_FLOAT: Final = Struct("<Bd")
_SIZED: Final = Struct("<BI")
_SIZE: Final = Struct("<I")
_DELTA: Final = Struct("<Biq")
_EPOCH: Final = datetime.datetime(1970, 1, 1)
_EPOCH_UTC: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)


class KeyEncoder:
    """Encodes values and remembers the classes it met, so that :class:`KeyDecoder` can rebuild their instances."""

    def __init__(self, classes: ClassRegistry) -> None:
        self._classes = classes
        self._by_type: dict[type, Callable[[Any], bytes]] = {}
        self._compound: tuple[tuple[type, Callable[[Any], bytes]], ...] = (
            (Enum, self._encode_enum),
            (tuple, self._encode_tuple),
            (frozenset, self._encode_frozenset),
            (Row, self._encode_row),
        )

    def encode(self, value: Any) -> bytes:
        """The bytes of ``value``.

        Raises:
            InvalidTypeError: when it, or something in it, cannot be a key.
        """
        kind = type(value)
        encoder = self._by_type.get(kind)
        if encoder is None:
            encoder = self._by_type[kind] = self._encoder_of(value)
        return encoder(value)

    def _encoder_of(self, value: Any) -> Callable[[Any], bytes]:
        by_class = (*_SIMPLE, *self._compound)
        encoder = next((encoder for kind, encoder in by_class if isinstance(value, kind)), None)
        if encoder is not None:
            return encoder
        if isinstance(value, np.generic) and not isinstance(value, np.datetime64 | np.timedelta64 | np.void):
            return lambda scalar: self.encode(scalar.item())
        if is_dataclass(value) and not isinstance(value, type):
            return self._dataclass_encoder(value)
        raise _unsupported(value)

    def _encode_tuple(self, value: tuple[Any, ...]) -> bytes:
        return _SIZED.pack(TAG_TUPLE, len(value)) + b"".join(map(self.encode, value))

    def _encode_frozenset(self, value: frozenset[Any]) -> bytes:
        return _SIZED.pack(TAG_FROZENSET, len(value)) + b"".join(sorted(map(self.encode, value)))

    def _encode_row(self, value: Row) -> bytes:
        names = value._fields
        head = (value.get_row_kind().value, names, *value)
        return bytes([TAG_ROW]) + self._encode_tuple(head)

    def _encode_enum(self, value: Enum) -> bytes:
        name = self._classes.add(type(value))
        if value.name not in type(value).__members__:
            raise InvalidTypeError(f"{value!r} cannot be a key: it is a combination of members of {type(value)}")
        return bytes([TAG_ENUM]) + _encode_string(name) + _encode_string(value.name)

    def _dataclass_encoder(self, sample: Any) -> Callable[[Any], bytes]:
        cls = type(sample)
        names = _key_fields(cls, sample)
        head = bytes([TAG_DATACLASS]) + _encode_string(self._classes.add(cls)) + _SIZE.pack(len(names))
        return lambda value: head + b"".join(self.encode(getattr(value, name)) for name in names)


class ClassRegistry:
    """The classes whose instances can be rebuilt from a key, by module and qualified name."""

    def __init__(self, classes: Iterable[type] = ()) -> None:
        self._known: dict[str, type] = {}
        for cls in classes:
            self.add(cls)

    @property
    def classes(self) -> tuple[type, ...]:
        """All of them, in the order in which they were met."""
        return tuple(self._known.values())

    def add(self, cls: type) -> str:
        """Makes ``cls`` known; returns the name that stands for it in keys."""
        name = f"{cls.__module__}:{cls.__qualname__}"
        self._known[name] = cls
        return name

    def get(self, name: str) -> type:
        """The class of that name; one that was not met here yet is imported.

        Raises:
            InvalidTypeError: when there is no such class.
        """
        cls = self._known.get(name) or _imported(name)
        if cls is None:
            raise InvalidTypeError(
                f"a stored key is an instance of {name.replace(':', '.')}, which is not known in this process: "
                "declare the key's type (key_type=...) or annotate what the key selector returns"
            )
        self._known[name] = cls
        return cls


class KeyDecoder:
    """Rebuilds values from their bytes."""

    def __init__(self, classes: ClassRegistry) -> None:
        self._classes = classes

    def decode(self, data: bytes) -> Any:
        """The value that was encoded (or one that is equal to it: ``1`` for ``1.0``)."""
        return self._read(data, 0)[0]

    def _read(self, data: bytes, at: int) -> tuple[Any, int]:
        tag = data[at]
        fixed = _FIXED.get(tag)
        if fixed is not None:
            struct, build = fixed
            return build(*struct.unpack_from(data, at)[1:]), at + struct.size
        sized = _SIZED_READERS.get(tag)
        if sized is not None:
            start, end = _span(data, at)
            return sized(data[start:end]), end
        return self._read_compound(tag, data, at)

    def _read_compound(self, tag: int, data: bytes, at: int) -> tuple[Any, int]:
        if tag == TAG_ENUM:
            class_name, at = self._read(data, at + 1)
            member, at = self._read(data, at)
            enum: Any = self._classes.get(class_name)
            return enum[member], at
        if tag == TAG_DATACLASS:
            class_name, at = self._read(data, at + 1)
            values, at = self._read_many(data, at, _SIZE.unpack_from(data, at)[0], _SIZE.size)
            return build_dataclass(self._classes.get(class_name), values), at
        if tag == TAG_ROW:
            (kind, names, *values), at = self._read(data, at + 1)
            return _row(kind, names, values), at
        values, at = self._read_many(data, at, _SIZED.unpack_from(data, at)[1], _SIZED.size)
        return (frozenset(values) if tag == TAG_FROZENSET else tuple(values)), at

    def _read_many(self, data: bytes, at: int, count: int, head: int) -> tuple[list[Any], int]:
        at += head
        values = []
        for _ in range(count):
            value, at = self._read(data, at)
            values.append(value)
        return values, at


def build_dataclass(cls: type, values: Iterable[Any]) -> Any:
    """An instance of a dataclass (frozen or not) with these fields; its ``__init__`` is not run."""
    instance: Any = object.__new__(cls)
    for field, value in zip(fields(cls), values, strict=True):
        object.__setattr__(instance, field.name, value)
    return instance


def _imported(name: str) -> type | None:
    """The class of that name, if its module is one that every process can import."""
    module, _, qualified = name.partition(":")
    if module == "__main__":  # another program may have a class of the same name
        return None
    try:
        found: Any = import_module(module)
        for part in qualified.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return None
    return found if isinstance(found, type) else None


def _row(kind: int, names: tuple[str, ...] | None, values: list[Any]) -> Row:
    row = Row.of_kind(RowKind(kind), *values)
    if names is not None:
        row.set_field_names(names)
    return row


def _key_fields(cls: Any, sample: Any) -> list[str]:
    if cls.__hash__ is None:
        raise InvalidTypeError(
            f"{sample!r} cannot be a key: {cls.__qualname__} is not hashable; declare it with @dataclass(frozen=True)"
        )
    if not cls.__dataclass_params__.eq or not all(field.compare for field in fields(cls)):
        raise InvalidTypeError(
            f"{sample!r} cannot be a key: instances of {cls.__qualname__} are not compared by all their fields"
        )
    return [field.name for field in fields(cls)]


def _unsupported(value: Any) -> InvalidTypeError:
    return InvalidTypeError(
        f"{value!r} of type {type(value).__qualname__} cannot be a key: use integers, strings, bytes, floats, Decimal, "
        "dates and times, UUID, Enum, frozen dataclasses, or tuples of these"
    )


def _encode_none(_: None) -> bytes:
    return b"\0"


def _encode_int(value: int) -> bytes:
    value = int(value)
    if -(1 << 63) <= value < 1 << 63:
        return _INT.pack(TAG_INT, value)
    digits = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return _SIZED.pack(TAG_BIG_INT, len(digits)) + digits


def _encode_float(value: float) -> bytes:
    if value.is_integer():
        return _encode_int(int(value))
    return _FLOAT.pack(TAG_FLOAT, value) if not isnan(value) else _NAN


_NAN: Final = _FLOAT.pack(TAG_FLOAT, float("nan"))


def _encode_decimal(value: Decimal) -> bytes:
    if not value.is_finite():
        if value.is_snan():
            raise InvalidTypeError(f"{value!r} cannot be a key: a signalling NaN is not hashable")
        return _encode_float(float(value))
    if value == value.to_integral_value():
        if value.adjusted() > MAX_DECIMAL_EXPONENT:
            raise InvalidTypeError(f"{value!r} cannot be a key: its exponent is above {MAX_DECIMAL_EXPONENT}")
        return _encode_int(int(value))
    as_float = float(value)
    if Decimal(as_float) == value:
        return _encode_float(as_float)
    sign, digits, exponent = value.as_tuple()
    text = "".join(map(str, digits))
    stripped = text.rstrip("0")
    scale = int(exponent) + len(text) - len(stripped)
    canonical = f"{'-' if sign else ''}{stripped.lstrip('0')}E{scale}".encode()
    return _SIZED.pack(TAG_DECIMAL, len(canonical)) + canonical


def _encode_string(value: str) -> bytes:
    data = value.encode("utf-8", "surrogatepass")
    return _SIZED.pack(TAG_STRING, len(data)) + data


def _encode_bytes(value: bytes) -> bytes:
    return _SIZED.pack(TAG_BYTES, len(value)) + value


def _encode_datetime(value: datetime.datetime) -> bytes:
    if value.utcoffset() is None:
        return _INT.pack(TAG_DATETIME, (value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND)
    return _INT.pack(TAG_DATETIME_UTC, (value - _EPOCH_UTC) // _MICROSECOND)


def _encode_date(value: datetime.date) -> bytes:
    return _INT.pack(TAG_DATE, value.toordinal())


def _encode_time(value: datetime.time) -> bytes:
    if value.tzinfo is not None:
        raise InvalidTypeError(f"{value!r} cannot be a key: a time of day with a zone has no fixed meaning")
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return _INT.pack(TAG_TIME, seconds * 1_000_000 + value.microsecond)


def _encode_timedelta(value: datetime.timedelta) -> bytes:
    return _DELTA.pack(TAG_TIMEDELTA, value.days, value.seconds * 1_000_000 + value.microseconds)


def _encode_uuid(value: UUID) -> bytes:
    return _SIZED.pack(TAG_UUID, 16) + value.bytes


# Subclasses count as their base, so the order matters: a datetime is a date, a member of an IntEnum is an int.
_SIMPLE: Final[tuple[tuple[type, Callable[[Any], bytes]], ...]] = (
    (type(None), _encode_none),
    (int, _encode_int),
    (float, _encode_float),
    (str, _encode_string),
    (bytes, _encode_bytes),
    (Decimal, _encode_decimal),
    (datetime.datetime, _encode_datetime),
    (datetime.date, _encode_date),
    (datetime.time, _encode_time),
    (datetime.timedelta, _encode_timedelta),
    (UUID, _encode_uuid),
)


def _read_time(micros: int) -> datetime.time:
    return (_EPOCH + micros * _MICROSECOND).time()


_FIXED: Final[dict[int, tuple[Struct, Callable[..., Any]]]] = {
    TAG_NONE: (Struct("<B"), lambda: None),
    TAG_INT: (_INT, int),
    TAG_FLOAT: (_FLOAT, float),
    TAG_DATE: (_INT, datetime.date.fromordinal),
    TAG_DATETIME: (_INT, lambda micros: _EPOCH + micros * _MICROSECOND),
    TAG_DATETIME_UTC: (_INT, lambda micros: _EPOCH_UTC + micros * _MICROSECOND),
    TAG_TIME: (_INT, _read_time),
    TAG_TIMEDELTA: (_DELTA, lambda days, micros: datetime.timedelta(days=days, microseconds=micros)),
}

_SIZED_READERS: Final[dict[int, Callable[[bytes], Any]]] = {
    TAG_BIG_INT: lambda data: int.from_bytes(data, "little", signed=True),
    TAG_DECIMAL: lambda data: Decimal(data.decode()),
    TAG_STRING: lambda data: data.decode("utf-8", "surrogatepass"),
    TAG_BYTES: bytes,
    TAG_UUID: lambda data: UUID(bytes=data),
}


def _span(data: bytes, at: int) -> tuple[int, int]:
    start = at + _SIZED.size
    return start, start + _SIZED.unpack_from(data, at)[1]


_NONE: Final = bytes([TAG_NONE])
_FIXED_SIZE: Final = 9
_HEAD_SIZE: Final = 5

_ORDINAL_OF_1970: Final = datetime.date(1970, 1, 1).toordinal()
_MICROS_PER_DAY: Final = 86_400_000_000
_LIMIT: Final = 2.0**63

Integers = npt.NDArray[np.int64]
Pieces = list[pa.Array | pa.Scalar]


def encode_column(array: pa.Array) -> pa.Array | None:
    """The encoded keys of a column; None where some have to be encoded as Python objects."""
    pieces = _pieces(array)
    return None if pieces is None else pc.binary_join_element_wise(*pieces, b"").cast(pa.binary())


def encode_few(array: pa.Array) -> tuple[pa.Array, Integers] | None:
    """Encoded keys of several fields, each once, and which of them each row has; None where many are different."""
    if len(array) < _FEWEST_ROWS or array.null_count:
        return None
    fields = array.flatten()
    if not fields or any(pa.types.is_nested(field.type) for field in fields):
        return None
    if any(len(pc.unique(field.slice(0, _SAMPLE))) > _MOST_IN_SAMPLE for field in fields):
        return None
    codes, values, total = np.zeros(len(array), np.int64), list[pa.Array](), 1
    for field in fields:
        places_of_field, different_of_field = _of_letters(field) or _of_any(field)
        values.append(different_of_field)
        total *= len(different_of_field)
        if total > _MOST_KEYS:
            return None
        codes = codes * len(different_of_field) + places_of_field
    used = np.flatnonzero(np.bincount(codes, minlength=total))
    places = np.unravel_index(used, [len(each) for each in values])
    different = [each.take(pa.array(place)) for each, place in zip(values, places, strict=True)]
    keys = encode_column(pa.StructArray.from_arrays(different, fields=list(array.type)))
    numbers = np.zeros(total, np.int64)
    numbers[used] = np.arange(len(used))
    return None if keys is None else (keys, numbers[codes])


def _of_any(field: pa.Array) -> tuple[npt.NDArray[Any], pa.Array]:
    """The place of each value among the different ones, and these."""
    encoded = field.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary


def _of_letters(field: pa.Array) -> tuple[npt.NDArray[Any], pa.Array] | None:
    """The same of texts of one byte, as flags are; None of others."""
    if field.null_count or not (pa.types.is_string(field.type) or pa.types.is_binary(field.type)):
        return None
    offsets, data = binary_parts(field)
    first = int(offsets[0])
    if int(offsets[-1]) - first != len(field) or not (np.diff(offsets) == 1).all():
        return None
    letters = np.frombuffer(data, np.uint8, len(field), first)
    used = np.flatnonzero(np.bincount(letters, minlength=_BYTES))
    places = np.zeros(_BYTES, np.int64)
    places[used] = np.arange(len(used))
    different = binary_array(used.astype(np.uint8), np.arange(len(used) + 1), field.type)
    return places.take(letters), different


_BYTES: Final = 1 << 8
_FEWEST_ROWS: Final = 4096
_SAMPLE: Final = 1024
_MOST_IN_SAMPLE: Final = 256
_MOST_KEYS: Final = 4096


def _pieces(array: pa.Array) -> Pieces | None:
    """The function that makes the encoded values of the column, one after the other."""
    if pa.types.is_struct(array.type):
        return None if array.null_count else _pieces_of_fields(array.flatten())
    encode = next((encode for is_type, encode in _ENCODERS if is_type(array.type)), None)
    pieces = None if encode is None else encode(array)
    if pieces is None or not array.null_count:
        return pieces
    first, *rest = pieces
    return [first.fill_null(_NONE), *(piece.fill_null(b"") for piece in rest)]


def _pieces_of_fields(fields: Sequence[pa.Array]) -> Pieces | None:
    made: Pieces = [pa.scalar(pack("<BI", TAG_TUPLE, len(fields)), pa.binary())]
    for field in fields:
        pieces = _pieces(field)
        if pieces is None:
            return None
        made += pieces
    return made


def _fixed(tags: int | Integers, values: npt.NDArray[Any], like: pa.Array) -> Pieces:
    """A tag and eight bytes for each value."""
    cells = np.empty((len(values), _FIXED_SIZE), np.uint8)
    cells[:, 0] = tags
    cells[:, 1:] = values.astype(values.dtype.newbyteorder("<"), copy=False).view(np.uint8).reshape(-1, 8)
    return [fixed_width_array(cells, like=like)]


def _numbers(array: pa.Array, type_: pa.DataType) -> npt.NDArray[Any]:
    """The values under a type of 64 bits, 0 where they are null."""
    values = array.cast(type_)
    found: npt.NDArray[Any] = (values.fill_null(0) if values.null_count else values).to_numpy(zero_copy_only=True)
    return found


def _integers(array: pa.Array) -> Pieces:
    return _fixed(TAG_INT, _numbers(array, pa.int64()), array)


def _sized(tag: int, lengths: npt.NDArray[Any], data: pa.Array) -> Pieces:
    """A tag, the number of bytes, and these."""
    cells = np.empty((len(data), _HEAD_SIZE), np.uint8)
    cells[:, 0] = tag
    cells[:, 1:] = lengths.astype("<u4").view(np.uint8).reshape(-1, 4)
    return [fixed_width_array(cells, like=data), data]


def _texts(array: pa.Array) -> Pieces:
    tag = TAG_STRING if pa.types.is_string(array.type) else TAG_BYTES
    return _sized(tag, np.diff(binary_parts(array)[0]), array.cast(pa.binary()))


def _dates(array: pa.Array) -> Pieces | None:
    ordinals = _numbers(array.view(pa.int32()), pa.int64()) + _ORDINAL_OF_1970
    return _fixed(TAG_DATE, ordinals, array) if _are_years_of_python(ordinals) else None


def _times(array: pa.Array) -> Pieces | None:
    return _fixed(TAG_TIME, _numbers(array, pa.int64()), array) if array.type.unit == "us" else None


def _timestamps(array: pa.Array) -> Pieces | None:
    micros = _numbers(array, pa.int64())
    if array.type.unit != "us" or not _are_years_of_python(micros // _MICROS_PER_DAY + _ORDINAL_OF_1970):
        return None
    return _fixed(TAG_DATETIME if array.type.tz is None else TAG_DATETIME_UTC, micros, array)


def _are_years_of_python(ordinals: Integers) -> bool:
    return not len(ordinals) or (int(ordinals.min()) >= 1 and int(ordinals.max()) <= datetime.date.max.toordinal())


def _floats(array: pa.Array) -> Pieces | None:
    """A whole number is encoded as an integer; one of more than 64 bits is left to Python."""
    values = _numbers(array, pa.float64())
    is_whole = values == np.trunc(values)
    is_large = np.abs(values) >= _LIMIT
    if (is_large & np.isfinite(values)).any():
        return None
    is_whole &= ~is_large
    bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
    whole = np.where(is_whole, values, 0).astype(np.int64)
    return _fixed(np.where(is_whole, TAG_INT, TAG_FLOAT), np.where(is_whole, whole, bits), array)


def _decimals(array: pa.Array) -> Pieces | None:
    """Decimals that are integers or doubles are encoded as these, so that equal keys have the same bytes."""
    words, fits = unscaled_words(array)
    scale = array.type.scale
    if not fits.all() or not 0 <= scale <= _MOST_PLACES:
        return None
    whole = words // 10**scale
    is_whole = whole * 10**scale == words
    fifths = words // 5**scale
    is_double = (fifths * 5**scale == words) & (np.abs(fifths.astype(np.float64)) < _EXACT_DOUBLES)
    doubles = (fifths * 2.0**-scale).view(np.int64)
    made = _fixed(np.where(is_whole, TAG_INT, TAG_FLOAT), np.where(is_whole, whole, doubles), array)
    is_text = ~is_whole & ~is_double
    if not is_text.any():
        return made
    texts = pc.binary_join_element_wise(*_decimal_texts(words[is_text], scale), b"")
    return [pc.replace_with_mask(made[0], pa.array(is_text), texts)]


_MOST_PLACES: Final = 18
"""Ten to this power is an integer of 64 bits."""

_EXACT_DOUBLES: Final = 2.0**53


def _decimal_texts(words: Integers, scale: int) -> Pieces:
    """The digits without zeros behind them, and the exponent: ``125E-2``."""
    places = np.full(len(words), scale)
    for _ in range(scale):
        ends_in_zero = words % 10 == 0
        words, places = np.where(ends_in_zero, words // 10, words), places - ends_in_zero
    digits, exponents = (pa.array(numbers).cast(pa.string()) for numbers in (words, -places))
    texts = pc.binary_join_element_wise(digits, exponents, "E").cast(pa.binary())
    return _sized(TAG_DECIMAL, np.diff(binary_parts(texts)[0]), texts)


_ENCODERS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], Pieces | None]], ...]] = (
    (pa.types.is_integer, _integers),
    (pa.types.is_boolean, _integers),
    (pa.types.is_string, _texts),
    (pa.types.is_binary, _texts),
    (pa.types.is_date32, _dates),
    (pa.types.is_time64, _times),
    (pa.types.is_timestamp, _timestamps),
    (pa.types.is_floating, _floats),
    (pa.types.is_decimal128, _decimals),
)
"""The encoders of columns, by type; columns of other types are encoded as Python objects."""
