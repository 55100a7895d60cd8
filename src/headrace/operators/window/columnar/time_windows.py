"""Windows with built-in aggregates: columns in, columns out, and state that is only appended to until a window fires.

Records that are on time may be added to their window at any moment before it fires, since whatever comes after the
watermark has passed the window's end is late by definition. So a whole batch is added first, with rising watermarks
in it or not, and then all windows fire that the last watermark is due for, each stamped with the watermark that was in
force before the advance that makes it fire. What is emitted, and in which order, is what handling the records one by
one gives: by moment of firing, and within one moment by (window end, hash of key, key).
"""

from __future__ import annotations

from abc import abstractmethod
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.operators.arrays import fixed_width, gather
from headrace.operators.base import KeyedOperator
from headrace.operators.window.changed_windows import WindowStateMigration
from headrace.operators.window.columnar.accumulators import Accumulators, Arrivals, Chunk, accumulators_of
from headrace.operators.window.columnar.firing import LATE_FIRINGS, Emission, result_batch
from headrace.operators.window.columnar.local_aggregate import ACCUMULATORS_INPUT
from headrace.operators.window.columnar.window_store import WindowStore, combined
from headrace.operators.window.lateness import LateRecords, check_timestamps, cleaned_end, cleanup_times, passed_end
from headrace.operators.window.stored_windows import held_in_columns, held_times
from headrace.operators.window.stores import CLOCK_STORE, GLOBAL_STORE, STORE, accumulators_layout, check_has_only
from headrace.state.runs.grouping import times_bounds
from headrace.state.runs.merge_input import NO_TIME
from headrace.windowing.accumulation_mode import AccumulationMode
from headrace.windowing.intervals import Assignment, OneWindow
from headrace.windowing.windows import GlobalWindow, TimeWindow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from headrace.operators.base import EpochScope, KeyedBatch, OperatorContext, Output
    from headrace.operators.window.columnar.layout import ColumnarWindowLayout
    from headrace.operators.window.columnar.panes.pane_store import PaneStore
    from headrace.operators.window.stored_windows import StoredWindow
    from headrace.state.table_layout import TableLayout
    from headrace.windowing.intervals import RegularWindows
    from headrace.windowing.windows import Window

    Longs = npt.NDArray[np.int64]


