"""Constraints of a table on its rows: NOT NULL, and lengths of character and binary strings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.errors import EvaluationError
from headrace.operators.base import Operator
from headrace.operators.user_code import user_error


class Enforcement(Enum):
    """The action for a row that violates a constraint."""

    ERROR = "ERROR"
    """The job fails."""
    DROP = "DROP"
    """The row is left out."""
    TRIM_PAD = "TRIM_PAD"
    """Too long values are trimmed, and too short ones are padded."""


@dataclass(frozen=True, slots=True)
class LengthLimit:
    """The length of texts or bytes of a column.

    Attributes:
        field: its position.
        length: how long they are at most.
        is_fixed: whether they are exactly so long.
    """

    field: int
    length: int
    is_fixed: bool


class ConstraintsOperator(Operator):
    """Sees to it that rows meet the demands.

    Args:
        required: the positions of the columns that must not be null.
        of_nulls: what becomes of rows with a null there.
        limits: the lengths of columns.
        of_lengths: what becomes of rows whose values are longer, or shorter where the length is fixed.
    """

    def __init__(
        self,
        required: Sequence[int],
        of_nulls: Enforcement,
        limits: Sequence[LengthLimit] = (),
        of_lengths: Enforcement = Enforcement.TRIM_PAD,
    ) -> None:
        super().__init__()
        self._required = required
        self._of_nulls = of_nulls
        self._limits = limits
        self._of_lengths = of_lengths

    def process(self, input_index: int, batch: Batch) -> None:
        kept = self._with_values(batch)
        if len(kept):
            self.output.emit(self._with_lengths(kept))

    def _with_values(self, batch: Batch) -> Batch:
        columns = batch.columns
        wrong = [field for field in self._required if columns.column(field).null_count]
        if not wrong:
            return batch
        is_null = np.zeros(len(batch), np.bool_)
        for field in wrong:
            is_null |= np.asarray(columns.column(field).is_null())
        if self._of_nulls is Enforcement.DROP:
            self.count("numNullRecordsDropped", int(is_null.sum()))
            return batch.filter(~is_null)
        row = int(np.flatnonzero(is_null)[0])
        name = next(columns.schema.names[field] for field in wrong if not columns.column(field)[row].is_valid)
        raise self._refused(
            batch,
            row,
            f"column '{name}' is NOT NULL, and a null value is written into it: set "
            "'table.exec.sink.not-null-enforcer' to 'DROP' to leave such rows out",
        )

    def _with_lengths(self, batch: Batch) -> Batch:
        columns = list(batch.columns.columns)
        for limit in self._limits:
            values = columns[limit.field]
            fitted = _fitted(values, limit)
            if fitted.equals(values):
                continue
            if self._of_lengths is Enforcement.ERROR:
                different = pc.not_equal(fitted, values).fill_null(False)
                row = int(np.flatnonzero(np.asarray(different))[0])
                name = batch.columns.schema.names[limit.field]
                how = "exactly" if limit.is_fixed else "at most"
                text = f"column '{name}' takes values of {how} {limit.length}, and a value of another length is written"
                raise self._refused(batch, row, text)
            columns[limit.field] = fitted
        made = pa.RecordBatch.from_arrays(columns, schema=layout_of(batch.type).schema)
        return batch.replaced(batch.type, columns=made)

    def _refused(self, batch: Batch, row: int, text: str) -> BaseException:
        return user_error(EvaluationError(text), self.context, batch.slice(row, row + 1).rows[0])


def _fitted(values: pa.Array, limit: LengthLimit) -> pa.Array:
    if pa.types.is_binary(values.type):
        cut = pc.binary_slice(values, 0, limit.length)
        if not limit.is_fixed:
            return cut
        return pa.array([None if each is None else each.ljust(limit.length, b"\0") for each in cut.to_pylist()])
    cut = pc.utf8_slice_codeunits(values, 0, limit.length)
    return pc.utf8_rpad(cut, limit.length) if limit.is_fixed else cut
