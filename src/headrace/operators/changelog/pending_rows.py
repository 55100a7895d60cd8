"""``PendingRows``: rows that are buffered until the watermark passes their times, and then leave in that order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import Picked, fixed_width, gather
from headrace.common.constants import MIN_WATERMARK
from headrace.operators.base import KeyedBatch, OperatorContext, concat_keyed
from headrace.operators.window.columnar.accumulators import ArrivalCounter
from headrace.state.keys import KeyColumn
from headrace.state.runs.grouping import group_keys, group_rows, in_order
from headrace.state.runs.layout import HASH, KEY, fields_of_rows
from headrace.state.runs.merge_input import all_rows, concat
from headrace.state.runs.merging import register_ordered_merger
from headrace.state.sorted_table import TableLayout, TimeSortedTable

if TYPE_CHECKING:
    from headrace.state.keys import KeyCodec

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_KIND: Final = "pending-rows"
_WORDS: Final = {"keys": "key type", "rows": "type of rows"}


@dataclass(frozen=True)
class DueRows:
    """Rows whose time the watermark has passed, by key, time and arrival.

    Attributes:
        source: a batch that holds the rows.
        places: the position of each row in the batch.
        keys: the key of each.
        times: the time of each.
        arrivals: the rank of each in the order of arrival.
        watermarks: the watermark by which each is due.
        stamps: the watermark that was in force before that.
    """

    source: pa.RecordBatch
    places: Longs
    keys: KeyColumn
    times: Longs
    arrivals: Longs
    watermarks: Longs
    stamps: Longs

    def __len__(self) -> int:
        return len(self.times)

    @cached_property
    def rows(self) -> Picked:
        """The rows."""
        return Picked(self.source.column, self.places)

    def whole(self) -> pa.RecordBatch:
        """The rows with all their columns."""
        columns = [gather(column, self.places) for column in self.source.columns]
        return pa.RecordBatch.from_arrays(columns, schema=self.source.schema)

    def take(self, places: Longs) -> DueRows:
        """The rows at some positions, in that order."""
        numbers = (self.times, self.arrivals, self.watermarks, self.stamps)
        taken = (each[places] for each in numbers)
        return DueRows(self.source, self.places[places], self.keys.take(places), *taken)


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
        columns = fields_of_rows(schema)
        order = [pa.field("time", pa.int64()), pa.field(HASH, pa.uint64()), pa.field(KEY, codec.arrow_type)]
        self._schema = pa.schema([*order, pa.field("arrival", pa.int64()), *columns])
        about = {"keys": codec.to_json(), "rows": [str(field.type) for field in schema]}
        layout = TableLayout("rows that wait for event time", _KIND, self._schema, 3, about, _WORDS)
        self._table = TimeSortedTable(context.state.store(name), layout, all_rows)
        self._arrived: list[KeyedBatch] = []
        self._times: list[Longs] = []

    def begin_epoch(self, epoch: int, watermark: int) -> None:
        """Starts an epoch with the state that the last one left."""
        self._arrivals = ArrivalCounter(epoch)
        self._watermark = watermark
        self._table.begin_epoch()
        self._arrived, self._times = [], []
        self._met: list[Longs] = []

    def add(self, batch: KeyedBatch, times: Longs) -> int:
        """Buffers rows until these times; returns the number of late rows, which are not added."""
        if not len(batch):
            return 0
        is_late = times <= batch.watermarks
        late = int(is_late.sum())
        self._arrived.append(batch)
        self._times.append(times)
        return late

    def meet(self, watermarks: Longs) -> None:
        """Notes watermarks that came between rows, which records of another input have met."""
        self._met.append(_distinct(watermarks))

    def take(self, watermark: int) -> DueRows | None:
        """The rows that are due at a watermark or before; None where there are none."""
        steps = self._steps(watermark)
        parts = [batch.cast(self._schema) for batch in self._table.up_to(watermark)]
        self._table.forget(watermark)
        due = [np.arange(sum(part.num_rows for part in parts))]
        if self._arrived:
            arrived, is_due = self._take_arrived(watermark)
            due.append(len(due[0]) + np.flatnonzero(is_due))
            parts.append(arrived)
        self._watermark = watermark
        rows = np.concatenate(due)
        return self._by_key(concat(parts), rows, steps) if len(rows) else None

    def _by_key(self, found: pa.RecordBatch, rows: Longs, steps: Longs) -> DueRows:
        times, hashes, values, arrivals, *columns = found.columns
        if (np.diff(fixed_width(arrivals)[rows]) < 0).any():
            rows = rows[in_order(fixed_width(arrivals)[rows])]
        hashes, values = fixed_width(hashes)[rows], gather(values, rows)
        groups = group_keys(hashes, values)
        order, ids = groups.order, groups.segments.ids
        own = fixed_width(times)[rows[order]]
        if ((own[1:] < own[:-1]) & (ids[1:] == ids[:-1])).any():
            by_time = in_order(ids, own)
            order, own = order[by_time], own[by_time]
        places = np.searchsorted(steps[1:], own)
        keys = KeyColumn(gather(values, order), hashes[order])
        source = pa.RecordBatch.from_arrays(columns, schema=self._row_schema)
        return DueRows(source, rows[order], keys, own, order, steps[1:][places], steps[:-1][places])

    def end_epoch(self) -> None:
        """Writes the rows that are still buffered to state."""
        if self._arrived:
            self._take_arrived(MIN_WATERMARK)
        self._table.end_epoch()

    def _steps(self, watermark: int) -> Longs:
        """The watermarks since the last call, and the current one."""
        met, self._met = [_distinct(batch.watermarks) for batch in self._arrived] + self._met, []
        return np.unique(np.concatenate([*met, np.array([self._watermark, watermark])]))

    def _take_arrived(self, watermark: int) -> tuple[pa.RecordBatch, Mask]:
        """The rows that have arrived, and which are due already; those due later are added to the table."""
        batch, times = concat_keyed(self._arrived), np.concatenate(self._times)
        self._arrived, self._times = [], []
        numbers = [pa.array(times), pa.array(batch.keys.hashes), batch.keys.values]
        columns = [*numbers, pa.array(self._arrivals.next(len(batch))), *batch.columns.columns]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        is_on_time, is_due = times > batch.watermarks, times <= watermark
        waits = np.flatnonzero(is_on_time & ~is_due)
        if len(waits):
            keys = batch.keys.take(waits)
            self._table.append(rows.take(pa.array(waits[group_rows(times[waits], keys.hashes, keys.values).order])))
        return rows, is_on_time & is_due


def _distinct(ascending: Longs) -> Longs:
    found: Longs = ascending[np.append(True, ascending[1:] != ascending[:-1])]
    return found


register_ordered_merger(_KIND, all_rows)