MOST_PAIRS = 1 << 19
"""So many pairs of a record and a window are made at a time."""


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
        self._layout = layout
        self._assigner = assigner
        self._lateness = lateness
        self._late_tag = late_tag
        self._late_firings = LATE_FIRINGS[mode]
        self._kept_for = lateness if self._late_firings.keeps_contents else 0  # from a window's end on
        self._watermark = MIN_WATERMARK

    def open(self, context: OperatorContext, output: Output) -> None:
        super().open(context, output)
        self._late = LateRecords(self, self._lateness, self._late_tag)

    def restore_state(self, context: OperatorContext) -> None:
        check_has_only(context, STORE)
        self._store = self._open_store(context)

    def _open_store(self, context: OperatorContext) -> WindowStore | PaneStore:
        kept_as = accumulators_layout(self._layout, self._assigner)
        runs = context.state.store(STORE)
        self._moved_into(self._assigner, context, kept_as).take_over(runs)
        return WindowStore(self._layout, kept_as, runs, context.learnt)

    def _moved_into(
        self, rows_of: RegularWindows, context: OperatorContext, kept_as: TableLayout
    ) -> WindowStateMigration:
        """What moves the contents of windows of another shape; ``rows_of`` are the windows or panes that are kept."""
        aggregators, schema = self._layout.aggregators, self._layout.state_schema

        def combine(_: dict[str, Any], batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
            return combined(aggregators, batches)

        def regrouped(rows: pa.RecordBatch) -> pa.RecordBatch:
            return Accumulators.regrouped(aggregators, [Accumulators.of_batch(rows)]).to_batch(schema)

        return WindowStateMigration(context, self._assigner, kept_as, rows_of, combine, regrouped)

    def held_windows(self, context: OperatorContext, watermark: int) -> Iterator[StoredWindow]:
        """What windows hold; of an operator that is not open. See :class:`.held_windows.WindowStateReader`."""
        store = self._open_store(context)
        store.begin_epoch()
        for block in store.due(cleaned_end(watermark, self._kept_for), MAX_WATERMARK):
            starts = self._assigner.starts_of(block.ends)
            yield from held_times(self._layout, block.keys, starts, block.ends, block.columns)

    def begin_epoch(self, scope: EpochScope) -> None:
        self._watermark = scope.watermark
        self._arrivals = Arrivals(scope.epoch, are_asked=not self._layout.aggregators.are_scatterable)
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
        arrivals = self._arrivals.next(len(batch))
        judged = self._judged(batch)
        self._store.add(self._chunk(batch, judged.on_time, arrivals))
        late = self._chunk(batch, judged.again, arrivals) if len(judged.again.ends) else None
        self._advance(batch.watermarks, judged.again, late)
        if late is not None and self._late_firings.keeps_contents:
            self._store.add_accumulators(Accumulators.of_chunk(self._layout.aggregators, late))

    def _judged(self, batch: KeyedBatch) -> AssignedRecords:
        """The windows of records, by whether they have fired; late records without any window are sent away."""
        pairs = self._assigner.assign(batch.timestamps)
        if pairs.is_identity and times_bounds(pairs.ends)[0] - 1 > batch.last_watermark:
            return AssignedRecords(pairs, Assignment(pairs.records[:0], pairs.ends[:0], False))  # as nearly always
        watermarks = batch.watermarks if pairs.is_identity else batch.watermarks[pairs.records]
        has_fired = pairs.ends - 1 <= watermarks
        if not has_fired.any():
            self._late.refuse(batch, pairs)
            return AssignedRecords(pairs, pairs.where(has_fired))
        is_open = cleanup_times(pairs.ends, self._lateness) > watermarks
        self._late.refuse(batch, pairs.where(is_open))
        return AssignedRecords(pairs.where(~has_fired), pairs.where(has_fired & is_open))

    def _add_accumulators(self, accumulators: Accumulators, watermarks: Longs) -> None:
        """Adds partial results, of records that were on time at the sender as a rule; fires what is due."""
        is_late = accumulators.ends - 1 <= watermarks
        if is_late.any():
            self._late.drop(records_of(accumulators, is_late))
            accumulators = accumulators.take(np.flatnonzero(~is_late))
        self._store.add_accumulators(accumulators)
        self._advance(watermarks)

    def _chunk(self, batch: KeyedBatch, pairs: Assignment, arrivals: Longs) -> Chunk:
        """The pairs with what the aggregates need of the records."""
        columns = self._layout.inputs_of(batch, self.context)
        keys = batch.keys
        if pairs.is_identity:
            return Chunk(pairs.ends, keys.hashes, keys.values, columns, arrivals)
        rows = pairs.records
        gathered = {index: gather(column, rows) for index, column in columns.items()}
        return Chunk(pairs.ends, keys.hashes[rows], gather(keys.values, rows), gathered, arrivals[rows])

    def _advance(self, watermarks: Longs, again: Assignment | None = None, late: Chunk | None = None) -> None:
        """Brings event time to the last of the watermarks, and fires what is due on the way.

        Args:
            watermarks: the watermarks that the records of a batch meet.
            again: the pairs of a late but allowed record and a window that fires again for it.
            late: the same pairs with the records' values.
        """
        last = int(watermarks[-1])
        blocks = self._store.due(passed_end(self._watermark), passed_end(last))
        due = (Emission.of_due(block, self._watermark, watermarks) for block in blocks)
        if late is None or again is None:
            for emission in due:
                self.output.emit(result_batch(self._layout, self._assigner, [emission]))
        else:
            fired = list(due)
            refired = self._late_firings.emission(
                self._layout.aggregators, self._store.find, late, again.records, watermarks
            )
            self.output.emit(result_batch(self._layout, self._assigner, [*fired, refired]))
        self._watermark = last
        self._store.forget(cleaned_end(last, self._kept_for))


class AssignedRecords(NamedTuple):
    """Pairs of a record and a window that takes it.

    Attributes:
        on_time: those whose window has not fired.
        again: those whose window fires again for the record, which is late but allowed.
    """

    on_time: Assignment
    again: Assignment


def records_of(accumulators: Accumulators, mask: npt.NDArray[np.bool_]) -> int:
    """How many records some accumulators stand for."""
    return int(fixed_width(accumulators.columns[0])[mask].sum())


class UntimedWindowOperator(KeyedOperator):
    """Built-in aggregates over windows that all records of an epoch are in alike.

    Args:
        layout: the aggregates and the columns.
        windows: the windows.

    Class attributes:
        store_name: the store that accumulators are in.
    """

    store_name: ClassVar[str]

    def __init__(self, layout: ColumnarWindowLayout, windows: RegularWindows) -> None:
        super().__init__()
        self._layout = layout
        self._windows = windows
        self._watermark = MIN_WATERMARK

    def restore_state(self, context: OperatorContext) -> None:
        check_has_only(context, self.store_name)
        self._store = self._open_store(context)

    def held_windows(self, context: OperatorContext, watermark: int) -> Iterator[StoredWindow]:
        """What windows hold; of an operator that is not open. See :class:`.held_windows.WindowStateReader`."""
        store = self._open_store(context)
        store.begin_epoch()
        for block in store.due(MIN_WATERMARK, MAX_WATERMARK):
            windows, bounds = self._windows_of(block.ends), self._bounds(block.ends)
            yield from held_in_columns(self._layout, block.keys, windows, bounds, block.columns)

    def _open_store(self, context: OperatorContext) -> WindowStore:
        kept_as = accumulators_layout(self._layout, self._windows)
        return WindowStore(self._layout, kept_as, context.state.store(self.store_name), context.learnt)

    def begin_epoch(self, scope: EpochScope) -> None:
        self._watermark = scope.watermark
        self._arrivals = Arrivals(scope.epoch)
        self._store.begin_epoch()
        self._ends: list[int] = self._windows.assign(np.array([scope.processing_time])).ends.tolist()

    def process(self, input_index: int, batch: Batch) -> None:
        if input_index != ACCUMULATORS_INPUT:
            super().process(input_index, batch)
        elif len(batch):
            self._add(accumulators_of(batch))

    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        keys = batch.keys
        columns, arrivals = self._layout.inputs_of(batch, self.context), self._arrivals.next(len(batch))
        everywhere = np.full(len(batch), self._ends[0] if self._ends else 0)
        chunk = Chunk(everywhere, keys.hashes, keys.values, columns, arrivals)
        if len(self._ends) == 1:
            self._store.add(chunk)
        else:
            self._add(Accumulators.of_chunk(self._layout.aggregators, chunk))

    def end_epoch(self) -> None:
        self._store.end_epoch(MIN_WATERMARK)

    def _add(self, accumulators: Accumulators) -> None:
        for end in self._ends:
            self._store.add_accumulators(accumulators.at(end))

    def _fire(self, upto: int) -> None:
        """Shows the windows whose ends are not above ``upto``; their contents go."""
        for block in self._store.due(MIN_WATERMARK, upto):
            columns = self._layout.finish(block.keys, self._bounds(block.ends), block.columns)
            watermarks = np.full(len(block), self._watermark)
            self.output.emit(Batch(self._layout.output_type, self._timestamps(block.ends), watermarks, columns=columns))
        self._store.forget(upto)

    @abstractmethod
    def _windows_of(self, ends: Longs) -> Iterable[Window]:
        """The windows."""

    @abstractmethod
    def _bounds(self, ends: Longs) -> list[pa.Array]:
        """The columns of results that tell windows apart."""

    @abstractmethod
    def _timestamps(self, ends: Longs) -> Longs:
        """The timestamps of results."""


class ProcessingTimeWindowOperator(UntimedWindowOperator):
    """Windows of processing time, which fire when an epoch begins at their end or later."""

    store_name: ClassVar[str] = CLOCK_STORE

    def begin_epoch(self, scope: EpochScope) -> None:
        super().begin_epoch(scope)
        # What comes in this very millisecond may belong to a window that ends with it: it fires once more then.
        self._fire(scope.processing_time + 1)

    def end_epoch(self) -> None:
        self._next_end = self._store.next_above(MIN_WATERMARK)
        super().end_epoch()

    def wake_up_time(self) -> int | None:
        return None if self._next_end == NO_TIME else self._next_end - 1

    def _windows_of(self, ends: Longs) -> Iterable[Window]:
        return map(TimeWindow, self._windows.starts_of(ends).tolist(), ends.tolist())

    def _bounds(self, ends: Longs) -> list[pa.Array]:
        return [pa.array(self._windows.starts_of(ends)), pa.array(ends)]

    def _timestamps(self, ends: Longs) -> Longs:
        return ends - 1


class EndOfStreamWindowOperator(UntimedWindowOperator):
    """Global windows that fire when the input ends."""

    store_name: ClassVar[str] = GLOBAL_STORE

    def process(self, input_index: int, batch: Batch) -> None:
        super().process(input_index, batch)
        met = batch.watermarks[batch.watermarks < MAX_WATERMARK]  # the end is told by advance_watermark()
        if len(met):
            self._watermark = max(self._watermark, int(met[-1]))

    def advance_watermark(self, watermark: int) -> None:
        if watermark == MAX_WATERMARK > self._watermark:
            self._fire(OneWindow.END)
        self._watermark = watermark
        super().advance_watermark(watermark)

    def _windows_of(self, ends: Longs) -> Iterable[Window]:
        return repeat(GlobalWindow(), len(ends))

    def _bounds(self, ends: Longs) -> list[pa.Array]:
        return []

    def _timestamps(self, ends: Longs) -> Longs:
        return np.full(len(ends), MAX_WATERMARK)


def untimed_window(layout: ColumnarWindowLayout, windows: RegularWindows) -> UntimedWindowOperator:
    """The operator for built-in aggregates over such windows."""
    kind = EndOfStreamWindowOperator if isinstance(windows, OneWindow) else ProcessingTimeWindowOperator
    return kind(layout, windows)
