"""Windows with built-in aggregates: columns in, columns out, and state that is only appended to until a window fires.

Records that are on time may be added to their window at any moment before it fires, since whatever comes after the
watermark has passed the window's end is late by definition. So a whole batch is added first, with rising watermarks
in it or not, and then all windows fire that the last watermark is due for, each stamped with the watermark that was in
force before the advance that makes it fire. What is emitted, and in which order, is what handling the records one by
one gives: by moment of firing, and within one moment by (window end, hash of key, key).
"""

from collections.abc import Iterator, Sequence
from itertools import repeat, starmap
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import fixed_width
from headrace.common.batch import Batch, take_back
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.operators.base import EpochScope, KeyedBatch, KeyedOperator, OperatorContext
from headrace.operators.window.columnar.accumulators import (
    MOST_PAIRS,
    Accumulators,
    ArrivalCounter,
    Chunk,
    ColumnarWindowLayout,
    accumulators_of,
)
from headrace.operators.window.columnar.firing import FiredResults, keeps_contents, late_emission, result_batch
from headrace.operators.window.columnar.local_aggregate import ACCUMULATORS_INPUT
from headrace.operators.window.columnar.pane_store import PaneStore
from headrace.operators.window.columnar.panes import Panes
from headrace.operators.window.columnar.windows_by_end import WindowStore, combined
from headrace.operators.window.lateness import LateRecords, check_timestamps, cleaned_end, cleanup_times, passed_end
from headrace.operators.window.stored_windows import (
    CLOCK_STORE,
    GLOBAL_STORE,
    PANE,
    STORE,
    StoredWindow,
    WindowStateMigration,
    accumulators_layout,
    check_has_only,
    held_in_columns,
)
from headrace.state.runs.grouping import times_bounds
from headrace.state.runs.merge_input import NO_TIME
from headrace.state.sorted_table import TableLayout
from headrace.windowing.definition import AccumulationMode
from headrace.windowing.intervals import Assignment, OneWindow, RegularWindows
from headrace.windowing.windows import GlobalWindow, TimeWindow

Longs = npt.NDArray[np.int64]


