"""Operators that look at what rows do in a changelog."""

from collections.abc import Collection, Mapping
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

_KINDS: Final = sorted(RowKind, key=lambda kind: kind.value)


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
        codes: the text of each kind; records of kinds without one are left out.
    """

    def __init__(self, output_type: TypeInformation, codes: Mapping[RowKind, str]) -> None:
        super().__init__()
        self._output_type = output_type
        self._codes = pa.array([codes.get(kind) for kind in _KINDS], pa.string())
        self._kept = np.array([kind in codes for kind in _KINDS])

    def process(self, input_index: int, batch: Batch) -> None:
        kept = self._kept[batch.row_kinds]
        if not kept.all():
            batch = batch.filter(kept)
        names = self._codes.take(pa.array(batch.row_kinds))
        made = pa.RecordBatch.from_arrays([names, *batch.columns.columns], schema=layout_of(self._output_type).schema)
        self.output.emit(_with_kinds(batch, self._output_type, made, None))


class ColumnToKindsOperator(Operator):
    """The changes that a column says that records are, without that column.

    Args:
        column: its index.
        output_type: the type of the records without it.
        codes: the kind that each text stands for.

    Raises:
        EvaluationError: when the text of a record is no kind.
    """

    def __init__(self, column: int, output_type: TypeInformation, codes: Mapping[str, RowKind]) -> None:
        super().__init__()
        self._column = column
        self._output_type = output_type
        self._codes = pa.array(list(codes), pa.string())
        self._kinds = np.array([kind.value for kind in codes.values()], np.int8)

    def process(self, input_index: int, batch: Batch) -> None:
        names = batch.columns.column(self._column)
        places = pc.index_in(names, self._codes)
        if places.null_count:
            wrong = names.filter(places.is_null())[0].as_py()
            with UserCodeGuard(self.context):
                raise EvaluationError(f"{wrong!r} is no kind of change: there are {', '.join(self._codes.to_pylist())}")
        columns = [each for index, each in enumerate(batch.columns.columns) if index != self._column]
        made = pa.RecordBatch.from_arrays(columns, schema=layout_of(self._output_type).schema)
        values = self._kinds[places.to_numpy(zero_copy_only=False)]
        self.output.emit(_with_kinds(batch, self._output_type, made, values))


def _with_kinds(batch: Batch, type_: TypeInformation, columns: pa.RecordBatch, kinds: Kinds | None) -> Batch:
    return Batch(type_, batch.timestamps, batch.watermarks, columns=columns, kinds=kinds, ordinals=batch.ordinals)
