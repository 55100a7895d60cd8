"""Calls of user-defined scalar and table functions, over the columns of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.common.call_site import of_traceback
from headrace.common.columns import array_to_values, values_to_array
from headrace.common.errors import EvaluationError, InvalidTypeError
from headrace.common.logical_types import LogicalType
from headrace.common.typeinfo import ListTypeInfo, TypeInformation
from headrace.common.typeinfo.types import type_of_logical
from headrace.common.types import Row
from headrace.expressions.evaluation import Bound, Datum
from headrace.operators.base import OperatorContext
from headrace.operators.collector import ONE_RECORD, refuse_one_record
from headrace.operators.functions import OpenedFunction
from headrace.operators.user_code import is_interruption, record_text, what_happened
from headrace.table.functions.kinds import FunctionKind
from headrace.table.functions.python.decorators import UserFunction


@dataclass(frozen=True, slots=True)
class UserCall(Bound):
    """A call of a user-defined function, with a value for each row: of a table function, an array of rows.

    Attributes:
        user: the function.
        operands: the types of the arguments.
        result: the type of the result.
        arguments: the arguments.
    """

    user: UserFunction
    operands: tuple[LogicalType, ...]
    result: LogicalType
    arguments: tuple[Bound, ...]

    def open(self, context: OperatorContext) -> None:
        """Open the function."""
        OpenedFunction(self.user.function).open(context)

    def close(self) -> None:
        """Close the function."""
        OpenedFunction(self.user.function).close()

    def compute(self, batch: pa.RecordBatch) -> Datum:
        columns = [argument.column(batch) for argument in self.arguments]
        if self.user.form == "general":
            return self._by_row(columns, batch.num_rows)
        return self._by_column(columns, batch.num_rows)

    @property
    def _function(self) -> Callable[..., Any]:
        function: Any = self.user.function
        called: Callable[..., Any] = getattr(function, "eval", function)
        return called

    def _by_row(self, columns: Sequence[pa.Array], count: int) -> pa.Array:
        values = [
            array_to_values(type_of_logical(kind), column) for kind, column in zip(self.operands, columns, strict=True)
        ]
        rows = zip(*values, strict=True) if values else iter([()] * count)
        function, found = self._function, list[Any]()
        is_table = self.user.kind is FunctionKind.TABLE
        arguments: tuple[Any, ...] = ()
        try:
            for arguments in rows:
                made = function(*arguments)
                found.append(_rows(made) if is_table else made)
        except BaseException as error:
            raise self._failure(error, f"({', '.join(map(record_text, arguments))})") from error
        return self._array(found)

    def _array(self, values: list[Any]) -> pa.Array:
        kind = type_of_logical(self.result)
        if isinstance(kind, ListTypeInfo) and self.user.kind is FunctionKind.TABLE:
            values = [_with_one_column(rows, kind.element_type) for rows in values]
        try:
            return values_to_array(kind, values)
        except InvalidTypeError as error:
            raise EvaluationError(
                f"{self.text}: {self.user.name}() has type {self.result}, but returned {error}"
            ) from error

    def _by_column(self, columns: Sequence[pa.Array], count: int) -> pa.Array:
        given = [column.to_pandas() for column in columns] if self.user.form == "pandas" else columns
        try:
            made = self._function(*given)
        except BaseException as error:
            raise self._failure(error, f" of {count} rows") from error
        try:
            return column_of(made, self.result.arrow_type, count)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise EvaluationError(f"{self.text}: {self.user.name}() returned no {self.result}: {error}") from error

    def _failure(self, error: BaseException, called_with: str) -> BaseException:
        if is_interruption(error):
            return error
        trace = "\n".join(what_happened(error)).strip()
        at = "" if of_traceback(error.__traceback__) else f" (in {self._function!r})"
        return EvaluationError(f"{self.text}: {self.user.name}{called_with} failed{at}\n  {trace}")


def column_of(made: Any, storage: pa.DataType, count: int) -> pa.Array:
    """The column that a function returned: an array, a series, a list, or one value for all rows.

    Raises:
        ValueError: when it has another length.
    """
    if isinstance(made, pa.Scalar):
        return pa.repeat(made.cast(storage), count)
    if isinstance(made, pa.ChunkedArray):
        made = made.combine_chunks()
    is_array = isinstance(made, pa.Array)
    column = made.cast(storage) if is_array else pa.array(made, storage, from_pandas=True)
    if len(column) != count:
        raise ValueError(f"{len(column)} values for {count} rows")
    return column


def _rows(made: Iterable[Any] | None) -> list[Any]:
    if made is None:
        return []
    if type(made) in ONE_RECORD:
        refuse_one_record(made)
    return list(made)


def _with_one_column(rows: list[Any], kind: TypeInformation) -> list[Any]:
    """Rows with one column, where a function may return the bare value."""
    if len(kind.field_types) > 1:
        return rows
    return [row if isinstance(row, Row) or (type(row) is tuple and len(row) == 1) else (row,) for row in rows]
