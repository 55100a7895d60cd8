"""Lookup joins of SQL: rows with the rows of a table that have the same key at that time, column by column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.batch import Batch, take_back
from headrace.common.columns import array_to_values, layout_of
from headrace.common.typeinfo import TypeInformation
from headrace.expressions import Bound
from headrace.metrics.registry import LOOKUP_MISSES
from headrace.operators.asynchronous.requests import RequestedBatch
from headrace.operators.base import EpochScope, OperatorContext
from headrace.operators.join.key_index import KeyIndex
from headrace.operators.lookup.lookup_operator import BatchRequestedByKey, KeyRequestingOperator, LookupRequests
from headrace.operators.lookup.readers import LookupReader, found_key
from headrace.operators.lookup.table_readers import ReloadTrigger, TableReader
from headrace.operators.stateless import ExpressionOperator, computed, user_code_of
from headrace.operators.unnest import ExpandedRows

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

MISSING: Final = -1
"""The code of a key that is not there, or has a NULL in it, which equals nothing."""
_NO_PAIRS: Final = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def _codes_of(columns: Sequence[pa.Array], rows: int) -> Longs:
    """A number from 0 for each different key of some rows; without any columns, all rows have one key."""
    codes = np.zeros(rows, np.int64)
    for column in map(_comparable, columns):
        values = pc.unique(column).drop_null()
        pairs = _pairs(codes, column, values)
        codes = _places(pairs, np.unique(pairs[pairs != MISSING]))
    return codes


def _comparable(column: pa.Array) -> pa.Array:
    """A column with one zero and one NaN, if it has floats."""
    if not pa.types.is_floating(column.type):
        return column
    one_zero = pc.add(column, pa.scalar(0, column.type))
    return pc.if_else(pc.is_nan(one_zero), pa.scalar(float("nan"), column.type), one_zero)


def _pairs(codes: Longs, column: pa.Array, values: pa.Array) -> Longs:
    """Codes with the place of the value in one more column."""
    places = pc.index_in(column, value_set=values).fill_null(MISSING).to_numpy(zero_copy_only=False)
    is_missing = (codes == MISSING) | (places == MISSING)
    return np.where(is_missing, MISSING, codes * len(values) + places)


def _places(pairs: Longs, known: Longs) -> Longs:
    """The place of each among those that are known, in order."""
    if not len(known):
        return np.full(len(pairs), MISSING)
    places = np.minimum(np.searchsorted(known, pairs), len(known) - 1)
    return np.where(known[places] == pairs, places, MISSING)


@dataclass(frozen=True, slots=True)
class LookupJoinDefinition:
    """What is looked up, and what becomes of it.

    Attributes:
        table_type: the type of the rows of the table.
        keys: the values that are looked up: expressions over a row.
        fields: the columns of the table that are equal to them.
        filter: which rows of the table count; None for all.
        columns: the columns that are computed from a row of the table.
        result: the joined rows.
    """

    table_type: TypeInformation
    keys: tuple[Bound, ...]
    fields: tuple[int, ...]
    filter: Bound | None
    columns: tuple[Bound, ...]
    result: ExpandedRows

    @property
    def expressions(self) -> tuple[Bound | None, ...]:
        """All expressions."""
        return (*self.keys, self.filter, *self.columns, self.result.condition)

    def keys_of(self, batch: Batch, context: OperatorContext) -> list[pa.Array]:
        """The keys of rows, as the table has them."""
        found = computed(self.keys, batch, context)
        kinds = layout_of(self.table_type).schema.types
        return [each.cast(kinds[field]) for each, field in zip(found, self.fields, strict=True)]

    def taking_back(self, batch: Batch) -> Mask:
        """True for each row that is not looked up, since it takes back what was found before, which is kept."""
        if not self.result.numbers or batch.kinds is None:
            return np.zeros(len(batch), np.bool_)
        return take_back(batch.kinds)

    def counting(self, rows: pa.RecordBatch, context: OperatorContext) -> tuple[Longs, list[pa.Array]]:
        """Return which rows of the table count, and the columns that are computed from these."""
        zeros = np.zeros(rows.num_rows, np.int64)
        batch = Batch(self.table_type, zeros, zeros, columns=rows)
        kept = np.arange(rows.num_rows)
        if self.filter is not None and rows.num_rows:
            (mask,) = computed((self.filter,), batch, context)
            kept = np.flatnonzero(np.asarray(mask.fill_null(False)))
            batch = batch.replaced(self.table_type, columns=rows.take(pa.array(kept)), sources=kept)
        return kept, computed(self.columns, batch, context)


class TableLookupOperator(ExpressionOperator):
    """A lookup join with a table that is read as a whole.

    Args:
        definition: the join.
        reader: reads the table.
        reload: the trigger of reloads.
    """

    def __init__(self, definition: LookupJoinDefinition, reader: TableReader, reload: ReloadTrigger) -> None:
        super().__init__(*definition.expressions)
        self._definition, self._reader, self._reload = definition, reader, reload
        self._read_at: int | None = None

    def begin_epoch(self, scope: EpochScope) -> None:
        if self._read_at is None or self._reload.is_due(self._read_at, scope.processing_time):
            self._read_at = scope.processing_time
            self._read(self._reader.read(scope.processing_time))

    def process(self, input_index: int, batch: Batch) -> None:
        keys = self._definition.keys_of(batch, self.context)
        parents, places = map(np.concatenate, zip(_NO_PAIRS, *self._index.pairs(keys, len(batch)), strict=True))
        asked = ~self._definition.taking_back(batch)[parents]
        parents, places = parents[asked], places[asked]
        added = [column.take(pa.array(places)) for column in self._columns]
        made = self._definition.result.expanded(batch, parents, added, self.context)
        if made is not None:
            self.output.emit(made)

    def _read(self, rows: pa.RecordBatch) -> None:
        kept, self._columns = self._definition.counting(rows, self.context)
        keys = [rows.column(field).take(pa.array(kept)) for field in self._definition.fields]
        self._index = KeyIndex(keys, len(kept))


class _KeysOfBatch(BatchRequestedByKey):
    """The different keys of a batch, and what is found of them.

    Attributes:
        codes: the place of each row's key among them; ``MISSING`` for a key that equals nothing.
    """

    __slots__ = ("codes",)

    def __init__(
        self, batch: Batch, keys: Sequence[pa.Array], types: Sequence[TypeInformation], *, unasked: Mask
    ) -> None:
        found = np.where(unasked, MISSING, _codes_of(keys, len(batch)))
        different, first, codes = np.unique(found, return_index=True, return_inverse=True)
        has_missing = int(bool(len(different)) and different[0] == MISSING)
        ranks = np.argsort(np.argsort(first[has_missing:]))
        places = np.concatenate((np.full(has_missing, MISSING), ranks))
        self.codes: Longs = places[codes]
        rows = pa.array(np.sort(first[has_missing:]))
        values = [array_to_values(kind, key.take(rows)) for kind, key in zip(types, keys, strict=True)]
        super().__init__(batch, list(map(found_key, values[0] if len(values) == 1 else zip(*values, strict=True))))


class RequestedLookupOperator(KeyRequestingOperator):
    """A lookup join that requests keys.

    Args:
        definition: the join.
        reader: what is asked.
        requests: how.
    """

    def __init__(self, definition: LookupJoinDefinition, reader: LookupReader, requests: LookupRequests) -> None:
        super().__init__(reader, definition.result.output_type, definition.table_type, requests, copies=False)
        self._definition = definition
        self._key_types = [definition.table_type.field_types[field] for field in definition.fields]
        self.user_code = user_code_of(definition.expressions)

    def close(self) -> None:
        try:
            super().close()
        finally:
            for each in reversed(self.user_code):
                each.close()

    def _asked(self, batch: Batch) -> RequestedBatch:
        definition = self._definition
        keys, unasked = definition.keys_of(batch, self.context), definition.taking_back(batch)
        return _KeysOfBatch(batch, keys, self._key_types, unasked=unasked)

    def _emit(self, answers: RequestedBatch) -> None:
        assert isinstance(answers, _KeysOfBatch)
        counts = np.array([*map(len, answers.results), 0], np.int64)  # the last is that of missing keys
        rows = layout_of(self._definition.table_type).rows_to_columns(list(chain.from_iterable(answers.results)))
        kept, columns = self._definition.counting(rows, self.context)
        owners = np.repeat(np.arange(len(counts)), counts)[kept]
        counts = np.bincount(owners, minlength=len(counts))
        starts = np.concatenate(([0], np.cumsum(counts)))[:-1]
        of_rows = counts[answers.codes]
        parents = np.repeat(np.arange(len(answers.batch)), of_rows)
        places = np.arange(len(parents)) + np.repeat(starts[answers.codes] - np.cumsum(of_rows) + of_rows, of_rows)
        added = [column.take(pa.array(places)) for column in columns]
        unasked = self._definition.taking_back(answers.batch)
        self.count(LOOKUP_MISSES, int(((of_rows == 0) & ~unasked).sum()))
        made = self._definition.result.expanded(answers.batch, parents, added, self.context)
        if made is not None:
            self.output.emit(made)
