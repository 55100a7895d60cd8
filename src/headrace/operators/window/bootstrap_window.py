"""Windows that stay open whatever event time is: they are filled for another job, in which they fire."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.common.constants import MIN_WATERMARK
from headrace.operators.base import Operator

if TYPE_CHECKING:
    from headrace.common.batch import Batch
    from headrace.operators.base import EpochScope, OperatorContext, Output


class BootstrapWindowOperator(Operator):
    """Gives an operator with windows its records, and tells it nothing of event time, nor of the end of its input.

    A trigger that looks at elements may have windows fire all the same.

    Args:
        operator: the operator.
    """

    def __init__(self, operator: Operator) -> None:
        super().__init__()
        self._operator = operator
        self.counters = operator.counters
        self.maker = operator.maker

    def open(self, context: OperatorContext, output: Output) -> None:
        super().open(context, output)
        self._operator.open(context, output)

    def restore_state(self, context: OperatorContext) -> None:
        self._operator.restore_state(context)

    def begin_epoch(self, scope: EpochScope) -> None:
        self._operator.begin_epoch(replace(scope, watermark=MIN_WATERMARK))

    def process(self, input_index: int, batch: Batch) -> None:
        self._operator.process(input_index, batch)

    def advance_watermark(self, watermark: int) -> None:
        self._operator.advance_watermark(MIN_WATERMARK)  # has it do what waits for the end of a stretch of records

    def end_epoch(self) -> None:
        self._operator.end_epoch()

    def close(self) -> None:
        self._operator.close()