class AlignedWindowOperator(KeyedOperator):
    """Built-in aggregates over windows of event time that follow from the timestamp alone.

    Args:
        layout: the aggregates and the columns.
        assigner: puts records into windows.
        lateness: how long after its end a window still takes records, in milliseconds.
        late_tag: the id of the side output for records that come too late; without one they are dropped and counted.
        mode: what windows show when they fire again.
    """

    def __init__(
        self,
        layout: ColumnarWindowLayout,
        assigner: RegularWindows,
        lateness: int = 0,
        late_tag: str | None = None,
        mode: AccumulationMode = AccumulationMode.ACCUMULATING,
    ) -> None:
        super().__init__()
        self.user_code = layout.aggregators.user_code
        self._layout = layout
        self._assigner = assigner
        self._lateness = lateness
        self._late = LateRecords(self, lateness, late_tag)
        self._mode = mode
        self._kept_for = lateness if keeps_contents(mode) else 0  # from a window's end on
        self._store_name = STORE
        self._watermark = MIN_WATERMARK

    def restore_state(self, context: OperatorContext) -> None:
        check_has_only(context, self._store_name)
        self._store = self._open_store(context)

    def _open_store(self, context: OperatorContext) -> WindowStore | PaneStore:
        kept_as = accumulators_layout(self._layout, self._assigner)
        runs = context.state.store(STORE)
        if runs.runs:
            self._moved_into(self._assigner, context, kept_as).take_over(runs)
        return WindowStore(self._layout, kept_as, runs, context.cache)

    def _moved_into(
        self, rows_of: RegularWindows, context: OperatorContext, kept_as: TableLayout
    ) -> WindowStateMigration:
        """The migration of windows of another shape; ``rows_of`` are the windows or panes that are kept."""
        aggregators, schema = self._layout.aggregators, self._layout.state_schema

        def combine(_: dict[str, Any], batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
            return combined(aggregators, batches)

        def regrouped(rows: pa.RecordBatch) -> pa.RecordBatch:
            return Accumulators.regrouped(aggregators, [Accumulators.of_batch(rows)]).to_batch(schema)

        return WindowStateMigration(context, self._assigner, kept_as, rows_of, combine, regrouped)

    def held_windows(self, context: OperatorContext, watermark: int) -> Iterator[StoredWindow]:
        """Return what windows hold; of an operator that is not open. See :class:`.WindowStateReader`."""
        store = self._open_store(context)
        store.begin_epoch()
        for block in store.due(cleaned_end(watermark, self._kept_for), MAX_WATERMARK):
            bounds = self._bounds(block.ends)
            ends = zip(*(bound.to_pylist() for bound in bounds), strict=True)
            windows = starmap(TimeWindow, ends) if bounds else repeat(GlobalWindow(), len(block))
            yield from held_in_columns(self._layout, block.keys, windows, bounds, block.columns)

    def _bounds(self, ends: Longs) -> list[pa.Array]:
        """The columns of results that identify windows, which global ones do not need."""
        return [pa.array(self._assigner.starts_of(ends)), pa.array(ends)] if self._layout.window_names else []

    def begin_epoch(self, scope: EpochScope) -> None:
        self._watermark = scope.watermark
        self._arrivals = ArrivalCounter(scope.epoch, are_needed=not self._layout.aggregators.are_scatterable)
        self._store.begin_epoch()

    def process(self, input_index: int, batch: Batch) -> None:
        if input_index != ACCUMULATORS_INPUT:
            super().process(input_index, batch)
        elif len(batch):
            self._add_accumulators(accumulators_of(batch), batch.watermarks)

    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        check_timestamps(batch, self.context, self._assigner.reach)
        self._add_all(batch)

    def advance_watermark(self, watermark: int) -> None:
        if watermark > self._watermark:
            self._advance(np.array([watermark], np.int64))
        super().advance_watermark(self._watermark)

    def end_epoch(self) -> None:
        self._store.end_epoch(cleaned_end(self._watermark, self._kept_for))

    def _add_all(self, batch: KeyedBatch) -> None:
        # A record of windows that overlap becomes several rows; how a batch is cut changes nothing but memory.
        rows = max(1, MOST_PAIRS // self._assigner.per_timestamp)
        for start in range(0, len(batch), rows):
            self._add_records(batch.slice(start, start + rows) if len(batch) > rows else batch)

    def _add_records(self, batch: KeyedBatch) -> None:
        """Adds records to those of their windows that have not fired, and fires what is due until the last of them."""
        chunk, (on_time, again) = self._chunk(batch), self._by_lateness(batch)
        self._add(batch, chunk, on_time)
        late = chunk.spread(again) if len(again.ends) else None
        self._advance(batch.watermarks, again, late)
        if late is not None and keeps_contents(self._mode):
            self._store.add_accumulators(Accumulators.of_chunk(self._layout.aggregators, late))

    def _add(self, batch: KeyedBatch, chunk: Chunk, pairs: Assignment) -> None:
        """Adds records to windows, or takes them back."""
        kinds = batch.kinds if self._layout.retracts else None
        if kinds is None:
            self._store.add(chunk.spread(pairs))
            return
        takes_back = take_back(kinds)[pairs.records]
        self._store.add(chunk.spread(pairs.where(~takes_back)))
        taken = chunk.spread(pairs.where(takes_back))
        self._store.add_accumulators(Accumulators.taken_back(self._layout.aggregators, taken))

    def _by_lateness(self, batch: KeyedBatch) -> tuple[Assignment, Assignment]:
        """The windows of records, by whether they have fired; late records without any window are sent away."""
        pairs = self._assigner.assign(batch.timestamps)
        if pairs.is_identity and times_bounds(pairs.ends)[0] - 1 > batch.last_watermark:
            return pairs, Assignment(pairs.records[:0], pairs.ends[:0], False)  # as nearly always
        watermarks = batch.watermarks if pairs.is_identity else batch.watermarks[pairs.records]
        has_fired = pairs.ends - 1 <= watermarks
        if not has_fired.any():
            self._late.refuse(batch, pairs)
            return pairs, pairs.where(has_fired)
        is_open = cleanup_times(pairs.ends, self._lateness) > watermarks
        self._late.refuse(batch, pairs.where(is_open))
        return pairs.where(~has_fired), pairs.where(has_fired & is_open)

    def _add_accumulators(self, accumulators: Accumulators, watermarks: Longs) -> None:
        """Adds partial results, of records that were on time at the sender as a rule; fires what is due."""
        is_late = accumulators.ends - 1 <= watermarks
        if is_late.any():
            self._late.drop(records_of(accumulators, is_late))
            accumulators = accumulators.take(np.flatnonzero(~is_late))
        self._store.add_accumulators(accumulators)
        self._advance(watermarks)

    def _chunk(self, batch: KeyedBatch) -> Chunk:
        """The columns of records that the aggregates need; the records have no windows yet."""
        return Chunk.of(batch, self._layout.inputs_of(batch, self.context), self._arrivals.next(len(batch)))

    def _advance(self, watermarks: Longs, again: Assignment | None = None, late: Chunk | None = None) -> None:
        """Brings event time to the last of the watermarks, and fires what is due on the way.

        Args:
            watermarks: the watermarks that the records of a batch meet.
            again: the pairs of a late but allowed record and a window that fires again for it.
            late: the same pairs with the records' values.
        """
        last = int(watermarks[-1])
        blocks = self._store.due(passed_end(self._watermark), passed_end(last))
        if self._layout.retracts:
            blocks = (block.where(fixed_width(block.columns[0]) > 0) for block in blocks)
        due = (FiredResults.of_due(block, self._watermark, watermarks) for block in blocks)
        if late is None or again is None:
            for emission in due:
                self.output.emit(result_batch(self._layout, self._assigner, [emission]))
        else:
            fired = list(due)
            aggregators, find = self._layout.aggregators, self._store.find
            refired = late_emission(self._mode, aggregators, find, late, again.records, watermarks)
            self.output.emit(result_batch(self._layout, self._assigner, [*fired, refired]))
        self._watermark = last
        self._store.forget(cleaned_end(last, self._kept_for))


def records_of(accumulators: Accumulators, mask: npt.NDArray[np.bool_]) -> int:
    """Return how many records some accumulators stand for."""
    return int(fixed_width(accumulators.columns[0])[mask].sum())


class UntimedWindowOperator(AlignedWindowOperator):
    """Built-in aggregates over windows that all records of an epoch are in alike.

    Windows of the clock fire when an epoch begins at their end or later; the global one fires when the input ends.

    Args:
        layout: the aggregates and the columns.
        windows: the windows.
    """

    _store: WindowStore

    def __init__(self, layout: ColumnarWindowLayout, windows: RegularWindows) -> None:
        super().__init__(layout, windows)
        self._is_global = isinstance(windows, OneWindow)
        self._store_name = GLOBAL_STORE if self._is_global else CLOCK_STORE
        self._next_end = NO_TIME

    def _open_store(self, context: OperatorContext) -> WindowStore:
        kept_as = accumulators_layout(self._layout, self._assigner)
        return WindowStore(self._layout, kept_as, context.state.store(self._store_name), context.cache)

    def held_windows(self, context: OperatorContext, watermark: int) -> Iterator[StoredWindow]:
        return super().held_windows(context, MIN_WATERMARK)

    def begin_epoch(self, scope: EpochScope) -> None:
        super().begin_epoch(scope)
        self._ends: list[int] = self._assigner.assign(np.array([scope.processing_time])).ends.tolist()
        if not self._is_global:
            # What comes in this very millisecond may belong to a window that ends with it: it fires once more then.
            self._fire(scope.processing_time + 1)

    def process(self, input_index: int, batch: Batch) -> None:
        super().process(input_index, batch)
        if self._is_global:
            met = batch.watermarks[batch.watermarks < MAX_WATERMARK]  # the end comes by advance_watermark()
            self._watermark = max(self._watermark, int(met[-1])) if len(met) else self._watermark

    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        end = self._ends[0] if self._ends else 0
        everywhere = Assignment(np.arange(len(batch)), np.full(len(batch), end), True)
        chunk = self._chunk(batch).spread(everywhere)
        if len(self._ends) == 1:
            self._store.add(chunk)
        else:
            self._add_accumulators(Accumulators.of_chunk(self._layout.aggregators, chunk), batch.watermarks)

    def advance_watermark(self, watermark: int) -> None:
        if self._is_global:
            if watermark == MAX_WATERMARK > self._watermark:
                self._fire(OneWindow.END)
            self._watermark = watermark
        KeyedOperator.advance_watermark(self, watermark)

    def end_epoch(self) -> None:
        if not self._is_global:
            self._next_end = self._store.next_above(MIN_WATERMARK)
        self._store.end_epoch(MIN_WATERMARK)

    def wake_up_time(self) -> int | None:
        return None if self._next_end == NO_TIME else self._next_end - 1

    def _add_accumulators(self, accumulators: Accumulators, watermarks: Longs) -> None:
        for end in self._ends:
            self._store.add_accumulators(accumulators.at(end))

    def _fire(self, upto: int) -> None:
        """Shows the windows whose ends are not above ``upto``; their contents go."""
        for block in self._store.due(MIN_WATERMARK, upto):
            columns = self._layout.finish(block.keys, self._bounds(block.ends), block.columns)
            times = np.full(len(block), MAX_WATERMARK) if self._is_global else block.ends - 1
            watermarks = np.full(len(block), self._watermark)
            self.output.emit(Batch(self._layout.output_type, times, watermarks, columns=columns))
        self._store.forget(upto)


_STEP_ROWS: Final = 1 << 17
"""Windows fire once for so many records: what is late for none of its windows may be added long before they fire."""


class PanedWindowOperator(AlignedWindowOperator):
    """Built-in aggregates over windows that share panes.

    Args:
        layout: the aggregates and the columns.
        assigner: puts records into windows.
        panes: those that the windows share.
        lateness: how long after its end a window still takes records, in milliseconds.
        late_tag: the id of the side output for records that come too late; without one they are dropped and counted.
        mode: what windows show when they fire again.
    """

    _store: PaneStore
    _met: list[Longs]
    _added: int

    def __init__(
        self,
        layout: ColumnarWindowLayout,
        assigner: RegularWindows,
        panes: Panes,
        lateness: int = 0,
        late_tag: str | None = None,
        mode: AccumulationMode = AccumulationMode.ACCUMULATING,
    ) -> None:
        super().__init__(layout, assigner, lateness, late_tag, mode)
        self._panes = panes

    def _open_store(self, context: OperatorContext) -> PaneStore:
        kept_as = accumulators_layout(self._layout, self._assigner, **{PANE: self._panes.length})
        runs = context.state.store(STORE)
        self._moved_into(self._panes.as_windows, context, kept_as).take_over(runs)
        return PaneStore(self._layout, self._assigner, self._panes, kept_as, runs, context.cache)

    def begin_epoch(self, scope: EpochScope) -> None:
        super().begin_epoch(scope)
        self._met, self._added = [], 0

    def advance_watermark(self, watermark: int) -> None:
        self._catch_up()
        super().advance_watermark(watermark)

    def _add_all(self, batch: KeyedBatch) -> None:
        late = np.count_nonzero(~self._panes.are_on_time(batch.timestamps, batch.watermarks))
        if late * self._assigner.per_timestamp > MOST_PAIRS and len(batch) > 1:
            middle = len(batch) // 2
            self._add_all(batch.slice(0, middle))
            self._add_all(batch.slice(middle, len(batch)))
        else:
            self._add_records(batch)

    def _add_records(self, batch: KeyedBatch) -> None:
        chunk, pairs = self._chunk(batch), self._panes.assign(batch.timestamps)
        is_on_time = self._panes.are_on_time(batch.timestamps, batch.watermarks)
        if is_on_time.all():
            self._store.add_to_panes(chunk.spread(pairs))
            self._met.append(batch.watermarks)
            self._added += len(batch)
            if self._added >= _STEP_ROWS:
                self._catch_up()
            return
        self._catch_up()
        self._store.add_to_panes(chunk.spread(pairs.where(is_on_time)))
        self._add_late(batch, chunk, pairs, np.flatnonzero(~is_on_time))

    def _catch_up(self) -> None:
        """Brings event time to where the records have brought it that were on time for all their windows."""
        if self._met:
            met, self._met, self._added = np.concatenate(self._met), [], 0
            self._advance(met)

    def _add_late(self, batch: KeyedBatch, chunk: Chunk, pairs: Assignment, rows: Longs) -> None:
        """Adds records that are late for some of their windows, or for all."""
        part = batch.take(rows)
        on_time, again = (found.among(rows) for found in self._by_lateness(part))
        is_due = on_time.ends <= passed_end(int(batch.watermarks[-1]))
        self._store.add(chunk.spread(on_time.where(is_due)))
        self._advance(batch.watermarks, again, chunk.spread(again) if len(again.ends) else None)
        last_ends = self._assigner.last_ends(part.timestamps)
        is_taken = cleanup_times(last_ends, self._kept_for) > part.watermarks
        taken = chunk.spread(pairs.where(np.isin(pairs.records, rows[is_taken])))
        self._store.settle(Accumulators.of_chunk(self._layout.aggregators, taken))

    def _add_accumulators(self, accumulators: Accumulators, watermarks: Longs) -> None:
        self._catch_up()
        is_on_time = self._panes.are_on_time(accumulators.ends - 1, watermarks)
        if is_on_time.all():
            self._store.add_to_panes(accumulators)
            self._advance(watermarks)
            return
        self._store.add_to_panes(accumulators.take(np.flatnonzero(is_on_time)))
        rows = np.flatnonzero(~is_on_time)
        part, met = accumulators.take(rows), watermarks[rows]
        pairs = self._panes.windows_of(part.ends)
        is_due = (pairs.ends - 1 > met[pairs.records]) & (pairs.ends <= passed_end(int(watermarks[-1])))
        self._store.add_accumulators(part.spread(pairs.where(is_due)))
        self._advance(watermarks)
        is_late = self._assigner.last_ends(part.ends - 1) - 1 <= met
        self._late.drop(records_of(part, is_late))
        self._store.settle(part.take(np.flatnonzero(~is_late)))
