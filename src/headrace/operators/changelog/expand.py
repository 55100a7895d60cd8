"""Several rows for each record, as grouping sets need them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.columns import schema_of
from headrace.operators.base import Operator

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation


class ExpandOperator(Operator):
    """Emits a row of each projection for each record, one after the other.

    Args:
        projections: the columns of each row; None for a column that is null.
        numbers: the value of the last column in each row.
        output_type: the type of the rows.
    """

    def __init__(
        self, projections: tuple[tuple[int | None, ...], ...], numbers: tuple[int, ...], output_type: TypeInformation
    ) -> None:
        super().__init__()
        self._projections, self._numbers, self._output_type = projections, numbers, output_type

    def process(self, input_index: int, batch: Batch) -> None:
        count, each = len(batch), len(self._projections)
        if not count:
            return
        sources = np.repeat(np.arange(count), each)
        columns = []
        for column in zip(*self._projections, strict=True):
            index = next(index for index in column if index is not None)
            is_null = np.tile([index is None for index in column], count)
            places = pa.array(sources, mask=is_null if is_null.any() else None)
            columns.append(batch.columns.column(index).take(places))
        columns.append(pa.array(np.tile(np.array(self._numbers, np.int64), count)))
        made = pa.RecordBatch.from_arrays(columns, schema=schema_of(self._output_type))
        self.output.emit(batch.replaced(self._output_type, columns=made, sources=sources))
