"""Panes that windows share, stacked so that a window is put together of few, and stored by key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import gather
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.operators.aggregates.aggregator import AggregatorList
from headrace.operators.base import ProcessLocalCache
from headrace.operators.window.columnar.accumulators import Accumulators, Chunk
from headrace.operators.window.columnar.panes import KeySlots, Panes, PaneTotals, SlotTable
from headrace.operators.window.columnar.windows_by_end import WindowStore, rows_at
from headrace.state.runs import RunStore
from headrace.state.runs.merge_input import NO_TIME
from headrace.state.sorted_table import TableLayout
from headrace.windowing.intervals import RegularWindows

if TYPE_CHECKING:
    from headrace.operators.window.columnar.accumulators import ColumnarWindowLayout

    Longs = npt.NDArray[np.int64]
    Hashes = npt.NDArray[np.uint64]

_LATE_ROWS: Final = 1 << 16
"""The late rows that are merged into each window that fires; of more the merge of the panes is made anew."""


@dataclass(frozen=True)
class _Step:
    """The changes that merging a pane into newer ones has made.

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
        """The combined contents of slots of two tables, each filled in at least one of them."""
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


_SPREAD_ROWS: Final = 1 << 19
"""The rows of windows that are made of rows of panes at a time."""
_PANES_AHEAD: Final = 64
"""About so many panes are looked up at a time."""
_FIRED_ROWS: Final = 1 << 16
"""About so many rows of windows fire at a time."""


