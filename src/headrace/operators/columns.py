"""Operators that compute expressions, column by column: filter, map and select, without a Python call for a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.columns import layout_of
from headrace.common.errors import EvaluationError, InvalidTypeError
from headrace.expressions import evaluate
from headrace.operators.base import Operator
from headrace.operators.user_code import calling_user_code, user_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation
    from headrace.expressions import Bound
    from headrace.operators.base import OperatorContext


class ColumnFilterOperator(Operator):
    """The records for which an expression is true; for those where it is null, it is not.

    Args:
        condition: the expression.
    """

    def __init__(self, condition: Bound) -> None:
        super().__init__()
        self._condition = condition

    def process(self, input_index: int, batch: Batch) -> None:
        (found,) = computed((self._condition,), batch, self.context)
        mask = pc.fill_null(found, False)
        kept = mask.true_count
        if kept == len(batch):
            self.output.emit(batch)
        elif kept:
            self.output.emit(batch.filter(mask.to_numpy(zero_copy_only=False)))


class SelectOperator(Operator):
    """A record of expressions for each record, with its timestamp.

    Args:
        columns: an expression for each field of the result; one for the whole where it has no columns of its own.
        output_type: the type of the result.
    """

    def __init__(self, columns: tuple[Bound, ...], output_type: TypeInformation) -> None:
        super().__init__()
        self._columns = columns
        self._output_type = output_type
        self._is_whole = len(columns) == 1 and columns[0].type == output_type

    def process(self, input_index: int, batch: Batch) -> None:
        columns: Sequence[pa.Array] = computed(self._columns, batch, self.context)
        if self._is_whole and self._output_type.is_composite:
            columns = self._fields(columns[0])
        made = pa.RecordBatch.from_arrays(columns, schema=layout_of(self._output_type).schema)
        with calling_user_code(self.context):
            result = batch.replaced(self._output_type, columns=made)
        self.output.emit(result)

    def _fields(self, records: pa.Array) -> list[pa.Array]:
        """The columns of records that were one column until now."""
        if records.null_count:
            with calling_user_code(self.context):
                raise InvalidTypeError(
                    f"{self._columns[0].text} is null: a record has to be there, only fields may be null"
                )
        fields: list[pa.Array] = records.flatten()
        return fields


def computed(expressions: Sequence[Bound], batch: Batch, context: OperatorContext) -> list[pa.Array]:
    """The columns of some expressions over a batch.

    Raises:
        UserFunctionError: when a record has no value; it names the operator, the expression and the record.
    """
    with calling_user_code(context):
        columns = batch.columns
    try:
        return evaluate(expressions, columns)
    except EvaluationError as error:
        raise user_error(error, context, batch.slice(error.row, error.row + 1).rows[0]) from error
