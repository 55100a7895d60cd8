"""Where a columnar window keeps accumulators: rows that are not aggregated yet, and an ordered table in state.

Nothing is read from state when records are added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.operators.window.accumulators import Accumulators, Chunk
from headrace.operators.window.lateness import cleaned_end, passed_end
from headrace.operators.window.merging import ACCUMULATORS_KIND, combined, contents_layout, merge_blocks
from headrace.state.ordered_table import OrderedTable
from headrace.state.runs.ordered import NO_TIME

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from headrace.operators.window.layout import WindowLayout
    from headrace.operators.window.panes import Panes, Spreadable
    from headrace.state.runs import RunStore
    from headrace.windowing.intervals import AlignedWindows

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
        kept_as = contents_layout(
            ACCUMULATORS_KIND, self._schema, layout.codec, windows, parts=self._aggregators.to_json()
        )
        self._table = OrderedTable(runs, kept_as, lambda _, batches: combined(self._aggregators, batches))
        self._panes = panes
        self._chunks: list[Chunk] = []
        self._accumulators: list[Accumulators] = []
        self._pane_chunks: list[Chunk] = []
        self._pane_accumulators: list[Accumulators] = []
        self._pending_rows = 0
        self._pending_end = NO_TIME

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        self._table.begin_epoch()
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

    def due(self, after: int, upto: int) -> Iterator[Accumulators]:
        """The contents of the windows that fire when the watermark advances from ``after`` to ``upto``.

        They come in order, in blocks: memory stays bounded however much is due.
        """
        after, upto = passed_end(after), passed_end(upto)
        if min(self._pending_end, self._table.next_above(after)) > upto:
            return
        self._aggregate_pending()
        pieces = [Accumulators.of_batch(batch) for batch in self._table.between(after, upto)]
        for block in merge_blocks(pieces):
            yield Accumulators.merged(self._aggregators, block)

    def find(self, ends: Longs, hashes: npt.NDArray[np.uint64]) -> Accumulators:
        """What is there for some windows and hashes: at most one row a key and window, in no particular order."""
        order = np.lexsort((hashes, ends))
        ends, hashes = ends[order], hashes[order]
        is_new = np.concatenate(([True], (ends[1:] != ends[:-1]) | (hashes[1:] != hashes[:-1])))
        self._aggregate_pending()
        found = self._table.find(ends[is_new], hashes[is_new]) or [pa.RecordBatch.from_pylist([], self._schema)]
        return Accumulators.merged(self._aggregators, [Accumulators.of_batch(batch) for batch in found])

    def forget(self, watermark: int) -> None:
        """Drops contents whose time has passed."""
        self._table.forget(cleaned_end(watermark, self._lateness))

    def end_epoch(self, watermark: int) -> None:
        """Writes what is still needed."""
        self._aggregate_pending()
        self.forget(watermark)
        self._table.end_epoch()

    def _first_end(self, pane_ends: Longs) -> int:
        assert self._panes is not None
        return int(self._panes.first_ends(pane_ends.min(keepdims=True) - 1)[0])

    def _note(self, first_end: int, rows: int) -> None:
        self._pending_end = min(first_end, self._pending_end)
        self._pending_rows += rows
        if self._pending_rows >= _PENDING_ROWS:
            self._aggregate_pending()

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
        self._pending_rows, self._pending_end = 0, NO_TIME

    def _remember(self, merged: Accumulators) -> None:
        self._table.append(merged.to_batch(self._schema))
