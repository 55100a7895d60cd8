"""Operators that look at what rows do in a changelog."""

from collections.abc import Collection

import numpy as np

from headrace.common.batch import Batch
from headrace.common.types import RowKind
from headrace.operators.base import Operator


class KeepRowKindsOperator(Operator):
    """The rows of some kinds.

    Args:
        kinds: the kinds that are kept.
    """

    def __init__(self, kinds: Collection[RowKind]) -> None:
        super().__init__()
        self._kept = np.array([kind.value for kind in kinds], np.int8)

    def process(self, input_index: int, batch: Batch) -> None:
        kinds = batch.kinds
        if kinds is None:
            if RowKind.INSERT.value in self._kept:
                self.output.emit(batch)
            return
        mask = np.isin(kinds, self._kept)
        if mask.all():
            self.output.emit(batch)
        elif mask.any():
            self.output.emit(batch.filter(mask))
