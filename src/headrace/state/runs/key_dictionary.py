"""``KeyDictionary``: groups rows by (time, key), in the order of time, hash and key, without sorting them.

Code that sees the same keys again and again, such as the windows of a task, need not sort them each time: the rank of a
key among all that are known is its place in the order, and reductions scatter into these places. For a million rows of
half a million keys that takes 10 to 30 ns a row, where sorting takes 70 (measured).

A task that goes on in another process takes the keys that its state has in order already, so it need not meet and sort
them all again: that took a quarter of an epoch of four million records.

What is known changes no result, only the time it takes. Where it is no help there is no answer, and rows are sorted as
:mod:`headrace.state.runs.grouping` does: few rows, keys that do not come again, many more places than rows, and
different keys with one hash.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.state.runs.grouping import Placed

Longs = npt.NDArray[np.int64]

Ints = npt.NDArray[np.int32]

Hashes = npt.NDArray[np.uint64]


_SPARSE_TABLE = 4
"""Places for more than so many groups a row are not laid out: the groups are numbered by a second table."""


class Runs(NamedTuple):
    """The times of rows, of which many that follow one another are equal.

    Attributes:
        times: the time of each run of rows.
        lengths: how many rows it has.
    """

    times: Longs
    lengths: Longs

    @property
    def total(self) -> int:
        """Return how many rows there are."""
        return int(self.lengths.sum())

    def each(self) -> Longs:
        """The time of each row."""
        return np.repeat(self.times, self.lengths)

    @staticmethod
    def of(times: Longs) -> Runs:
        """The runs of a column."""
        if times.strides == (0,):  # one time that is repeated
            return Runs(times[:1], np.array([len(times)])[: len(times)])
        starts = np.flatnonzero(np.concatenate(([True], times[1:] != times[:-1])))
        return Runs(times[starts], np.diff(starts, append=len(times)))

    @staticmethod
    def of_all(pieces: Sequence[Longs]) -> Runs:
        """The runs of columns that follow one another."""
        if not any(piece.strides == (0,) for piece in pieces):
            return Runs.of(np.concatenate(pieces))
        times, lengths = zip(*map(Runs.of, pieces), strict=True)
        return Runs(np.concatenate(times), np.concatenate(lengths))


@dataclass(frozen=True)
class HashGroups:
    """Groups of rows by (time, key), in the order of time; at one time the order of keys means nothing.

    Attributes:
        segments: which rows belong to which group.
        times: the time of each group.
        keys: the key of each group.
    """

    segments: Placed
    times: Longs
    keys: pa.Array

    @staticmethod
    def of(times: Runs, keys: Sequence[pa.Array]) -> HashGroups:
        """Groups rows.

        Args:
            times: the time of each row; there is at least one.
            keys: the key of each row (no nulls), in any number of pieces.
        """
        distinct = np.unique(times.times)
        ids, dictionary = _numbered_keys(keys, times.total // len(distinct))
        if len(distinct) > 1:
            ids = np.repeat(np.searchsorted(distinct, times.times) * len(dictionary), times.lengths) + ids
        segments, used = _placed(ids, len(distinct) * len(dictionary))
        return HashGroups(
            segments, distinct[used // len(dictionary)], dictionary.take(pa.array(used % len(dictionary)))
        )


def _numbered_keys(keys: Sequence[pa.Array], most: int) -> tuple[Longs, pa.Array]:
    """The number of each row's key, and the key of each number, of which some may be no row's.

    Args:
        keys: the keys, in pieces.
        most: integers number themselves where there are no more numbers then.
    """
    if pa.types.is_int64(keys[0].type):
        pieces = [piece.to_numpy() for piece in keys if len(piece)]
        lowest = min(int(piece.min()) for piece in pieces)
        span = max(int(piece.max()) for piece in pieces) - lowest + 1
        if span <= most:
            return _distances(pieces, lowest), pa.array(np.arange(span) + lowest)
    encoded = pa.chunked_array(keys).dictionary_encode()
    ids = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks], dtype=np.int64)
    return ids, encoded.chunk(0).dictionary


def _distances(pieces: Sequence[Longs], lowest: int) -> Longs:
    bounds = list(accumulate(map(len, pieces), initial=0))
    distances = np.empty(bounds[-1], np.int64)
    for piece, (start, stop) in zip(pieces, pairwise(bounds), strict=True):
        np.subtract(piece, lowest, out=distances[start:stop])
    return distances


def _placed(places: Longs, count: int) -> tuple[Placed, Longs]:
    """Groups of rows by their places, and the place of each group; places ascend."""
    if count <= _SPARSE_TABLE * len(places):
        segments = Placed.of(places, count)
        return segments, segments.used
    used = np.sort(pc.unique(pa.array(places)).to_numpy())
    return Placed.of(np.searchsorted(used, places), len(used)), used


UNKNOWN: Final = -1
"""The rank of a key that is not in the table."""

_SPACIOUS: Final = 4
"""A table of hashes is made with at least so many slots for each, and anew once it has less than half of that."""

_SCATTERED: Final = 16
"""Integers lie close together when there are at most so many that lie between the smallest and the largest for each."""


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


def _suitable(hashes: Hashes, keys: pa.Array) -> _DirectTable | _HashTable:
    """The table that suits some keys, which are in order."""
    direct = _DirectTable.of(keys) if pa.types.is_int64(keys.type) else None
    return _HashTable(hashes) if direct is None else direct


class _DirectTable:
    """The rank of each key in the order of hash and key: a place for each integer from the smallest to the largest.

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
        """Memory in bytes."""
        return self._table.nbytes

    def find(self, hashes: Hashes, keys: pa.Array) -> Ints:
        """The rank of each key, ``UNKNOWN`` where it has none."""
        values = keys.to_numpy()
        if int(values.min()) >= self._low and int(values.max()) <= self._high:
            found: Ints = self._table[values - self._low]
            return found
        is_inside = (values >= self._low) & (values <= self._high)
        ranks = np.full(len(values), UNKNOWN, np.int32)
        ranks[is_inside] = self._table[values[is_inside] - self._low]
        return ranks