class PaneStore:
    """The contents of all windows of one subtask, by pane.

    Args:
        layout: the columns.
        windows: the windows.
        panes: the panes that they share.
        kept_as: what the runs in state are.
        runs: the state.
        cache: as for :class:`WindowStore`.
    """

    def __init__(
        self,
        layout: ColumnarWindowLayout,
        windows: RegularWindows,
        panes: Panes,
        kept_as: TableLayout,
        runs: RunStore,
        cache: dict[str, ProcessLocalCache],
    ) -> None:
        self._aggregators = layout.aggregators
        self._windows = windows
        self._panes = panes
        self._rows = WindowStore(layout, kept_as, runs, cache)
        self._nothing = Accumulators.of_batch(pa.RecordBatch.from_pylist([], layout.state_schema))
        self._waiting: list[Accumulators] = []
        self._merge: PaneTotals | PaneStacks | None = None
        self._reached = MIN_WATERMARK
        self._ahead: list[Accumulators] = []
        """While windows fire, the rows of the panes that come with the next ones."""

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        self._rows.begin_epoch()

    def add_to_panes(self, rows: Chunk | Accumulators) -> None:
        """Adds records that are on time for all their windows, or accumulators of such; ends are those of panes."""
        if isinstance(rows, Chunk):
            self._rows.add(rows)
        else:
            self._rows.add_accumulators(rows)

    def add(self, chunk: Chunk) -> None:
        """Adds records to windows that fire before :meth:`settle` is called."""
        self.add_accumulators(Accumulators.of_chunk(self._aggregators, chunk))

    def add_accumulators(self, accumulators: Accumulators) -> None:
        """Adds accumulators to such windows."""
        if len(accumulators):
            self._waiting.append(accumulators)

    def settle(self, rows: Accumulators) -> None:
        """Adds what is late for some windows to its panes, once what was due has fired; ends are those of panes."""
        self._waiting = []
        self._rows.add_accumulators(rows)
        missed = rows.take(np.flatnonzero(rows.ends <= self._reached))
        if self._merge is not None and len(missed) and not self._merge.add_late(missed):
            self._merge = None  # it is no state, all of it is there in the panes

    def due(self, after: int, upto: int) -> Iterator[Accumulators]:
        """The contents of the windows with an end above ``after`` and not above ``upto``, in order, in blocks."""
        if self._next_end(after) > upto:
            return
        self._rows.aggregate(upto)
        gathered: list[Accumulators] = []
        looked_up = after
        while (end := self._next_end(after)) <= upto:
            if end > looked_up:
                looked_up = min(upto, end + _PANES_AHEAD * self._panes.length)
                self._ahead = self._rows.between(self._reached, looked_up)
            window, after = self._contents(end), end
            if sum(map(len, gathered)) + len(window) > _FIRED_ROWS:
                yield from _in_blocks(gathered)
                gathered = []
            gathered.append(window)
        self._ahead = []
        yield from _in_blocks(gathered)

    def find(self, ends: Longs, hashes: Hashes) -> Accumulators:
        """The accumulators of some windows and hashes: at most one row a key and window; other rows do no harm."""
        order = np.argsort(hashes, kind="stable")
        ends, hashes = ends[order], hashes[order]
        first = np.flatnonzero(np.concatenate(([True], hashes[1:] != hashes[:-1])))
        starts = np.minimum.reduceat(self._windows.starts_of(ends), first)
        stretches, pane_ends = self._panes.between(starts, np.maximum.reduceat(ends, first))
        rows = self._rows.find(pane_ends, hashes[first][stretches])
        pieces = [_of_windows(piece, ends, hashes) for piece in self._panes.spread(rows, _SPREAD_ROWS)]
        return Accumulators.regrouped(self._aggregators, [self._nothing, *pieces, *self._waiting])

    def forget(self, upto: int) -> None:
        """Drops what no window needs that ends above ``upto``."""
        self._rows.forget(self._last_over(upto))

    def end_epoch(self, upto: int) -> None:
        """Writes what windows still need that end above ``upto``."""
        self._rows.end_epoch(self._last_over(upto))

    def _last_over(self, upto: int) -> int:
        return MAX_WATERMARK if upto == MAX_WATERMARK else self._windows.starts_of(self._panes.end_above(upto))

    def _next_end(self, after: int) -> int:
        """The end of the next window above ``after`` that holds anything."""
        end = self._panes.end_above(after)
        pane = self._rows.next_above(max(self._windows.starts_of(end), MIN_WATERMARK))
        found = NO_TIME if pane == NO_TIME else max(end, self._panes.end_above(pane - 1))
        waiting = [int(ends.min()) for rows in self._waiting if len(ends := rows.ends[rows.ends > after])]
        return min([found, *waiting])

    def _contents(self, end: int) -> Accumulators:
        """One row a key of a window."""
        start = self._windows.starts_of(end)
        pieces = [self._merge_of(start, end)]
        pieces += [rows.take(np.flatnonzero(rows.ends == end)) for rows in self._waiting]
        return Accumulators.merged(self._aggregators, pieces)

    def _merge_of(self, start: int, end: int) -> Accumulators:
        """The merge of the panes of a window, which is that of the window that fired before, moved on."""
        merge = self._merge if start < self._reached else None
        if merge is None or not merge.move_to(start, list(self._panes_of(self._ahead, self._reached, end))):
            merge = self._new_merge(start, end)
        self._merge, self._reached = merge, end
        return merge.merged(end)

    def _new_merge(self, start: int, end: int) -> PaneTotals | PaneStacks:
        panes = list(self._panes_of(self._rows.between(start, end), start, end))
        contents = [self._nothing, *(rows for _, rows in panes)]
        if all(self._aggregators.are_reversible(rows.columns) for rows in contents):
            return PaneTotals(self._aggregators, self._nothing, panes, start)
        return PaneStacks(self._aggregators, self._nothing, panes, start, end)

    def _panes_of(self, tables: Sequence[Accumulators], start: int, end: int) -> Iterator[tuple[int, Accumulators]]:
        """The panes within a stretch of time, oldest first, of tables that have all rows of it."""
        ends = {pane for table in tables for pane in table.windows[0].tolist() if start < pane <= end}
        for pane in sorted(ends):
            yield pane, Accumulators.merged(self._aggregators, [rows_at(table, pane) for table in tables])


def _in_blocks(windows: Sequence[Accumulators]) -> Iterator[Accumulators]:
    """The rows of some windows, which are few, or of one window, which may be large."""
    if sum(map(len, windows)):
        rows = Accumulators.concat(windows)
        for start in range(0, len(rows), _FIRED_ROWS):
            yield rows.slice(start, min(start + _FIRED_ROWS, len(rows)))


def _of_windows(rows: Accumulators, ends: Longs, hashes: Hashes) -> Accumulators:
    """The rows with one of some ends, and one of some hashes."""
    return rows.take(np.flatnonzero(np.isin(rows.ends, ends) & np.isin(rows.hashes, hashes)))
