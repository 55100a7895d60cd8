"""Evaluation: values of bound expressions, for whole batches at a time.

It knows no function by name. What computes a function is a :class:`Bound` of its binder: the expressions of
``col()`` in :mod:`headrace.expressions.binding`, those of SQL in ``headrace.table``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import reduce
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.errors import EvaluationError
from headrace.common.typeinfo import TypeInformation

Datum: TypeAlias = pa.Array | pa.Scalar
"""A value for each record, or one for all of them."""


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

    @property
    def is_total(self) -> bool:
        """Return whether there is a value, null perhaps, whatever its parts are; False where that may be an error."""
        return True

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
class BoundConstant(Bound):
    """A value that is the same for all records.

    Attributes:
        value: the value, under the type's storage type.
    """

    value: pa.Scalar

    def compute(self, batch: pa.RecordBatch) -> Datum:
        return self.value


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
        return self.default or BoundConstant("None", self.type, pa.scalar(None, self.type.storage_type))


@dataclass(frozen=True, slots=True)
class BoundLogic(Bound):
    """``AND`` or ``OR`` of three values: the conditions after one that decides a record are not evaluated for it.

    Attributes:
        is_and: whether all conditions have to be true, and not one of them.
        conditions: the conditions, in the order in which they are evaluated.
        is_ordered: whether they have to be evaluated in that order, since one differs when it is evaluated again.
    """

    is_and: bool
    conditions: tuple[Bound, ...]
    is_ordered: bool = False

    def compute(self, batch: pa.RecordBatch) -> Datum:
        combine = pc.and_kleene if self.is_and else pc.or_kleene
        try:
            return reduce(combine, (condition.compute(batch) for condition in self.conditions))
        except EvaluationError:
            return self._one_by_one(batch, combine)

    def _one_by_one(self, batch: pa.RecordBatch, combine: Callable[..., Datum]) -> Datum:
        result = pa.repeat(self.is_and, batch.num_rows)
        for condition in self.conditions:
            is_decided = pc.equal(result, not self.is_and).fill_null(False)
            rows = np.flatnonzero(~is_decided.to_numpy(zero_copy_only=False))
            answers = condition.column(batch.take(pa.array(rows)))
            result = combine(result, pc.replace_with_mask(result, pc.invert(is_decided), answers))
        return result


def fields_in(expression: Bound) -> frozenset[int]:
    """The indices of the fields of the record that an expression looks at."""
    if isinstance(expression, BoundColumn):
        return frozenset({expression.index})
    return frozenset(index for part in parts_of(expression) for index in fields_in(part))


def parts_of(expression: Bound) -> Iterator[Bound]:
    """The expressions that an expression is made of, without those that these are made of."""
    for part in fields(expression):
        yield from _bound_in(getattr(expression, part.name))


def user_code_in(expression: Bound) -> Iterator[Any]:
    """The calls of user functions in an expression, which have ``open`` and ``close``."""
    if hasattr(expression, "open"):
        yield expression
    for each in parts_of(expression):
        yield from user_code_in(each)


def _bound_in(value: object) -> Iterator[Bound]:
    """The expressions in an attribute: the value itself, or the elements of a tuple."""
    if isinstance(value, Bound):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _bound_in(each)


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


_REASONS: Final = {
    "overflow": "the result does not fit into 64 bits",
    "divide by zero": "division by zero",
}


def no_value(expression: Bound, error: pa.ArrowException) -> EvaluationError:
    """The error that a record has no value of an expression."""
    reason = str(error)
    return EvaluationError(f"{expression.text}: {_REASONS.get(reason, reason)}")
