"""The order of rows by columns, as in ``ORDER BY``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.errors import EvaluationError
from headrace.operators.arrays import fixed_width
from headrace.state.runs.grouping import value_ranks

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SortField:
    """A column by which rows are sorted.

    Attributes:
        field: its position.
        is_descending: whether the largest value comes first.
        nulls_last: whether nulls come last; None for Flink's default, by which they are the smallest values.
    """

    field: int
    is_descending: bool = False
    nulls_last: bool | None = None


def order_codes(rows: pa.RecordBatch, fields: Sequence[SortField]) -> list[Longs]:
    """An integer code for each sort field of each row: codes compare as rows are ordered, and peers have equal ones."""
    return [_codes(rows.column(each.field), each) for each in fields]


def places_in_order(rows: pa.RecordBatch, fields: Sequence[SortField]) -> Longs:
    """The rank of each row in the order of all; rows that tie keep their order."""
    codes = order_codes(rows, fields)
    order = np.lexsort(codes[::-1]) if codes else np.arange(rows.num_rows)
    places = np.empty(rows.num_rows, np.int64)
    places[order] = np.arange(rows.num_rows)
    return places


def _codes(column: pa.Array, field: SortField) -> Longs:
    nulls_last = field.is_descending if field.nulls_last is None else field.nulls_last
    codes = value_ranks(column)
    codes = -codes if field.is_descending else codes
    if column.null_count:
        limit = len(column) + 1
        codes = np.where(np.asarray(column.is_null()), limit if nulls_last else -limit, codes)
    return codes


def millis_of(column: pa.Array, name: str) -> Longs:
    """Timestamps in milliseconds.

    Raises:
        NullTimeError: when one of them is null.
    """
    if column.null_count:
        raise NullTimeError(
            f"the event time {name!r} of a row is NULL, and event time goes by it: leave such rows out with "
            f"WHERE {name} IS NOT NULL, or give them a time with COALESCE"
        )
    numbers = fixed_width(column.cast(pa.int64())) if pa.types.is_timestamp(column.type) else fixed_width(column)
    per_milli = {"us": 1000, "ns": 1_000_000, "ms": 1, "s": 1}[getattr(column.type, "unit", "ms")]
    found: Longs = numbers // per_milli
    return found


class NullTimeError(EvaluationError):
    """A row has no event time."""
