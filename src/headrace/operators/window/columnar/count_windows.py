"""Count windows with built-in aggregates, column by column.

Records wait until the stretch of input ends, or until there are many. The place of a record among those of its key, and
how many the key has had before, tell its windows. A record is added up once, for its pane; a window is the merge of its
panes, and is shown when its last record has come. Only keys that have records are read and written; of a key, the panes
of windows that are not full are kept.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import gather, replaced
from headrace.common.batch import Batch
from headrace.common.constants import MAX_WATERMARK
from headrace.operators.aggregates.aggregator import AggregatorList
from headrace.operators.base import OperatorContext
from headrace.operators.window.columnar.accumulators import Chunk, ColumnarWindowLayout
from headrace.operators.window.columnar.firing import FIRED_ROWS, Contents
from headrace.operators.window.columnar.windows_by_key import (
    COUNTS,
    ArrivedRecords,
    KeyedWindowOperator,
    WindowRows,
    WindowTable,
)
from headrace.operators.window.stored_windows import StoredWindow, held_in_columns
from headrace.state.keys import KeyColumn
from headrace.state.runs.grouping import Groups, Segments, group_keys, group_rows, sorted_by
from headrace.windowing.intervals import CountPanes
from headrace.windowing.windows import CountWindow

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Columns = list[pa.Array]

_WAITING_ROWS: Final = 1 << 18
"""The most records that wait; the more there are, the less often a key is read and written."""

_MERGED_ROWS: Final = 1 << 18
"""About so many rows of panes are merged at a time into windows."""

_NO_PANE: Final = -1
"""In place of the number of a pane, for a key of which nothing is kept but how many records it has had."""


class CountWindowOperator(KeyedWindowOperator):
    """Built-in aggregates over windows of so many records of a key.

    Args:
        layout: the aggregates and the columns.
        panes: the windows.
    """

    def __init__(self, layout: ColumnarWindowLayout, panes: CountPanes) -> None:
        super().__init__(layout, _WAITING_ROWS)
        self._panes = panes

    def held_windows(self, context: OperatorContext, watermark: int) -> Iterator[StoredWindow]:
        """The contents of windows that are not full; see :class:`.WindowStateReader`."""
        kept = self._open_table(context).stored()
        groups = group_keys(kept.keys.hashes, kept.keys.values)
        kept_panes, kept_records = kept.numbers
        firsts, counts = groups.segments.starts, groups.segments.counts
        records = kept_records[firsts]
        oldest = self._panes.first_open(records)
        opened = np.maximum(-(-records // self._panes.slide) - oldest, 0)
        of_keys, numbers = _ranges(oldest, opened)
        table = Contents(groups.segments.ids, kept.columns, kept_panes)
        starts = self._places(table, firsts, of_keys, numbers)
        columns = _merged(self._aggregators, table.columns, starts, (firsts + counts)[of_keys] - starts)
        keys = kept.keys.take(firsts[of_keys])
        windows = map(CountWindow, numbers.tolist())
        return held_in_columns(self._layout, keys.values, windows, [pa.array(numbers)], columns)

    def _open_table(self, context: OperatorContext) -> WindowTable:
        return WindowTable(COUNTS, self._layout, context, {"size": self._panes.size, "slide": self._panes.slide})

    def _advance(self, watermark: int, arrived: ArrivedRecords | None) -> None:
        if arrived is not None:
            self._add(arrived.chunk, arrived.watermarks)

    def _add(self, chunk: Chunk, watermarks: Longs) -> None:
        groups = group_rows(chunk.ends, chunk.hashes, chunk.keys)
        keys = KeyColumn(gather(chunk.keys, groups.first_rows), chunk.hashes[groups.first_rows])
        of_kept, kept = self._table.find(keys)
        before = np.zeros(len(keys), np.int64)
        before[of_kept] = kept.numbers[1]
        records = before + groups.segments.counts
        table = self._pane_rows(chunk, groups, before, of_kept, kept)
        self._show_full(keys, groups, table, before, watermarks)
        self._table.write(self._left(keys, records, table))

    def _pane_rows(self, chunk: Chunk, groups: Groups, before: Longs, of_kept: Longs, kept: WindowRows) -> Contents:
        """The panes that were kept, and those of records, one row for each pane of a key."""
        numbers, _ = kept.numbers
        older = Contents(of_kept, kept.columns, numbers)
        if (numbers == _NO_PANE).any():
            older = older.take(np.flatnonzero(numbers != _NO_PANE))
        of_keys, order = groups.segments, groups.order
        places = np.arange(len(order)) - np.repeat(of_keys.starts - before, of_keys.counts)
        begins = self._panes.begin_at(places)
        begins[of_keys.starts] = True
        firsts = starts = np.flatnonzero(begins)
        if self._panes.have_gaps:
            is_in_window = self._panes.are_in_window(places)
            firsts = firsts[is_in_window[firsts]]
            order, starts = order[is_in_window], np.cumsum(is_in_window)[firsts] - 1
        if not len(order):
            return older
        made = chunk.accumulated(self._aggregators, Groups(order, Segments(starts, len(order))))
        keys_of_panes = np.searchsorted(of_keys.starts, firsts, side="right") - 1
        newer = Contents(keys_of_panes, made, self._panes.of(places[firsts]))
        return Contents.concat(*_continued(self._aggregators, older, newer))

    def _show_full(self, keys: KeyColumn, groups: Groups, table: Contents, before: Longs, watermarks: Longs) -> None:
        panes = self._panes
        first = panes.first_open(before)
        of_keys, numbers = _ranges(first, panes.first_open(before + groups.segments.counts) - first)
        lasts = groups.segments.starts[of_keys] + numbers * panes.slide + (panes.size - 1) - before[of_keys]
        last_rows = groups.order[lasts]
        order = np.argsort(last_rows)
        starts_of_keys = np.searchsorted(table.windows, np.arange(len(keys)))
        step = max(1, min(FIRED_ROWS, _MERGED_ROWS // panes.per_window))
        for start in range(0, len(order), step):
            full = order[start : start + step]
            starts = self._places(table, starts_of_keys, of_keys[full], numbers[full])
            columns = _merged(self._aggregators, table.columns, starts, np.full(len(full), panes.per_window))
            self._show(gather(keys.values, of_keys[full]), numbers[full], columns, watermarks[last_rows[full]])

    def _places(self, table: Contents, starts_of_keys: Longs, of_keys: Longs, numbers: Longs) -> Longs:
        """The row of the first pane of each of some windows, by key and number."""
        starts = starts_of_keys[of_keys]
        return starts + (numbers * self._panes.per_slide - table.numbers[starts]) // self._panes.step

    def _left(self, keys: KeyColumn, records: Longs, table: Contents) -> WindowRows:
        """The records that are kept of keys, given the number of records that each has had."""
        if self._panes.are_windows:
            return self._left_of_last(keys, records, table)
        needed = self._panes.first_open(records) * self._panes.per_slide
        rows = np.flatnonzero(table.numbers >= needed[table.windows])
        has_none = np.ones(len(keys), np.bool_)
        has_none[table.windows[rows]] = False
        without = np.flatnonzero(has_none)
        if not len(without):
            left = table.take(rows)
            return WindowRows(keys.take(left.windows), (left.numbers, records[left.windows]), left.columns)
        of_keys = np.concatenate((table.windows[rows], without))
        order = sorted_by(of_keys, np.arange(len(of_keys)))
        of_keys, is_none = of_keys[order], order >= len(rows)
        sources = np.where(is_none, 0, np.append(rows, np.zeros(len(without), np.int64))[order])
        numbers = np.where(is_none, _NO_PANE, table.numbers[sources]) if len(rows) else np.full(len(order), _NO_PANE)
        places = pa.array(sources, mask=is_none)
        return WindowRows(
            keys.take(of_keys), (numbers, records[of_keys]), [column.take(places) for column in table.columns]
        )

    def _left_of_last(self, keys: KeyColumn, records: Longs, table: Contents) -> WindowRows:
        """The same where panes are the windows: of each key the last one, unless it is full."""
        lasts = np.flatnonzero(np.diff(table.windows, append=-1))
        is_full = table.numbers[lasts] < self._panes.first_open(records)
        places = pa.array(lasts, mask=is_full)
        numbers = np.where(is_full, _NO_PANE, table.numbers[lasts])
        return WindowRows(keys, (numbers, records), [column.take(places) for column in table.columns])

    def _show(self, keys: pa.Array, numbers: Longs, columns: Columns, stamps: Longs) -> None:
        """Emits full windows: the key, the number and the accumulators of each, and the watermark it is shown under."""
        table = self._layout.finish(keys, [pa.array(numbers)], columns)
        times = np.full(len(numbers), MAX_WATERMARK)
        self.output.emit(Batch(self._layout.output_type, times, stamps, columns=table))


def _merged(aggregators: AggregatorList, columns: Columns, starts: Longs, counts: Longs) -> Columns:
    """The accumulators of stretches of rows, which are not empty."""
    if counts.max(initial=1) == 1:
        return [gather(column, starts) for column in columns]
    _, rows = _ranges(starts, counts)
    segments = Segments(np.cumsum(counts) - counts, len(rows))
    return aggregators.merge([gather(column, rows) for column in columns], segments)


def _continued(aggregators: AggregatorList, older: Contents, newer: Contents) -> tuple[Contents, Contents]:
    """The same panes, where those that both have are newer ones: only the last older pane of a key may go on."""
    lasts = np.flatnonzero(np.diff(older.windows, append=-1))
    rows = np.searchsorted(newer.windows, older.windows[lasts])
    found = np.minimum(rows, len(newer) - 1)
    is_same = (newer.windows[found] == older.windows[lasts]) & (newer.numbers[found] == older.numbers[lasts])
    lasts, rows = lasts[is_same], rows[is_same]
    if not len(rows):
        return older, newer
    are_all = len(rows) == len(older)
    held = older.columns if are_all else older.take(lasts).columns
    both = aggregators.combine(held, [gather(column, rows) for column in newer.columns])
    columns = [replaced(column, rows, values) for column, values in zip(newer.columns, both, strict=True)]
    newer = Contents(newer.windows, columns, newer.numbers)
    if are_all:
        return Contents.nothing(), newer
    is_left = np.ones(len(older), np.bool_)
    is_left[lasts] = False
    return older.take(np.flatnonzero(is_left)), newer


def _ranges(starts: Longs, counts: Longs) -> tuple[Longs, Longs]:
    """The integers of ranges, one range after the other, and which range each is of."""
    ranges = np.repeat(np.arange(len(starts)), counts)
    return ranges, np.arange(len(ranges)) - np.repeat(np.cumsum(counts) - counts - starts, counts)
