"""Where accumulators are kept, by window or pane and key: rows that wait to be aggregated, and a table in state.

Nothing is read from state when records are added. Importing this module makes the merging of the table's runs known to
compaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

from headrace.common.constants import MAX_WATERMARK
from headrace.operators.aggregates.aggregator_list import AggregatorList
from headrace.operators.window.columnar.accumulators import Accumulators, Chunk
from headrace.operators.window.columnar.blocks import merge_blocks
from headrace.operators.window.stores import ACCUMULATORS_KIND
from headrace.state.ordered_table import OrderedTable
from headrace.state.runs.known_keys import KnownKeys
from headrace.state.runs.merging import register_ordered_merger
from headrace.state.runs.ordered import NO_TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from headrace.operators.window.columnar.layout import ColumnarWindowLayout
    from headrace.state.ordered_table import OrderedLayout
    from headrace.state.runs import RunStore

    Longs = npt.NDArray[np.int64]

_Rows = TypeVar("_Rows", Chunk, Accumulators)

_PENDING_ROWS = 1 << 18
"""So many rows wait before they are aggregated, where that leaves few: more at once cost no less a row."""

_FEW = 0.125
_TIMES_AS_MANY = 8
_PENDING_BYTES = 128 << 20
"""Where it leaves more than this part, so many times as many wait, if they need no more memory than this: each piece
has to be merged with the others afterwards."""


class WindowStore:
    """The contents of all windows, or panes, of one subtask. They are known by their ends.

    Args:
        layout: the columns.
        kept_as: what the runs in state are.
        runs: the state.
    """

    _pending_end: int

    def __init__(self, layout: ColumnarWindowLayout, kept_as: OrderedLayout, runs: RunStore) -> None:
        self._aggregators = layout.aggregators
        self._schema = layout.state_schema
        self._known = KnownKeys() if layout.aggregators.are_scatterable else None
        self._table = OrderedTable(runs, kept_as, lambda _, batches: combined(self._aggregators, batches, self._known))
        self._most_pending = _PENDING_ROWS
        self._forget_pending()

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        self._table.begin_epoch()
        self._forget_pending()

    def add(self, chunk: Chunk) -> None:
        """Adds records that are on time for their windows."""
        if len(chunk):
            self._chunks.append(chunk)
            self._note(chunk.ends)

    def add_accumulators(self, accumulators: Accumulators) -> None:
        """Adds accumulators in any order; late ones only once :meth:`due` was asked for their windows."""
        if len(accumulators):
            self._accumulators.append(accumulators)
            self._note(accumulators.ends)

    def next_above(self, end: int) -> int:
        """The first end above one; ``NO_TIME`` when there is none."""
        if self._pending_end <= end:
            self.aggregate()
        return min(self._pending_end, self._table.next_above(end))

    def between(self, after: int, upto: int) -> list[Accumulators]:
        """The rows with an end above ``after`` and not above ``upto``, in pieces that are in order each."""
        if self._pending_end <= upto:
            self.aggregate(upto)
        return [Accumulators.of_batch(batch) for batch in self._table.between(after, upto)]

    def due(self, after: int, upto: int) -> Iterator[Accumulators]:
        """The contents of the windows with an end above ``after`` and not above ``upto``.

        They come in order, in blocks: memory stays bounded however much is due.
        """
        if self.next_above(after) <= upto:
            for block in merge_blocks(self.between(after, upto)):
                yield Accumulators.merged(self._aggregators, block, self._known)

    def find(self, ends: Longs, hashes: npt.NDArray[np.uint64]) -> Accumulators:
        """What is there for some ends and hashes: at most one row a key and end, in no particular order."""
        order = np.lexsort((hashes, ends))
        ends, hashes = ends[order], hashes[order]
        is_new = np.ones(len(ends), np.bool_)
        is_new[1:] = (ends[1:] != ends[:-1]) | (hashes[1:] != hashes[:-1])
        self.aggregate()
        found = self._table.find(ends[is_new], hashes[is_new]) or [pa.RecordBatch.from_pylist([], self._schema)]
        return Accumulators.merged(self._aggregators, [Accumulators.of_batch(batch) for batch in found])

    def forget(self, upto: int) -> None:
        """Drops what has an end that is not above ``upto``."""
        self._table.forget(upto)

    def end_epoch(self, upto: int) -> None:
        """Writes what is still needed: what has an end above ``upto``."""
        self.aggregate()
        self.forget(upto)
        self._table.end_epoch()

    def _note(self, ends: Longs) -> None:
        self._pending_end = min(int(ends.min()), self._pending_end)
        self._pending_rows += len(ends)
        if self._pending_rows >= self._most_pending:
            self.aggregate()

    def aggregate(self, upto: int = MAX_WATERMARK) -> None:
        """Has the rows that wait become accumulators in the table: those with an end that is not above ``upto``."""
        chunks, accumulators = self._chunks, self._accumulators
        self._forget_pending()
        due = [_split(rows, upto, self.add) for rows in chunks]
        rows = [_split(rows, upto, self.add_accumulators) for rows in accumulators]
        if due:
            rows.append(self._aggregated(Chunk.concat(due)))
        if rows:
            merged = Accumulators.regrouped(self._aggregators, rows, self._known) if accumulators else rows[0]
            self._table.append(merged.to_batch(self._schema))

    def _aggregated(self, chunk: Chunk) -> Accumulators:
        """The accumulators of a chunk; how many they are tells how many rows are to wait from now on."""
        made = Accumulators.of_chunk(self._aggregators, chunk, self._known)
        most = _TIMES_AS_MANY * _PENDING_ROWS
        is_worthwhile = len(made) > _FEW * len(chunk) and chunk.nbytes * most <= _PENDING_BYTES * len(chunk)
        self._most_pending = most if is_worthwhile else _PENDING_ROWS
        return made

    def _forget_pending(self) -> None:
        self._chunks: list[Chunk] = []
        self._accumulators: list[Accumulators] = []
        self._pending_rows, self._pending_end = 0, NO_TIME


def _split(rows: _Rows, upto: int, keep: Callable[[_Rows], None]) -> _Rows:
    """The rows with an end that is not above ``upto``; the others are kept."""
    is_due = rows.ends <= upto
    if is_due.all():
        return rows
    keep(rows.where(~is_due))
    return rows.where(is_due)


def combined(
    aggregators: AggregatorList, batches: Sequence[pa.RecordBatch], known: KnownKeys | None = None
) -> pa.RecordBatch:
    """One row a key and window, of batches in the order of a run; earlier ones came earlier."""
    pieces = [Accumulators.of_batch(batch) for batch in batches]
    return Accumulators.merged(aggregators, pieces, known).to_batch(batches[-1].schema)


register_ordered_merger(
    ACCUMULATORS_KIND, lambda meta, batches: combined(AggregatorList.for_merging(meta["parts"]), batches)
)
