"""Operators that look at what rows do in a changelog."""

from collections.abc import Collection
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.batch import Batch, Kinds
from headrace.common.columns import layout_of
from headrace.common.errors import EvaluationError
from headrace.common.typeinfo import TypeInformation
from headrace.common.types import RowKind
from headrace.operators.base import Operator
from headrace.operators.user_code import UserCodeGuard

_NAMES: Final = pa.array([kind.name for kind in sorted(RowKind, key=lambda kind: kind.value)])


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


class KindsToColumnOperator(Operator):
    """Every record as an insertion, with what it does as a text in a column before the others.

    Args:
        output_type: the type of the records with that column.
    """

    def __init__(self, output_type: TypeInformation) -> None:
        super().__init__()
        self._output_type = output_type

    def process(self, input_index: int, batch: Batch) -> None:
        kinds = batch.row_kinds
        names = _NAMES.take(pa.array(kinds))
        made = pa.RecordBatch.from_arrays([names, *batch.columns.columns], schema=layout_of(self._output_type).schema)
        self.output.emit(_with_kinds(batch, self._output_type, made, None))


class ColumnToKindsOperator(Operator):
    """The changes that a column says that records are, without that column.

    Args:
        column: its index.
        output_type: the type of the records without it.

    Raises:
        EvaluationError: when the text of a record is no kind.
    """

    def __init__(self, column: int, output_type: TypeInformation) -> None:
        super().__init__()
        self._column = column
        self._output_type = output_type

    def process(self, input_index: int, batch: Batch) -> None:
        names = batch.columns.column(self._column)
        kinds = pc.index_in(names, _NAMES)
        if kinds.null_count:
            wrong = names.filter(kinds.is_null())[0].as_py()
            with UserCodeGuard(self.context):
                raise EvaluationError(f"{wrong!r} is no kind of change: there are {', '.join(_NAMES.to_pylist())}")
        columns = [each for index, each in enumerate(batch.columns.columns) if index != self._column]
        made = pa.RecordBatch.from_arrays(columns, schema=layout_of(self._output_type).schema)
        values = kinds.to_numpy(zero_copy_only=False).astype(np.int8)
        self.output.emit(_with_kinds(batch, self._output_type, made, values))


def _with_kinds(batch: Batch, type_: TypeInformation, columns: pa.RecordBatch, kinds: Kinds | None) -> Batch:
    return Batch(type_, batch.timestamps, batch.watermarks, columns=columns, kinds=kinds, ordinals=batch.ordinals)
