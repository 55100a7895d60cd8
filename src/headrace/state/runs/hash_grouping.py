"""Grouping rows by (time, key) with a hash table: for whoever needs no order, as before a shuffle.

pyarrow numbers the keys (``dictionary_encode``), and reductions scatter into arrays with a place for each number. With
10,000 different keys that takes 5 ns a row, where the sort of :mod:`headrace.state.runs.grouping` takes 40; with a
million, where each row meets a cache miss, it is no faster than sorting (measured).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Longs = npt.NDArray[np.int64]

_SPARSE = 4
"""Places for more than so many groups a row are not laid out: the groups are numbered by a second table."""


@dataclass(frozen=True)
class Scattered:
    """Groups whose rows lie anywhere, as :class:`~headrace.state.runs.grouping.Segments` for rows that are not sorted.

    Attributes:
        ids: the group of each row, from 0, none left out.
        groups: how many groups there are.
    """

    ids: Longs
    groups: int

    def __len__(self) -> int:
        return self.groups

    @property
    def total(self) -> int:
        """How many rows there are."""
        return len(self.ids)

    @property
    def are_single(self) -> bool:
        """False: rows would have to be sorted even where each is a group."""
        return False

    @cached_property
    def counts(self) -> Longs:
        """How many rows each group has."""
        return np.bincount(self.ids, minlength=self.groups)

    @cached_property
    def first_rows(self) -> Longs:
        """The earliest row of each group."""
        rows = np.empty(self.groups, np.int64)
        rows[self.ids[::-1]] = np.arange(len(self.ids))[::-1]  # of several rows the last one that is written stays
        return rows

    def reduce(self, ufunc: np.ufunc, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """``ufunc``, which does not depend on the order, over the values of each group."""
        if ufunc.identity is None:  # the smallest or the largest: a value that counts twice does no harm
            found = values[self.first_rows]
        else:
            found = np.full(self.groups, ufunc.identity, values.dtype)
        with np.errstate(invalid="ignore"):  # a NaN among the values is no error
            ufunc.at(found, self.ids, values)
        return found


@dataclass(frozen=True)
class HashGroups:
    """Groups of rows by (time, key), in the order of time and, at one time, in that of the first row of a key.

    Attributes:
        segments: which rows belong to which group.
        times: the time of each group.
        keys: the key of each group.
    """

    segments: Scattered
    times: Longs
    keys: pa.Array

    @staticmethod
    def of(times: Longs, keys: Sequence[pa.Array]) -> HashGroups:
        """Groups rows.

        Args:
            times: the time of each row; there is at least one.
            keys: the key of each row (no nulls), in any number of pieces.
        """
        encoded = pa.chunked_array(keys).dictionary_encode()
        dictionary = encoded.chunk(0).dictionary
        ids = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])
        starts = np.flatnonzero(np.concatenate(([True], times[1:] != times[:-1])))
        distinct = np.unique(times[starts])
        if len(distinct) == 1:
            return HashGroups(Scattered(ids, len(dictionary)), np.full(len(dictionary), distinct[0]), dictionary)
        ranks = np.searchsorted(distinct, times[starts])
        places = np.repeat(ranks * len(dictionary), np.diff(starts, append=len(times))) + ids
        ids, used = _numbered(places, len(distinct) * len(dictionary))
        return HashGroups(
            Scattered(ids, len(used)),
            distinct[used // len(dictionary)],
            dictionary.take(pa.array(used % len(dictionary))),
        )


def _numbered(places: Longs, limit: int) -> tuple[Longs, Longs]:
    """Numbers the places that occur, ascending: the number of each row's place, and the place of each number."""
    if limit > _SPARSE * len(places):
        used = np.sort(pc.unique(pa.array(places)).to_numpy())
        return np.searchsorted(used, places), used
    is_used = np.zeros(limit, np.bool_)
    is_used[places] = True
    return (np.cumsum(is_used) - 1)[places], np.flatnonzero(is_used)
