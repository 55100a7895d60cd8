"""``KnownKeys``: groups rows by (time, key), in the order of time, hash and key, without sorting them.

Who sees the same keys again and again, as the windows of a task do, need not sort them each time: the rank of a key
among all that are known is its place in the order, and reductions scatter into these places. For a million rows of half
a million keys that takes 10 to 30 ns a row, where sorting takes 70 (measured).

A task that goes on in another process takes the keys that its state has in order already, so it need not meet and sort
them all again: that took a quarter of an epoch of four million records.

What is known changes no result, only the time it takes. Where it is no help there is no answer, and rows are sorted as
:mod:`headrace.state.runs.grouping` does: few rows, keys that do not come again, many more places than rows, and
different keys with one hash.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.state.runs.hash_grouping import Runs
from headrace.state.runs.placed import Placed
from headrace.state.runs.rank_tables import UNKNOWN, empty_table, one_of_each_integer

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from headrace.state.runs.rank_tables import RankTable

    Ints = npt.NDArray[np.int32]
    Longs = npt.NDArray[np.int64]
    Hashes = npt.NDArray[np.uint64]

FEWEST_ROWS: Final = 1 << 15
"""Fewer rows are sorted within the cache."""

MOST_KEYS: Final = 1 << 22
"""No more keys are known: each takes 30 to 80 bytes, and those of a string."""

_SPARSE: Final = 4
"""More places than so many a row cost more than sorting."""

_USELESS: Final = 16
"""So many times as many keys as there are rows may be of no use any more."""

_RARE: Final = 0.1
"""Where keys of fewer rows are known, keys do not come again."""

_LONGEST_PAUSE: Final = 64
"""So many times, at most, rows are sorted before another try."""


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


class KnownKeys:
    """The keys that were met, in the order of hash and key.

    Args:
        most: with more keys than that it starts anew.

    Attributes:
        stored: gives the hashes and keys that it begins with, in order and different; asked once, when rows are to be
            grouped for the first time.
    """

    def __init__(self, most: int = MOST_KEYS) -> None:
        self.stored: Callable[[], OrderedKeys | None] | None = None
        self._most = most
        self._pause = self._left = 0
        self._hashes: Hashes = np.empty(0, np.uint64)
        self._keys = pa.nulls(0)
        self._table: RankTable = empty_table()

    def __len__(self) -> int:
        return len(self._hashes)

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return int(self._hashes.nbytes + self._keys.nbytes) + self._table.nbytes

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
        self._take_up_stored()
        is_first = not len(self)
        ranks = self._ranks_of(hashes, keys)
        groups = None if ranks is None else self._laid_out(times, ranks)
        if groups is None:
            self._rest(is_over=ranks is None or len(self) > _USELESS * len(times))
        elif not is_first:
            self._pause = 0
        return groups

    def _take_up_stored(self) -> None:
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
        ranks = self._table.find(hashes, keys)
        new = np.flatnonzero(ranks == UNKNOWN)
        if len(new):
            if len(self) and len(new) > (1 - _RARE) * len(hashes):
                return None
            rows = _one_of_each(hashes, keys, new)
            if len(self) + len(rows) > self._most:
                return None
            old = self._add(hashes[rows], keys.take(pa.array(rows)))
            ranks = np.append(old.astype(np.int32), np.int32(UNKNOWN))[ranks]
            ranks[new] = self._table.find(hashes[new], keys.take(pa.array(new)))
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
        self._table = self._table.extended(self._hashes, self._keys, old, new)
        return old

    def _rest(self, *, is_over: bool) -> None:
        """It was no help: it is tried again only after a while, a longer one each time, and anew if it ``is_over``."""
        self._pause = self._left = min(2 * self._pause or 1, _LONGEST_PAUSE)
        if is_over:
            self._forget()

    def _forget(self) -> None:
        self._hashes, self._keys, self._table = np.empty(0, np.uint64), pa.nulls(0), empty_table()


def _one_of_each(hashes: Hashes, keys: pa.Array, rows: Longs) -> Longs:
    """Of some rows one for each hash, in the order of hashes."""
    if pa.types.is_int64(keys.type):
        rows = one_of_each_integer(keys.to_numpy(), rows)  # fewer are sorted then
    found = hashes[rows]
    order = np.argsort(found)
    found = found[order]
    return rows[order[np.concatenate(([True], found[1:] != found[:-1]))]]
