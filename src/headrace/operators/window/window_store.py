"""Where a columnar window keeps accumulators: rows not yet aggregated, sorted tables in memory, runs in state.

Nothing is read from state when records are added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.operators.window.accumulators import Accumulators, Chunk
from headrace.operators.window.assign import cleanup_time
from headrace.operators.window.merging import ACCUMULATORS_KIND, merge_blocks
from headrace.operators.window.window_tables import (
    MemoryTable,
    StoredTable,
    WindowTable,
    about_windows,
    check_stored,
    description,
    live_rows,
    small_runs,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from headrace.operators.window.layout import WindowLayout
    from headrace.operators.window.panes import Panes, Spreadable
    from headrace.state.runs import Run, RunStore
    from headrace.time.windows import AlignedWindows

    Longs = npt.NDArray[np.int64]

_PENDING_ROWS = 1 << 18
"""So many rows wait before they are aggregated: sorting more at once costs no less a row."""


_WORTHWHILE = 0.75
"""Panes are of use when they have at most so many rows a record: an accumulator costs more to spread than that."""


class WindowStore:
    """The contents of all windows of one subtask.

    Args:
        layout: the columns.
        windows: the windows.
        lateness: how long contents are kept after the window has fired, in milliseconds.
        runs: the state.
        panes: those that the windows share, if they share any.
    """

    def __init__(
        self, layout: WindowLayout, windows: AlignedWindows, lateness: int, runs: RunStore, panes: Panes | None = None
    ) -> None:
        self._aggregators = layout.aggregators
        self._schema = layout.state_schema
        self._lateness = lateness
        self._runs = runs
        self._about = {
            "kind": ACCUMULATORS_KIND,
            "keys": layout.codec.to_json(),
            **about_windows(windows),
            "parts": self._aggregators.to_json(),
        }
        check_stored(runs, self._about, self._schema)
        self._panes = panes
        self._stored: list[StoredTable] = []
        self._memory: list[MemoryTable] = []
        self._chunks: list[Chunk] = []
        self._accumulators: list[Accumulators] = []
        self._pane_chunks: list[Chunk] = []
        self._pane_accumulators: list[Accumulators] = []
        self._pending_rows = 0
        self._pending_end: int | None = None

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        self._stored = [self._table(run) for run in self._runs.runs]
        self._memory = []
        self._forget_pending()

    def add(self, chunk: Chunk) -> None:
        """Adds records that are on time for their windows."""
        if len(chunk):
            self._chunks.append(chunk)
            self._note(int(chunk.ends.min()), len(chunk))

    def add_accumulators(self, accumulators: Accumulators) -> None:
        """Adds accumulators in any order; late ones only once :meth:`due` was asked for their windows."""
        if len(accumulators):
            self._accumulators.append(accumulators)
            self._note(int(accumulators.ends.min()), len(accumulators))

    def add_to_panes(self, chunk: Chunk) -> None:
        """Adds records that are on time for all their windows, each with the end of its pane."""
        if len(chunk):
            self._pane_chunks.append(chunk)
            self._note(self._first_end(chunk.ends), len(chunk))

    def add_accumulators_of_panes(self, accumulators: Accumulators) -> None:
        """Adds accumulators of such records, in any order."""
        if len(accumulators):
            self._pane_accumulators.append(accumulators)
            self._note(self._first_end(accumulators.ends), len(accumulators))

    def next_end(self, watermark: int) -> int | None:
        """The earliest window that ``watermark`` has not passed."""
        ends = [table.next_end(watermark) for table in (*self._stored, *self._memory)]
        return min((end for end in (*ends, self._pending_end) if end is not None), default=None)

    def due(self, after: int, upto: int) -> Iterator[Accumulators]:
        """The contents of the windows that fire when the watermark advances from ``after`` to ``upto``.

        They come in order, in blocks: memory stays bounded however much is due.
        """
        pieces = [piece for table in self._tables() if (piece := table.between(after, upto)) is not None]
        for block in merge_blocks(pieces):
            yield Accumulators.merged(self._aggregators, block)

    def find(self, ends: Longs, hashes: npt.NDArray[np.uint64]) -> Accumulators:
        """What is there for some windows and hashes: at most one row a key and window, in no particular order."""
        order = np.lexsort((hashes, ends))
        ends, hashes = ends[order], hashes[order]
        is_new = np.concatenate(([True], (ends[1:] != ends[:-1]) | (hashes[1:] != hashes[:-1])))
        ends, hashes = ends[is_new], hashes[is_new]
        pieces = [piece for table in self._tables() if (piece := table.rows_of(ends, hashes)) is not None]
        return Accumulators.merged(self._aggregators, pieces or [Accumulators.of_table(self._schema.empty_table())])

    def forget(self, watermark: int) -> None:
        """Drops contents whose time has passed; those in state go when the epoch ends."""
        if not self._memory or cleanup_time(int(min(t.ends[0] for t in self._memory)), self._lateness) > watermark:
            return
        live = [live_rows(table, self._lateness, watermark) for table in self._memory]
        self._memory = [MemoryTable(accumulators) for accumulators in live if len(accumulators)]

    def end_epoch(self, watermark: int) -> None:
        """Writes what is still needed as one run, and drops runs that are not needed any more."""
        self._aggregate_pending()
        self.forget(watermark)
        for table in self._stored:
            if table.is_over(self._lateness, watermark):
                self._runs.drop(table.run)
        if self._memory:
            accumulators = Accumulators.merged(self._aggregators, [table.accumulators for table in self._memory])
            self._runs.append(accumulators.to_table(self._schema), self._description(accumulators))
        self._merge_small_runs(watermark)

    def _first_end(self, pane_ends: Longs) -> int:
        assert self._panes is not None
        return int(self._panes.first_ends(pane_ends.min(keepdims=True) - 1)[0])

    def _note(self, first_end: int, rows: int) -> None:
        self._pending_end = first_end if self._pending_end is None else min(first_end, self._pending_end)
        self._pending_rows += rows
        if self._pending_rows >= _PENDING_ROWS:
            self._aggregate_pending()

    def _tables(self) -> list[WindowTable]:
        self._aggregate_pending()
        return [*self._stored, *self._memory]

    def _aggregate_pending(self) -> None:
        of_windows, of_panes = list(self._accumulators), list(self._pane_accumulators)
        if self._chunks:
            of_windows.append(Accumulators.of_chunk(self._aggregators, Chunk.concat(self._chunks)))
        if self._pane_chunks:
            rows = self._added_up_by_pane(Chunk.concat(self._pane_chunks))
            of_panes.extend([] if rows is None else [rows])
        if of_windows:
            self._remember(
                Accumulators.regrouped(self._aggregators, of_windows) if self._accumulators else of_windows[0]
            )
        if of_panes:
            rows = Accumulators.regrouped(self._aggregators, of_panes) if self._pane_accumulators else of_panes[0]
            for piece in self._spread(rows):
                self._remember(Accumulators.regrouped(self._aggregators, [piece]))
        self._forget_pending()

    def _added_up_by_pane(self, chunk: Chunk) -> Accumulators | None:
        """The accumulators of a chunk's panes; None when its records are better added to their windows at once."""
        rows = Accumulators.of_chunk(self._aggregators, chunk)
        if len(rows) <= _WORTHWHILE * len(chunk):
            return rows
        for piece in self._spread(chunk):
            self._remember(Accumulators.of_chunk(self._aggregators, piece))
        return None

    def _spread(self, rows: Spreadable) -> Iterator[Spreadable]:
        assert self._panes is not None
        return self._panes.spread(rows, 2 * _PENDING_ROWS)

    def _forget_pending(self) -> None:
        self._chunks, self._accumulators, self._pane_chunks, self._pane_accumulators = [], [], [], []
        self._pending_rows, self._pending_end = 0, None

    def _remember(self, merged: Accumulators) -> None:
        # Tables double in size from the newest to the oldest, so a row is merged a logarithmic number of times.
        while self._memory and len(self._memory[-1].accumulators) <= 2 * len(merged):
            merged = Accumulators.merged(self._aggregators, [self._memory.pop().accumulators, merged])
        self._memory.append(MemoryTable(merged))

    def _merge_small_runs(self, watermark: int) -> None:
        small = small_runs(self._runs)
        if small:
            live = [live_rows(self._table(run), self._lateness, watermark) for run in small]
            accumulators = Accumulators.merged(self._aggregators, live)
            self._runs.replace(small, accumulators.to_table(self._schema), self._description(accumulators))

    def _table(self, run: Run) -> StoredTable:
        return StoredTable(run, lambda rows: Accumulators.regrouped(self._aggregators, [rows]))

    def _description(self, accumulators: Accumulators) -> dict[str, Any]:
        return {**self._about, **description(ACCUMULATORS_KIND, accumulators)}
