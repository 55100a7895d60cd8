"""Tables that tell where keys stand in an order: by their hashes, or, of integers that lie close together, directly.

Both look for many keys at once, which hides that most looks miss the cache: 2 to 3 ns each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int32]
    Longs = npt.NDArray[np.int64]
    Hashes = npt.NDArray[np.uint64]

UNKNOWN: Final = -1
"""The rank of a key that is not in the table."""

_SPACIOUS: Final = 4
"""A table of hashes is made with at least so many slots for each, and anew once it has less than half of that."""

_SCATTERED: Final = 16
"""Integers lie close together when there are at most so many that lie between the smallest and the largest for each."""


class RankTable(ABC):
    """Tells the rank of each of some keys in the order of hash and key; keys are told apart by their hashes alone."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """How much memory it takes, besides the keys and hashes."""

    @abstractmethod
    def find(self, hashes: Hashes, keys: pa.Array) -> Ints:
        """The rank of each key, ``UNKNOWN`` where it has none."""

    @abstractmethod
    def extended(self, hashes: Hashes, keys: pa.Array, old: Longs, new: Longs) -> RankTable:
        """A table with more keys; this one is not to be used any more.

        Args:
            hashes: the hashes of all keys, in order.
            keys: all keys.
            old: the ranks that the keys of this table have among all, in order.
            new: the ranks of the others.
        """


def empty_table() -> RankTable:
    """A table without keys."""
    return _NoTable()


def one_of_each_integer(values: Longs, rows: Longs) -> Longs:
    """Of some rows one for each value; all of them where values lie too far apart to tell that at once."""
    found = values[rows]
    low, high = int(found.min()), int(found.max())
    if high - low >= _SCATTERED * len(found):
        return rows
    of_value: Longs = np.full(high - low + 1, UNKNOWN, np.int64)
    of_value[found - low] = rows  # of several rows the last one that is written stays
    once: Longs = of_value[of_value != UNKNOWN]
    return once


class _NoTable(RankTable):
    """A table without keys, which becomes one that suits the keys that come."""

    nbytes = 0

    def find(self, hashes: Hashes, keys: pa.Array) -> Ints:
        return np.full(len(hashes), UNKNOWN, np.int32)

    def extended(self, hashes: Hashes, keys: pa.Array, old: Longs, new: Longs) -> RankTable:
        return _suitable(hashes, keys)


def _suitable(hashes: Hashes, keys: pa.Array) -> RankTable:
    """The table that suits some keys, which are in order."""
    direct = _DirectTable.of(keys) if pa.types.is_int64(keys.type) else None
    return _HashTable(hashes) if direct is None else direct


class _DirectTable(RankTable):
    """A place for each integer from the smallest to the largest.

    Args:
        values: the keys by rank.
        low: the smallest.
        high: the largest.
    """

    def __init__(self, values: Longs, low: int, high: int) -> None:
        self._low = low
        self._high = high
        self._table: Ints = np.full(high - low + 1, UNKNOWN, np.int32)
        self._table[values - low] = np.arange(len(values), dtype=np.int32)

    @staticmethod
    def of(keys: pa.Array) -> _DirectTable | None:
        """The table of some integers by rank; None where they lie too far apart."""
        values = keys.to_numpy()
        low, high = int(values.min()), int(values.max())
        return _DirectTable(values, low, high) if high - low < _SCATTERED * len(values) else None

    @property
    def nbytes(self) -> int:
        return self._table.nbytes

    def find(self, hashes: Hashes, keys: pa.Array) -> Ints:
        values = keys.to_numpy()
        if int(values.min()) >= self._low and int(values.max()) <= self._high:
            found: Ints = self._table[values - self._low]
            return found
        is_inside = (values >= self._low) & (values <= self._high)
        ranks = np.full(len(values), UNKNOWN, np.int32)
        ranks[is_inside] = self._table[values[is_inside] - self._low]
        return ranks

    def extended(self, hashes: Hashes, keys: pa.Array, old: Longs, new: Longs) -> RankTable:
        return _suitable(hashes, keys)


class _HashTable(RankTable):
    """Open addressing with linear probing.

    The slot of a hash follows from its low bits: the high ones are alike in a task, which has a range of hashes.

    Args:
        hashes: the hashes by rank.
    """

    def __init__(self, hashes: Hashes) -> None:
        self._hashes = hashes
        self._slots = np.empty(len(hashes), np.int64)  # by rank
        self._table: Ints = np.full(1 << (_SPACIOUS * len(hashes) - 1).bit_length(), UNKNOWN, np.int32)
        self._settle(np.arange(len(hashes)))

    @property
    def nbytes(self) -> int:
        return self._slots.nbytes + self._table.nbytes

    def find(self, hashes: Hashes, keys: pa.Array) -> Ints:
        slots = self._first_slots(hashes)
        ranks: Ints = self._table[slots]
        rows = np.flatnonzero(self._are_others(ranks, hashes))
        slots = slots[rows]
        while len(rows):
            slots = self._following(slots)
            found = self._table[slots]
            ranks[rows] = found
            goes_on = self._are_others(found, hashes[rows])
            rows, slots = rows[goes_on], slots[goes_on]
        return ranks

    def extended(self, hashes: Hashes, keys: pa.Array, old: Longs, new: Longs) -> RankTable:
        if _SPACIOUS * len(hashes) > 2 * len(self._table):
            return _suitable(hashes, keys)  # integers that are more may be closer together
        slots = np.empty(len(hashes), np.int64)
        slots[old] = self._slots
        self._table[self._slots] = old
        self._hashes, self._slots = hashes, slots
        self._settle(new)
        return self

    def _settle(self, ranks: Longs) -> None:
        """Gives each of these ranks a slot."""
        slots = self._first_slots(self._hashes[ranks])
        while len(ranks):
            is_free = self._table[slots] == UNKNOWN
            self._table[slots[is_free]] = ranks[is_free]  # of several ranks the last one that is written stays
            is_settled = self._table[slots] == ranks
            self._slots[ranks[is_settled]] = slots[is_settled]
            ranks, slots = ranks[~is_settled], self._following(slots[~is_settled])

    def _are_others(self, ranks: Ints, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Which ranks are those of other hashes."""
        is_other: npt.NDArray[np.bool_] = self._hashes[ranks] != hashes
        is_other &= ranks != UNKNOWN
        return is_other

    def _first_slots(self, hashes: Hashes) -> Longs:
        return (hashes & np.uint64(len(self._table) - 1)).view(np.int64)

    def _following(self, slots: Longs) -> Longs:
        return (slots + 1) & (len(self._table) - 1)
