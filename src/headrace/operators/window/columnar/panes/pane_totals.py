"""The merge of the panes of a window that moves on, where panes can be taken back: *subtract on evict*.

What comes is merged in, and what leaves is merged in once more with the other sign. So a window costs the panes that
come and leave, and its results. That needs accumulators of which nothing remains: counts, and exact sums of values that
are numbers and not null.

Rows lie in the order of results, and arrays are never written into: those of the merge are the results of a window.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from headrace.operators.arrays import fixed_width, gather, replaced
from headrace.operators.window.columnar.accumulators import Accumulators
from headrace.operators.window.columnar.panes.key_order import Splice, places_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from headrace.operators.aggregates.aggregator_list import AggregatorList

    Longs = npt.NDArray[np.int64]

_NONE = np.empty(0, np.int64)


class PaneTotals:
    """The merge of consecutive panes, of which the oldest leave and newer ones come.

    Args:
        aggregators: what the panes hold; the number of records comes first.
        nothing: no rows of a pane.
        panes: those of the first window, oldest first, with their ends: each one row a key, by hash and key, and
            reversible.
        start: the start of that window.
    """

    def __init__(
        self,
        aggregators: AggregatorList,
        nothing: Accumulators,
        panes: Sequence[tuple[int, Accumulators]],
        start: int,
    ) -> None:
        self._aggregators = aggregators
        self._nothing = nothing
        self._hashes, self._keys, self._columns = nothing.hashes, nothing.keys, nothing.columns
        self._start = start
        self._pieces: list[tuple[int, int, Accumulators]] = []
        """A heap of panes, and of late rows of panes; numbers tell those with equal ends apart."""
        self._number = 0
        self.move_to(start, panes)

    def move_to(self, start: int, panes: Sequence[tuple[int, Accumulators]]) -> bool:
        """Takes away the panes that do not end above a time, and adds newer ones.

        Returns:
            Whether that was possible: whether those that come can leave again. Otherwise nothing is as it was.
        """
        if not all(self._aggregators.are_reversible(rows.columns) for _, rows in panes):
            return False
        self._start = start
        for end, rows in panes:
            self._keep(end, rows)
        leaving = []
        while self._pieces and self._pieces[0][0] <= start:
            leaving.append(heapq.heappop(self._pieces)[-1])
        self._change(leaving, [rows for _, rows in panes])
        return True

    def add_late(self, rows: Accumulators) -> bool:
        """Adds rows of panes that are part of the merge, or have left already.

        Returns:
            Whether that was possible; the same.
        """
        rows = Accumulators.regrouped(self._aggregators, [rows.where(rows.ends > self._start)])
        if not self._aggregators.are_reversible(rows.columns):
            return False
        ends, offsets = rows.windows
        for i, end in enumerate(ends.tolist()):
            self._keep(end, rows.slice(int(offsets[i]), int(offsets[i + 1])))
        self._change([], [rows])
        return True

    def merged(self, end: int) -> Accumulators:
        """One row for every key of the panes, by hash and key, as those of a window."""
        return Accumulators(np.full(len(self._hashes), end, np.int64), self._hashes, self._keys, self._columns)

    def _keep(self, end: int, rows: Accumulators) -> None:
        self._number += 1
        heapq.heappush(self._pieces, (end, self._number, rows))

    def _change(self, leaving: Sequence[Accumulators], coming: Sequence[Accumulators]) -> None:
        out, into = self._by_key(leaving), self._by_key(coming)
        own, _ = places_of(out, self._hashes, self._keys)
        columns = self._merged_at(self._columns, own, self._aggregators.negate(out.columns))
        places, is_known = places_of(into, self._hashes, self._keys)
        if is_known.all():
            columns, new, added = self._merged_at(columns, places, into.columns), self._nothing, _NONE
        else:
            known, new, added = into.where(is_known), into.where(~is_known), places[~is_known]
            columns = self._merged_at(columns, places[is_known], known.columns)
        gone = own[fixed_width(columns[0])[own] == 0]
        if len(gone) or len(added):
            splice = Splice(len(self._hashes), gone, added)
            self._hashes = splice.numbers(self._hashes, new.hashes)
            self._keys = splice.column(self._keys, new.keys)
            columns = [splice.column(own, others) for own, others in zip(columns, new.columns, strict=True)]
        self._columns = columns

    def _by_key(self, pieces: Sequence[Accumulators]) -> Accumulators:
        """One row a key, of the rows of panes."""
        if len(pieces) < 2 and all(len(piece.windows[0]) < 2 for piece in pieces):
            return pieces[0] if pieces else self._nothing
        return Accumulators.regrouped(self._aggregators, [piece.at(0) for piece in pieces])

    def _merged_at(self, columns: list[pa.Array], places: Longs, others: list[pa.Array]) -> list[pa.Array]:
        """Columns with others merged into the rows at some places."""
        if not len(places):
            return columns
        merged = self._aggregators.combine([gather(column, places) for column in columns], others)
        return [replaced(column, places, values) for column, values in zip(columns, merged, strict=True)]
