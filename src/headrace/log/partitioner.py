"""Which partition a record goes to: the one that Kafka's own partitioner chooses for the same key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

_SEED: Final = 0x9747B28C
_FACTOR: Final = np.uint32(0x5BD1E995)

_STICKY_ROWS: Final = 16_384
"""How many records without a key go to one partition before the next has its turn."""


class Partitioner:
    """Chooses the partitions of records.

    Args:
        start: where records without a key begin.
    """

    def __init__(self, start: int) -> None:
        self._next = start

    def partition(self, keys: pa.Array, partitions: int) -> NDArray[np.int32]:
        """The partition of each record.

        Args:
            keys: binary; None has no say, and such records take turns in stretches.
            partitions: how many there are.
        """
        if keys.null_count == len(keys):
            return self._taking_turns(len(keys), partitions)
        found = ((murmur2(keys) & np.uint32(0x7FFFFFFF)) % np.uint32(partitions)).astype(np.int32)
        if keys.null_count:
            missing = np.asarray(keys.is_null())
            found[missing] = self._taking_turns(int(missing.sum()), partitions)
        return found

    def _taking_turns(self, rows: int, partitions: int) -> NDArray[np.int32]:
        turns = -(-rows // _STICKY_ROWS)
        found = (self._next + np.arange(rows) // _STICKY_ROWS) % partitions
        self._next += turns
        return found.astype(np.int32)


def murmur2(values: pa.Array) -> NDArray[np.uint32]:
    """The hash of binary values that Kafka's clients use; that of a null means nothing."""
    _, offsets, data = values.buffers()
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    content = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    starts, lengths = bounds[:-1], np.diff(bounds)
    hashes = np.uint32(_SEED) ^ lengths.astype(np.uint32)
    _mix_words(hashes, content, starts, lengths)
    _mix_rest(hashes, content, starts, lengths)
    hashes ^= hashes >> np.uint32(13)
    hashes *= _FACTOR
    hashes ^= hashes >> np.uint32(15)
    return hashes


def _mix_words(
    hashes: NDArray[np.uint32], content: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> None:
    """Take in whole words of four bytes, the same word of all values at once."""
    if len(content) < 4:
        return
    words = np.ndarray((len(content) - 3,), np.dtype("<u4"), content, strides=(1,))
    rows = np.flatnonzero(lengths >= 4)
    at = 0
    while len(rows):
        word = words[starts[rows] + at] * _FACTOR
        word ^= word >> np.uint32(24)
        word *= _FACTOR
        hashes[rows] = hashes[rows] * _FACTOR ^ word
        at += 4
        rows = rows[lengths[rows] >= at + 4]


def _mix_rest(
    hashes: NDArray[np.uint32], content: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> None:
    """Take in up to three bytes at the end of each value."""
    rest = lengths & 3
    ends = starts + lengths - rest
    for number in (2, 1, 0):
        rows = np.flatnonzero(rest > number)
        hashes[rows] ^= content[ends[rows] + number].astype(np.uint32) << np.uint32(8 * number)
    rows = np.flatnonzero(rest)
    hashes[rows] *= _FACTOR
