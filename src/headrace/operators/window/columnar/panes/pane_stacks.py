"""The merge of the panes of a window that moves on, where panes cannot be taken back: the largest value, say.

Two stacks, as for the minimum of a queue: the *older* panes are merged from the newest to the oldest, and each step
notes what it has changed, so that taking the oldest pane away is putting that back. The *newer* panes, which come
after, are merged as they come. A window is the merge of both. So each pane is merged twice, however many windows it
belongs to, no aggregate has to be taken back, and memory is that of the panes. Both merges are tables that change in
place (:mod:`.slot_table`), so a pane costs what it holds, and a window the keys that it has.

When the older panes are used up the newer ones, which nothing can be taken from, take their place: a new object.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from headrace.operators.arrays import gather
from headrace.operators.window.columnar.accumulators import Accumulators
from headrace.operators.window.columnar.panes.slot_table import KeySlots, SlotTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from headrace.operators.aggregates.aggregator_list import AggregatorList

    Longs = npt.NDArray[np.int64]


_LATE_ROWS: Final = 1 << 16
"""So many late rows are merged into each window that fires; with more the merge of the panes is made anew."""


@dataclass(frozen=True)
class _Step:
    """What merging a pane into newer ones has changed.

    Attributes:
        pane: the end of the pane.
        changed: the slots of its keys that the newer panes have.
        before: what these held.
        added: the slots of its other keys.
    """

    pane: int
    changed: Longs
    before: list[pa.Array]
    added: Longs


class PaneStacks:
    """The merge of consecutive panes, of which the oldest leave and newer ones come.

    Args:
        aggregators: what the panes hold.
        nothing: no rows of a pane.
        panes: those of the first window, oldest first, with their ends: each one row a key, by hash and key.
        start: the start of that window.
        end: its end; panes that come later may only leave with all panes up to here gone.
    """

    def __init__(
        self,
        aggregators: AggregatorList,
        nothing: Accumulators,
        panes: Sequence[tuple[int, Accumulators]],
        start: int,
        end: int,
    ) -> None:
        self._start, self._boundary = start, end
        types = [column.type for column in nothing.columns]
        self._keys = KeySlots(nothing.keys.type)
        self._aggregators = aggregators
        self._combine = aggregators.combine
        self._older, self._newer = SlotTable(types), SlotTable(types)
        self._steps = [self._merge_older(end, rows) for end, rows in reversed(panes)]
        self._late: list[Accumulators] = []

    def move_to(self, start: int, panes: Sequence[tuple[int, Accumulators]]) -> bool:
        """Takes away the panes that do not end above a time, and adds newer ones.

        Returns:
            Whether that was possible: whether none of those leave that came later. Otherwise nothing is as it was.
        """
        if start > self._boundary:
            return False
        self._start = start
        while self._steps and self._steps[-1].pane <= start:
            step = self._steps.pop()
            self._older.put(step.changed, step.before)
            self._older.drop(step.added)
        for _, rows in panes:
            self._newer.merge(self._slots_of(rows), rows.columns, self._combine)
        return True

    def add_late(self, rows: Accumulators) -> bool:
        """Adds rows of panes that are part of the merge, or have left already.

        Returns:
            Whether that was possible: whether they are few.
        """
        self._late.append(rows)
        return sum(map(len, self._late)) <= _LATE_ROWS

    def merged(self, end: int) -> Accumulators:
        """One row for every key of the panes, by hash and key, as those of a window."""
        panes = self._of_panes(end)
        late = [rows.where(rows.ends > self._start).at(end) for rows in self._late]
        return Accumulators.regrouped(self._aggregators, [panes, *late]) if late else panes

    def _of_panes(self, end: int) -> Accumulators:
        slots, hashes, keys = self._keys.slots, self._keys.hashes, self._keys.keys
        is_held = self._older.is_held[slots] | self._newer.is_held[slots]
        if not is_held.all():
            rows = np.flatnonzero(is_held)
            slots, hashes, keys = slots[rows], hashes[rows], gather(keys, rows)
        return Accumulators(np.full(len(slots), end, np.int64), hashes, keys, self._both(slots))

    def _both(self, slots: Longs) -> list[pa.Array]:
        """What both tables hold in slots, in each of which one of them holds something."""
        is_older, is_newer = self._older.is_held[slots], self._newer.is_held[slots]
        if is_older.all() and is_newer.all():
            return self._combine(self._older.take(slots), self._newer.take(slots))
        if not is_older.any():
            return self._newer.take(slots)
        both, newer = self._older.copy(), slots[is_newer]
        both.merge(newer, self._newer.take(newer), self._combine)
        return both.take(slots)

    def _merge_older(self, pane: int, rows: Accumulators) -> _Step:
        slots = self._slots_of(rows)
        was_held, before = self._older.merge(slots, rows.columns, lambda newer, older: self._combine(older, newer))
        return _Step(pane, slots[was_held], before, slots[~was_held])

    def _slots_of(self, rows: Accumulators) -> Longs:
        slots = self._keys.of(rows)
        for table in (self._older, self._newer):
            table.reach(len(self._keys))
        return slots
