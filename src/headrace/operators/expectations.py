"""Expectations of records: which ones violate a condition, and what becomes of them."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from headrace.common.batch import Batch
from headrace.common.errors import ExpectationFailedError
from headrace.expressions import Bound
from headrace.metrics.registry import VIOLATIONS
from headrace.operators.base import EpochScope
from headrace.operators.functions import FunctionOperator, close_all, method_of
from headrace.operators.stateless import computed, user_code_of
from headrace.operators.user_code import user_error


class OnViolation(Enum):
    """What becomes of a record that violates an expectation, and of the epoch that it is in."""

    COUNT = "count"
    """The record goes on, and is counted."""
    DROP = "drop"
    """The record is left out, and counted."""
    DEAD_LETTER = "dead letter"
    """The record goes to a side output, and is counted."""
    FAIL = "fail"
    """The job fails; nothing of the epoch is published."""
    HOLD = "hold"
    """The record goes on, and nothing of the epoch is published before somebody releases it."""


_LEAVE_OUT: Final = (OnViolation.DROP, OnViolation.DEAD_LETTER)


class ExpectationOperator(FunctionOperator):
    """Counts the records that violate an expectation, and does with them what is asked for.

    Args:
        name: the name of the expectation.
        condition: an expression, whose null is a violation as its false is; or a function of a record.
        on_violation: what becomes of a record that violates it.
        tag_id: the side output of dead letters.
    """

    def __init__(self, name: str, condition: Bound | object, on_violation: OnViolation, tag_id: str) -> None:
        is_expression = isinstance(condition, Bound)
        super().__init__(*(() if is_expression else (condition,)))
        self._is_met = self._by_expression if is_expression else self._by_function
        self._condition: Any = condition if is_expression else method_of(condition, "filter")
        self._text = f"the expectation {name!r} is violated{_not_true(condition)}"
        self._on_violation = on_violation
        self._tag_id = tag_id
        self.user_code = user_code_of((condition,)) if isinstance(condition, Bound) else ()

    def close(self) -> None:
        close_all([super().close, *(each.close for each in self.user_code)])

    def begin_epoch(self, scope: EpochScope) -> None:
        self.hold = ""

    def process(self, input_index: int, batch: Batch) -> None:
        is_met = self._is_met(batch)
        violations = len(batch) - int(np.count_nonzero(is_met))
        if violations:
            self.count(VIOLATIONS, violations)
            self._handle(batch, is_met)
        kept = batch.filter(is_met) if violations and self._on_violation in _LEAVE_OUT else batch
        if len(kept):
            self.output.emit(kept)

    def _by_expression(self, batch: Batch) -> npt.NDArray[np.bool_]:
        (found,) = computed((self._condition,), batch, self.context)
        met: npt.NDArray[np.bool_] = pc.fill_null(found, False).to_numpy(zero_copy_only=False)
        return met

    def _by_function(self, batch: Batch) -> npt.NDArray[np.bool_]:
        met = np.empty(len(batch), np.bool_)
        row, call = None, self._condition
        try:
            for index, row in enumerate(batch.rows):
                met[index] = bool(call(row))
        except BaseException as error:
            raise user_error(error, self.context, row) from error
        return met

    def _handle(self, batch: Batch, is_met: npt.NDArray[np.bool_]) -> None:
        if self._on_violation is OnViolation.DEAD_LETTER:
            self.output.emit_side(self._tag_id, batch.filter(~is_met))
        elif self._on_violation is OnViolation.FAIL:
            raise self._error(batch, is_met)
        elif self._on_violation is OnViolation.HOLD and not self.hold:
            self.hold = str(self._error(batch, is_met))

    def _error(self, batch: Batch, is_met: npt.NDArray[np.bool_]) -> BaseException:
        """The first violation, with its record."""
        row = int(np.argmin(is_met))
        return user_error(ExpectationFailedError(self._text), self.context, batch.slice(row, row + 1).rows[0])


def _not_true(condition: object) -> str:
    return f": {condition.text} is not true" if isinstance(condition, Bound) else ""
