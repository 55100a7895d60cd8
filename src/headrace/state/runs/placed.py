"""``Placed``: rows that are grouped without being sorted; reductions scatter into a place for each group."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.state.runs.grouping import BLOCK_ROWS

if TYPE_CHECKING:
    import numpy.typing as npt

    from headrace.state.runs.grouping import Terms

    Doubles = npt.NDArray[np.float64]
    Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Placed:
    """Groups whose rows lie anywhere, each with a place, of which many may be empty; see ``RowGroups``.

    Attributes:
        places: the place of each row.
        all_counts: how many rows each place has.
        used: the places that have some, in order: the groups.
    """

    places: Longs
    all_counts: Longs
    used: Longs

    @staticmethod
    def of(places: Longs, count: int) -> Placed:
        """Rows with places below ``count``."""
        counts = np.bincount(places, minlength=count)
        return Placed(places, counts, np.flatnonzero(counts))

    def __len__(self) -> int:
        return len(self.used)

    @property
    def total(self) -> int:
        """How many rows there are."""
        return len(self.places)

    @property
    def are_single(self) -> bool:
        """False: rows would have to be sorted even where each is a group."""
        return False

    @property
    def counts(self) -> Longs:
        """How many rows each group has."""
        return self.all_counts[self.used]

    @cached_property
    def ids(self) -> Longs:
        """The group of each row."""
        groups = np.empty(len(self.all_counts), np.int64)
        groups[self.used] = np.arange(len(self.used))
        return groups[self.places]

    @cached_property
    def first_rows(self) -> Longs:
        """The earliest row of each group."""
        rows = np.empty(len(self.all_counts), np.int64)
        rows[self.places[::-1]] = np.arange(len(self.places))[::-1]  # of several rows the last one written stays
        return rows[self.used]

    def reduce(self, ufunc: np.ufunc, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """``ufunc``, which does not depend on the order, over the values of each group."""
        found = np.full(len(self.all_counts), ufunc.identity or 0, values.dtype)
        if ufunc.identity is None:  # the smallest or the largest: a value that counts twice does no harm
            found[self.places] = values
        with np.errstate(invalid="ignore"):  # a NaN among the values is no error
            ufunc.at(found, self.places, values)
        return found[self.used]

    def sums_of(self, terms: Terms, values: Doubles) -> dict[int, Doubles]:
        """The sums of what ``terms`` makes of the values of each group; of a few at a time, within the cache."""
        found: dict[int, Doubles] = {}
        for start in range(0, self.total, BLOCK_ROWS):
            rows = slice(start, start + BLOCK_ROWS)
            for number, term in terms(values[rows]):
                if number not in found:
                    found[number] = np.zeros(len(self.all_counts))
                np.add.at(found[number], self.places[rows], term)
        return {number: sums[self.used] for number, sums in found.items()}
