"""Built-in aggregates over windows that fire at every interval, of event time or of the clock.

Records wait until event time goes on at the end of a stretch of input, or until there are many. Then their windows are
found at once, among those that are open and those that may be due; of the open windows only these are read and
written.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import gather
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.operators.aggregates.aggregator import AggregatorList
from headrace.operators.base import EpochScope, KeyedBatch, OperatorContext
from headrace.operators.window.columnar.accumulators import MOST_PAIRS, Accumulators, ColumnarWindowLayout
from headrace.operators.window.columnar.firing import (
    FIRED_ROWS,
    Contents,
    EmittedContents,
    FiredResults,
    Firings,
    emitted_by,
    find_firings,
    find_firings_of_clock,
    first_times,
    first_times_of_clock,
    keeps_contents,
    late_emission,
    result_batch,
)
from headrace.operators.window.columnar.windows_by_key import (
    CONTINUOUS,
    ActiveKeys,
    ArrivedRecords,
    KeyedWindowOperator,
    WindowRows,
    WindowTable,
)
from headrace.operators.window.lateness import check_timestamps, cleanup_times
from headrace.operators.window.stored_windows import StoredWindow, held_times
from headrace.state.keys import KeyColumn
from headrace.state.runs.grouping import sorted_by
from headrace.state.runs.merge_input import NO_TIME
from headrace.windowing.definition import WindowDefinition
from headrace.windowing.intervals import AlignedWindows, Assignment, GrowingWindows

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_WAITING_ROWS = 1 << 18
"""The most records that wait; the more there are, the less often a window is read and written."""

_SHOWN: Final = "shown: "

NO_PAIRS: Final = Assignment(np.empty(0, np.int64), np.empty(0, np.int64), False)


class ContinuousWindowOperator(KeyedWindowOperator):
    """Built-in aggregates over windows that fire at intervals.

    Args:
        layout: the aggregates and the columns.
        definition: the windows.
        windows: the same as arithmetic.
        interval: how long after a firing the next one is due, in milliseconds.

    Class attributes:
        fires: the time that intervals are of: ``"event"`` or ``"processing"``.
    """

    fires: ClassVar[str]

    def __init__(
        self,
        layout: ColumnarWindowLayout,
        definition: WindowDefinition,
        windows: AlignedWindows | GrowingWindows,
        interval: int,
    ) -> None:
        self._most_rows = max(1, min(_WAITING_ROWS, MOST_PAIRS // windows.per_timestamp))
        super().__init__(layout, self._most_rows, definition.allowed_lateness, definition.late_tag_id)
        self._windows, self._interval = windows, interval
        self._is_event_time = definition.assigner.is_event_time()
        self._mode = definition.applied_mode
        self._kept_for = self._lateness if keeps_contents(self._mode) else 0  # from a window's end on

    def held_windows(self, context: OperatorContext, watermark: int) -> Iterator[StoredWindow]:
        """Return what windows hold; of an operator that is not open. See :class:`.WindowStateReader`."""
        stored = self._open_table(context).stored()
        contents = Contents.of_column(stored.columns[: self._layout.width])
        rows = contents.windows
        ends = stored.ends[rows]
        is_kept = np.flatnonzero(self._is_kept(ends, watermark))
        contents, ends = contents.take(is_kept), ends[is_kept]
        keys, starts = stored.keys.take(rows[is_kept]).values, self._windows.starts_of(ends)
        return held_times(self._layout, keys, starts, ends, contents.columns)

    def _advance(self, watermark: int, arrived: ArrivedRecords | None) -> None:
        if arrived is not None:
            for start in range(0, len(arrived), self._most_rows):
                self._add(arrived.slice(start, min(start + self._most_rows, len(arrived))))
        if watermark > self._watermark:
            self._fire_until(watermark)

    def _check(self, batch: KeyedBatch) -> None:
        check_timestamps(batch, self.context, self._windows.reach)
        lateness = self._lateness
        goes = cleanup_times(self._windows.last_ends(batch.timestamps), lateness)
        rows = np.flatnonzero(goes <= batch.watermarks)
        if len(rows):
            part = batch.take(rows)
            pairs = self._windows.assign(part.timestamps)
            self._late.refuse(part, pairs.where(cleanup_times(pairs.ends, lateness) > part.watermarks[pairs.records]))

    @abstractmethod
    def _add(self, records: ArrivedRecords) -> None:
        """Puts records into their windows."""

    def _fire_until(self, watermark: int) -> None:
        """Brings event time to a watermark, and fires what is due on the way."""

    def _is_kept(self, ends: Longs, watermark: int) -> Mask:
        """Return whether windows are still there at a watermark; those of the clock go once it passes their ends."""
        return cleanup_times(ends, self._kept_for) > watermark if self._is_event_time else ends > MIN_WATERMARK

    def _open_table(self, context: OperatorContext) -> WindowTable:
        """The windows in state; where it is remembered, what they have emitted last is behind what they hold."""
        shape = {**self._windows.shape, "fires": self.fires, "retracts": self._mode.retracts}
        fields = list(self._layout.accumulator_schema)[2:] if self._mode.retracts else []
        emitted = [field.with_name(_SHOWN + field.name) for field in fields]
        return WindowTable(CONTINUOUS, self._layout, context, shape, emitted)

    def _results(
        self, found: "FoundWindows", firings: Firings, emitted: EmittedContents, before: Longs
    ) -> Iterator[FiredResults]:
        """Return what firings emit, in the order in which they happen.

        Args:
            found: the windows.
            firings: the firings.
            emitted: their results.
            before: the watermark in force before each place at which there may be firings.
        """
        times, places, windows = (
            column[emitted.firings] for column in (firings.times, firings.places, firings.windows)
        )
        order = np.lexsort((windows, times, places))
        for start in range(0, len(order), FIRED_ROWS):
            rows = order[start : start + FIRED_ROWS]
            keys = found.keys.take(found.of_keys[windows[rows]])
            columns = [column.take(pa.array(rows)) for column in emitted.columns]
            results = Accumulators(found.ends[windows[rows]], keys.hashes, keys.values, columns)
            kinds = None if emitted.kinds is None else emitted.kinds[rows]
            yield FiredResults(results, before[places[rows]], 2 * places[rows], kinds)

    def _emit(self, emissions: Sequence[FiredResults]) -> None:
        if any(len(emission.accumulators) for emission in emissions):
            self.output.emit(result_batch(self._layout, self._windows, emissions))

    def _write(
        self,
        found: "FoundWindows",
        next_times: Longs,
        due_times: Longs,
        contents: Contents,
        emitted: Contents | None,
        stays: Mask,
    ) -> None:
        """Writes all windows of the keys of which one has changed.

        Args:
            found: the windows.
            next_times: when each fires next.
            due_times: when each fires next, or goes.
            contents: what they hold.
            emitted: what they have emitted last, where that is remembered.
            stays: which of them are still there.
        """
        keys, of_keys = found.keys, found.of_keys
        is_new_time, has_changed = found.compared(next_times, stays)
        had_some = np.zeros(len(keys), np.bool_)
        had_some[of_keys[found.of_open]] = True
        had_some[of_keys[stays]] = False
        written = np.flatnonzero(stays & has_changed[of_keys])
        rows = contents.spread(len(found)), [] if emitted is None else emitted.spread(len(found))
        of_contents, of_emitted = ([gather(column, written) for column in columns] for columns in rows)
        numbers = found.ends[written], next_times[written]
        windows = WindowRows(keys.take(of_keys[written]), numbers, [*of_contents, *of_emitted])
        without = keys.take(np.flatnonzero(had_some & has_changed))
        self._table.write(windows, due_times[written], is_new_time[written], without)


@dataclass(frozen=True)
class FoundWindows:
    """The windows of records, and the open ones of the same keys, by key and end.

    Attributes:
        touched: the keys.
        pairs: the assignments of their records.
        of_keys: which key each window is of.
        ends: the end of each window.
        opened: the windows that were open.
        width: how many of their columns are what they hold; the others are what they have emitted last.
        of_open: which window each of these is.
        of_pairs: for each assignment of records, the window of each pair.
    """

    touched: ActiveKeys
    pairs: tuple[Assignment, ...]
    of_keys: Longs
    ends: Longs
    opened: WindowRows
    width: int
    of_open: Longs
    of_pairs: tuple[Longs, ...]

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def keys(self) -> KeyColumn:
        """The keys, each once, by hash and key."""
        return self.touched.keys

    @staticmethod
    def of(table: WindowTable, width: int, touched: ActiveKeys, *assignments: Assignment) -> "FoundWindows":
        """The windows of the pairs of some assignments, and the open ones."""
        which, opened = table.find(touched.keys)
        numbers = np.concatenate([which, *(touched.of_records[pairs.records] for pairs in assignments)])
        ends = np.concatenate([opened.ends, *(pairs.ends for pairs in assignments)])
        order = sorted_by(numbers, ends)
        sorted_numbers, sorted_ends = numbers[order], ends[order]
        is_new = np.ones(len(order), np.bool_)
        is_new[1:] = (sorted_numbers[1:] != sorted_numbers[:-1]) | (sorted_ends[1:] != sorted_ends[:-1])
        windows = np.empty(len(order), np.int64)
        windows[order] = np.cumsum(is_new) - 1
        bounds = np.cumsum([len(which), *(len(pairs.ends) for pairs in assignments)])[:-1]
        of_open, *of_pairs = np.split(windows, bounds)
        found = sorted_numbers[is_new], sorted_ends[is_new]
        return FoundWindows(touched, assignments, *found, opened, width, of_open, tuple(of_pairs))

    @property
    def held(self) -> Contents:
        """Return what windows hold that were open."""
        return self._of_opened(self.opened.columns[: self.width])

    @property
    def emitted(self) -> Contents | None:
        """Return what they have emitted last; None where that is not remembered."""
        emitted = self.opened.columns[self.width :]
        return self._of_opened(emitted) if emitted else None

    @property
    def next_times(self) -> Longs:
        """Return when the windows fire next that were open."""
        return self.opened.numbers[1]

    def compared(self, next_times: Longs, stays: Mask) -> tuple[Mask, Mask]:
        """Return which windows fire at another time now, and the keys of which a window has changed.

        Args:
            next_times: when each window fires next.
            stays: which windows are still there.
        """
        is_new_time = np.ones(len(self), np.bool_)
        is_new_time[self.of_open] = self.next_times != next_times[self.of_open]
        changes = is_new_time | ~stays
        for windows in self.of_pairs:
            changes[windows] = True
        has_changed = np.zeros(len(self.keys), np.bool_)
        has_changed[self.of_keys[changes]] = True
        return is_new_time, has_changed

    def _of_opened(self, columns: list[pa.Array]) -> Contents:
        held = Contents.of_column(columns)
        return Contents(self.of_open[held.windows], held.columns, held.numbers)

    def contents(self, aggregators: AggregatorList, number: int, firings: Firings) -> Contents:
        """Return what the records of an assignment have brought to windows between two firings."""
        records = self.pairs[number].records
        if self.touched.chunk is None or not len(records):
            return Contents.nothing()
        return Contents.of_records(aggregators, self.touched.chunk, records, self.of_pairs[number], firings)

    def new(self) -> tuple[Longs, Longs]:
        """The windows that were not open, and the record of the first assignment that came first to each."""
        firsts = np.full(len(self), -1)
        firsts[self.of_pairs[0][::-1]] = self.pairs[0].records[::-1]  # of several, the last one that is assigned stays
        firsts[self.of_open] = -1
        new = np.flatnonzero(firsts >= 0)
        return new, firsts[new]


_FIRINGS = 1 << 19
"""About so many firings of windows that were open before are worked out at a time, but of no fewer windows than: """
_FEWEST_WINDOWS = 1 << 10


class ContinuousEventTimeOperator(ContinuousWindowOperator):
    """Windows of event time that fire each time the watermark passes a multiple of an interval, and at their end."""

    fires: ClassVar[str] = "event"

    def _add(self, records: ArrivedRecords) -> None:
        reached = records.batch.last_watermark
        while len(records) and self._watermark < reached and self._due_until(reached) < reached:
            # Much is due on the way: the records before it first, then what is due, piece by piece.
            place = int(np.searchsorted(records.watermarks, max(self._table.first, self._watermark + 1)))
            before, records = records.slice(0, place), records.slice(place, len(records))
            if len(before):
                self._step(before, before.batch.last_watermark, self._watermark)
            self._fire_until(int(records.watermarks[0]))
        if len(records):
            self._step(records, reached, self._watermark)

    def _fire_until(self, watermark: int) -> None:
        stamp = self._watermark
        while (until := self._due_until(watermark)) < watermark:
            self._step(None, until, stamp)
        self._step(None, watermark, stamp)

    def _due_until(self, watermark: int) -> int:
        """Return how far event time may go at once, on the way to a watermark."""
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
        touched = ActiveKeys.of(None if records is None else records.chunk, due)
        if touched is not None:
            pairs = (NO_PAIRS, NO_PAIRS) if records is None else self._by_lateness(records)
            found = FoundWindows.of(self._table, self._layout.width, touched, *pairs)
            marks = np.array([watermark]) if records is None else np.append(records.watermarks, watermark)
            self._fire_and_write(found, records, marks, np.append(stamp, marks))
        self._watermark = watermark

    def _by_lateness(self, records: ArrivedRecords) -> tuple[Assignment, Assignment]:
        """The windows of records that have not ended, and those that have but still take them."""
        pairs, met = self._windows.assign(records.timestamps), records.watermarks
        met = met if pairs.is_identity else met[pairs.records]
        has_ended = pairs.ends - 1 <= met
        if not has_ended.any():
            return pairs, NO_PAIRS
        is_open = cleanup_times(pairs.ends, self._lateness) > met
        return pairs.where(~has_ended), pairs.where(has_ended & is_open)

    def _fire_and_write(self, found: FoundWindows, records: ArrivedRecords | None, marks: Longs, before: Longs) -> None:
        """Fires what is due at the watermarks that records meet, and at the one that is reached after them."""
        lasts = found.ends - 1
        times, known_at = np.zeros(len(found), np.int64), np.full(len(found), marks[-1])
        times[found.of_open], known_at[found.of_open] = found.next_times, self._watermark
        if records is not None:
            new, first = found.new()
            times[new] = first_times(self._interval, records.timestamps[first], lasts[new])
            known_at[new] = marks[first]
        firings = find_firings(self._interval, lasts, times, known_at, marks)
        added = found.contents(self._aggregators, 0, firings)
        emitted = emitted_by(self._mode, self._aggregators, found.held, added, found.emitted, firings)
        emissions, left = self._results(found, firings, emitted, before), emitted.left
        if len(found.pairs[1].ends):
            self._emit([*emissions, self._late_emission(found, left, marks)])
            if keeps_contents(self._mode):
                late = found.contents(self._aggregators, 1, firings)
                left = Contents.merged(self._aggregators, left, late)
        else:
            for emission in emissions:
                self._emit([emission])
        goes = cleanup_times(found.ends, self._kept_for)
        times = np.where(lasts <= marks[-1], goes, firings.next_times)
        self._write(found, times, times, left, emitted.last, goes > marks[-1])

    def _late_emission(self, found: FoundWindows, held: Contents, marks: Longs) -> FiredResults:
        """Return what windows emit that have ended, once for each late record."""
        assert found.touched.chunk is not None, "without records nothing is late"
        firing = held.take(np.flatnonzero(np.isin(held.windows, found.of_pairs[1])))
        keys = found.keys.take(found.of_keys[firing.windows])
        contents = Accumulators(found.ends[firing.windows], keys.hashes, keys.values, firing.columns)
        late, find = found.touched.chunk.spread(found.pairs[1]), lambda *_: contents
        return late_emission(self._mode, self._aggregators, find, late, found.pairs[1].records, marks)


class ContinuousClockOperator(ContinuousWindowOperator):
    """Windows that fire each time the clock passes a multiple of an interval, as seen when an epoch begins.

    Windows of event time are removed as event time does, whatever they have emitted; windows of the clock fire at their
    end for the last time.
    """

    fires: ClassVar[str] = "processing"

    def __init__(
        self,
        layout: ColumnarWindowLayout,
        definition: WindowDefinition,
        windows: AlignedWindows | GrowingWindows,
        interval: int,
    ) -> None:
        super().__init__(layout, definition, windows, interval)
        self._kept_for = self._lateness

    def begin_epoch(self, scope: EpochScope) -> None:
        super().begin_epoch(scope)
        self._now = scope.processing_time
        while (until := self._table.first_due(self._now, _FIRINGS)) < self._now:
            self._step(ActiveKeys.of(None, self._table.take_due(until)), until, self._watermark)
        self._step(ActiveKeys.of(None, self._table.take_due(self._now)), self._now, self._watermark)

    def end_epoch(self) -> None:
        self._next = self._table.first
        super().end_epoch()

    def wake_up_time(self) -> int | None:
        return None if self._next == NO_TIME else self._next

    def _check(self, batch: KeyedBatch) -> None:
        if self._is_event_time:
            super()._check(batch)

    def _add(self, records: ArrivedRecords) -> None:
        keys, watermark = ActiveKeys.of(records.chunk, None), records.batch.last_watermark
        self._step(keys, MIN_WATERMARK, watermark, self._pairs(records))  # nothing fires before the next epoch

    def _step(self, touched: ActiveKeys | None, until: int, watermark: int, pairs: Assignment = NO_PAIRS) -> None:
        """Emits what is due until the clock shows a time, or adds records; at a watermark."""
        if touched is None:
            return
        found = FoundWindows.of(self._table, self._layout.width, touched, pairs)
        lasts, stays = found.ends - 1, self._is_kept(found.ends, watermark)
        times = first_times_of_clock(self._interval, self._now, lasts)
        times[found.of_open] = found.next_times
        next_times, stops = np.where(stays, times, MAX_WATERMARK), not self._is_event_time
        firings = find_firings_of_clock(self._interval, lasts, next_times, until, stops=stops)
        added = found.contents(self._aggregators, 0, firings)
        emitted = emitted_by(self._mode, self._aggregators, found.held, added, found.emitted, firings)
        for emission in self._results(found, firings, emitted, np.array([watermark])):
            self._emit([emission])
        if not self._is_event_time:
            stays = lasts > until
        times = np.where(stays, firings.next_times, times)
        # Windows of event time are found to have gone when they would fire.
        due_times = times if self._is_event_time else np.minimum(times, lasts)
        self._write(found, times, due_times, emitted.left, emitted.last, stays)

    def _pairs(self, records: ArrivedRecords) -> Assignment:
        if self._is_event_time:
            pairs = self._windows.assign(records.timestamps)
            return pairs.where(cleanup_times(pairs.ends, self._lateness) > records.watermarks[pairs.records])
        ends = self._windows.assign(np.array([self._now])).ends
        return Assignment(np.repeat(np.arange(len(records)), len(ends)), np.tile(ends, len(records)), False)
