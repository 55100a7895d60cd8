"""Records that come too late for all their windows: to the side output, or dropped and counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from headrace.operators.window.assign import is_too_late

if TYPE_CHECKING:
    from headrace.common.batch import Batch
    from headrace.operators.base import Operator
    from headrace.operators.window.assign import Assignment

LATE_DROPPED: Final = "numLateRecordsDropped"
"""The counter of records that were dropped because they came too late."""


class LateRecords:
    """What becomes of records that no window takes any more.

    Args:
        operator: whose output and counters are used.
        lateness: the allowed lateness in milliseconds.
        tag: the id of the side output; None drops and counts.
    """

    def __init__(self, operator: Operator, lateness: int, tag: str | None) -> None:
        self._operator = operator
        self._lateness = lateness
        self._tag = tag

    def refuse(self, batch: Batch, taken: Assignment) -> None:
        """Sends away the records without any window among ``taken``, unless they are merely between two windows."""
        if taken.is_identity:
            return
        is_left = np.ones(len(batch), np.bool_)
        is_left[taken.records] = False
        if not is_left.any():
            return
        refused = is_left & is_too_late(batch.timestamps, batch.watermarks, self._lateness)
        if self._tag is None:
            self.drop(int(np.count_nonzero(refused)))
        elif refused.any():
            self._operator.output.emit_side(self._tag, batch.filter(refused))

    def drop(self, records: int) -> None:
        """Counts records that are dropped."""
        self._operator.count(LATE_DROPPED, records)
