"""Keys of Arrow columns straight to bytes: those that :mod:`headrace.state.keys.encoding` gives to each value."""

from collections.abc import Callable, Sequence
from datetime import date
from struct import pack
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import binary_array, binary_parts, fixed_width_array, unscaled_words
from headrace.state.keys.encoding import (
    TAG_BYTES,
    TAG_DATE,
    TAG_DATETIME,
    TAG_DATETIME_UTC,
    TAG_DECIMAL,
    TAG_FLOAT,
    TAG_INT,
    TAG_NONE,
    TAG_STRING,
    TAG_TIME,
    TAG_TUPLE,
)

_NONE: Final = bytes([TAG_NONE])
_FIXED_SIZE: Final = 9
_HEAD_SIZE: Final = 5

_ORDINAL_OF_1970: Final = date(1970, 1, 1).toordinal()
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
    """What makes, one after the other, the encoded values of the column."""
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
    return not len(ordinals) or (int(ordinals.min()) >= 1 and int(ordinals.max()) <= date.max.toordinal())


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
"""How columns of each type are encoded; those of others are encoded as Python objects."""
