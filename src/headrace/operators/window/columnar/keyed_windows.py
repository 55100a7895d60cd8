"""Windows that are kept by key, and when something is due for them.

The table by key has all windows of a key in the run that was written last for the key. So a window that changes is
written with the others of its key. The due times tell which keys have a window that has to be looked at; a time that
is out of date does no harm, as nothing is found then that is due.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.operators.arrays import fixed_width
from headrace.state.key_table import KeyTable
from headrace.state.keys import KeyColumn
from headrace.state.ordered_table import OrderedTable
from headrace.state.runs.grouping import group_rows, sorted_by
from headrace.state.runs.layout import HASH, KEY
from headrace.state.runs.merge_input import by_key
from headrace.state.runs.merge_input import concat as concat_batches
from headrace.state.runs.ordered import LIVE, newest

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from headrace.operators.window.columnar.accumulators import Chunk
    from headrace.state.runs import RunStore
    from headrace.state.table_layout import TableLayout

    Longs = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]


class KeyedWindows:
    """The windows of one subtask.

    Args:
        windows: the runs of the windows.
        layout: their columns: hash and key, a number that tells windows of a key apart, others, and ``LIVE``.
        times: the runs of the due times.
        layout_of_times: their columns: time, hash and key.

    Raises:
        StateMigrationError: when something else is stored.
    """

    def __init__(self, windows: RunStore, layout: TableLayout, times: RunStore, layout_of_times: TableLayout) -> None:
        self._schema, self._schema_of_times = layout.schema, layout_of_times.schema
        self._windows = KeyTable(windows, layout)
        self._times = OrderedTable(times, layout_of_times, newest)

    @property
    def first(self) -> int:
        """The first time at which something may be due; ``NO_TIME`` when there is none."""
        return self._times.first

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        self._windows.begin_epoch()
        self._times.begin_epoch()

    def first_due(self, upto: int, rows: int) -> int:
        """Up to which time about ``rows`` windows are due, of those that are due at ``upto`` or before."""
        if self._times.first > upto:
            return upto
        batches = self._times.up_to(upto)
        if sum(batch.num_rows for batch in batches) <= rows:
            return upto
        times = np.concatenate([fixed_width(batch.column(0)) for batch in batches])
        return int(np.partition(times, rows)[rows])

    def take_due(self, upto: int) -> KeyColumn | None:
        """The keys of which something may be due at ``upto`` or before, each once at least; None for no keys."""
        if self._times.first > upto:
            return None
        batches = self._times.up_to(upto)
        keys = [KeyColumn(batch.column(KEY), fixed_width(batch.column(HASH))) for batch in batches]
        self._times.forget(upto)
        return KeyColumn.concat(keys) if keys else None

    def stored(self) -> pa.RecordBatch:
        """All windows that were stored when the epoch began."""
        return self._windows.stored()

    def find(self, keys: KeyColumn) -> tuple[Longs, pa.RecordBatch]:
        """The windows of different keys, which are in order, and which of the keys each of them is of."""
        found, batch = self._windows.find(keys)
        is_live = batch.column(LIVE)
        if is_live.false_count:
            return found[fixed_width(is_live) != 0], batch.filter(is_live)
        return found, batch

    def write(
        self, keys: KeyColumn, columns: Sequence[pa.Array], keys_without: KeyColumn, times: Longs, is_new_time: Mask
    ) -> None:
        """Writes all windows of some keys.

        Args:
            keys: the key of each window, in the order of the layout.
            columns: what the layout has besides hash, key and ``LIVE``.
            keys_without: keys that have no windows any more, but had some.
            times: when something is due for each window.
            is_new_time: whether that was not written before.
        """
        batch = self._batch(keys, columns, True)
        if len(keys_without):
            numbers = pa.array(np.zeros(len(keys_without), np.int64))
            nulls = [pa.nulls(len(keys_without), column.type) for column in columns[1:]]
            batch = concat_batches([batch, self._batch(keys_without, [numbers, *nulls], False)])
            order, _ = by_key(batch)
            batch = batch.take(pa.array(order))
        self._windows.write(batch)
        due = np.flatnonzero(is_new_time)
        due = due[sorted_by(np.zeros(len(due), np.int64), times[due])]
        arrays = [pa.array(times[due]), pa.array(keys.hashes[due]), keys.take(due).values]
        self._times.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema_of_times))

    def end_epoch(self) -> None:
        """Puts what was written into state."""
        self._windows.end_epoch()
        self._times.end_epoch()

    def _batch(self, keys: KeyColumn, columns: Sequence[pa.Array], is_live: bool) -> pa.RecordBatch:
        arrays = [pa.array(keys.hashes), keys.values, *columns]
        arrays.insert(self._schema.get_field_index(LIVE), pa.array(np.full(len(keys), is_live)))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


@dataclass(frozen=True)
class TouchedKeys:
    """The keys that records are of, or windows that may be due.

    Attributes:
        chunk: the records; None when there are none.
        keys: the keys, each once, by hash and key.
        of_records: which of them each record has.
    """

    chunk: Chunk | None
    keys: KeyColumn
    of_records: Longs

    @staticmethod
    def of(chunk: Chunk | None, due: KeyColumn | None) -> TouchedKeys | None:
        """The keys of some records, and some others; None when there are none."""
        parts = [] if chunk is None else [KeyColumn(chunk.keys, chunk.hashes)]
        if due is not None:
            parts.append(due)
        if not parts:
            return None
        keys = KeyColumn.concat(parts)
        groups = group_rows(np.zeros(len(keys), np.int64), keys.hashes, keys.values)
        numbers = np.empty(len(keys), np.int64)
        numbers[groups.order] = groups.segments.ids
        records = 0 if chunk is None else len(chunk)
        return TouchedKeys(chunk, keys.take(groups.first_rows), numbers[:records])
