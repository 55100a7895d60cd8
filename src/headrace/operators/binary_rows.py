"""The hashes of Flink's binary rows, and the order in which a hash map of Java has them.

State of rows leaves such a map in that order in Flink, and so do the keys of a mini-batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import fixed_width, is_fixed_width, validity

Longs = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]
Lengths = npt.NDArray[np.int64]

_SEED: Final = 42
_INLINE: Final = 7
_WORD: Final = 8
_LEAST_BUCKETS: Final = 16
_MOST_ENTRIES: Final = np.int64(_LEAST_BUCKETS * 3 // 4) << np.arange(40)
"""The entries from which on the buckets of a map double: once, twice, and so on."""


def buckets(hashes: Words, sizes: Longs) -> Longs:
    """The bucket of each hash in a map that has grown to a number of entries, and never shrinks."""
    capacities = _LEAST_BUCKETS << np.searchsorted(_MOST_ENTRIES, sizes)
    spread = hashes ^ (hashes >> np.uint32(16))
    found: Longs = spread.astype(np.int64) & (capacities - 1)
    return found


def hashes_of(columns: Sequence[pa.Array], count: int) -> Words:
    """The hashes of the binary rows of some columns, possibly none.

    A binary row has bits of nulls behind a byte of the row kind, then eight bytes a field, then values that are longer
    than that. The hash is Flink's ``MurmurHashUtils.hashBytesByWords``.
    """
    head = np.zeros((count, (len(columns) + 63 + _WORD) // 64 * _WORD), np.uint8)
    fixed = np.zeros((count, len(columns)), np.uint64)
    long_values: list[tuple[pa.Array, Lengths]] = []
    behind = np.full(count, head.shape[1] + len(columns) * _WORD, np.int64)
    for place, column in enumerate(columns):
        valid = validity(column)
        if valid is not None:
            bit = place + _WORD
            head[~valid, bit // _WORD] |= np.uint8(1 << bit % _WORD)
        if _is_text(column.type):
            fixed[:, place], lengths = _texts(column, behind)
            long_values.append((column, lengths))
            behind = behind + -(-lengths // _WORD) * _WORD
        else:
            fixed[:, place] = _numbers(column)
        if valid is not None:
            fixed[~valid, place] = 0
    words = np.concatenate((head.view("<u4"), fixed.view("<u4")), axis=1)
    hashes = np.full(count, _SEED, np.uint32)
    for index in range(words.shape[1]):
        hashes = _mixed(hashes, words[:, index])
    for column, lengths in long_values:
        _mix_long(hashes, column, lengths)
    return _finished(hashes ^ behind.astype(np.uint32))


def _is_text(kind: pa.DataType) -> bool:
    return any(check(kind) for check in (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string))


def _numbers(column: pa.Array) -> npt.NDArray[np.uint64]:
    if pa.types.is_decimal(column.type):
        scale = column.type.scale
        values = [0 if value is None else int(value.scaleb(scale)) for value in column.to_pylist()]
        return np.array([value & 0xFFFFFFFFFFFFFFFF for value in values], np.uint64)
    if not is_fixed_width(column.type):
        return np.zeros(len(column), np.uint64)  # nested values have no order of their own
    numbers: npt.NDArray[Any] = fixed_width(column)
    if pa.types.is_timestamp(column.type):
        numbers = numbers // 1000
    return numbers.view(f"u{numbers.dtype.itemsize}").astype(np.uint64)


def _texts(column: pa.Array, behind: Lengths) -> tuple[npt.NDArray[np.uint64], Lengths]:
    """The eight bytes of each text: a short text itself, else its offset and length; and the lengths of long texts."""
    lengths = np.asarray(pc.binary_length(column).fill_null(0)).astype(np.int64)
    starts, data = _bytes_of(column)
    fixed = (lengths.astype(np.uint64) | np.uint64(0x80)) << np.uint64(56)
    for index in range(_INLINE):
        is_there = lengths > index
        values = data[np.where(is_there, starts + index, 0)].astype(np.uint64) << np.uint64(8 * index)
        fixed |= np.where(is_there, values, np.uint64(0))
    is_long = lengths > _INLINE
    places = behind.astype(np.uint64) << np.uint64(32) | lengths.astype(np.uint64)
    return np.where(is_long, places, fixed), np.where(is_long, lengths, 0)


def _bytes_of(column: pa.Array) -> tuple[Lengths, npt.NDArray[np.uint8]]:
    """The offset of each text in the bytes of all."""
    _, offsets, data = column.buffers()
    width = np.int64 if pa.types.is_large_string(column.type) else np.int32
    starts = np.frombuffer(offsets, width, count=len(column), offset=column.offset * np.dtype(width).itemsize)
    values = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return starts.astype(np.int64), np.append(values, np.zeros(_WORD, np.uint8))


def _mix_long(hashes: Words, column: pa.Array, lengths: Lengths) -> None:
    """Mixes in the words of long texts, which end with zeros up to a multiple of eight bytes."""
    rows = np.flatnonzero(lengths)
    starts, data = _bytes_of(column) if len(rows) else (lengths, np.empty(0, np.uint8))
    index = 0
    while len(rows):
        word = np.zeros(len(rows), np.uint32)
        for byte in range(4):
            at = index * 4 + byte
            values = data[np.minimum(starts[rows] + at, len(data) - 1)].astype(np.uint32)
            word |= np.where(at < lengths[rows], values, np.uint32(0)) << np.uint32(8 * byte)
        hashes[rows] = _mixed(hashes[rows], word)
        index += 1
        rows = rows[-(-lengths[rows] // _WORD) * 2 > index]


def _mixed(hashes: Words, words: Words) -> Words:
    with np.errstate(over="ignore"):
        mixed = words * np.uint32(0xCC9E2D51)
        mixed = (mixed << np.uint32(15) | mixed >> np.uint32(17)) * np.uint32(0x1B873593)
        found = hashes ^ mixed
        return (found << np.uint32(13) | found >> np.uint32(19)) * np.uint32(5) + np.uint32(0xE6546B64)


def _finished(hashes: Words) -> Words:
    with np.errstate(over="ignore"):
        hashes = (hashes ^ hashes >> np.uint32(16)) * np.uint32(0x85EBCA6B)
        hashes = (hashes ^ hashes >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    found: Words = hashes ^ hashes >> np.uint32(16)
    return found
