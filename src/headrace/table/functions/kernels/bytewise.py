"""Functions of texts and byte strings that treat every byte by itself, for all rows of a column at once."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.common.arrays import binary_array, binary_parts
from headrace.table.functions.kernels.kernel import TEXT, Numbers, from_numpy, null_mask

_DIGITS: Final = np.frombuffer(b"0123456789ABCDEF", np.uint8)
_BASE_64: Final = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)

_ALL: Final = range(256)


def _bytes_of(column: pa.Array) -> tuple[Numbers, Numbers]:
    """The offsets, from 0 on, and the bytes."""
    offsets, data = binary_parts(column)
    return offsets - offsets[0], np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]


def is_ascii(column: pa.Array) -> bool:
    """Return whether all characters of a column are of ASCII, so that they are bytes."""
    _, data = _bytes_of(column)
    return not len(data) or bool(data.max() < 128)


@lru_cache(maxsize=64)
def _table(pieces: tuple[bytes, ...]) -> tuple[Numbers, Numbers]:
    """The bytes that stand for each byte, one row each, and how many they are."""
    widths = np.array(list(map(len, pieces)))
    width = int(widths.max())
    return np.frombuffer(b"".join(piece.ljust(width, b"\0") for piece in pieces), np.uint8).reshape(256, width), widths


def replaced(column: pa.Array, pieces: Sequence[bytes]) -> pa.Array:
    """Texts of a column's bytes, each replaced by the bytes that a table has in its place."""
    offsets, data = _bytes_of(column)
    table, widths = _table(tuple(pieces))
    if widths.min() == widths.max():
        return binary_array(table[data], offsets * table.shape[1], TEXT, column)
    lengths = widths[data]
    ends = np.concatenate(([0], np.cumsum(lengths)))
    made = np.empty(int(ends[-1]), np.uint8)
    for place in range(table.shape[1]):
        rows = np.flatnonzero(lengths > place)
        made[ends[rows] + place] = table[data[rows], place]
    return binary_array(made, ends[offsets], TEXT, column)


def hexadecimal(column: pa.Array, *, is_upper: bool = True) -> pa.Array:
    """Two digits for each byte."""
    digits = "02X" if is_upper else "02x"
    return replaced(column, [format(byte, digits).encode() for byte in _ALL])


def digits_of(column: pa.Array, bits: int) -> pa.Array:
    """Integers of 64 bits, as unsigned, in digits of so many bits each, at most four, without zeros before them."""
    values = (column.fill_null(0) if column.null_count else column).to_numpy(zero_copy_only=False)
    binary = np.unpackbits(values.astype(">i8").view(np.uint8).reshape(-1, 8), axis=1)
    places = binary.reshape(len(values), -1, bits) @ np.array([8, 4, 2, 1][-bits:], np.uint8)
    places_shown = np.arange(places.shape[1], 0, -1)
    lengths = np.maximum(((places != 0) * places_shown).max(axis=1, initial=0), 1)
    data = _DIGITS[places][places_shown <= lengths[:, None]]
    return binary_array(data, np.concatenate(([0], np.cumsum(lengths))), TEXT, column)


def base64(column: pa.Array) -> pa.Array:
    """Four characters for three bytes; ``=`` for those that miss at the end of each value."""
    offsets, data = _bytes_of(column)
    lengths = np.diff(offsets)
    groups = -(-lengths // 3)
    ends = np.concatenate(([0], np.cumsum(groups)))
    padded = np.zeros(int(ends[-1]) * 3, np.uint8)
    padded[np.arange(len(data)) + np.repeat(ends[:-1] * 3 - offsets[:-1], lengths)] = data
    words = padded.reshape(-1, 3).astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
    characters = _BASE_64[(words[:, None] >> np.array([18, 12, 6, 0], np.uint32)) & 63]
    for missing in (1, 2):
        short = (ends[1:] - 1)[(lengths > 0) & (groups * 3 - lengths >= missing)]
        characters[short, 4 - missing] = ord("=")
    return binary_array(characters, ends * 4, TEXT, column)


def initcap(column: pa.Array) -> pa.Array:
    """Letters of ASCII in capitals where they do not follow a letter or a digit of ASCII, else in small letters."""
    offsets, data = _bytes_of(column)
    follows = np.concatenate(([False], _IS_WORD[data[:-1]])) if len(data) else np.zeros(0, bool)
    starts = offsets[:-1]
    follows[starts[starts < len(data)]] = False
    return binary_array(np.where(follows, _LOWER[data], _UPPER[data]), offsets, TEXT, column)


def _of_each(function: Callable[[bytes], bytes]) -> Numbers:
    return np.frombuffer(b"".join(function(bytes([byte])) for byte in _ALL), np.uint8)


_UPPER: Final = _of_each(bytes.upper)
_LOWER: Final = _of_each(bytes.lower)
_IS_WORD: Final = np.array([bytes([byte]).isalnum() for byte in _ALL])


def first_bytes(column: pa.Array) -> pa.Array:
    """The first byte of each text as a signed integer; 0 for no text."""
    offsets, data = _bytes_of(column)
    found = np.zeros(len(column), np.int8)
    is_there = np.diff(offsets) > 0
    found[is_there] = data.view(np.int8)[offsets[:-1][is_there]]
    return from_numpy(found.astype(np.int32), pa.int32(), null_mask(column))


_LONGEST: Final = 1 << 12


def java_hashes(column: pa.Array) -> Numbers | None:
    """``hashCode()`` of Java's texts, as unsigned integers; None unless all are of ASCII and not too long."""
    offsets, data = _bytes_of(column)
    longest = int(np.diff(offsets).max(initial=0))
    if longest > _LONGEST or not is_ascii(column):
        return None
    powers = np.cumprod(np.concatenate(([1], np.full(longest, 31))), dtype=np.uint32)
    behind = np.repeat(offsets[1:], np.diff(offsets)) - np.arange(len(data)) - 1
    sums = np.concatenate(([0], np.cumsum(data * powers[behind], dtype=np.uint32))).astype(np.uint32)
    found: Numbers = sums[offsets[1:]] - sums[offsets[:-1]]
    return found


def sliced(column: pa.Array, begins: Numbers, ends: Numbers, mask: Numbers | None) -> pa.Array:
    """The bytes of each row between two places, which are within it or beyond its end; NULL where the mask says so."""
    offsets, data = _bytes_of(column)
    lengths = np.diff(offsets)
    begins = np.minimum(begins, lengths)
    sizes = np.maximum(np.minimum(ends, lengths) - begins, 0)
    if mask is not None:
        sizes = np.where(mask, 0, sizes)
    made = np.concatenate(([0], np.cumsum(sizes)))
    places = np.arange(made[-1]) + np.repeat(offsets[:-1] + begins - made[:-1], sizes)
    like = None if mask is None else pa.array(np.zeros(len(mask), np.int8), mask=mask)
    return binary_array(data[places], made, TEXT, like)
