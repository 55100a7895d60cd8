"""The store of accumulators by window or pane and key: rows that wait to be aggregated, and a table in state.

Nothing is read from state when records are added. Importing this module makes the merging of the table's runs known to
compaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.constants import MAX_WATERMARK
from headrace.operators.aggregates.aggregator import AggregatorList
from headrace.operators.base import ProcessLocalCache
from headrace.operators.window.columnar.accumulators import Accumulators, Chunk
from headrace.operators.window.stored_windows import ACCUMULATORS_KIND
from headrace.state.runs import RunStore
from headrace.state.runs.grouping import sorted_by, times_bounds
from headrace.state.runs.key_dictionary import KeyDictionary
from headrace.state.runs.merge_input import NO_TIME
from headrace.state.runs.merging import register_ordered_merger
from headrace.state.sorted_table import TableLayout, TimeSortedTable

if TYPE_CHECKING:
    from headrace.operators.window.columnar.accumulators import ColumnarWindowLayout

    Longs = npt.NDArray[np.int64]


_Rows = TypeVar("_Rows", Chunk, Accumulators)


class WaitingRows(Generic[_Rows]):
    """Rows of windows, or panes, that wait until these are due.

    A piece of them that is due as a whole is handed on as it came. One that is due in part is ordered by end, and what
    is due is cut off from its front from then on, so that no row is copied twice however long it waits.

    Attributes:
        first_end: the first end of all; ``NO_TIME`` when none waits.
        held: how many rows are in memory: those that wait, and those that others of their piece keep there.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget all rows that wait."""
        self._pieces: list[tuple[_Rows, int]] = []
        self.first_end, self.held = NO_TIME, 0

    def add(self, rows: _Rows, held: int | None = None) -> None:
        """Has rows wait, of which there is at least one; they may have any ends.

        Args:
            rows: the rows.
            held: how many rows they keep in memory, where these are more.
        """
        held = len(rows) if held is None else held
        self._pieces.append((rows, held))
        self.first_end = min(self.first_end, times_bounds(rows.ends)[0])
        self.held += held

    def take(self, upto: int) -> list[_Rows]:
        """The rows with an end that is not above ``upto``, in pieces as they came; they wait no longer."""
        due: list[_Rows] = []
        if self.first_end > upto:
            return due
        pieces = self._pieces
        self.forget()
        for rows, held in pieces:
            first, last = times_bounds(rows.ends)
            if last <= upto:
                due.append(rows)
            elif first > upto:
                self.add(rows, held)
            else:
                in_order, kept = _by_end(rows, held)
                place = int(np.searchsorted(in_order.ends, upto, side="right"))
                due.append(in_order.slice(0, place))
                self.add(in_order.slice(place, len(in_order)), kept)
        return due


def _by_end(rows: _Rows, held: int) -> tuple[_Rows, int]:
    """Rows ordered by end, and how many rows these keep in memory."""
    ends = rows.ends
    if (ends[1:] >= ends[:-1]).all():
        return rows, held
    return rows.take(sorted_by(np.zeros(len(ends), np.int64), ends)), len(ends)


_ROWS = 1 << 16
"""About so many rows are merged at a time."""
_HASH_BITS = 64


def merge_blocks(tables: Sequence[Accumulators], rows: int = _ROWS) -> Iterator[list[Accumulators]]:
    """The rows of all tables, cut into blocks at the same keys and windows.

    Args:
        tables: sorted tables.
        rows: about how many rows a block is to have.
    """
    if sum(map(len, tables)) <= rows:
        if tables:
            yield list(tables)
        return
    gathered: list[list[Accumulators]] = []
    for end in np.unique(np.concatenate([table.windows[0] for table in tables])).tolist():
        window = [piece for table in tables if len(piece := rows_at(table, end))]
        if gathered and _total(gathered) + sum(map(len, window)) > rows:
            yield _flat(gathered)
            gathered = []
        if sum(map(len, window)) > rows:
            yield from _by_hash(window, rows)
        else:
            gathered.append(window)
    if gathered:
        yield _flat(gathered)


def rows_at(table: Accumulators, end: int) -> Accumulators:
    """The rows of a sorted table that have an end."""
    ends, offsets = table.windows
    place = int(np.searchsorted(ends, end))
    if place == len(ends) or ends[place] != end:
        return table.slice(0, 0)
    return table.slice(int(offsets[place]), int(offsets[place + 1]))


def _by_hash(window: Sequence[Accumulators], rows: int) -> Iterator[list[Accumulators]]:
    """The rows of one window by ranges of hashes, all equally wide: a good hash fills them evenly."""
    bits = (sum(map(len, window)) // rows).bit_length()
    edges = np.arange(1, 1 << bits, dtype=np.uint64) << np.uint64(_HASH_BITS - bits)
    cuts = [[0, *np.searchsorted(piece.hashes, edges).tolist(), len(piece)] for piece in window]
    for i in range(1 << bits):
        block = [piece.slice(cut[i], cut[i + 1]) for piece, cut in zip(window, cuts, strict=True)]
        if any(map(len, block)):
            yield block


def _total(windows: Sequence[Sequence[Accumulators]]) -> int:
    return sum(len(piece) for window in windows for piece in window)


def _flat(windows: Sequence[Sequence[Accumulators]]) -> list[Accumulators]:
    return [piece for window in windows for piece in window]


_WAITING_ROWS = 1 << 18
"""The rows that wait before they are aggregated, where that leaves few: more at once cost no less a row."""

_FEW = 0.125
_TIMES_AS_MANY = 16
_WAITING_BYTES = 128 << 20
"""If an aggregation leaves more than this share of its rows, more rows wait before the next one: up to so many times as
many, in so much memory, since each piece has to be merged with the others afterward."""


@dataclass(eq=False, slots=True)
class _StoreStatistics:
    """The cache of a store; the store that replaces it in the same process can take it over.

    Attributes:
        known: the keys that were met.
        most_waiting: so many rows wait.
    """

    known: KeyDictionary = field(default_factory=KeyDictionary)
    most_waiting: int = field(default_factory=lambda: _WAITING_ROWS)

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return self.known.nbytes


class WindowStore:
    """The contents of all windows, or panes, of one subtask. They are known by their ends.

    Args:
        layout: the columns.
        kept_as: what the runs in state are.
        runs: the state.
        cache: by name, what stores before this one have cached in this process; see ``OperatorContext``.
    """

    def __init__(
        self, layout: ColumnarWindowLayout, kept_as: TableLayout, runs: RunStore, cache: dict[str, ProcessLocalCache]
    ) -> None:
        self._aggregators = layout.aggregators
        self._schema = layout.state_schema
        self._table = TimeSortedTable(
            runs, kept_as, lambda _, batches: combined(self._aggregators, batches, self._known)
        )
        self._habits = cast("_StoreStatistics", cache.setdefault(runs.name, _StoreStatistics()))
        self._known = self._habits.known if layout.aggregators.are_scatterable else None
        self._habits.known.stored = self._table.stored_keys
        self._records: WaitingRows[Chunk] = WaitingRows()
        self._accumulators: WaitingRows[Accumulators] = WaitingRows()

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        self._table.begin_epoch()
        self._records.forget()
        self._accumulators.forget()

    def add(self, chunk: Chunk) -> None:
        """Adds records that are on time for their windows."""
        if len(chunk):
            self._records.add(chunk)
            self._make_room()

    def add_accumulators(self, accumulators: Accumulators) -> None:
        """Adds accumulators in any order; late ones only once :meth:`due` was called for their windows."""
        if len(accumulators):
            self._accumulators.add(accumulators)
            self._make_room()

    def next_above(self, end: int) -> int:
        """The first end above one; ``NO_TIME`` when there is none."""
        if self._first_waiting <= end:
            self.aggregate()
        return min(self._first_waiting, self._table.next_above(end))

    def between(self, after: int, upto: int) -> list[Accumulators]:
        """The rows with an end above ``after`` and not above ``upto``, in pieces that are in order each."""
        if self._first_waiting <= upto:
            self.aggregate(upto)
        return list(map(Accumulators.of_batch, self._table.between(after, upto)))

    def due(self, after: int, upto: int) -> Iterator[Accumulators]:
        """The contents of the windows with an end above ``after`` and not above ``upto``.

        They come in order, in blocks: memory stays bounded however much is due.
        """
        if self.next_above(after) <= upto:
            for block in merge_blocks(self.between(after, upto)):
                yield Accumulators.merged(self._aggregators, block, self._known)

    def find(self, ends: Longs, hashes: npt.NDArray[np.uint64]) -> Accumulators:
        """The stored rows of some ends and hashes: at most one row a key and end, in no particular order."""
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

    def aggregate(self, upto: int = MAX_WATERMARK) -> None:
        """Has the rows that wait become accumulators in the table: those with an end that is not above ``upto``."""
        records, rows = self._records.take(upto), self._accumulators.take(upto)
        is_grouped = not rows
        if records:
            chunk = Chunk.concat(records)
            made = Accumulators.of_chunk(self._aggregators, chunk, self._known)
            rows.append(made)
            # Their number decides how many rows are to wait from now on.
            many = min(_TIMES_AS_MANY * _WAITING_ROWS, _WAITING_BYTES * len(chunk) // max(chunk.nbytes, 1))
            self._habits.most_waiting = max(many, _WAITING_ROWS) if len(made) > _FEW * len(chunk) else _WAITING_ROWS
        if rows:
            merged = rows[0] if is_grouped else Accumulators.regrouped(self._aggregators, rows, self._known)
            self._table.append(merged.to_batch(self._schema))

    @property
    def _first_waiting(self) -> int:
        """The first end of the rows that wait; ``NO_TIME`` when there are none."""
        return min(self._records.first_end, self._accumulators.first_end)

    def _make_room(self) -> None:
        if self._records.held + self._accumulators.held >= self._habits.most_waiting:
            self.aggregate()


def combined(
    aggregators: AggregatorList, batches: Sequence[pa.RecordBatch], known: KeyDictionary | None = None
) -> pa.RecordBatch:
    """One row a key and window, of batches in the order of a run; earlier ones came earlier."""
    pieces = list(map(Accumulators.of_batch, batches))
    return Accumulators.merged(aggregators, pieces, known).to_batch(batches[-1].schema)


register_ordered_merger(
    ACCUMULATORS_KIND, lambda meta, batches: combined(AggregatorList.for_merging(meta["parts"]), batches)
)
