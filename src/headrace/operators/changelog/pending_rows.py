"""``PendingRows``: rows that are buffered until the watermark passes their times, and then leave in that order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.operators.arrays import fixed_width
from headrace.operators.base import KeyedBatch, OperatorContext, concat_keyed
from headrace.operators.window.columnar.accumulators import Arrivals
from headrace.state.keys import KeyColumn
from headrace.state.runs.grouping import group_rows
from headrace.state.runs.layout import HASH, KEY
from headrace.state.runs.merge_input import all_rows
from headrace.state.runs.merging import register_ordered_merger
from headrace.state.sorted_table import TimeSortedTable
from headrace.state.table_layout import TableLayout

if TYPE_CHECKING:
    from headrace.state.keys import KeyCodec

Longs = npt.NDArray[np.int64]

_KIND: Final = "pending-rows"
_WORDS: Final = {"keys": "key type", "rows": "type of rows"}


@dataclass(frozen=True)
class DueRows:
    """Rows whose time the watermark has passed, by key, time and arrival.

    Attributes:
        rows: the rows.
        keys: the key of each.
        times: the time of each.
        arrivals: the sequence number of each.
        watermarks: the watermark by which each is due.
        stamps: the watermark that was in force before that.
    """

    rows: pa.RecordBatch
    keys: KeyColumn
    times: Longs
    arrivals: Longs
    watermarks: Longs
    stamps: Longs

    def __len__(self) -> int:
        return len(self.times)

    def take(self, places: Longs) -> DueRows:
        """The rows at some positions, in that order."""
        numbers = (self.times, self.arrivals, self.watermarks, self.stamps)
        return DueRows(self.rows.take(pa.array(places)), self.keys.take(places), *(each[places] for each in numbers))


class PendingRows:
    """The buffered rows of a subtask.

    The watermark that releases a row follows from the watermarks between records and the row's time alone, so results
    do not depend on how many records are processed at once.

    Args:
        context: the operator.
        name: the name of the store.
        codec: the codec of the keys.
        schema: the columns of the rows.
    """

    def __init__(self, context: OperatorContext, name: str, codec: KeyCodec, schema: pa.Schema) -> None:
        self._row_schema = schema
        columns = [pa.field(f"{place}.{field.name}", field.type) for place, field in enumerate(schema)]
        order = [pa.field("time", pa.int64()), pa.field(HASH, pa.uint64()), pa.field(KEY, codec.arrow_type)]
        self._schema = pa.schema([*order, pa.field("arrival", pa.int64()), *columns])
        about = {"keys": codec.to_json(), "rows": [str(field.type) for field in schema]}
        layout = TableLayout("rows that wait for event time", _KIND, self._schema, 3, about, _WORDS)
        self._table = TimeSortedTable(context.state.store(name), layout, all_rows)
        self._arrived: list[KeyedBatch] = []
        self._times: list[Longs] = []

    def begin_epoch(self, epoch: int, watermark: int) -> None:
        """Starts an epoch with the state that the last one left."""
        self._arrivals = Arrivals(epoch)
        self._watermark = watermark
        self._table.begin_epoch()
        self._arrived, self._times = [], []

    def add(self, batch: KeyedBatch, times: Longs) -> int:
        """Buffers rows until these times; returns the number of late rows, which are not added."""
        if not len(batch):
            return 0
        is_late = times <= batch.watermarks
        late = int(is_late.sum())
        self._arrived.append(batch)
        self._times.append(times)
        return late

    def take(self, watermark: int) -> DueRows | None:
        """The rows that are due at a watermark or before; None where there are none."""
        steps = self._steps(watermark)
        if self._arrived:
            self._store_arrived()
        batches = self._table.up_to(watermark)
        self._watermark = watermark
        if not batches:
            return None
        found = pa.concat_batches([batch.cast(self._schema) for batch in batches])
        self._table.forget(watermark)
        times, arrivals = fixed_width(found.column(0)), fixed_width(found.column(3))
        places = np.searchsorted(steps[1:], times)
        keys = KeyColumn(found.column(2), fixed_width(found.column(1)))
        rows = pa.RecordBatch.from_arrays(found.columns[4:], schema=self._row_schema)
        due = DueRows(rows, keys, times, arrivals, steps[1:][places], steps[:-1][places])
        by_time = np.lexsort((arrivals, times))
        groups = group_rows(np.broadcast_to(np.int64(0), len(due)), keys.hashes[by_time], keys.values.take(by_time))
        return due.take(by_time[groups.order])

    def end_epoch(self) -> None:
        """Writes the rows that are still buffered to state."""
        if self._arrived:
            self._store_arrived()
        self._table.end_epoch()

    def _steps(self, watermark: int) -> Longs:
        """The watermarks since the last call, and the current one."""
        met = [batch.watermarks for batch in self._arrived]
        return np.unique(np.concatenate([*met, np.array([self._watermark, watermark])]))

    def _store_arrived(self) -> None:
        batch, times = concat_keyed(self._arrived), np.concatenate(self._times)
        self._arrived, self._times = [], []
        arrivals = self._arrivals.next(len(batch))
        on_time = np.flatnonzero(times > batch.watermarks)
        if not len(on_time):
            return
        keys, times = batch.keys.take(on_time), times[on_time]
        order = group_rows(times, keys.hashes, keys.values).order
        columns = batch.columns.take(pa.array(on_time)).columns
        numbers = [pa.array(times), pa.array(keys.hashes), keys.values, pa.array(arrivals[on_time])]
        rows = pa.RecordBatch.from_arrays([*numbers, *columns], schema=self._schema)
        self._table.append(rows.take(pa.array(order)))


register_ordered_merger(_KIND, all_rows)
