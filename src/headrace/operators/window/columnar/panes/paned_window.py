"""Windows with built-in aggregates that overlap: records are added to panes, and a window is the merge of its panes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from headrace.operators.window.columnar.accumulators import Accumulators
from headrace.operators.window.columnar.panes.pane_store import PaneStore
from headrace.operators.window.columnar.panes.panes import Panes
from headrace.operators.window.columnar.time_windows import MOST_PAIRS, AlignedWindowOperator, records_of
from headrace.operators.window.lateness import cleanup_times, passed_end
from headrace.operators.window.stores import PANE, STORE, accumulators_layout
from headrace.windowing.accumulation_mode import AccumulationMode
from headrace.windowing.intervals import Assignment

if TYPE_CHECKING:
    import numpy.typing as npt

    from headrace.operators.base import EpochScope, KeyedBatch, OperatorContext
    from headrace.operators.window.columnar.layout import ColumnarWindowLayout
    from headrace.windowing.intervals import RegularWindows

    Longs = npt.NDArray[np.int64]


_STEP_ROWS: Final = 1 << 17
"""Windows fire once for so many records: what is late for none of its windows may be added long before they fire."""


def columnar_window(
    layout: ColumnarWindowLayout,
    assigner: RegularWindows,
    lateness: int = 0,
    late_tag: str | None = None,
    mode: AccumulationMode = AccumulationMode.ACCUMULATING,
) -> AlignedWindowOperator:
    """The operator for built-in aggregates over such windows."""
    panes = Panes.of(assigner)
    if panes is None:
        return AlignedWindowOperator(layout, assigner, lateness, late_tag, mode)
    return PanedWindowOperator(layout, assigner, panes, lateness, late_tag, mode)


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
        return PaneStore(self._layout, self._assigner, self._panes, kept_as, runs, context.learnt)

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
        arrivals = self._arrivals.next(len(batch))
        pairs = self._panes.assign(batch.timestamps)
        is_on_time = self._panes.are_on_time(batch.timestamps, batch.watermarks)
        if is_on_time.all():
            self._store.add_to_panes(self._chunk(batch, pairs, arrivals))
            self._met.append(batch.watermarks)
            self._added += len(batch)
            if self._added >= _STEP_ROWS:
                self._catch_up()
            return
        self._catch_up()
        self._store.add_to_panes(self._chunk(batch, pairs.where(is_on_time), arrivals))
        self._add_late(batch, pairs, np.flatnonzero(~is_on_time), arrivals)

    def _catch_up(self) -> None:
        """Brings event time to where the records have brought it that were on time for all their windows."""
        if self._met:
            met, self._met, self._added = np.concatenate(self._met), [], 0
            self._advance(met)

    def _add_late(self, batch: KeyedBatch, pairs: Assignment, rows: Longs, arrivals: Longs) -> None:
        """Adds records that are late for some of their windows, or for all."""
        part = batch.take(rows)
        judged = self._judged(part)
        is_due = judged.on_time.ends <= passed_end(int(batch.watermarks[-1]))
        self._store.add(self._chunk(part, judged.on_time.where(is_due), arrivals[rows]))
        late = self._chunk(part, judged.again, arrivals[rows]) if len(judged.again.ends) else None
        again = Assignment(rows[judged.again.records], judged.again.ends, False)
        self._advance(batch.watermarks, again, late)
        last_ends = self._assigner.last_ends(part.timestamps)
        is_taken = cleanup_times(last_ends, self._kept_for) > part.watermarks
        taken = self._chunk(batch, pairs.where(np.isin(pairs.records, rows[is_taken])), arrivals)
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
