"""Count windows with a slide, with built-in aggregates, column by column.

A record is added up once, for its pane; a window is the merge of its panes when its last record has come. Of a key,
the panes of windows that are not full are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from headrace.operators.arrays import concat, gather
from headrace.operators.window.columnar.count_panes import NO_PANE, CountPanes, CountPaneStore, KeptPanes
from headrace.operators.window.columnar.count_window import CountingOperator
from headrace.operators.window.columnar.firing import FIRED_ROWS
from headrace.operators.window.held_windows import held_in_columns
from headrace.operators.window.stores import COUNT_PANES_STORE
from headrace.state.keys import KeyColumn
from headrace.state.runs.grouping import Groups, Segments, group_rows, sorted_by
from headrace.windowing.windows import CountWindow

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from headrace.operators.aggregates.aggregator_list import AggregatorList
    from headrace.operators.base import OperatorContext
    from headrace.operators.window.columnar.accumulators import Chunk
    from headrace.operators.window.columnar.layout import ColumnarWindowLayout
    from headrace.operators.window.held_windows import HeldWindow
    from headrace.state.protocols import OperatorStates

    Longs = npt.NDArray[np.int64]
    Columns = list[pa.Array]

_MERGED_ROWS = 1 << 18
"""About so many rows of panes are merged at a time into windows."""


class SlidingCountWindowOperator(CountingOperator):
    """Windows of so many records of which one begins at every so many records of the key.

    Args:
        layout: the aggregates and the columns.
        panes: the windows.
    """

    store_name: ClassVar[str] = COUNT_PANES_STORE
    _store: CountPaneStore

    def __init__(self, layout: ColumnarWindowLayout, panes: CountPanes) -> None:
        super().__init__(layout)
        self._panes = panes

    def held_windows(self, context: OperatorContext, watermark: int) -> Iterator[HeldWindow]:
        """What windows hold that are not full; see :class:`.held_windows.HoldsWindows`."""
        assert context.state is not None
        kept = self._open_store(context.state).stored()
        groups = group_rows(np.zeros(len(kept.panes), np.int64), kept.keys.hashes, kept.keys.values)
        firsts, counts = groups.segments.starts, groups.segments.counts
        records = kept.records[firsts]
        oldest = self._panes.first_open(records)
        opened = np.maximum(-(-records // self._panes.slide) - oldest, 0)
        of_keys, numbers = _ranges(oldest, opened)
        table = _PaneRows(groups.segments.ids, kept.panes, kept.columns)
        starts = table.places(of_keys, numbers * self._panes.per_slide)
        columns = table.merged(self._layout.aggregators, starts, (firsts + counts)[of_keys] - starts)
        keys = kept.keys.take(firsts[of_keys])
        windows = map(CountWindow, numbers.tolist())
        return held_in_columns(self._layout, keys.values, windows, [pa.array(numbers)], columns)

    def _open_store(self, state: OperatorStates) -> CountPaneStore:
        return CountPaneStore(self._layout, self._panes, state.store)

    def _add(self, chunk: Chunk, watermarks: Longs) -> None:
        groups = group_rows(chunk.ends, chunk.hashes, chunk.keys)
        keys = KeyColumn(gather(chunk.keys, groups.first_rows), chunk.hashes[groups.first_rows])
        of_kept, kept = self._store.find(keys)
        before = np.zeros(len(keys), np.int64)
        before[of_kept] = kept.records
        records = before + groups.segments.counts
        table = self._table(chunk, groups, before, of_kept, kept)
        self._show_full(keys, groups, table, before, watermarks)
        self._store.write(self._left(keys, records, table))

    def _table(self, chunk: Chunk, groups: Groups, before: Longs, of_kept: Longs, kept: KeptPanes) -> _PaneRows:
        """The panes that were kept, and those of records, one row for each pane of a key."""
        of_keys, order = groups.segments.ids, groups.order
        places = np.arange(len(order)) - (groups.segments.starts - before)[of_keys]
        is_in_window = self._panes.are_in_window(places)
        if not is_in_window.all():
            of_keys, order, places = of_keys[is_in_window], order[is_in_window], places[is_in_window]
        rows = np.flatnonzero(kept.panes != NO_PANE)
        older = _PaneRows(of_kept[rows], kept.panes[rows], [gather(column, rows) for column in kept.columns])
        if not len(order):
            return older
        panes = self._panes.of(places)
        segments = _segments(of_keys, panes)
        made = chunk.accumulated(self._layout.aggregators, Groups(order, segments))
        newer = _PaneRows(of_keys[segments.starts], panes[segments.starts], made)
        return _PaneRows.merge(self._layout.aggregators, older, newer)

    def _show_full(self, keys: KeyColumn, groups: Groups, table: _PaneRows, before: Longs, watermarks: Longs) -> None:
        panes = self._panes
        first = panes.first_open(before)
        of_keys, numbers = _ranges(first, panes.first_open(before + groups.segments.counts) - first)
        lasts = groups.segments.starts[of_keys] + numbers * panes.slide + (panes.size - 1) - before[of_keys]
        last_rows = groups.order[lasts]
        order = np.argsort(last_rows)
        step = max(1, min(FIRED_ROWS, _MERGED_ROWS // panes.per_window))
        for start in range(0, len(order), step):
            full = order[start : start + step]
            starts = table.places(of_keys[full], numbers[full] * panes.per_slide)
            columns = table.merged(self._layout.aggregators, starts, np.full(len(full), panes.per_window))
            self._show(gather(keys.values, of_keys[full]), numbers[full], columns, watermarks[last_rows[full]])

    def _left(self, keys: KeyColumn, records: Longs, table: _PaneRows) -> KeptPanes:
        """What is kept of keys that have had so many records."""
        needed = self._panes.first_open(records) * self._panes.per_slide
        rows = np.flatnonzero(table.panes >= needed[table.of_keys])
        has_none = np.ones(len(keys), np.bool_)
        has_none[table.of_keys[rows]] = False
        without = np.flatnonzero(has_none)
        of_keys, numbers = table.of_keys[rows], table.panes[rows]
        columns = [gather(column, rows) for column in table.columns]
        if len(without):
            of_keys = np.concatenate((of_keys, without))
            order = sorted_by(of_keys, np.arange(len(of_keys)))
            of_keys, numbers = of_keys[order], np.concatenate((numbers, np.full(len(without), NO_PANE)))[order]
            nulls = [pa.nulls(len(without), column.type) for column in columns]
            columns = [gather(concat([a, b]), order) for a, b in zip(columns, nulls, strict=True)]
        return KeptPanes(keys.take(of_keys), numbers, records[of_keys], columns)


@dataclass(frozen=True)
class _PaneRows:
    """What panes hold, by key and number.

    Attributes:
        of_keys: the key of each, as a number.
        panes: its number.
        columns: the accumulators.
    """

    of_keys: Longs
    panes: Longs
    columns: Columns

    def places(self, of_keys: Longs, panes: Longs) -> Longs:
        """Where the first row of some keys is that is not below a pane."""
        width = int(max(self.panes.max(initial=0), panes.max(initial=0))) + 2
        return np.searchsorted(self.of_keys * width + self.panes, of_keys * width + panes)

    def merged(self, aggregators: AggregatorList, starts: Longs, counts: Longs) -> Columns:
        """The accumulators of stretches of rows, which are not empty."""
        of_stretches, rows = _ranges(starts, counts)
        if len(of_stretches) == len(starts):
            return [gather(column, rows) for column in self.columns]
        segments = Segments(np.cumsum(counts) - counts, len(rows))
        return aggregators.merge([gather(column, rows) for column in self.columns], segments)

    @staticmethod
    def merge(aggregators: AggregatorList, older: _PaneRows, newer: _PaneRows) -> _PaneRows:
        """The rows of both, one for each pane of a key."""
        if not len(older.panes):
            return newer
        of_keys = np.concatenate((older.of_keys, newer.of_keys))
        order = sorted_by(of_keys, np.arange(len(of_keys)))  # of a key, the older panes come before the newer ones
        of_keys, panes = of_keys[order], np.concatenate((older.panes, newer.panes))[order]
        columns = [gather(concat([a, b]), order) for a, b in zip(older.columns, newer.columns, strict=True)]
        segments = _segments(of_keys, panes)
        if not segments.are_single:
            columns = aggregators.merge(columns, segments)
        return _PaneRows(of_keys[segments.starts], panes[segments.starts], columns)


def _segments(of_keys: Longs, panes: Longs) -> Segments:
    """The stretches of the same key and pane."""
    is_new = np.ones(len(panes), np.bool_)
    is_new[1:] = (of_keys[1:] != of_keys[:-1]) | (panes[1:] != panes[:-1])
    return Segments(np.flatnonzero(is_new), len(panes))


def _ranges(starts: Longs, counts: Longs) -> tuple[Longs, Longs]:
    """The integers of ranges, one range after the other, and which range each is of."""
    ranges = np.repeat(np.arange(len(starts)), counts)
    return ranges, np.arange(len(ranges)) - np.repeat(np.cumsum(counts) - counts - starts, counts)
