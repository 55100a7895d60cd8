"""Expressions bound to the type of the records: every column is a position, every function a kernel.

They are plain data, so they can be compared, hashed and pickled, and are computed over one Arrow batch at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.columns import values_to_array
from headrace.common.errors import EvaluationError
from headrace.expressions.functions import caster
from headrace.expressions.table import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.common.typeinfo import TypeInformation
    from headrace.expressions.functions import Datum


@dataclass(frozen=True, slots=True)
class Bound(ABC):
    """A bound expression.

    Attributes:
        text: as the user wrote it.
        type: the type of its values.

    Examples:
        >>> import pyarrow as pa
        >>> from headrace.common import Types
        >>> from headrace.expressions import bind, col
        >>> doubled = bind(col("n") * 2, Types.ROW_NAMED(["n"], [int]))
        >>> doubled.column(pa.record_batch({"n": [1, None, 3]})).to_pylist()
        [2, None, 6]
    """

    text: str
    type: TypeInformation

    @abstractmethod
    def compute(self, batch: pa.RecordBatch) -> Datum:
        """A value for each row, or one for all of them, under the type's storage type.

        Raises:
            EvaluationError: when a row has no value.
        """

    def column(self, batch: pa.RecordBatch) -> pa.Array:
        """A value for each row."""
        if not batch.num_rows:
            return pa.array([], self.type.storage_type)  # not even a constant that has no value is looked at
        datum = self.compute(batch)
        return pa.repeat(datum, batch.num_rows) if isinstance(datum, pa.Scalar) else datum

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class BoundColumn(Bound):
    """A field of the record.

    Attributes:
        index: its position.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.expressions import bind, col
        >>> bind(col("amount"), Types.ROW_NAMED(["card", "amount"], [str, float]))
        BoundColumn(text='col("amount")', type=Double, index=1)
    """

    index: int

    def compute(self, batch: pa.RecordBatch) -> Datum:
        return batch.column(self.index)


@dataclass(frozen=True, slots=True)
class BoundLiteral(Bound):
    """A value."""

    value: Any

    def compute(self, batch: pa.RecordBatch) -> Datum:
        return values_to_array(self.type, [self.value])[0]


@dataclass(frozen=True, slots=True)
class BoundCall(Bound):
    """A function of others.

    Attributes:
        function: its name.
        overload: which of its overloads.
        arguments: what it is applied to.
        options: names and values of what is the same for all rows.
    """

    function: str
    overload: int
    arguments: tuple[Bound, ...]
    options: tuple[tuple[str, Any], ...]

    def compute(self, batch: pa.RecordBatch) -> Datum:
        arguments = [argument.compute(batch) for argument in self.arguments]
        overload = FUNCTIONS[self.function].overloads[self.overload]
        try:
            computed = overload.compute(arguments, dict(self.options))
            wanted = self.type.storage_type
            return computed if computed.type.equals(wanted) else computed.cast(wanted)
        except pa.ArrowException as error:
            raise _no_value(self, error) from error


@dataclass(frozen=True, slots=True)
class BoundCast(Bound):
    """A value as one of another type.

    Attributes:
        argument: the value.
    """

    argument: Bound

    def compute(self, batch: pa.RecordBatch) -> Datum:
        value = self.argument.compute(batch)
        cast = caster(self.argument.type, self.type)
        assert cast is not None, "refused when it was bound"
        try:
            return cast(value, self.type.storage_type)
        except pa.ArrowException as error:
            raise _no_value(self, error) from error


@dataclass(frozen=True, slots=True)
class BoundField(Bound):
    """A field of a value that has some.

    Attributes:
        argument: the value.
        index: the position of the field.
    """

    argument: Bound
    index: int

    def compute(self, batch: pa.RecordBatch) -> Datum:
        return pc.struct_field(self.argument.compute(batch), [self.index])


@dataclass(frozen=True, slots=True)
class BoundTuple(Bound):
    """Several values as the fields of one.

    Attributes:
        arguments: the values.
    """

    arguments: tuple[Bound, ...]

    def compute(self, batch: pa.RecordBatch) -> Datum:
        columns = [argument.column(batch) for argument in self.arguments]
        return pa.StructArray.from_arrays(columns, fields=list(self.type.storage_type))


@dataclass(frozen=True, slots=True)
class BoundCase(Bound):
    """The value of the first branch whose condition is true.

    Attributes:
        branches: conditions and values, these of the type of the whole.
        default: the value where no condition is true; None for null.
    """

    branches: tuple[tuple[Bound, Bound], ...]
    default: Bound | None

    def compute(self, batch: pa.RecordBatch) -> Datum:
        try:
            return self._at_once(batch)
        except EvaluationError:
            return self._branch_by_branch(batch)

    def _at_once(self, batch: pa.RecordBatch) -> Datum:
        """All values of all rows: fast, and right unless one fails where it is not taken."""
        result = self._rest.compute(batch)
        for condition, value in reversed(self.branches):
            taken = pc.fill_null(condition.compute(batch), False)
            result = pc.if_else(taken, value.compute(batch), result)
        return result

    def _branch_by_branch(self, batch: pa.RecordBatch) -> Datum:
        """Each value of those rows only that take it."""
        rest = np.arange(batch.num_rows)
        rows, values = [], []
        for condition, value in self.branches:
            remaining = batch.take(pa.array(rest))
            taken = pc.fill_null(condition.column(remaining), False).to_numpy(zero_copy_only=False)
            rows.append(rest[taken])
            values.append(value.column(batch.take(pa.array(rest[taken]))))
            rest = rest[~taken]
        rows.append(rest)
        values.append(self._rest.column(batch.take(pa.array(rest))))
        places = np.argsort(np.concatenate(rows))
        return pa.concat_arrays(values).take(pa.array(places))

    @property
    def _rest(self) -> Bound:
        return self.default or BoundLiteral("None", self.type, None)


def evaluate(expressions: Sequence[Bound], batch: pa.RecordBatch) -> list[pa.Array]:
    """A column for each expression.

    Raises:
        EvaluationError: when a record has no value; its ``row`` says which.

    Examples:
        >>> import pyarrow as pa
        >>> from headrace.common import Types
        >>> from headrace.expressions import bind, col, evaluate
        >>> record = Types.ROW_NAMED(["n"], [int])
        >>> columns = evaluate([bind(col("n") + 1, record), bind(col("n") * 2, record)], pa.record_batch({"n": [1, 2]}))
        >>> [column.to_pylist() for column in columns]
        [[2, 3], [2, 4]]
    """
    try:
        return [expression.column(batch) for expression in expressions]
    except EvaluationError as error:
        error.row = _first_without_value(expressions, batch)
        raise


def _first_without_value(expressions: Sequence[Bound], batch: pa.RecordBatch) -> int:
    """Found by halving, since columns do not tell which of their rows went wrong."""
    start, stop = 0, batch.num_rows
    while stop - start > 1:
        middle = (start + stop) // 2
        if _fails(expressions, batch.slice(start, middle - start)):
            stop = middle
        else:
            start = middle
    return start


def _fails(expressions: Sequence[Bound], batch: pa.RecordBatch) -> bool:
    try:
        for expression in expressions:
            expression.column(batch)
    except EvaluationError:
        return True
    return False


_REASONS = {
    "overflow": "the result does not fit into 64 bits",
    "divide by zero": "division by zero",
}


def _no_value(expression: Bound, error: pa.ArrowException) -> EvaluationError:
    reason = str(error)
    return EvaluationError(f"{expression.text}: {_REASONS.get(reason, reason)}")
