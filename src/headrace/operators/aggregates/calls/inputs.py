"""Columns that aggregate calls derive from the input: values where a filter holds, several columns as one."""

from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.operators.aggregates.aggregator import DerivedColumn


@dataclass(frozen=True, slots=True)
class Filtered(DerivedColumn):
    """A column, null where the filter is not true.

    Attributes:
        column: its position.
        filter: the position of the boolean column.
    """

    column: int
    filter: int

    def of(self, columns: pa.RecordBatch) -> pa.Array:
        values = columns.column(self.column)
        return pc.if_else(_holds(columns, self.filter), values, pa.scalar(None, values.type))


@dataclass(frozen=True, slots=True)
class FirstOfValue(DerivedColumn):
    """A column, null where the filter is not true, and where the group of the record has had the value.

    What groups have had is state of the operator, which maintains it; here are all values that may be the first ones.

    Attributes:
        column: its position.
        filter: the position of the boolean column; None for no filter.
        type: its type.
    """

    needs_state: ClassVar[bool] = True
    column: int
    filter: int | None
    type: pa.DataType

    def of(self, columns: pa.RecordBatch) -> pa.Array:
        return columns.column(self.column) if self.filter is None else Filtered(self.column, self.filter).of(columns)


@dataclass(frozen=True, slots=True)
class Present(DerivedColumn):
    """True where all of some columns have a value and the filter holds.

    Attributes:
        columns: their positions.
        filter: the position of the boolean column; None for no filter.
    """

    columns: tuple[int, ...]
    filter: int | None = None

    def of(self, columns: pa.RecordBatch) -> pa.Array:
        found = [columns.column(index).is_valid() for index in self.columns]
        if self.filter is not None:
            found.append(_holds(columns, self.filter))
        return reduce(pc.and_, found)


@dataclass(frozen=True, slots=True)
class Boxed(DerivedColumn):
    """Columns as one column of structs: a null struct is a row that does not count, unlike a row whose value is null.

    Attributes:
        columns: their positions.
        filter: the position of the boolean column; None for no filter.
        skips_nulls: whether rows with a null in the last of the columns do not count.
    """

    columns: tuple[int, ...]
    filter: int | None = None
    skips_nulls: bool = False

    def of(self, columns: pa.RecordBatch) -> pa.Array:
        arrays = [columns.column(index) for index in self.columns]
        counts = np.ones(columns.num_rows, np.bool_)
        if self.filter is not None:
            counts &= np.asarray(_holds(columns, self.filter))
        if self.skips_nulls:
            counts &= np.asarray(arrays[-1].is_valid())
        names = [f"f{place}" for place in range(len(arrays))]
        return pa.StructArray.from_arrays(arrays, names, mask=None if counts.all() else pa.array(~counts))


@dataclass(frozen=True, slots=True)
class Doubles(DerivedColumn):
    """Numbers as doubles.

    Attributes:
        column: the position of the numbers.
        filter: the position of the boolean column; None for no filter.
    """

    column: int
    filter: int | None = None

    def of(self, columns: pa.RecordBatch) -> pa.Array:
        whole = columns.column(self.column) if self.filter is None else Filtered(self.column, self.filter).of(columns)
        return whole.cast(pa.float64(), safe=False)  # else integers beyond 53 bits are refused, and not rounded


def _holds(columns: pa.RecordBatch, index: int) -> pa.Array:
    return columns.column(index).fill_null(False)
