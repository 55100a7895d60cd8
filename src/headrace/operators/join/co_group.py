"""Windows that hold the records of two inputs: a window operator over tagged records."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from headrace.operators.join.tagged import tagged
from headrace.operators.window.general.window_operator import WindowOperator

if TYPE_CHECKING:
    from headrace.common.batch import Batch
    from headrace.operators.keyed import KeyedBatch


class CoGroupOperator(WindowOperator):
    """Applies a function to the records of two keyed inputs that are in the same window."""

    def process(self, input_index: int, batch: Batch) -> None:
        super().process(0, tagged(input_index, cast("KeyedBatch", batch), self._layout.input_type))