class _HashTable:
    """The same for any keys, identified by their hashes alone: open addressing with linear probing.

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
        """Memory in bytes, without the hashes."""
        return self._slots.nbytes + self._table.nbytes

    def find(self, hashes: Hashes, keys: pa.Array) -> Ints:
        """The rank of each key, ``UNKNOWN`` where it has none."""
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

    def extend(self, hashes: Hashes, old: Longs, new: Longs) -> bool:
        """Takes more keys; returns False when there is no room for them.

        Args:
            hashes: the hashes of all keys, in order.
            old: the ranks that the keys of this table have among all, in order.
            new: the ranks of the others.
        """
        if _SPACIOUS * len(hashes) > 2 * len(self._table):
            return False
        slots = np.empty(len(hashes), np.int64)
        slots[old] = self._slots
        self._table[self._slots] = old
        self._hashes, self._slots = hashes, slots
        self._settle(new)
        return True

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
        """Return which ranks are those of other hashes."""
        is_other: npt.NDArray[np.bool_] = self._hashes[ranks] != hashes
        is_other &= ranks != UNKNOWN
        return is_other

    def _first_slots(self, hashes: Hashes) -> Longs:
        return (hashes & np.uint64(len(self._table) - 1)).view(np.int64)

    def _following(self, slots: Longs) -> Longs:
        return (slots + 1) & (len(self._table) - 1)


FEWEST_ROWS: Final = 1 << 15
"""Fewer rows are sorted within the cache."""

MOST_KEYS: Final = 1 << 22
"""No more keys are known: each takes 30 to 80 bytes, and those of a string."""

_SPARSE: Final = 4
"""More places than so many a row cost more than sorting."""

_USELESS: Final = 16
"""The most keys, as a multiple of the rows, that may be of no use any more."""

_RARE: Final = 0.1
"""The share of rows with known keys below which keys do not come again."""

_LONGEST_PAUSE: Final = 64
"""The most times that rows are sorted before another try."""


@dataclass(frozen=True, slots=True)
class RankedGroups:
    """Groups of rows by (time, key), in the order of time, hash and key.

    Attributes:
        segments: which rows belong to which group.
        times: the time of each group.
        hashes: the hash of the key of each group.
        keys: the key of each group.
    """

    segments: Placed
    times: Longs
    hashes: Hashes
    keys: pa.Array


class OrderedKeys(NamedTuple):
    """Different keys in the order of hash and key.

    Attributes:
        hashes: their hashes.
        keys: the keys.
    """

    hashes: Hashes
    keys: pa.Array


class KeyDictionary:
    """The keys that were met, in the order of hash and key.

    Args:
        most: with more keys than that it starts anew.

    Attributes:
        stored: gives the hashes and keys that it begins with, in order and different; called once, when rows are to be
            grouped for the first time.
    """

    def __init__(self, most: int = MOST_KEYS) -> None:
        self.stored: Callable[[], OrderedKeys | None] | None = None
        self._most = most
        self._pause = self._left = 0
        self._hashes: Hashes = np.empty(0, np.uint64)
        self._keys = pa.nulls(0)
        self._table: _DirectTable | _HashTable | None = None

    def __len__(self) -> int:
        return len(self._hashes)

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return int(self._hashes.nbytes + self._keys.nbytes) + (0 if self._table is None else self._table.nbytes)

    def group(self, times: Longs, hashes: Hashes, keys: pa.Array) -> RankedGroups | None:
        """Groups rows; None where that is for sorting to do.

        Args:
            times: what comes first in the order.
            hashes: the hash of each row's key.
            keys: each row's key (int64, string or binary, no nulls).
        """
        if len(times) < FEWEST_ROWS:
            return None
        if self._left:
            self._left -= 1
            return None
        self._restore_stored()
        is_first = not len(self)
        ranks = self._ranks_of(hashes, keys)
        groups = None if ranks is None else self._laid_out(times, ranks)
        if groups is None:
            self._rest(is_over=ranks is None or len(self) > _USELESS * len(times))
        elif not is_first:
            self._pause = 0
        return groups

    def _restore_stored(self) -> None:
        """Begins with the keys that are stored, if they are not too few to matter."""
        stored, self.stored = self.stored, None
        found = None if stored is None or len(self) else stored()
        if found is None or not FEWEST_ROWS <= len(found.hashes) <= self._most:
            return
        is_other = np.concatenate(([True], found.hashes[1:] != found.hashes[:-1]))
        self._add(found.hashes[is_other], found.keys.filter(pa.array(is_other)))

    def _laid_out(self, times: Longs, ranks: Ints) -> RankedGroups | None:
        """The groups of rows, given the ranks of their keys; None where they have too many places."""
        runs = Runs.of(times)
        distinct = np.unique(runs.times)
        low = int(ranks.min())
        span = int(ranks.max()) + 1 - low
        if len(distinct) * span > _SPARSE * len(times):
            return None
        edges = np.arange(len(distinct) + 1) * span
        places = np.repeat(edges[np.searchsorted(distinct, runs.times)] - low, runs.lengths)
        places += ranks
        segments = Placed.of(places, int(edges[-1]))
        of_times = np.diff(np.searchsorted(segments.used, edges))
        at = segments.used - np.repeat(edges[:-1] - low, of_times)
        return RankedGroups(segments, np.repeat(distinct, of_times), self._hashes[at], self._keys.take(pa.array(at)))

    def _ranks_of(self, hashes: Hashes, keys: pa.Array) -> Ints | None:
        """The rank of each row's key, known from now on; None where keys do not come again, or have one hash."""
        ranks = self._find(hashes, keys)
        new = np.flatnonzero(ranks == UNKNOWN)
        if len(new):
            if len(self) and len(new) > (1 - _RARE) * len(hashes):
                return None
            rows = _one_of_each(hashes, keys, new)
            if len(self) + len(rows) > self._most:
                return None
            old = self._add(hashes[rows], keys.take(pa.array(rows)))
            ranks = np.append(old.astype(np.int32), np.int32(UNKNOWN))[ranks]
            ranks[new] = self._find(hashes[new], keys.take(pa.array(new)))
        # The hash of an integer is that of no other one.
        if not pa.types.is_int64(keys.type) and not self._keys.take(pa.array(ranks)).equals(keys):
            return None
        return ranks

    def _add(self, hashes: Hashes, keys: pa.Array) -> Longs:
        """Has keys known that were not, given in order; the ranks that those known before have now."""
        new = np.searchsorted(self._hashes, hashes) + np.arange(len(hashes))
        is_old = np.ones(len(self) + len(hashes), np.bool_)
        is_old[new] = False
        old = np.flatnonzero(is_old)
        order = np.empty(len(is_old), np.int64)
        order[old] = np.arange(len(old))
        order[new] = len(old) + np.arange(len(new))
        self._hashes = np.concatenate((self._hashes, hashes))[order]
        self._keys = (pa.concat_arrays([self._keys, keys]) if len(old) else keys).take(pa.array(order))
        if not (isinstance(self._table, _HashTable) and self._table.extend(self._hashes, old, new)):
            self._table = _suitable(self._hashes, self._keys)  # integers that are more may be closer together
        return old

    def _find(self, hashes: Hashes, keys: pa.Array) -> Ints:
        return np.full(len(hashes), UNKNOWN, np.int32) if self._table is None else self._table.find(hashes, keys)

    def _rest(self, *, is_over: bool) -> None:
        """Note that it was no help: the next try comes after a pause, longer each time, or anew if it ``is_over``."""
        self._pause = self._left = min(2 * self._pause or 1, _LONGEST_PAUSE)
        if is_over:
            self._forget()

    def _forget(self) -> None:
        self._hashes, self._keys, self._table = np.empty(0, np.uint64), pa.nulls(0), None


def _one_of_each(hashes: Hashes, keys: pa.Array, rows: Longs) -> Longs:
    """Of some rows one for each hash, in the order of hashes."""
    if pa.types.is_int64(keys.type):
        rows = one_of_each_integer(keys.to_numpy(), rows)  # fewer are sorted then
    found = hashes[rows]
    order = np.argsort(found)
    found = found[order]
    return rows[order[np.concatenate(([True], found[1:] != found[:-1]))]]
