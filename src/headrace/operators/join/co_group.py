"""Windows that hold the records of two inputs: a window operator over tagged records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.operators.join.elements_of_sides import ElementsOfSides
from headrace.operators.join.tagged import tagged
from headrace.operators.waiting_batches import WaitingBatches
from headrace.operators.window.general.window_operator import WindowOperator

if TYPE_CHECKING:
    from headrace.operators.base import EpochScope, OperatorContext, Output
    from headrace.operators.keyed import KeyedBatch
    from headrace.operators.window.general.ordered_contents import OrderedContents
    from headrace.windowing.intervals import RegularWindows

_MOST_ROWS: Final = 1 << 16
"""So many records wait at most; some windows make Python objects of all of them."""


class CoGroupOperator(WindowOperator):
    """Applies a function to the records of two keyed inputs that are in the same window. Elements are tagged."""

    def open(self, context: OperatorContext, output: Output) -> None:
        self._waiting = WaitingBatches["KeyedBatch"](_MOST_ROWS, are_stored=True)
        super().open(context, output)

    def _ordered_contents(self, context: OperatorContext, windows: RegularWindows) -> OrderedContents:
        return ElementsOfSides(context, windows, self._input_type, self._definition.allowed_lateness)

    def begin_epoch(self, scope: EpochScope) -> None:
        self._waiting.forget()
        super().begin_epoch(scope)

    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        if self._waiting.add(input_index, batch):
            self._take_in()

    def advance_watermark(self, watermark: int) -> None:
        self._take_in()
        super().advance_watermark(watermark)

    def _take_in(self) -> None:
        """Puts what waits into windows."""
        taken = self._waiting.take()
        if taken.batches:
            super().process_keyed(0, tagged(taken, self._input_type))
