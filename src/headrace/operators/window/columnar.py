"""Windows with built-in aggregates: columns in, columns out, and state that is only appended to until a window fires.

Records that are on time may be added to their window at any moment before it fires, since whatever comes after the
watermark has passed the window's end is late by definition. So a whole batch is added first, with rising watermarks
in it or not, and then all windows fire that the last watermark is due for, each stamped with the watermark that was in
force before the advance that makes it fire. What is emitted, and in which order, is what handling the records one by
one gives: by moment of firing, and within one moment by (window end, hash of key, key).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from headrace.common.constants import MIN_WATERMARK
from headrace.operators.arrays import fixed_width, gather
from headrace.operators.base import Operator
from headrace.operators.keyed import KeyedBatch
from headrace.operators.window.accumulators import Accumulators, Chunk
from headrace.operators.window.firing import Emission, result_batch, running_accumulators
from headrace.operators.window.lateness import LateRecords, check_timestamps, cleanup_times
from headrace.operators.window.local import ACCUMULATORS_INPUT
from headrace.operators.window.panes import Panes
from headrace.operators.window.window_store import WindowStore
from headrace.state.keys.hashing import hash_array
from headrace.windowing.intervals import Assignment

if TYPE_CHECKING:
    import numpy.typing as npt

    from headrace.common.batch import Batch
    from headrace.operators.base import EpochScope, OperatorContext, Output
    from headrace.operators.window.layout import WindowLayout
    from headrace.windowing.intervals import AlignedWindows

    Longs = npt.NDArray[np.int64]

_MOST_PAIRS = 1 << 19
"""So many pairs of a record and a window are made at a time."""


class ColumnarWindowOperator(Operator):
    """Built-in aggregates over aligned windows of event time.

    Args:
        layout: the aggregates and the columns.
        assigner: puts records into windows.
        lateness: how long after its end a window still takes records, in milliseconds.
        late_tag: the id of the side output for records that come too late; without one they are dropped and counted.
    """

    def __init__(
        self, layout: WindowLayout, assigner: AlignedWindows, lateness: int = 0, late_tag: str | None = None
    ) -> None:
        super().__init__()
        self._layout = layout
        self._assigner = assigner
        self._lateness = lateness
        self._late_tag = late_tag
        self._panes = Panes.of(assigner)
        self._watermark = MIN_WATERMARK

    def open(self, context: OperatorContext, output: Output) -> None:
        super().open(context, output)
        assert context.state is not None
        self._store = WindowStore(
            self._layout, self._assigner, self._lateness, context.state.store("windows"), self._panes
        )
        self._late = LateRecords(self, self._lateness, self._late_tag)

    def begin_epoch(self, scope: EpochScope) -> None:
        self._watermark = scope.watermark
        self._arrivals = Arrivals(scope.epoch)
        self._store.begin_epoch()

    def process(self, input_index: int, batch: Batch) -> None:
        if not len(batch):
            return
        if input_index == ACCUMULATORS_INPUT:
            self._add_accumulators(batch)
            self._advance(batch.watermarks)
            return
        check_timestamps(batch, self.context)
        # A record of a sliding window becomes several rows; how a batch is cut changes nothing but memory.
        rows = max(1, _MOST_PAIRS // self._assigner.per_timestamp)
        for start in range(0, len(batch), rows):
            self._add_records(cast("KeyedBatch", batch.slice(start, start + rows) if len(batch) > rows else batch))

    def advance_watermark(self, watermark: int) -> None:
        if watermark > self._watermark:
            self._advance(np.array([watermark], np.int64))
        super().advance_watermark(self._watermark)

    def end_epoch(self) -> None:
        self._store.end_epoch(self._watermark)

    def _add_records(self, batch: KeyedBatch) -> None:
        arrivals = self._arrivals.next(len(batch))
        if self._panes is None:
            again, late = self._add_to_windows(batch, arrivals)
        else:
            rest = self._add_to_panes(self._panes, batch, arrivals)
            again, late = self._add_to_windows(batch.take(rest), arrivals[rest]) if len(rest) else (None, None)
            if again is not None:
                again = Assignment(rest[again.records], again.ends, False)
        self._advance(batch.watermarks, again, late)

    def _add_to_panes(self, panes: Panes, batch: KeyedBatch, arrivals: Longs) -> Longs:
        """Adds the records that are on time for all their windows; gives the positions of the others."""
        pairs = panes.of_timestamps(batch.timestamps)
        is_on_time = panes.are_on_time(batch.timestamps, batch.watermarks)
        self._store.add_to_panes(self._chunk(batch, pairs if is_on_time.all() else pairs.where(is_on_time), arrivals))
        return np.flatnonzero(~is_on_time)

    def _add_to_windows(self, batch: KeyedBatch, arrivals: Longs) -> tuple[Assignment | None, Chunk | None]:
        """Adds records to those of their windows that have not fired; late ones without any window are sent away.

        Returns:
            The pairs of a late but allowed record and a window that fires again for it, without and with the records'
            values; None when there are none.
        """
        pairs = self._assigner.assign(batch.timestamps)
        watermarks = batch.watermarks if pairs.is_identity else batch.watermarks[pairs.records]
        has_fired = pairs.ends - 1 <= watermarks
        if not has_fired.any():
            self._late.refuse(batch, pairs)
            self._store.add(self._chunk(batch, pairs, arrivals))
            return None, None
        is_open = cleanup_times(pairs.ends, self._lateness) > watermarks
        self._late.refuse(batch, pairs.where(is_open))
        self._store.add(self._chunk(batch, pairs.where(~has_fired), arrivals))
        again = pairs.where(has_fired & is_open)
        return again, self._chunk(batch, again, arrivals)

    def _add_accumulators(self, batch: Batch) -> None:
        """Partial results come from records that were on time at the sender, as a rule; see there."""
        ends, keys, *columns = batch.columns.columns
        hashes = batch.keys.hashes if isinstance(batch, KeyedBatch) else hash_array(keys)
        accumulators, watermarks = Accumulators(fixed_width(ends), hashes, keys, columns), batch.watermarks
        if self._panes is not None:
            if self._panes.are_on_time(accumulators.ends - 1, watermarks).all():
                self._store.add_accumulators_of_panes(accumulators)
                return
            pairs = self._panes.windows_of(accumulators.ends)
            accumulators, watermarks = accumulators.spread(pairs), watermarks[pairs.records]
        is_late = accumulators.ends - 1 <= watermarks
        if is_late.any():
            self._late.drop(int(fixed_width(accumulators.columns[0])[is_late].sum()))
            accumulators = accumulators.take(np.flatnonzero(~is_late))
        self._store.add_accumulators(accumulators)

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
        due = (Emission.of_due(block, self._watermark, watermarks) for block in self._store.due(self._watermark, last))
        if late is None or again is None or not len(late):
            for emission in due:
                self.output.emit(result_batch(self._layout, self._assigner.size, [emission]))
        else:
            fired = list(due)
            held = self._store.find(late.ends, late.hashes)
            contents = running_accumulators(self._layout.aggregators, held, late)
            refired = Emission.of_late(contents, again.records, watermarks)
            self._store.add_accumulators(Accumulators.of_chunk(self._layout.aggregators, late))
            self.output.emit(result_batch(self._layout, self._assigner.size, [*fired, refired]))
        self._watermark = last
        self._store.forget(last)


class Arrivals:
    """Numbers the records that a subtask sees: by epoch, and within it one by one."""

    _SEQUENCE_BITS = 30

    def __init__(self, epoch: int) -> None:
        self._next = epoch << self._SEQUENCE_BITS

    def next(self, count: int) -> Longs:
        """Numbers for the next records."""
        first = self._next
        self._next += count
        return np.arange(first, self._next)
