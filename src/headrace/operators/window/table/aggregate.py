"""Aggregates over windows of rows whose time, or window end, is in a column, by the columnar window operators."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import differ, gather
from headrace.common.batch import Batch
from headrace.common.typeinfo.composite import schema_of
from headrace.operators.base import EpochScope, KeyedBatch, KeyedOperator, OperatorContext, Output
from headrace.operators.changelog.keyed_changes import UPDATE_AFTER, UPDATE_BEFORE
from headrace.operators.window.columnar.local_aggregate import ACCUMULATORS_INPUT
from headrace.operators.window.table.firing_order import STORE, TimerFiringOrder
from headrace.operators.window.table.local_time import WindowTime
from headrace.operators.window.table.table_function import window_columns

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation

Longs = npt.NDArray[np.int64]


class TableWindowOperator(KeyedOperator):
    """Computes windows over the local times of a column, by an inner operator over timestamps.

    Results have the columns of the key, of the aggregates, and window_start, window_end and window_time.

    Args:
        inner: computes the windows; its results have start and end of the window after the columns of the key.
        time: the time attribute.
        keys: the number of key columns.
        output_type: the type of the emitted rows.
        order: the order of windows that end together; None for that of ``inner``.
    """

    def __init__(
        self,
        inner: KeyedOperator,
        time: WindowTime,
        keys: int,
        output_type: TypeInformation,
        order: TimerFiringOrder | None = None,
    ) -> None:
        super().__init__()
        self._inner, self._time, self._keys, self._output_type = inner, time, keys, output_type
        self._order = order
        inner.counters = self.counters

    def restore_state(self, context: OperatorContext) -> None:
        self._inner.restore_state(self._of_inner(context))
        if self._order is not None:
            self._order.open(context)

    def open(self, context: OperatorContext, output: Output) -> None:
        if self._order is not None:
            self._order.open(context)
        self.context, self.output = context, output
        self._fired: list[Batch] = []
        self._inner.open(self._of_inner(context), _FiredWindows(self._fired))

    def _of_inner(self, context: OperatorContext) -> OperatorContext:
        """The context without the state of the firing order."""
        states: Any = context.optional_state
        return context if self._order is None else replace(context, optional_state=_StatesOfWindows(states))

    def begin_epoch(self, scope: EpochScope) -> None:
        self._watermarks = np.array([scope.watermark])
        if self._order is not None:
            self._order.begin_epoch(scope)
        local = int(self._time.clock.reached(self._watermarks)[0])
        shown = int(self._time.clock.of(np.array([scope.processing_time]))[0])
        self._inner.begin_epoch(EpochScope(scope.epoch, shown, local))
        self._emit(None, local)

    def wake_up_time(self) -> int | None:
        due = self._inner.wake_up_time()
        return None if due is None else int(self._time.clock.back(np.array([due]))[0])

    def process(self, input_index: int, batch: Batch) -> None:
        if input_index != ACCUMULATORS_INPUT:
            super().process(input_index, batch)
        elif len(batch):
            moved = batch.with_watermarks(self._reached(batch.watermarks))
            if self._order is not None:
                self._order.lose(moved)
            self._inner.process(input_index, moved)
            self._emit(None, moved.last_watermark)

    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        batch = self._time.present(batch)
        if not len(batch):
            return
        moved = self._time.moved(batch)
        self._remember(np.array([batch.last_watermark]) if self._time.clock.is_plain else batch.watermarks)
        self._inner.process(0, moved)
        if self._order is not None and self._order.is_followed:
            self._inner.advance_watermark(moved.last_watermark)  # windows may be put off, their timers are not
        self._emit(moved, moved.last_watermark)

    def advance_watermark(self, watermark: int) -> None:
        local = int(self._reached(np.array([watermark]))[0])
        self._inner.advance_watermark(local)
        self._emit(None, local)
        super().advance_watermark(watermark)

    def finish(self) -> None:
        self._inner.finish()
        self._emit(None, int(self._watermarks[-1]))

    def end_epoch(self) -> None:
        self._inner.end_epoch()
        if self._order is not None:
            self._order.end_epoch()

    def close(self) -> None:
        self._inner.close()

    def _reached(self, watermarks: Longs) -> Longs:
        self._remember(watermarks)
        return self._time.clock.reached(watermarks)

    def _remember(self, watermarks: Longs) -> None:
        """Remembers the watermarks, where results have to be converted from local time back to them."""
        if self._time.clock.is_plain:
            self._watermarks = watermarks[-1:]
        else:
            self._watermarks = np.unique(np.concatenate((self._watermarks, watermarks)))

    def _emit(self, batch: KeyedBatch | None, watermark: int) -> None:
        fired, self._fired[:] = list(self._fired), []
        if self._order is not None:
            fired = self._order.sorted(batch, watermark, fired)
        for each in fired:
            changed = _without_equal_updates(each)
            if len(changed):
                self.output.emit(self._shown(changed))

    def _shown(self, fired: Batch) -> Batch:
        columns, keys = fired.columns.columns, self._keys
        starts, ends = (np.asarray(column) for column in columns[keys : keys + 2])
        schema, clock = schema_of(self._output_type), self._time.clock
        shown = [*columns[:keys], *columns[keys + 2 :], *window_columns(starts, ends, clock, schema)]
        made = pa.RecordBatch.from_arrays(shown, schema=schema)
        stamps = fired.watermarks
        if not clock.is_plain:
            known = clock.reached(self._watermarks)
            stamps = self._watermarks[np.maximum(np.searchsorted(known, stamps, side="right") - 1, 0)]
        return Batch(self._output_type, clock.back(ends - 1), stamps, columns=made, kinds=fired.kinds)


def _without_equal_updates(batch: Batch) -> Batch:
    """The changes without updates whose rows before and after are equal."""
    kinds = batch.kinds
    if kinds is None:
        return batch
    before = np.flatnonzero((kinds[:-1] == UPDATE_BEFORE) & (kinds[1:] == UPDATE_AFTER))
    is_changed = np.zeros(len(before), np.bool_)
    for column in batch.columns.columns:
        is_changed |= differ(gather(column, before), gather(column, before + 1))
    equal = before[~is_changed]
    return batch.take(np.setdiff1d(np.arange(len(batch)), np.concatenate((equal, equal + 1)))) if len(equal) else batch


class _StatesOfWindows:
    """The states of an operator without those of the firing order."""

    def __init__(self, states: Any) -> None:
        self._states = states

    def stored(self) -> list[str]:
        """The names of the stores that are not empty."""
        return [name for name in self._states.stored() if name != STORE]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._states, name)


class _FiredWindows:
    """Collects the output of an operator."""

    def __init__(self, fired: list[Batch]) -> None:
        self._fired = fired

    def emit(self, batch: Batch) -> None:
        """Collects results."""
        if len(batch):
            self._fired.append(batch)

    def emit_side(self, tag_id: str, batch: Batch) -> None:
        """Does nothing: there are no side outputs."""

    def advance_watermark(self, watermark: int) -> None:
        """Does nothing: the outer operator advances the watermark."""
