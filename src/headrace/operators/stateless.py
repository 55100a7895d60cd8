"""Operators that look at one record, or one batch, at a time: with functions of the user, or expressions by column."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import gather
from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.errors import EvaluationError, InvalidTypeError
from headrace.common.type_variables import SupportsFilter, SupportsFlatMap, SupportsMap
from headrace.common.typeinfo import TypeInformation
from headrace.common.types import symbols_of
from headrace.expressions import Bound, evaluate
from headrace.expressions.evaluation import fields_in, user_code_in
from headrace.expressions.filtering import RowFilter
from headrace.operators.base import Operator, OperatorContext, UserCode
from headrace.operators.collector import ONE_RECORD, refuse_one_record
from headrace.operators.functions import FunctionOperator, method_of
from headrace.operators.user_code import UserCodeGuard, user_error


class ExpressionOperator(Operator):
    """An operator that computes expressions, and opens and closes the user functions in them.

    Args:
        expressions: the expressions; None for none.
    """

    def __init__(self, *expressions: Bound | None) -> None:
        super().__init__()
        self.user_code = user_code_of(expressions)


def user_code_of(expressions: Sequence[Bound | None]) -> tuple[UserCode, ...]:
    """The callers of user functions in expressions."""
    return tuple(each for found in expressions if found is not None for each in user_code_in(found))


class ColumnFilterOperator(ExpressionOperator):
    """The records for which an expression is true; for those where it is null, it is not.

    Args:
        condition: the expression.
    """

    def __init__(self, condition: Bound) -> None:
        super().__init__(condition)
        self._filter = RowFilter(condition)

    def process(self, input_index: int, batch: Batch) -> None:
        rows = rows_that_meet(self._filter, batch, self.context)
        if rows is None:
            self.output.emit(batch)
        elif len(rows):
            self.output.emit(batch.take(rows))


_MOST: Final = 0.9
"""The share of records from which on a batch is filtered as a whole, and its records are not taken one by one."""


class SelectOperator(ExpressionOperator):
    """A record of expressions for each record, with its timestamp.

    Args:
        columns: an expression for each field of the result; one for the whole where it has no columns of its own.
        output_type: the type of the result.
        condition: the condition on the records of which results are made; None for all.
    """

    def __init__(
        self, columns: tuple[Bound, ...], output_type: TypeInformation, condition: Bound | None = None
    ) -> None:
        super().__init__(condition, *columns)
        self._columns, self._filter = columns, None if condition is None else RowFilter(condition)
        self._read = frozenset().union(*map(fields_in, columns))
        self._output_type = output_type
        self._is_whole = len(columns) == 1 and columns[0].type == output_type

    def process(self, input_index: int, batch: Batch) -> None:
        found = batch if self._filter is None else self._filtered(self._filter, batch)
        if found is not None:
            self._select(found)

    def _filtered(self, row_filter: RowFilter, batch: Batch) -> Batch | None:
        """The records that meet the condition, with values in those columns alone that are read; None without any."""
        rows = rows_that_meet(row_filter, batch, self.context)
        if rows is None:
            return batch
        if not len(rows):
            return None
        given, mask = batch.columns, None
        if len(rows) > _MOST * len(batch):  # then whole runs are copied
            met = np.zeros(len(batch), np.bool_)
            met[rows] = True
            mask = pa.array(met)
        arrays = [
            column.slice(0, len(rows))
            if index not in self._read
            else gather(column, rows)
            if mask is None
            else column.filter(mask)
            for index, column in enumerate(given.columns)
        ]
        return batch.replaced(batch.type, columns=pa.RecordBatch.from_arrays(arrays, schema=given.schema), sources=rows)

    def _select(self, batch: Batch) -> None:
        columns: Sequence[pa.Array] = computed(self._columns, batch, self.context)
        if self._is_whole and self._output_type.is_composite:
            columns = self._fields(columns[0])
        made = pa.RecordBatch.from_arrays(columns, schema=layout_of(self._output_type).schema)
        with UserCodeGuard(self.context):
            result = batch.replaced(self._output_type, columns=made)
        self.output.emit(result)

    def _fields(self, records: pa.Array) -> list[pa.Array]:
        """The columns of records that were one column until now."""
        if records.null_count:
            with UserCodeGuard(self.context):
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
    with UserCodeGuard(context):
        columns = batch.columns
    try:
        return evaluate(expressions, columns)
    except EvaluationError as error:
        raise user_error(error, context, batch.slice(error.row, error.row + 1).rows[0]) from error


def rows_that_meet(row_filter: RowFilter, batch: Batch, context: OperatorContext) -> npt.NDArray[np.int64] | None:
    """The records of a batch that meet a condition, by their places in order; None for all.

    Raises:
        UserFunctionError: when the condition has no value for a record; as of :func:`computed`.
    """
    with UserCodeGuard(context):
        columns = batch.columns
    try:
        return row_filter.rows(columns)
    except EvaluationError:  # does not know its record
        (met,) = computed((row_filter.condition,), batch, context)
        return np.flatnonzero(np.asarray(pc.fill_null(met, False).to_numpy(zero_copy_only=False)))


class _StatelessOperator(FunctionOperator):
    """An operator around one function of the user.

    Args:
        function: the function, or an object with a method for it.
        method: the name of that method.
        output_type: the type of what it gives.
    """

    _makes_records = True

    def __init__(self, function: object, method: str, output_type: TypeInformation) -> None:
        super().__init__(function)
        self._call: Callable[..., Any] = method_of(function, method)
        self.maker = self._call if self._makes_records else None
        self._output_type = output_type


class MapOperator(_StatelessOperator):
    """One record for each record, with its timestamp."""

    def __init__(self, function: Callable[[Any], Any] | SupportsMap, output_type: TypeInformation) -> None:
        super().__init__(function, "map", output_type)

    def process(self, input_index: int, batch: Batch) -> None:
        rows: list[Any] = []
        append, call = rows.append, self._call
        row = None
        try:
            for row in batch.rows:
                append(call(row))
        except BaseException as error:
            raise user_error(error, self.context, row) from error
        self.output.emit(batch.replaced(self._output_type, rows=rows))


class FlatMapOperator(_StatelessOperator):
    """Any number of records for each record, with its timestamp."""

    def __init__(
        self, function: Callable[[Any], Iterable[Any] | None] | SupportsFlatMap, output_type: TypeInformation
    ) -> None:
        super().__init__(function, "flat_map", output_type)

    def process(self, input_index: int, batch: Batch) -> None:
        rows: list[Any] = []
        counts: list[int] = []
        call = self._call
        row, before = None, 0
        try:
            for row in batch.rows:
                results = call(row)
                if results is not None:
                    if type(results) in ONE_RECORD:
                        refuse_one_record(results)
                    rows.extend(results)
                counts.append(len(rows) - before)
                before = len(rows)
        except BaseException as error:
            raise user_error(error, self.context, row, function=call) from error
        if rows:
            sources = np.repeat(np.arange(len(batch)), counts)
            self.output.emit(batch.replaced(self._output_type, rows=rows, sources=sources))


class FilterOperator(_StatelessOperator):
    """The records for which the function is true."""

    _makes_records = False

    def __init__(self, function: Callable[[Any], bool] | SupportsFilter, output_type: TypeInformation) -> None:
        super().__init__(function, "filter", output_type)

    def process(self, input_index: int, batch: Batch) -> None:
        call = self._call
        kept: list[bool] = []
        row = None
        try:
            for row in batch.rows:
                kept.append(bool(call(row)))
        except BaseException as error:
            raise user_error(error, self.context, row) from error
        mask = np.asarray(kept, dtype=np.bool_)
        if mask.all():
            self.output.emit(batch)
        elif mask.any():
            self.output.emit(batch.filter(mask))


class MapBatchesOperator(_StatelessOperator):
    """An Arrow batch for each Arrow batch; as many rows, or as many as a column of row numbers says."""

    def __init__(
        self, function: Callable[[pa.RecordBatch], pa.RecordBatch | None], output_type: TypeInformation
    ) -> None:
        super().__init__(function, "map_batches", output_type)

    def process(self, input_index: int, batch: Batch) -> None:
        columns = batch.columns
        try:
            result = self._call(columns)
        except BaseException as error:
            raise user_error(error, self.context, columns.slice(0, 3).to_pydict()) from error
        if result is None:
            return
        result = self._checked(result)
        if result.num_rows:
            with UserCodeGuard(self.context):
                made = self._replaced(batch, result)
            self.output.emit(made)

    def _checked(self, result: Any) -> pa.RecordBatch:
        """The result under the declared schema."""
        schema = layout_of(self._output_type).schema
        try:
            columns = [_whole(result.column(field.name)).cast(field.type) for field in schema]
            return pa.RecordBatch.from_arrays(columns, schema=schema)
        except (KeyError, AttributeError, TypeError, ValueError, pa.ArrowException) as error:
            found = getattr(result, "schema", type(result).__name__)
            raise InvalidTypeError(
                f"map_batches of operator {self.context.name!r} ({self.context.call_site}) gave {found}, "
                f"which does not fit its output type {schema}: {error}"
            ) from error

    def _replaced(self, batch: Batch, result: pa.RecordBatch) -> Batch:
        if result.num_rows == len(batch):
            return batch.replaced(self._output_type, columns=result)
        return self._resized(batch, result)

    def _resized(self, batch: Batch, result: pa.RecordBatch) -> Batch:
        """Rows came or went: which comes from which is not known, so all get the batch's last timestamp."""
        kinds = None if layout_of(self._output_type).has_kind_column else batch.kinds
        if kinds is not None:
            raise InvalidTypeError(
                f"some records are changes ({symbols_of(kinds)}), and map_batches gave {result.num_rows} rows for "
                f"{len(batch)}: declare their types with changelog=True, and it sees and gives their kinds as a column"
            )
        first = np.zeros(result.num_rows, dtype=np.intp)
        made = batch.replaced(self._output_type, columns=result, sources=first)
        timestamps = np.full(result.num_rows, batch.timestamps.max(), dtype=np.int64)
        return made.with_times(timestamps, made.watermarks)


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
