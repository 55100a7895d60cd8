"""``KeyedWindowOperator``: the life cycle of windows with built-in aggregates that are stored by key."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from headrace.common.constants import MIN_WATERMARK
from headrace.operators.base import KeyedOperator
from headrace.operators.window.columnar.waiting import WaitingRecords
from headrace.operators.window.lateness import LateRecords

if TYPE_CHECKING:
    from headrace.operators.base import EpochScope, KeyedBatch, OperatorContext, Output
    from headrace.operators.window.columnar.layout import ColumnarWindowLayout
    from headrace.operators.window.columnar.waiting import ArrivedRecords
    from headrace.operators.window.columnar.window_table import WindowTable


class KeyedWindowOperator(KeyedOperator):
    """Built-in aggregates over windows that are stored by key.

    To find the windows of a key and to write them costs much the same for one record as for many. So records wait until
    event time advances at the end of a stretch of input, or until there are many. Then the windows of all of them are
    found at once, as if the records had come one by one: what a window shows, and in which order, does not depend on
    how many wait. A subclass says which windows records are in, and when windows fire.

    Args:
        layout: the aggregates and the columns.
        most_rows: how many records wait at most.
        lateness: how long after its end a window still takes records, in milliseconds.
        late_tag: the id of the side output for records that come too late; without one they are dropped and counted.
        keeps_batches: whether the records themselves wait too.
    """

    def __init__(
        self,
        layout: ColumnarWindowLayout,
        most_rows: int,
        lateness: int = 0,
        late_tag: str | None = None,
        *,
        keeps_batches: bool = False,
    ) -> None:
        super().__init__()
        self._layout = layout
        self._aggregators = layout.aggregators
        self._lateness = lateness
        self._late_tag = late_tag
        self._waiting = WaitingRecords(layout, most_rows, keeps_batches=keeps_batches)
        self._watermark = MIN_WATERMARK

    def open(self, context: OperatorContext, output: Output) -> None:
        super().open(context, output)
        self._late = LateRecords(self, self._lateness, self._late_tag)

    def restore_state(self, context: OperatorContext) -> None:
        self._table = self._open_table(context)

    def begin_epoch(self, scope: EpochScope) -> None:
        self._watermark = scope.watermark
        self._waiting.begin_epoch(scope.epoch)
        self._table.begin_epoch()

    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        self._check(batch)
        if self._waiting.add(batch, self.context) and (arrived := self._waiting.take()) is not None:
            self._advance(arrived.last_watermark, arrived)

    def advance_watermark(self, watermark: int) -> None:
        watermark = max(watermark, self._watermark)
        arrived = self._waiting.take()
        if arrived is not None or watermark > self._watermark:
            self._advance(watermark, arrived)
        self._watermark = watermark
        super().advance_watermark(watermark)

    def end_epoch(self) -> None:
        self._waiting.end_epoch()
        self._table.end_epoch()

    @abstractmethod
    def _open_table(self, context: OperatorContext) -> WindowTable:
        """The windows in state."""

    def _check(self, batch: KeyedBatch) -> None:
        """Refuses records that cannot be put into windows, and sends those away that are too late for all of them."""

    @abstractmethod
    def _advance(self, watermark: int, arrived: ArrivedRecords | None) -> None:
        """Puts records into their windows, brings event time to a watermark, and fires what is due on the way."""
