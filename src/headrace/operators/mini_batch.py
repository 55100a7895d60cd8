"""Mini-batches: many records of a key make one change of its result.

Keys leave a mini-batch in the order of a hash map of Java over binary rows, as in Flink. So the order of changes, and
which records of two phases meet in one mini-batch, are those of Flink.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.operators.arrays import codes_of, fixed_width

Longs = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]
Bytes = npt.NDArray[np.uint8]

_SEED: Final = 42
_INLINE: Final = 7
_WORD: Final = 8
_LEAST_BUCKETS: Final = 16


@dataclass(frozen=True, slots=True)
class Bundle:
    """One mini-batch.

    Attributes:
        records: the records, key after key in parts as they are sent.
        places: at which place the key of each leaves.
    """

    records: Longs
    places: Longs


@dataclass(frozen=True, slots=True)
class MiniBatch:
    """Settings of a mini-batch: the records that are bundled before they are aggregated.

    Attributes:
        size: so many are together at most.
        has_two_phases: whether senders put them together first, and receivers what comes of that.
        key_columns: the positions of the columns of the key.
    """

    size: int
    has_two_phases: bool
    key_columns: tuple[int, ...]

    def bundles(self, columns: pa.RecordBatch) -> list[Bundle]:
        """The mini-batches of records."""
        keys = [columns.column(index) for index in self.key_columns]
        names = [str(place) for place in range(len(keys))]
        count = columns.num_rows
        numbers = codes_of(pa.StructArray.from_arrays(keys, names)) if keys else np.zeros(count, np.int64)
        hashes = _hashes_by_number(keys, numbers)
        groups = [np.arange(count)[start : start + self.size] for start in range(0, count, self.size)]
        if self.has_two_phases:
            groups = self._of_receivers(groups, numbers, hashes)
        return [Bundle(group, _places(numbers[group], hashes)) for group in groups]

    def _of_receivers(self, groups: list[Longs], numbers: Longs, hashes: Words) -> list[Longs]:
        sent: list[Longs] = []
        for group in groups:
            mine = numbers[group]
            sent += [group[mine == key] for key in ordered_keys(mine, hashes).tolist()]
        return [np.concatenate(sent[start : start + self.size]) for start in range(0, len(sent), self.size)]


def ordered_keys(keys: Longs, hashes: Words) -> Longs:
    """The different keys of a mini-batch in the order in which they leave a hash map.

    Args:
        keys: the key of each record, as a number.
        hashes: the hash of each number.
    """
    different, firsts = np.unique(keys, return_index=True)
    buckets = _LEAST_BUCKETS
    while len(different) > buckets * 3 // 4:
        buckets *= 2
    own = hashes[different]
    places = (own ^ (own >> np.uint32(16))) & np.uint32(buckets - 1)
    found: Longs = different[np.lexsort((firsts, places))]
    return found


def _places(keys: Longs, hashes: Words) -> Longs:
    """The position of each record's key in the order in which keys are emitted."""
    places = np.zeros(len(hashes), np.int64)
    ordered = ordered_keys(keys, hashes)
    places[ordered] = np.arange(len(ordered))
    found: Longs = places[keys]
    return found


def _hashes_by_number(keys: Sequence[pa.Array], numbers: Longs) -> Words:
    different, firsts = np.unique(numbers, return_index=True)
    found = np.zeros(int(numbers.max(initial=0)) + 1, np.uint32)
    found[different] = hashes_of([key.take(pa.array(firsts)) for key in keys], len(firsts))
    return found


def hashes_of(keys: Sequence[pa.Array], count: int) -> Words:
    """The hashes that Flink's binary rows of some columns have."""
    rows = [_row_bytes(keys, row) for row in range(count)] if keys else [b"\0" * _WORD] * count
    return np.array([_murmur(row) for row in rows], np.uint32)


def _row_bytes(keys: Sequence[pa.Array], row: int) -> bytes:
    """A binary row: bits of nulls behind a byte of the row kind, eight bytes a field, then what is longer than that."""
    head = bytearray((len(keys) + 63 + _WORD) // 64 * _WORD)
    fixed, rest = bytearray(), bytearray()
    for place, key in enumerate(keys):
        value = key[row]
        if not value.is_valid:
            bit = place + _WORD
            head[bit // _WORD] |= 1 << bit % _WORD
            fixed += b"\0" * _WORD
            continue
        data = _field_bytes(key, row)
        if isinstance(data, int):
            fixed += (data & 0xFFFFFFFFFFFFFFFF).to_bytes(_WORD, "little")
        elif len(data) <= _INLINE:
            fixed += data.ljust(_INLINE, b"\0") + bytes([len(data) | 0x80])
        else:
            start = len(head) + len(keys) * _WORD + len(rest)
            fixed += (start << 32 | len(data)).to_bytes(_WORD, "little")
            rest += data.ljust(-(-len(data) // _WORD) * _WORD, b"\0")
    return bytes(head + fixed + rest)


def _field_bytes(key: pa.Array, row: int) -> int | bytes:
    value: Any = key[row].as_py()
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    if pa.types.is_decimal(key.type):
        return int(value.scaleb(key.type.scale))
    number = fixed_width(key.slice(row, 1))
    if pa.types.is_timestamp(key.type):
        return int(number[0]) // 1000
    if pa.types.is_floating(key.type):
        return int(number.view(np.uint32 if number.dtype.itemsize == 4 else np.uint64)[0])
    width = number.dtype.itemsize * _WORD
    return int(number[0]) & ((1 << width) - 1)


def _murmur(data: bytes) -> int:
    """Flink's ``MurmurHashUtils.hashBytesByWords``."""
    h = _SEED
    for word in np.frombuffer(data, "<u4").tolist():
        k = word * 0xCC9E2D51 & 0xFFFFFFFF
        k = (k << 15 | k >> 17) & 0xFFFFFFFF
        h ^= k * 0x1B873593 & 0xFFFFFFFF
        h = (h << 13 | h >> 19) & 0xFFFFFFFF
        h = (h * 5 + 0xE6546B64) & 0xFFFFFFFF
    h ^= len(data)
    h ^= h >> 16
    h = h * 0x85EBCA6B & 0xFFFFFFFF
    h ^= h >> 13
    h = h * 0xC2B2AE35 & 0xFFFFFFFF
    return h ^ h >> 16
