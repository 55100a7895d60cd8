"""Expectations of records: which ones violate a condition, and what becomes of them."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from headrace.common.batch import Batch, take_back
from headrace.common.errors import ExpectationFailedError
from headrace.common.types import RowKind
from headrace.expressions import Bound
from headrace.metrics.registry import VIOLATIONS
from headrace.operators.base import EpochScope
from headrace.operators.functions import FunctionOperator, close_all, method_of
from headrace.operators.stateless import computed, user_code_of
from headrace.operators.user_code import user_error


class OnViolation(Enum):
    """The action on a record that violates an expectation, and on the epoch that it is in."""

    COUNT = "count"
    """The record goes on, and is counted."""
    DROP = "drop"
    """The record is left out, and counted."""
    DEAD_LETTER = "dead letter"
    """The record goes to a side output, and is counted."""
    FAIL = "fail"
    """The job fails; nothing of the epoch is published."""
    HOLD = "hold"
    """The record goes on, and nothing of the epoch is published before the user releases it."""


BY_NAME: Final = {each.value: each for each in OnViolation if each is not OnViolation.DEAD_LETTER}
"""The actions on violations, by their names in programs and tables; a side output is named by its tag."""

_LEAVE_OUT: Final = (OnViolation.DROP, OnViolation.DEAD_LETTER)


class ExpectationOperator(FunctionOperator):
    """Counts the records that violate an expectation, and handles them as it declares.

    A record that takes back another one is no violation of its own; it goes where the other one went.

    Args:
        name: the name of the expectation.
        condition: an expression, whose null is a violation as its false is; or a function of a record.
        on_violation: what becomes of a record that violates it.
        tag_id: the side output of dead letters.
        has_upserts: updates come without the rows before them, so a deletion goes on, whatever else it holds than its
            key: the row that it deletes may have met the expectation.
    """

    def __init__(
        self,
        name: str,
        condition: Bound | object,
        on_violation: OnViolation,
        tag_id: str,
        *,
        has_upserts: bool = False,
    ) -> None:
        is_expression = isinstance(condition, Bound)
        super().__init__(*(() if is_expression else (condition,)))
        self._is_met = self._by_expression if is_expression else self._by_function
        self._condition: Any = condition if is_expression else method_of(condition, "filter")
        self._text = f"the expectation {name!r} is violated{_not_true(condition)}"
        self._on_violation = on_violation
        self._tag_id = tag_id
        self._has_upserts = has_upserts
        self.user_code = user_code_of((condition,)) if isinstance(condition, Bound) else ()

    def close(self) -> None:
        close_all([super().close, *(each.close for each in self.user_code)])

    def begin_epoch(self, scope: EpochScope) -> None:
        self.hold = ""

    def process(self, input_index: int, batch: Batch) -> None:
        is_met = self._is_met(batch)
        if not is_met.all():
            batch = self._handled(batch, is_met)
        if len(batch):
            self.output.emit(batch)

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

    def _handled(self, batch: Batch, is_met: npt.NDArray[np.bool_]) -> Batch:
        """The records of a batch with violations that go on."""
        is_violation, kinds = ~is_met, batch.kinds
        if kinds is not None:
            is_met = is_met | (self._has_upserts & (kinds == RowKind.DELETE.value))
            is_violation &= ~take_back(kinds)
        if violations := int(np.count_nonzero(is_violation)):
            self.count(VIOLATIONS, violations)
            self._report(batch, is_violation)
        if self._on_violation not in _LEAVE_OUT:
            return batch
        left_out = batch.filter(~is_met)
        if self._on_violation is OnViolation.DEAD_LETTER and len(left_out):
            self.output.emit_side(self._tag_id, left_out)
        return batch.filter(is_met)

    def _report(self, batch: Batch, is_violation: npt.NDArray[np.bool_]) -> None:
        if self._on_violation is OnViolation.FAIL:
            raise self._error(batch, is_violation)
        if self._on_violation is OnViolation.HOLD and not self.hold:
            self.hold = str(self._error(batch, is_violation))

    def _error(self, batch: Batch, is_violation: npt.NDArray[np.bool_]) -> BaseException:
        """The first violation, with its record."""
        row = int(np.argmax(is_violation))
        return user_error(ExpectationFailedError(self._text), self.context, batch.slice(row, row + 1).rows[0])


def _not_true(condition: object) -> str:
    return f": {condition.text} is not true" if isinstance(condition, Bound) else ""
