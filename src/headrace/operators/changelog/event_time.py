"""Operators that handle rows in the order of event time: the earliest row of each key, and rows in order."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import Picked, gather
from headrace.common.batch import Batch
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.typeinfo.composite import schema_of
from headrace.operators.base import EpochScope, KeyedBatch, KeyedOperator, OperatorContext
from headrace.operators.changelog.order import SortField, millis_of, order_codes, places_of
from headrace.operators.changelog.pending_rows import DueRows, PendingRows
from headrace.operators.changelog.rows_of_keys import RowsOfKeys, StoredRows, check_stores
from headrace.operators.window.table.firing_order import (
    STORE,
    TIMERS_OF_RECORDS,
    Fed,
    Pane,
    TimerFiringOrder,
    TimersOfWindows,
    known_ranks,
)
from headrace.state.keys import KeyColumn
from headrace.state.runs.grouping import Segments, in_order

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation
    from headrace.state.keys import KeyCodec

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_PENDING = "pending"


class EventTimeOperator(KeyedOperator):
    """Buffers rows until the watermark passes their times. Late rows are dropped and counted.

    Args:
        type_: the type of the records.
        codec: the codec of the keys.
        time_field: the position of the column of event times.
    """

    stores: tuple[str, ...] = ()
    timers: TimersOfWindows | None = TIMERS_OF_RECORDS
    """The timers that records have in Flink, whose order results follow; None where another order is declared."""

    def __init__(self, type_: TypeInformation, codec: KeyCodec, time_field: int) -> None:
        super().__init__()
        self._type, self._codec, self._time_field = type_, codec, time_field
        self._order_of = None if self.timers is None else TimerFiringOrder(self.timers, codec)
        self._fed: list[Fed] = []
        self._places: dict[Pane, int] = {}

    @abstractmethod
    def handle(self, due: DueRows) -> None:
        """Process rows that are due, and emit the results."""

    def restore_state(self, context: OperatorContext) -> None:
        check_stores(context, [_PENDING, STORE, *self.stores])
        if self._order_of is not None:
            self._order_of.open(context)
        self._pending = PendingRows(context, _PENDING, self._codec, schema_of(self._type))

    def begin_epoch(self, scope: EpochScope) -> None:
        self._pending.begin_epoch(scope.epoch, scope.watermark)
        if self._order_of is not None:
            self._order_of.begin_epoch(scope)

    takes_late = False
    """True when late rows may be emitted at the next watermark; see :meth:`accepts`."""

    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        times, start = self._times(batch), 0
        late = times <= batch.watermarks
        for stamp in np.unique(batch.watermarks[late]).tolist() if self.takes_late else ():
            first, behind = np.searchsorted(batch.watermarks, [stamp, stamp + 1]).tolist()
            self._add(batch.slice(start, first), times[start:first])
            self._take(stamp)
            self._add_late(batch.slice(first, behind), times[first:behind], stamp)
            start = behind
        self._add(batch.slice(start, len(batch)), times[start:])

    def _add_late(self, batch: KeyedBatch, times: Longs, watermark: int) -> None:
        """Adds rows with one current watermark, of which some are late."""
        late = np.flatnonzero(times <= watermark)
        refused = late[~self.accepts(batch.take(late), times[late])]
        self.count("numLateRecordsDropped", len(refused))
        kept = np.setdiff1d(np.arange(len(batch)), refused)
        self._add(batch.take(kept), times[kept], np.maximum(times[kept], watermark + 1))

    def _add(self, batch: KeyedBatch, times: Longs, due: Longs | None = None) -> None:
        """Buffers rows until their times, or until ``due`` where it is given."""
        due = times if due is None else due
        self.count("numLateRecordsDropped", self._pending.add(batch, due))
        if self._order_of is not None and len(batch):
            kept = due > batch.watermarks
            if kept.all():
                self._fed.append(Fed(batch.keys, times, batch.watermarks))
            else:
                chosen = np.flatnonzero(kept)
                self._fed.append(Fed(batch.keys.take(chosen), times[chosen], batch.watermarks[chosen]))

    def accepts(self, batch: KeyedBatch, times: Longs) -> Mask:
        """Return for each late row whether it may be emitted at the next watermark."""
        return np.zeros(len(batch), np.bool_)

    def _times(self, batch: KeyedBatch) -> Longs:
        return self._times_of(batch.columns)

    def _times_of(self, rows: pa.RecordBatch | Picked) -> Longs:
        return millis_of(rows.column(self._time_field), self._type.field_names[self._time_field])

    def _take(self, watermark: int) -> None:
        if self._order_of is not None:
            self._places, self._fed = self._order_of.followed(self._fed, watermark), []
        due = self._pending.take(watermark)
        if due is not None:
            self.handle(due)

    def advance_watermark(self, watermark: int) -> None:
        self._take(watermark)
        super().advance_watermark(watermark)

    def end_epoch(self) -> None:
        self._pending.end_epoch()
        if self._order_of is not None:
            self._order_of.end_epoch()

    def ranks(self, due: DueRows, otherwise: Longs) -> Longs:
        """The firing order of the timers of rows; ``otherwise`` where it is not known."""
        if not self._places:
            return otherwise
        panes = list(zip((due.times + 1).tolist(), due.keys.values.to_pylist(), strict=True))
        return known_ranks(panes, self._places, due.watermarks, otherwise)

    def emit(self, type_: TypeInformation, due: DueRows, more: list[pa.Array], order: Longs) -> None:
        """Emits rows in an order, with more columns appended."""
        places = due.places[order]
        columns = [gather(column, places) for column in due.source.columns] + [gather(column, order) for column in more]
        made = pa.RecordBatch.from_arrays(columns, schema=schema_of(type_))
        self.output.emit(Batch(type_, due.times[order], due.stamps[order], columns=made))


class EarliestRowOperator(EventTimeOperator):
    """Emits the row of each key that has the earliest time, once the watermark passes it.

    Args:
        type_: the type of the records.
        codec: the codec of the keys.
        time_field: the position of the column of event times.
        ttl: the time to live of state in milliseconds; 0 for ever.
    """

    stores = ("emitted",)

    def __init__(self, type_: TypeInformation, codec: KeyCodec, *, time_field: int, ttl: int = 0) -> None:
        super().__init__(type_, codec, time_field)
        self._ttl = ttl

    def restore_state(self, context: OperatorContext) -> None:
        super().restore_state(context)
        schema = pa.schema([pa.field("is_emitted", pa.bool_())])
        self._emitted = RowsOfKeys(context, "emitted", "the keys that have had a row", self._codec, schema, self._ttl)

    def begin_epoch(self, scope: EpochScope) -> None:
        super().begin_epoch(scope)
        self._emitted.begin_epoch(scope.processing_time)

    def handle(self, due: DueRows) -> None:
        keys, segments = keys_of_due(due)
        is_new = np.ones(len(segments), np.bool_)
        is_new[self._emitted.find(keys).of_keys] = False
        firsts = segments.starts[is_new]
        if len(firsts):
            chosen = due.take(firsts)
            ranks = self.ranks(chosen, places_of(in_order(chosen.times, chosen.arrivals)))
            self.emit(self._type, chosen, [], in_order(chosen.watermarks, ranks))
            marks = pa.RecordBatch.from_arrays([pa.array(np.ones(len(firsts), np.bool_))], ["is_emitted"])
            self._emitted.write(keys, StoredRows(np.flatnonzero(is_new), marks), np.empty(0, np.int64))

    def end_epoch(self) -> None:
        super().end_epoch()
        self._emitted.end_epoch()


class TemporalSortOperator(EventTimeOperator):
    """Emits rows in the order of their times, and of other columns among rows of one time.

    A row behind the watermark is late only if a row with its time, or a later one, has been emitted. Otherwise it is
    emitted at the next watermark.

    Args:
        type_: the type of the records.
        codec: the codec of the keys; all rows have the same key.
        time_field: the position of the column of event times.
        order: the sort fields of rows with equal times; rows that tie stay in the order of arrival.
    """

    stores = ("last-time",)
    timers = None

    def __init__(
        self, type_: TypeInformation, codec: KeyCodec, *, time_field: int, order: tuple[SortField, ...] = ()
    ) -> None:
        super().__init__(type_, codec, time_field)
        self._order = order

    def restore_state(self, context: OperatorContext) -> None:
        super().restore_state(context)
        schema = pa.schema([pa.field("time", pa.int64())])
        self._stored = RowsOfKeys(context, "last-time", "the time of the last row", self._codec, schema)

    def begin_epoch(self, scope: EpochScope) -> None:
        super().begin_epoch(scope)
        self._stored.begin_epoch(scope.processing_time)
        times = self._stored.before()[1].column(0).to_pylist()
        self._last = self._written = max(times, default=MIN_WATERMARK)
        self._key: KeyColumn | None = None

    takes_late = True

    def accepts(self, batch: KeyedBatch, times: Longs) -> Mask:
        return times > self._last

    def handle(self, due: DueRows) -> None:
        times = self._times_of(due.rows)
        codes = order_codes(due.rows, self._order)
        self._last, self._key = max(self._last, int(times.max())), due.keys.slice(0, 1)
        self.emit(self._type, due, [], in_order(due.watermarks, times, *codes, due.arrivals))

    def end_epoch(self) -> None:
        super().end_epoch()
        if self._last != self._written and self._key is not None:
            rows = pa.RecordBatch.from_arrays([pa.array([self._last])], ["time"])
            self._stored.write(self._key, StoredRows(np.zeros(1, np.int64), rows), np.empty(0, np.int64))
        self._stored.end_epoch()


class SortOperator(EventTimeOperator):
    """Emits all rows, or the first of them, in an order, once the input has ended.

    Args:
        type_: the type of the records.
        codec: the codec of the keys; all rows have the same key.
        order: the sort fields; rows with equal values stay in the order of arrival.
        offset: the number of rows to skip.
        limit: the maximum number of rows; None for all.
    """

    def __init__(
        self,
        type_: TypeInformation,
        codec: KeyCodec,
        *,
        order: tuple[SortField, ...],
        offset: int = 0,
        limit: int | None = None,
    ) -> None:
        super().__init__(type_, codec, 0)
        self._order = order
        self._offset = offset
        self._limit = limit

    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        self._pending.add(batch, np.full(len(batch), MAX_WATERMARK - 1))

    def handle(self, due: DueRows) -> None:
        codes = order_codes(due.rows, self._order)
        order = in_order(*codes, due.arrivals)
        end = None if self._limit is None else self._offset + self._limit
        chosen = order[self._offset : end]
        if len(chosen):
            self.emit(self._type, due, [], chosen)


def keys_of_due(due: DueRows) -> tuple[KeyColumn, Segments]:
    """The distinct keys, and the rows of each."""
    hashes = due.keys.hashes
    is_first = np.ones(len(due), np.bool_)
    is_first[1:] = hashes[1:] != hashes[:-1]
    if not pa.types.is_int64(due.keys.values.type):
        values = due.keys.values
        is_first[1:] |= np.asarray(pc.not_equal(values[1:], values[:-1]))
    segments = Segments(np.flatnonzero(is_first), len(due))
    return due.keys.take(segments.starts), segments
