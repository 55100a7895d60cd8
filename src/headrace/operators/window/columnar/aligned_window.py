"""Windows with built-in aggregates: columns in, columns out, and state that is only appended to until a window fires.

Records that are on time may be added to their window at any moment before it fires, since whatever comes after the
watermark has passed the window's end is late by definition. So a whole batch is added first, with rising watermarks
in it or not, and then all windows fire that the last watermark is due for, each stamped with the watermark that was in
force before the advance that makes it fire. What is emitted, and in which order, is what handling the records one by
one gives: by moment of firing, and within one moment by (window end, hash of key, key).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.operators.arrays import fixed_width, gather
from headrace.operators.keyed import KeyedOperator
from headrace.operators.window.changed_windows import WindowStateMigration
from headrace.operators.window.columnar.accumulators import Accumulators, Arrivals, Chunk, accumulators_of
from headrace.operators.window.columnar.firing import Emission, result_batch
from headrace.operators.window.columnar.late_firings import LATE_FIRINGS
from headrace.operators.window.columnar.local_aggregate import ACCUMULATORS_INPUT
from headrace.operators.window.columnar.window_store import WindowStore, combined
from headrace.operators.window.held_windows import held_times
from headrace.operators.window.lateness import LateRecords, check_timestamps, cleaned_end, cleanup_times, passed_end
from headrace.operators.window.stores import STORE, accumulators_layout, check_has_only
from headrace.state.runs.grouping import times_bounds
from headrace.windowing.accumulation_mode import AccumulationMode
from headrace.windowing.intervals import Assignment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from headrace.common.batch import Batch
    from headrace.operators.base import EpochScope, OperatorContext, Output
    from headrace.operators.keyed import KeyedBatch
    from headrace.operators.window.columnar.layout import ColumnarWindowLayout
    from headrace.operators.window.columnar.panes.pane_store import PaneStore
    from headrace.operators.window.held_windows import StoredWindow
    from headrace.state.table_layout import TableLayout
    from headrace.windowing.intervals import RegularWindows

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

    def _moved_into(self, rows_of: RegularWindows, context: OperatorContext, kept_as: TableLayout) -> WindowStateMigration:
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
