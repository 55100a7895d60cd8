"""``OVER`` in event time, in processing time, and over bounded input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import Picked, fixed_width, gather
from headrace.common.batch import Batch
from headrace.common.constants import MAX_WATERMARK
from headrace.common.typeinfo.composite import schema_of
from headrace.operators.aggregates.calls import AggregateOperation
from headrace.operators.base import EpochScope, KeyedBatch, KeyedOperator, OperatorContext, concat_keyed
from headrace.operators.changelog.event_time import EventTimeOperator, keys_of_due
from headrace.operators.changelog.order import SortField, order_codes, places_of
from headrace.operators.changelog.over.functions import (
    RANKING,
    OverFunctions,
    PartitionedRows,
    framed,
    ranked_rows,
    row_numbers,
)
from headrace.operators.changelog.pending_rows import DueRows
from headrace.operators.changelog.rows_of_keys import RowsOfKeys, StoredRows, check_stores
from headrace.operators.waiting import BufferingOperator, TakenBatches
from headrace.operators.window.columnar.accumulators import ArrivalCounter
from headrace.state.keys import KeyColumn
from headrace.state.runs.grouping import Segments, group_keys, in_order
from headrace.state.runs.layout import rows_of_ranges

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation
    from headrace.state.keys import KeyCodec

Longs = npt.NDArray[np.int64]

_BEFORE, _SUMS = "rows-before", "sums-before"
_TIME = pa.field("time", pa.int64())
_ARRIVAL = pa.field("arrival", pa.int64())
_RANKS = pa.field("ranks", pa.int64())
"""The number of different times, after the accumulators of a key."""


@dataclass(frozen=True)
class _RowsOfKeys:
    """Rows of some keys, key by key: the stored ones, then new ones.

    Attributes:
        rows: the rows.
        times: their sort keys.
        arrivals: their sequence numbers in the order of arrival.
        segments: the rows of each key.
        is_new: which are new.
    """

    rows: Picked
    times: Longs
    arrivals: Longs
    segments: Segments
    is_new: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class _Counts:
    """The rows that precede the new rows of each key.

    Attributes:
        rows: the number of rows.
        ranks: the number of their different times.
    """

    rows: Longs
    ranks: Longs


class RowsBefore:
    """Keyed state of the rows that came earlier: those that frames still reach, or accumulators over them.

    Args:
        functions: the functions.
        codec: the codec of the keys.
        ttl: the time to live of state in milliseconds; 0 for ever.
    """

    def __init__(self, functions: OverFunctions, codec: KeyCodec, ttl: int) -> None:
        self._functions, self._codec, self._ttl = functions, codec, ttl
        frame = functions.frame
        self._is_bounded = frame.low is not None
        self._keeps_rows = self._is_bounded or functions.reach > 0
        self._counts_ranks = any(call.function == "DENSE_RANK" for call in functions.calls)

    def open(self, context: OperatorContext) -> None:
        """Restores the state."""
        columns = schema_of(self._functions.input_type)
        self._row_schema = pa.schema([*(columns.field(index) for index in self._functions.columns), _TIME, _ARRIVAL])
        fields = [field for one in self._functions.aggregators.aggregators for field in one.fields]
        sums = pa.schema([pa.field(f"{place}", type_.storage_type) for place, (_, type_) in enumerate(fields)])
        sums = sums.append(_RANKS) if self._counts_ranks else sums
        self._rows = RowsOfKeys(context, _BEFORE, "rows before others", self._codec, self._row_schema, self._ttl)
        self._sums = RowsOfKeys(context, _SUMS, "aggregates of rows before", self._codec, sums, self._ttl)

    def begin_epoch(self, processing_time: int) -> None:
        """Starts an epoch with the state that the last one left."""
        self._rows.begin_epoch(processing_time)
        self._sums.begin_epoch(processing_time)

    def end_epoch(self) -> None:
        """Writes the rows to state."""
        self._rows.end_epoch()
        self._sums.end_epoch()

    def last_times(self, keys: KeyColumn) -> Longs:
        """The time of the last row of each of distinct keys; the lowest time for keys without rows."""
        stored = self._rows.find(keys)
        found = np.full(len(keys), np.iinfo(np.int64).min)
        if len(stored):
            np.maximum.at(found, stored.of_keys, fixed_width(stored.rows.column(len(stored.rows.schema) - 2)))
        return found

    def over(self, keys: KeyColumn, new: _RowsOfKeys) -> list[pa.Array]:
        """The columns of the functions for new rows. The rows that later frames need are then stored."""
        whole = self._with_before(keys, new) if self._keeps_rows else new
        ordered = PartitionedRows(whole.segments, whole.times)
        counts = _Counts(np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64))
        found = self._of_frames(whole, ordered) if self._is_bounded else self._of_all_before(keys, new, counts)
        columns = [
            found[call] if call in found else self._column(call, whole, ordered, new, counts)
            for call in self._functions.calls
        ]
        if self._keeps_rows:
            self._remember_rows(keys, whole)
        types = (call.type.arrow_type for call in self._functions.calls)
        return [column.cast(type_) for column, type_ in zip(columns, types, strict=True)]

    def _column(
        self, call: AggregateOperation, whole: _RowsOfKeys, ordered: PartitionedRows, new: _RowsOfKeys, counts: _Counts
    ) -> pa.Array:
        """The column of a function that is no aggregate."""
        places = np.flatnonzero(whole.is_new)
        if call.function == "ROW_NUMBER":
            return row_numbers(new.segments, counts.rows)
        if call.function in RANKING:
            before = counts.ranks if call.function == "DENSE_RANK" else counts.rows
            ranks = fixed_width(ranked_rows(call, PartitionedRows(new.segments, new.times)))
            return pa.array(ranks + before[new.segments.ids])
        found = self._functions.value(call, {}, whole.rows, ordered)
        if self._functions.frame.is_rows:
            return gather(found, places)
        return gather(found, ordered.peers[1][places] - 1)  # peers share the frame of the last one

    def _of_frames(self, whole: _RowsOfKeys, ordered: PartitionedRows) -> dict[AggregateOperation, pa.Array]:
        """The aggregates over the frames of new rows."""
        functions, places = self._functions, np.flatnonzero(whole.is_new)
        low, high = ordered.bounds(functions.frame, places)
        accumulators = functions.accumulators(whole.rows, whole.arrivals)
        return functions.results(framed(functions.aggregators, accumulators, low, high))

    def _of_all_before(self, keys: KeyColumn, new: _RowsOfKeys, counts: _Counts) -> dict[AggregateOperation, pa.Array]:
        """The aggregates over new rows and all before them; only accumulators of earlier rows are stored."""
        functions, stored = self._functions, self._sums.find(keys)
        counts.rows[stored.of_keys] = fixed_width(stored.rows.column(0))
        if self._counts_ranks:
            counts.ranks[stored.of_keys] = fixed_width(stored.rows.column(len(stored.rows.schema) - 1))
        accumulators = functions.accumulators(new.rows, new.arrivals)
        of_keys = np.concatenate((stored.of_keys, new.segments.ids))
        order = in_order(of_keys)
        pairs = zip(stored.rows.columns[: len(accumulators)], accumulators, strict=True)
        columns = [gather(pa.concat_arrays([before, mine]), order) for before, mine in pairs]
        segments = Segments(np.flatnonzero(np.diff(of_keys[order], prepend=-1)), len(order))
        shown = np.flatnonzero(order >= len(stored))
        if not functions.frame.is_rows:
            shown = shown[PartitionedRows(new.segments, new.times).peers[1] - 1]
        running = functions.running(columns, segments)
        self._remember_sums(keys, columns, segments, self._ranks_after(new, counts))
        return {call: gather(column, shown) for call, column in running.items()}

    def _ranks_after(self, new: _RowsOfKeys, counts: _Counts) -> list[pa.Array]:
        """The number of different times of each key after the new rows, where it is needed."""
        if not self._counts_ranks:
            return []
        first, _ = PartitionedRows(new.segments, new.times).peers
        is_new_time = first == np.arange(new.segments.total)
        return [pa.array(counts.ranks + np.add.reduceat(is_new_time.astype(np.int64), new.segments.starts))]

    def _remember_sums(
        self, keys: KeyColumn, columns: list[pa.Array], segments: Segments, ranks: Sequence[pa.Array]
    ) -> None:
        merged = self._functions.aggregators.merge(columns, segments)
        schema = pa.schema([pa.field(str(place), column.type) for place, column in enumerate(merged)])
        merged, schema = [*merged, *ranks], schema.append(_RANKS) if ranks else schema
        rows = StoredRows(np.arange(len(keys)), pa.RecordBatch.from_arrays(merged, schema=schema))
        self._sums.write(keys, rows, np.empty(0, np.int64))

    def _with_before(self, keys: KeyColumn, new: _RowsOfKeys) -> _RowsOfKeys:
        stored = self._rows.find(keys)
        if not len(stored):
            return new
        of_keys = np.concatenate((stored.of_keys, new.segments.ids))
        order = in_order(of_keys)
        *columns, times, arrivals = stored.rows.columns
        before = dict(zip(self._functions.columns, columns, strict=True))
        return _RowsOfKeys(
            Picked(lambda index: pa.concat_arrays([before[index], new.rows.column(index)]), order),
            np.concatenate((fixed_width(times), new.times))[order],
            np.concatenate((fixed_width(arrivals), new.arrivals))[order],
            Segments(np.flatnonzero(np.diff(of_keys[order], prepend=-1)), len(order)),
            order >= len(stored),
        )

    def _remember_rows(self, keys: KeyColumn, whole: _RowsOfKeys) -> None:
        frame, segments = self._functions.frame, whole.segments
        behind = np.append(segments.starts[1:], segments.total)[segments.ids] - np.arange(segments.total)
        kept = behind <= self._functions.reach
        if frame.low is not None:
            kept |= behind == 1  # it marks the rows that are late
            last = whole.times[np.append(segments.starts[1:], segments.total) - 1][segments.ids]
            kept |= behind <= -frame.low if frame.is_rows else whole.times >= last + frame.low
        places = np.flatnonzero(kept)
        columns = [gather(whole.rows.column(index), places) for index in self._functions.columns]
        columns += [pa.array(whole.times[places]), pa.array(whole.arrivals[places])]
        of_keys = segments.ids[places]
        is_left = np.zeros(len(keys), np.bool_)
        is_left[of_keys] = True
        rows = StoredRows(of_keys, pa.RecordBatch.from_arrays(columns, schema=self._row_schema))
        self._rows.write(keys, rows, np.flatnonzero(~is_left))


class EventTimeOverOperator(EventTimeOperator):
    """Functions over frames in event time; a row is emitted when the watermark passes its time.

    Where frames are bounded, a row behind the watermark is late only if a row of its key with its time, or a later one,
    has been emitted. Rows that are due together are emitted in the order of time.

    Args:
        functions: the functions.
        output_type: the type of the emitted rows.
        codec: the codec of the keys.
        time_field: the position of the column of event times.
        ttl: the time to live of state in milliseconds; 0 for ever.
    """

    stores = (_BEFORE, _SUMS)

    def __init__(
        self, functions: OverFunctions, output_type: TypeInformation, codec: KeyCodec, *, time_field: int, ttl: int = 0
    ) -> None:
        super().__init__(functions.input_type, codec, time_field)
        self.user_code = functions.aggregators.user_code
        self._functions, self._output_type = functions, output_type
        self._before = RowsBefore(functions, codec, ttl)
        self.takes_late = functions.frame.low is not None

    def restore_state(self, context: OperatorContext) -> None:
        super().restore_state(context)
        self._before.open(context)

    def begin_epoch(self, scope: EpochScope) -> None:
        super().begin_epoch(scope)
        self._numbers = ArrivalCounter(scope.epoch)
        self._before.begin_epoch(scope.processing_time)

    def accepts(self, batch: KeyedBatch, times: Longs) -> npt.NDArray[np.bool_]:
        keys = batch.keys
        groups = group_keys(keys.hashes, keys.values)
        last = np.empty(len(batch), np.int64)
        last[groups.order] = self._before.last_times(keys.take(groups.first_rows))[groups.segments.ids]
        return times > last

    def handle(self, due: DueRows) -> None:
        keys, segments = keys_of_due(due)
        if self.takes_late:  # late rows were buffered for a later watermark
            times = self._times_of(due.rows)
            if (times != due.times).any():
                due = replace(due, times=times).take(in_order(segments.ids, times, due.arrivals))
        everything = np.ones(len(due), np.bool_)
        # The functions read rows in the order of time.
        rows = _RowsOfKeys(due.rows, due.times, self._numbers.next(len(due)), segments, everything)
        self.emit(self._output_type, due, self._before.over(keys, rows), self._order(due, segments))

    def _order(self, due: DueRows, segments: Segments) -> Longs:
        is_first = np.append(True, due.times[1:] != due.times[:-1])
        is_first[segments.starts] = True
        starts = np.flatnonzero(is_first)
        counts = np.diff(starts, append=len(due))
        watermarks, times, arrivals = due.watermarks[starts], due.times[starts], due.arrivals[starts]
        order = in_order(times, arrivals)
        if (np.diff(watermarks[order]) < 0).any():
            order = in_order(watermarks, times, arrivals)
        ranks = np.repeat(places_of(order), counts)
        known = self.ranks(due, ranks)
        if known is not ranks:
            order = in_order(watermarks, np.minimum.reduceat(known, starts))
        return rows_of_ranges(starts[order], counts[order])

    def end_epoch(self) -> None:
        super().end_epoch()
        self._before.end_epoch()


class ProcessingTimeOverOperator(BufferingOperator):
    """Functions over frames in processing time: rows are emitted as they arrive, and have no peers.

    Args:
        functions: the functions.
        output_type: the type of the emitted rows.
        codec: the codec of the keys.
        ttl: the time to live of state in milliseconds; 0 for ever.
    """

    def __init__(
        self, functions: OverFunctions, output_type: TypeInformation, codec: KeyCodec, *, ttl: int = 0
    ) -> None:
        super().__init__(1 << 18, functions.aggregators.user_code)
        self._functions, self._output_type = functions, output_type
        self._before = RowsBefore(functions, codec, ttl)

    def restore_state(self, context: OperatorContext) -> None:
        check_stores(context, [_BEFORE, _SUMS])
        self._before.open(context)

    def begin_epoch(self, scope: EpochScope) -> None:
        super().begin_epoch(scope)
        self._now, self._arrivals = scope.processing_time, ArrivalCounter(scope.epoch)
        self._before.begin_epoch(scope.processing_time)

    def end_epoch(self) -> None:
        self._before.end_epoch()

    def handle_taken(self, taken: TakenBatches[KeyedBatch]) -> None:
        batch = concat_keyed(taken.batches)
        keys = batch.keys
        groups = group_keys(keys.hashes, keys.values)
        order = groups.order
        arrivals = self._arrivals.next(len(batch))[order]
        times, everything = np.full(len(batch), self._now), np.ones(len(batch), np.bool_)
        rows = _RowsOfKeys(Picked(batch.columns.column, order), times, arrivals, groups.segments, everything)
        more = self._before.over(keys.take(groups.first_rows), rows)
        back = places_of(order)
        columns = [*batch.columns.columns, *(gather(column, back) for column in more)]
        made = pa.RecordBatch.from_arrays(columns, schema=schema_of(self._output_type))
        self.output.emit(Batch(self._output_type, batch.timestamps, batch.watermarks, columns=made))


class BoundedOverOperator(KeyedOperator):
    """Functions over frames of bounded input: all rows are emitted at the end of the input.

    Args:
        functions: the functions.
        output_type: the type of the emitted rows.
        codec: the codec of the keys.
        order: the sort fields; the first is the one of ``RANGE`` offsets.
    """

    def __init__(
        self,
        functions: OverFunctions,
        output_type: TypeInformation,
        codec: KeyCodec,
        *,
        order: tuple[SortField, ...],
    ) -> None:
        super().__init__()
        self.user_code = functions.aggregators.user_code
        self._functions, self._output_type, self._codec, self._order = functions, output_type, codec, order

    def restore_state(self, context: OperatorContext) -> None:
        check_stores(context, ["rows"])
        schema = schema_of(self._functions.input_type)
        self._stored = RowsOfKeys(context, "rows", "rows of keys", self._codec, schema)

    def begin_epoch(self, scope: EpochScope) -> None:
        self._watermark = scope.watermark
        self._arrived: list[KeyedBatch] = []
        self._stored.begin_epoch(scope.processing_time)

    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        self._arrived.append(batch)

    def advance_watermark(self, watermark: int) -> None:
        if watermark == MAX_WATERMARK > self._watermark:  # once: other inputs of the job may go on
            self._store_arrived()
            keys, rows = self._stored.stored()
            if len(keys):
                self._emit(keys, rows)
        self._watermark = watermark
        super().advance_watermark(watermark)

    def end_epoch(self) -> None:
        self._store_arrived()
        self._stored.end_epoch()

    def _store_arrived(self) -> None:
        if not self._arrived:
            return
        batch = concat_keyed(self._arrived)
        self._arrived = []
        groups = group_keys(batch.keys.hashes, batch.keys.values)
        keys = batch.keys.take(groups.first_rows)
        before = self._stored.find(keys)
        of_keys = np.concatenate((before.of_keys, groups.segments.ids))
        order = in_order(of_keys)
        mine = batch.columns.take(pa.array(groups.order))
        rows = pa.concat_batches([before.rows, mine]) if len(before) else mine
        self._stored.write(keys, StoredRows(of_keys[order], rows.take(pa.array(order))), np.empty(0, np.int64))

    def _emit(self, keys: KeyColumn, rows: pa.RecordBatch) -> None:
        hashes, values = keys.hashes, keys.values
        groups = group_keys(hashes, values)
        ids = groups.numbers
        codes = order_codes(rows, self._order)
        order = in_order(ids, *codes)
        rows = rows.take(pa.array(order))
        segments = Segments(np.flatnonzero(np.diff(ids[order], prepend=-1)), len(order))
        ordered = PartitionedRows(segments, self._distances(rows, codes, order))
        more = self._functions.over_all(rows, ordered, np.arange(len(order)))
        made = pa.RecordBatch.from_arrays([*rows.columns, *more], schema=schema_of(self._output_type))
        times, watermarks = np.full(len(order), MAX_WATERMARK), np.full(len(order), self._watermark)
        self.output.emit(Batch(self._output_type, times, watermarks, columns=made))

    def _distances(self, rows: pa.RecordBatch, codes: list[Longs], order: Longs) -> Longs:
        """Sort keys of rows as numbers; where frames are ranges, differences of the numbers are the distances."""
        if not codes:
            return np.zeros(len(order), np.int64)
        frame = self._functions.frame
        if frame.is_rows or (frame.low or 0) == (frame.high or 0) == 0:
            whole = np.stack([code[order] for code in codes])
            return np.cumsum(np.append(0, (whole[:, 1:] != whole[:, :-1]).any(axis=0)))
        field = self._order[0]
        column = rows.column(field.field)
        plain = column.cast(pa.timestamp("ms"), safe=False) if pa.types.is_timestamp(column.type) else column
        integers = plain.cast(pa.int64())
        numbers = fixed_width(integers.fill_null(0) if integers.null_count else integers)
        if field.is_descending:
            numbers = -numbers
        if column.null_count:  # nulls are peers, and outside the range of any value
            far = np.iinfo(np.int64).max // 4
            last = field.is_descending if field.nulls_last is None else field.nulls_last
            numbers = np.where(np.asarray(column.is_null()), far if last else -far, numbers)
        return numbers
