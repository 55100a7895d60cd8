"""The order of rows by columns, as in ``ORDER BY``, and the ranks in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import Picked, fixed_width, is_fixed_width
from headrace.common.errors import EvaluationError
from headrace.state.runs.grouping import in_order, value_ranks

Longs = npt.NDArray[np.int64]

_FARTHEST: Final = 1 << 62
"""Numbers beyond this leave no room for the code of nulls."""


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


class RankStrategy(Enum):
    """Flink's strategies to rank, which differ in the changes that come in and so in the state that is kept."""

    APPEND = "AppendFastStrategy"
    UPDATE = "UpdateFastStrategy"
    RETRACT = "RetractStrategy"


@dataclass(frozen=True, slots=True)
class RankRange:
    """The range of ranks to emit.

    Attributes:
        start: the first, from 1.
        end: the last; None where a column holds it.
        end_field: the position of that column.
        shows_rank: whether the rank is emitted as the last column.
    """

    start: int
    end: int | None
    end_field: int | None = None
    shows_rank: bool = False

    @property
    def by_rank(self) -> bool:
        """Return whether changes are per rank; else rows are only inserted and deleted."""
        return self.shows_rank or self.start > 1


def order_codes(rows: pa.RecordBatch | Picked, fields: Sequence[SortField]) -> list[Longs]:
    """An integer code for each sort field of each row: codes compare as rows are ordered, and peers have equal ones."""
    return [_codes(rows.column(each.field), each) for each in fields]


def places_in_order(rows: pa.RecordBatch, fields: Sequence[SortField]) -> Longs:
    """The rank of each row in the order of all; rows that tie keep their order."""
    return places_of(in_order(*(order_codes(rows, fields) or [np.zeros(rows.num_rows, np.int64)])))


def places_of(order: Longs) -> Longs:
    """The position of each row in an order."""
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return places


def _codes(column: pa.Array, field: SortField) -> Longs:
    nulls_last = field.is_descending if field.nulls_last is None else field.nulls_last
    codes = _numbers(column)
    codes = ~codes if field.is_descending else codes
    if column.null_count:
        is_null = np.asarray(column.is_null())
        values = codes[~is_null]
        limit = int(values.max(initial=0)) + 1 if nulls_last else int(values.min(initial=0)) - 1
        codes = np.where(is_null, limit, codes)
    return codes


def _numbers(column: pa.Array) -> Longs:
    """Numbers that compare as the values do."""
    if is_fixed_width(column.type) and not pa.types.is_floating(column.type):
        numbers: Longs = fixed_width(column).astype(np.int64)
        if not column.null_count or -_FARTHEST < numbers.min(initial=0) <= numbers.max(initial=0) < _FARTHEST:
            return numbers
    if pa.types.is_float64(column.type):
        return _bits(fixed_width(column))
    return value_ranks(column)


def _bits(values: npt.NDArray[np.float64]) -> Longs:
    """Integers that compare as doubles do; NaN is larger than all others, and there is one zero."""
    bits: Longs = np.where(np.isnan(values), np.nan, values + 0.0).view(np.int64)
    return bits ^ ((bits >> 63) & np.iinfo(np.int64).max)


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
    numbers = fixed_width(column.view(pa.int64())) if pa.types.is_timestamp(column.type) else fixed_width(column)
    per_milli = {"us": 1000, "ns": 1_000_000, "ms": 1, "s": 1}[getattr(column.type, "unit", "ms")]
    found: Longs = numbers // per_milli
    return found


def places_of_values(column: pa.Array) -> Longs:
    """The positions of values that are not null."""
    return np.flatnonzero(np.asarray(column.is_valid()))


class NullTimeError(EvaluationError):
    """A row has no event time."""
