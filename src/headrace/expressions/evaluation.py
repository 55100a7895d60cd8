"""Computes expressions over a batch, and finds the record that one has no value for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.common.errors import EvaluationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from headrace.expressions.bound import Bound


def evaluate(expressions: Sequence[Bound], batch: pa.RecordBatch) -> list[pa.Array]:
    """A column for each expression.

    Raises:
        EvaluationError: when a record has no value; its ``row`` says which.
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
