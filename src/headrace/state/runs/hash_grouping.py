"""Grouping rows by (time, key) without sorting them: for whoever needs no order, as before a shuffle.

Keys are numbered, and reductions scatter into arrays with a place for each number. Integers that lie close to each
other number themselves, by their distance from the lowest one; all other keys are numbered by a hash table, that of
pyarrow (``dictionary_encode``). With 10,000 different keys that takes 2 or 6 ns a row, where the sort of
:mod:`headrace.state.runs.grouping` takes 40; with a million, where each row meets a cache miss, the table is no faster
than sorting (measured).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.state.runs.placed import Placed

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Longs = npt.NDArray[np.int64]

_SPARSE = 4
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
        """How many rows there are."""
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
    if count <= _SPARSE * len(places):
        segments = Placed.of(places, count)
        return segments, segments.used
    used = np.sort(pc.unique(pa.array(places)).to_numpy())
    return Placed.of(np.searchsorted(used, places), len(used)), used
