"""Rows in the order of (hash, key): where those of some keys are, and others put between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from headrace.operators.arrays import concat, fixed_width, gather, is_fixed_width, of_fixed_width
from headrace.state.runs.grouping import group_rows

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from headrace.operators.window.columnar.accumulators import Accumulators

    Longs = npt.NDArray[np.int64]
    Hashes = npt.NDArray[np.uint64]
    Mask = npt.NDArray[np.bool_]

_Number = TypeVar("_Number", bound=np.generic)


def places_of(rows: Accumulators, hashes: Hashes, keys: pa.Array) -> tuple[Longs, Mask]:
    """Where the keys of some rows are among others; both lie by hash and key, one row a key.

    Args:
        rows: the rows that are looked for.
        hashes: the hashes of the keys that they are looked for among.
        keys: these keys.

    Returns:
        The place of each: its own, or that of the first one behind it; and whether it is its own.
    """
    places = np.searchsorted(hashes, rows.hashes)
    if not len(hashes):
        return places, np.zeros(len(rows), np.bool_)
    is_known = hashes[np.minimum(places, len(hashes) - 1)] == rows.hashes
    known = np.flatnonzero(is_known)
    own = rows.keys if len(known) == len(rows) else gather(rows.keys, known)
    if gather(keys, places[known]).equals(own):
        return places, is_known
    return _places_of_colliding(rows, hashes, keys)


def _places_of_colliding(rows: Accumulators, hashes: Hashes, keys: pa.Array) -> tuple[Longs, Mask]:
    """The same where different keys have one hash, by sorting all of them."""
    total = len(hashes)
    all_hashes, all_keys = np.concatenate((hashes, rows.hashes)), concat([keys, rows.keys])
    groups = group_rows(np.zeros(len(all_hashes), np.int64), all_hashes, all_keys)
    is_there = groups.first_rows < total
    of_rows = np.empty(len(all_hashes), np.int64)
    of_rows[groups.order] = groups.segments.ids
    places: Longs = np.cumsum(is_there) - is_there
    return places[of_rows[total:]], is_there[of_rows[total:]]


class Splice:
    """Rows of which some are left out, and between which others come.

    Args:
        total: how many rows there are.
        gone: those that are left out, ascending.
        places: for each row that comes, ascending, the one that it comes before.
    """

    def __init__(self, total: int, gone: Longs, places: Longs) -> None:
        self._total = total
        self._at = places - np.searchsorted(gone, places) + np.arange(len(places))
        # Each row follows the one before it, but where rows come between (one less) or are left out (one more).
        steps = np.ones(total - len(gone) + len(places) + 1, np.int64)
        steps[0] = 0
        steps[self._at] -= 1
        np.add.at(steps, gone - np.arange(len(gone)) + np.searchsorted(places, gone, side="right"), 1)
        self._order = np.cumsum(steps[:-1])
        self._order[self._at] = 0  # any row

    def numbers(self, values: npt.NDArray[_Number], added: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
        """A column of numbers, and that of the rows that come."""
        if not self._total:
            return added
        found = values.take(self._order)
        found[self._at] = added
        return found

    def column(self, column: pa.Array, added: pa.Array) -> pa.Array:
        """The same of any type."""
        if is_fixed_width(column.type) and not column.null_count and not added.null_count:
            return of_fixed_width(self.numbers(fixed_width(column), fixed_width(added)), None, column.type)
        order = self._order.copy()
        order[self._at] = self._total + np.arange(len(self._at))
        return gather(concat([column, added]), order)
