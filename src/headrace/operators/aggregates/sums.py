"""Aggregators that sum: exactly, so that the result does not depend on the cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from headrace.common.typeinfo import Types
from headrace.operators.aggregates import exact_sum
from headrace.operators.aggregates.aggregator import ColumnAggregator, any_valid, filled
from headrace.operators.arrays import fixed_width, of_fixed_width, validity

if TYPE_CHECKING:
    from headrace.operators.aggregates.aggregator import Fields, GroupedRows, Longs, Mask
    from headrace.state.runs.grouping import RowGroups, Segments


@dataclass(frozen=True, slots=True)
class SumIntegers(ColumnAggregator):
    """The exact sum of integers: its low 64 bits, and a carry, null where there is none.

    Results are a column of 64-bit integers, or of decimals when one of them does not fit.
    """

    stored_name: ClassVar[str] = "SumIntegers"
    is_scatterable: ClassVar[bool] = True

    @property
    def fields(self) -> Fields:
        return (f"sum({self.name})", Types.LONG()), (f"sum({self.name}).carry", Types.INT())

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        return self._summed(rows.column(self.column), None, rows.segments)

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        if segments.are_single:
            return columns
        return self._summed(columns[0], columns[1], segments)

    def result(self, columns: list[pa.Array]) -> pa.Array:
        low, carries = columns
        if carries.null_count == len(carries):
            return low
        pairs = zip(low.to_pylist(), carries.to_pylist(), strict=True)
        exact = [None if value is None else value + ((carry or 0) << 64) for value, carry in pairs]
        return pa.array(exact, pa.decimal128(38))

    def _summed(self, array: pa.Array, carried: pa.Array | None, segments: RowGroups) -> list[pa.Array]:
        values, valid = filled(array, np.int64)
        sums, carries = exact_sum.sum_integers(values, segments)
        if carried is not None and carried.null_count < len(carried):
            before = segments.reduce(np.add, filled(carried, np.int64)[0])
            carries = before if carries is None else before + carries
        return [of_fixed_width(sums, any_valid(valid, segments), pa.int64()), _carry_column(carries, len(sums))]


@dataclass(frozen=True, slots=True)
class SumFloats(ColumnAggregator):
    """The exact sum of floats: see :mod:`headrace.operators.aggregates.exact_sum`."""

    stored_name: ClassVar[str] = "SumFloats"
    is_scatterable: ClassVar[bool] = True

    @property
    def fields(self) -> Fields:
        name = f"sum({self.name})"
        return (
            (name, Types.DOUBLE()),
            (f"{name}.lo", Types.DOUBLE()),
            (f"{name}.rest", Types.LIST(Types.DOUBLE())),
        )

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        segments = rows.segments
        values, valid = filled(rows.column(self.column), np.float64)
        return self._columns(exact_sum.sum_values(values, segments), any_valid(valid, segments))

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        if segments.are_single:
            return columns
        valid = validity(columns[0])
        return self._columns(exact_sum.merge_sums(self._expansion(columns), segments), any_valid(valid, segments))

    def result(self, columns: list[pa.Array]) -> pa.Array:
        return of_fixed_width(exact_sum.round_sums(self._expansion(columns)), validity(columns[0]), pa.float64())

    def _expansion(self, columns: list[pa.Array]) -> exact_sum.Expansion:
        return exact_sum.Expansion(filled(columns[0], np.float64)[0], fixed_width(columns[1]), columns[2])

    def _columns(self, sums: exact_sum.Expansion, valid: Mask | None) -> list[pa.Array]:
        rest = pa.nulls(len(sums.hi), pa.list_(pa.float64())) if sums.rest is None else sums.rest
        return [of_fixed_width(sums.hi, valid, pa.float64()), pa.array(sums.lo), rest]


def _carry_column(carries: Longs | None, count: int) -> pa.Array:
    if carries is None:
        return pa.nulls(count, pa.int32())
    return of_fixed_width(carries.astype(np.int32), carries != 0, pa.int32())
