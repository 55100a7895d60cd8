"""Built-in aggregates over windows that are shown at every interval, of event time or of the clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.operators.arrays import gather
from headrace.operators.window.columnar.accumulators import Accumulators, Chunk
from headrace.operators.window.columnar.continuous.early_firings import (
    find_firings,
    find_firings_of_clock,
    first_times,
    first_times_of_clock,
)
from headrace.operators.window.columnar.continuous.early_results import Contents
from headrace.operators.window.columnar.continuous.early_windows import NO_PAIRS, EarlyWindowOperator, FoundWindows
from headrace.operators.window.columnar.window_table import TouchedKeys
from headrace.operators.window.lateness import cleanup_times
from headrace.state.runs.ordered import NO_TIME
from headrace.windowing.intervals import Assignment

if TYPE_CHECKING:
    import numpy.typing as npt

    from headrace.operators.aggregates.aggregator_list import AggregatorList
    from headrace.operators.base import EpochScope
    from headrace.operators.keyed import KeyedBatch
    from headrace.operators.window.columnar.continuous.early_firings import Firings
    from headrace.operators.window.columnar.firing import Emission
    from headrace.operators.window.columnar.waiting import ArrivedRecords

    Longs = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

_FIRINGS = 1 << 19
"""About so many firings of windows that were open before are worked out at a time, but of no fewer windows than: """
_FEWEST_WINDOWS = 1 << 10


class ContinuousEventTimeOperator(EarlyWindowOperator):
    """Windows of event time that fire each time the watermark passes a multiple of an interval, and at their end."""

    fires: ClassVar[str] = "event"

    def _is_kept(self, ends: Longs, watermark: int) -> Mask:
        return cleanup_times(ends, self._kept_for) > watermark

    def _add(self, records: ArrivedRecords) -> None:
        reached = records.last_watermark
        while len(records) and self._watermark < reached and self._due_until(reached) < reached:
            # Much is due on the way: the records before it first, then what is due, piece by piece.
            place = int(np.searchsorted(records.watermarks, max(self._table.first, self._watermark + 1)))
            before, records = records.slice(0, place), records.slice(place, len(records))
            if len(before):
                self._step(before, before.last_watermark, self._watermark)
            self._fire_until(int(records.watermarks[0]))
        if len(records):
            self._step(records, reached, self._watermark)

    def _fire_until(self, watermark: int) -> None:
        stamp = self._watermark
        while (until := self._due_until(watermark)) < watermark:
            self._step(None, until, stamp)
        self._step(None, watermark, stamp)

    def _due_until(self, watermark: int) -> int:
        """How far event time may go at once, on the way to a watermark."""
        first = self._table.first
        if first > watermark:
            return watermark
        interval = self._interval
        steps = min(watermark - first, self._windows.size) // interval + 2
        until = self._table.first_due(watermark, max(_FIRINGS // min(steps, _FIRINGS), _FEWEST_WINDOWS))
        return min(max(until, self._watermark + 1), watermark)

    def _step(self, records: ArrivedRecords | None, watermark: int, stamp: int) -> None:
        """Adds records, and fires what is due until a watermark that is not below theirs.

        Args:
            records: the records; None when there are none.
            watermark: the watermark.
            stamp: the one that was in force before what is due now, without records.
        """
        due = self._table.take_due(watermark) if watermark > self._watermark else None
        touched = TouchedKeys.of(None if records is None else records.chunk, due)
        if touched is not None:
            on_time, late = (NO_PAIRS, NO_PAIRS) if records is None else self._judged(records)
            found = FoundWindows.of(self._table, self._layout.width, touched, on_time, late)
            marks = np.array([watermark]) if records is None else np.append(records.watermarks, watermark)
            self._fire_and_write(found, _Arrived(records, on_time, late, marks), np.append(stamp, marks))
        self._watermark = watermark

    def _judged(self, records: ArrivedRecords) -> tuple[Assignment, Assignment]:
        """The windows of records that have not ended, and those that have but still take them."""
        pairs, met = self._windows.assign(records.timestamps), records.watermarks
        met = met if pairs.is_identity else met[pairs.records]
        has_ended = pairs.ends - 1 <= met
        if not has_ended.any():
            return pairs, NO_PAIRS
        is_open = cleanup_times(pairs.ends, self._lateness) > met
        return pairs.where(~has_ended), pairs.where(has_ended & is_open)

    def _fire_and_write(self, found: FoundWindows, arrived: _Arrived, before: Longs) -> None:
        watermark = int(arrived.watermarks[-1])
        next_times, known_at = self._next_times(found, arrived)
        firings = find_firings(self._interval, found.ends - 1, next_times, known_at, arrived.watermarks)
        added = arrived.contents(self._aggregators, arrived.on_time, found.of_pairs[0], firings)
        shown = self._results.of(self._aggregators, found.held, added, found.shown, firings)
        emissions = self._show(found, firings, shown, before)
        left = shown.left
        if len(arrived.late.ends):
            self._emit([*emissions, self._late_emission(found, arrived, left)])
            if self._late_firings.keeps_contents:
                late = arrived.contents(self._aggregators, arrived.late, found.of_pairs[1], firings)
                left = Contents.merged(self._aggregators, left, late)
        else:
            for emission in emissions:
                self._emit([emission])
        goes = cleanup_times(found.ends, self._kept_for)
        times = np.where(found.ends - 1 <= watermark, goes, firings.next_times)
        self._write(found, times, times, left, shown.last, goes > watermark)

    def _next_times(self, found: FoundWindows, arrived: _Arrived) -> tuple[Longs, Longs]:
        """When windows fire next, and the watermark in force when that became known."""
        times, known_at = np.zeros(len(found), np.int64), np.full(len(found), arrived.watermarks[-1])
        times[found.of_open], known_at[found.of_open] = found.next_times, self._watermark
        if arrived.records is not None:
            firsts = found.firsts(arrived.on_time, found.of_pairs[0])
            firsts[found.of_open] = -1
            new = np.flatnonzero(firsts >= 0)
            records = firsts[new]
            first = arrived.records.timestamps[records]
            times[new] = first_times(self._interval, first, found.ends[new] - 1)
            known_at[new] = arrived.watermarks[records]
        return times, known_at

    def _late_emission(self, found: FoundWindows, arrived: _Arrived, held: Contents) -> Emission:
        """What windows show that have ended, once for each late record."""
        assert arrived.records is not None
        chunk, pairs = arrived.records.chunk, arrived.late
        rows = pairs.records
        columns = {source: gather(column, rows) for source, column in chunk.columns.items()}
        late = Chunk(pairs.ends, chunk.hashes[rows], gather(chunk.keys, rows), columns, chunk.arrivals[rows])
        asked = held.take(np.flatnonzero(np.isin(held.windows, found.of_pairs[1])))
        keys = found.keys.take(found.of_keys[asked.windows])
        contents = Accumulators(found.ends[asked.windows], keys.hashes, keys.values, asked.columns)
        return self._late_firings.emission(self._aggregators, lambda *_: contents, late, rows, arrived.watermarks)


@dataclass(frozen=True)
class _Arrived:
    """What has come.

    Attributes:
        records: the records; None when there are none.
        on_time: the pairs of a record and a window that has not ended when it comes.
        late: the pairs of a record and a window that has ended then, but still takes it.
        watermarks: those that the records meet, and at last the one that is reached.
    """

    records: ArrivedRecords | None
    on_time: Assignment
    late: Assignment
    watermarks: Longs

    def contents(self, aggregators: AggregatorList, pairs: Assignment, windows: Longs, firings: Firings) -> Contents:
        """What has come to windows between two firings, of some of the pairs."""
        if self.records is None or not len(windows):
            return Contents.nothing()
        return Contents.of_records(aggregators, self.records.chunk, pairs.records, windows, firings)


class ContinuousClockOperator(EarlyWindowOperator):
    """Windows that fire each time the clock passes a multiple of an interval, as seen when an epoch begins.

    Windows of event time are removed as event time does; windows of the clock fire at their end for the last time.
    """

    fires: ClassVar[str] = "processing"

    def begin_epoch(self, scope: EpochScope) -> None:
        super().begin_epoch(scope)
        self._now = scope.processing_time
        while (until := self._table.first_due(self._now, _FIRINGS)) < self._now:
            self._fire(until)
        self._fire(self._now)

    def end_epoch(self) -> None:
        self._next = self._table.first
        super().end_epoch()

    def wake_up_time(self) -> int | None:
        return None if self._next == NO_TIME else self._next

    def _check(self, batch: KeyedBatch) -> None:
        if self._is_event_time:
            super()._check(batch)

    def _is_kept(self, ends: Longs, watermark: int) -> Mask:
        return cleanup_times(ends, self._lateness) > watermark if self._is_event_time else ends > MIN_WATERMARK

    def _fire_until(self, watermark: int) -> None:
        """Nothing fires by event time."""

    def _fire(self, until: int) -> None:
        """Shows what is due until the clock shows a time."""
        touched = TouchedKeys.of(None, self._table.take_due(until))
        if touched is None:
            return
        found = FoundWindows.of(self._table, self._layout.width, touched)
        lasts, stays = found.ends - 1, self._is_kept(found.ends, self._watermark)
        next_times = np.where(stays, found.next_times, MAX_WATERMARK)
        firings = find_firings_of_clock(self._interval, lasts, next_times, until, stops=not self._is_event_time)
        shown = self._results.of(self._aggregators, found.held, Contents.nothing(), found.shown, firings)
        for emission in self._show(found, firings, shown, np.array([self._watermark])):
            self._emit([emission])
        if not self._is_event_time:
            stays = lasts > until
        times = np.where(stays, firings.next_times, found.next_times)
        self._write(found, times, self._due_times(times, lasts), shown.left, shown.last, stays)

    def _due_times(self, next_times: Longs, lasts: Longs) -> Longs:
        """When windows fire next, or go: windows of event time are found to have gone when they would fire."""
        return next_times if self._is_event_time else np.minimum(next_times, lasts)

    def _add(self, records: ArrivedRecords) -> None:
        touched = TouchedKeys.of(records.chunk, None)
        assert touched is not None
        found = FoundWindows.of(self._table, self._layout.width, touched, pairs := self._pairs(records))
        lasts = found.ends - 1
        times = first_times_of_clock(self._interval, self._now, lasts)
        times[found.of_open] = found.next_times
        added = Contents.of_records(self._aggregators, records.chunk, pairs.records, found.of_pairs[0])
        left = Contents.merged(self._aggregators, found.held, added)
        stays = self._is_kept(found.ends, records.last_watermark)
        self._write(found, times, self._due_times(times, lasts), left, found.shown, stays)

    def _pairs(self, records: ArrivedRecords) -> Assignment:
        if self._is_event_time:
            pairs = self._windows.assign(records.timestamps)
            return pairs.where(cleanup_times(pairs.ends, self._lateness) > records.watermarks[pairs.records])
        ends = self._windows.assign(np.array([self._now])).ends
        return Assignment(np.repeat(np.arange(len(records)), len(ends)), np.tile(ends, len(records)), False)
