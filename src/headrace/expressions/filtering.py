"""Filters of rows: the parts of a condition are evaluated one after the other, each for the rows that are left."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import Picked, is_fixed_width
from headrace.expressions.evaluation import Bound, BoundLogic, fields_in, parts_of, user_code_in

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_NARROWED: Final = 0.5
"""Of so many rows, or fewer, the columns are gathered for the next part; of more, it is evaluated for all."""

_NUMBER, _DECIMAL, _OTHER = 1.0, 2.0, 5.0
"""The costs of comparing values."""


@dataclass(frozen=True)
class RowFilter:
    """The rows that meet a condition.

    Attributes:
        condition: the condition.
    """

    condition: Bound

    @cached_property
    def _parts(self) -> tuple[Bound, ...]:
        """The conditions that all have to be true, the cheapest first.

        It is one where a part may be an error: the order in which they are written decides for which rows it is.
        """
        if any(user_code_in(self.condition)) or not all(part.is_total for part in _walk(self.condition)):
            return (self.condition,)
        return tuple(sorted(_conjuncts(self.condition), key=_cost))

    def rows(self, batch: pa.RecordBatch) -> Longs | None:
        """The rows for which the condition is true, in order; None for all.

        Raises:
            EvaluationError: when a part has no value for a row that no part before it has left out.
        """
        parts = self._parts
        kept, view = None, batch
        met: Mask | None = None  # of the view; None for all
        for part in parts:
            found = _true(part, view)
            met = found if met is None else met & found
            count = int(np.count_nonzero(met))
            if count <= _NARROWED * len(met) or part is parts[-1]:
                if count < len(met):
                    chosen = np.flatnonzero(met)
                    kept = chosen if kept is None else kept.take(chosen)
                    view = Picked(batch.column, kept)
                met = None
            if not count:
                break
        return kept


def _conjuncts(condition: Bound) -> tuple[Bound, ...]:
    """The conditions that all have to be true, which may be evaluated in any order."""
    if isinstance(condition, BoundLogic) and condition.is_and and not condition.is_ordered:
        return tuple(part for each in condition.conditions for part in _conjuncts(each))
    return (condition,)


def _cost(condition: Bound) -> float:
    """About what it costs to ask a condition of a row."""
    parts = list(_walk(condition))
    values = sum(_cost_of(each.type.storage_type) for each in parts)
    return values * max(len(fields_in(condition)), 1)


def _walk(condition: Bound) -> list[Bound]:
    return [condition, *(part for each in parts_of(condition) for part in _walk(each))]


def _cost_of(kind: pa.DataType) -> float:
    if is_fixed_width(kind):
        return _NUMBER
    return _DECIMAL if pa.types.is_decimal(kind) else _OTHER


def _true(condition: Bound, rows: pa.RecordBatch) -> Mask:
    """A mask of the rows for which a condition is true."""
    found = condition.compute(rows)
    if isinstance(found, pa.Scalar):
        return np.full(rows.num_rows, bool(found.as_py()))
    known = pc.fill_null(found, False) if found.null_count else found
    return np.asarray(known.to_numpy(zero_copy_only=False), np.bool_)
