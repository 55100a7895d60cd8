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


class Part(Enum):
    """A part of the values of a collection."""

    ELEMENT = "element"
    KEY = "key"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class Place:
    """A column, or a part of its values.

    Attributes:
        name: what errors call it, such as ``address.city`` and ``tags[element]``.
        field: the position of the column.
        steps: the way to the part: positions of fields of rows, and parts of collections.
    """

    name: str
    field: int
    steps: tuple[int | Part, ...] = ()

    def values(self, batch: pa.RecordBatch) -> tuple[pa.Array, np.ndarray]:
        """The values that are there, and the row of each."""
        found, rows = batch.column(self.field), np.arange(batch.num_rows)
        for step in self.steps:
            if isinstance(step, int):
                is_there = found.is_valid()
                found, rows = pc.struct_field(found, step).filter(is_there), rows[np.asarray(is_there)]
            else:
                found, rows = _flattened(found, step, rows)
        return found, rows


@dataclass(frozen=True, slots=True)
class LengthLimit:
    """The length of texts or bytes.

    Attributes:
        place: where they are.
        length: how long they are at most.
        is_fixed: whether they are exactly so long.
    """

    place: Place
    length: int
    is_fixed: bool


class ConstraintsOperator(Operator):
    """Sees to it that rows meet the demands.

    Args:
        required: what must not be null.
        of_nulls: what becomes of rows with a null there.
        limits: the lengths of texts and bytes.
        of_lengths: what becomes of rows whose values are longer, or shorter where the length is fixed. Parts of
            collections can only be refused.
    """

    def __init__(
        self,
        required: Sequence[Place],
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
        wrong = [(place, rows) for place in self._required if len(rows := _rows_with_nulls(batch.columns, place))]
        if not wrong:
            return batch
        if self._of_nulls is Enforcement.DROP:
            is_null = np.zeros(len(batch), np.bool_)
            is_null[np.concatenate([rows for _, rows in wrong])] = True
            self.count("numNullRecordsDropped", int(is_null.sum()))
            return batch.filter(~is_null)
        row, _, name = min((int(rows[0]), at, place.name) for at, (place, rows) in enumerate(wrong))
        raise self._refused(
            batch,
            row,
            f"column '{name}' is NOT NULL, and a null value is written into it: set "
            "'table.exec.sink.not-null-enforcer' to 'DROP' to leave such rows out",
        )

    def _with_lengths(self, batch: Batch) -> Batch:
        columns = list(batch.columns.columns)
        for limit in self._limits:
            place = limit.place
            values, rows = place.values(batch.columns)
            fitted = _fitted(values, limit)
            if fitted.equals(values):
                continue
            if self._of_lengths is Enforcement.ERROR:
                different = pc.not_equal(fitted, values).fill_null(False)
                row = int(rows[np.flatnonzero(np.asarray(different))[0]])
                how = "exactly" if limit.is_fixed else "at most"
                raise self._refused(
                    batch,
                    row,
                    f"column '{place.name}' takes values of {how} {limit.length}, and a value of another length is "
                    "written",
                )
            columns[place.field] = _with_fitted(columns[place.field], place.steps, limit)
        made = pa.RecordBatch.from_arrays(columns, schema=layout_of(batch.type).schema)
        return batch.replaced(batch.type, columns=made)

    def _refused(self, batch: Batch, row: int, text: str) -> BaseException:
        return user_error(EvaluationError(text), self.context, batch.slice(row, row + 1).rows[0])


def _flattened(values: pa.Array, part: Part, rows: np.ndarray) -> tuple[pa.Array, np.ndarray]:
    """The parts of all collections, and the row of each."""
    if pa.types.is_map(values.type):
        values = values.cast(pa.list_(pa.struct([values.type.key_field, values.type.item_field])))
    found, rows = pc.list_flatten(values), rows[np.asarray(pc.list_parent_indices(values))]
    if pa.types.is_struct(found.type) and part is not Part.ELEMENT:
        found = pc.struct_field(found, 0 if part is Part.KEY else 1)
    return found, rows


def _rows_with_nulls(batch: pa.RecordBatch, place: Place) -> np.ndarray:
    values, rows = place.values(batch)
    return rows[np.asarray(values.is_null())] if values.null_count else rows[:0]


def _with_fitted(values: pa.Array, steps: Sequence[int | Part], limit: LengthLimit) -> pa.Array:
    """The values, whose texts or bytes at the end of the steps, which are fields of rows, have the right length."""
    if not steps:
        return _fitted(values, limit)
    at, *rest = steps
    assert isinstance(at, int)
    parts = values.flatten()
    parts[at] = _with_fitted(parts[at], rest, limit)
    return pa.StructArray.from_arrays(parts, fields=list(values.type), mask=values.is_null())


def _fitted(values: pa.Array, limit: LengthLimit) -> pa.Array:
    if pa.types.is_binary(values.type):
        cut = pc.binary_slice(values, 0, limit.length)
        if not limit.is_fixed:
            return cut
        return pa.array([None if each is None else each.ljust(limit.length, b"\0") for each in cut.to_pylist()])
    cut = pc.utf8_slice_codeunits(values, 0, limit.length)
    return pc.utf8_rpad(cut, limit.length) if limit.is_fixed else cut
