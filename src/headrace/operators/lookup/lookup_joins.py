"""Lookup joins of SQL: rows with the rows of a table that have the same key at that time, column by column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import gather
from headrace.common.batch import Batch, take_back
from headrace.common.columns import array_to_values, layout_of
from headrace.common.typeinfo import TypeInformation
from headrace.common.typeinfo.composite import schema_of
from headrace.expressions import Bound
from headrace.metrics.registry import LOOKUP_MISSES
from headrace.operators.asynchronous.requests import RequestedBatch
from headrace.operators.base import EpochScope, OperatorContext
from headrace.operators.changelog.keyed_changes import Arrived, Changes, KeyedChangesOperator
from headrace.operators.join.key_index import KeyIndex
from headrace.operators.lookup.lookup_operator import BatchRequestedByKey, KeyRequestingOperator, LookupRequests
from headrace.operators.lookup.readers import LookupReader, ReloadTrigger, TableReader, found_key
from headrace.operators.stateless import ExpressionOperator, computed, user_code_of
from headrace.operators.unnest import ExpandedRows
from headrace.state.runs.grouping import in_order

if TYPE_CHECKING:
    from headrace.state.keys import KeyCodec


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
    """The lookup of a join, and what is made of its results.

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
        parents, places = map(np.concatenate, zip(_NO_PAIRS, *self._keys.pairs(keys, len(batch)), strict=True))
        requested = ~self._definition.taking_back(batch)[parents]
        parents, places = parents[requested], places[requested]
        added = [column.take(pa.array(places)) for column in self._columns]
        made = self._definition.result.expanded(batch, parents, added, self.context)
        if made is not None:
            self.output.emit(made)

    def _read(self, rows: pa.RecordBatch) -> None:
        kept, self._columns = self._definition.counting(rows, self.context)
        self._index([rows.column(field).take(pa.array(kept)) for field in self._definition.fields], len(kept))

    def _index(self, keys: Sequence[pa.Array], count: int) -> None:
        """Index the rows by these keys."""
        self._keys = KeyIndex(keys, count)


class _KeysOfBatch(BatchRequestedByKey):
    """The different keys of a batch, and what is found of them.

    Attributes:
        codes: the place of each row's key among them; ``MISSING`` for a key that equals nothing.
    """

    __slots__ = ("codes",)

    def __init__(
        self, batch: Batch, keys: Sequence[pa.Array], types: Sequence[TypeInformation], *, without_request: Mask
    ) -> None:
        found = np.where(without_request, MISSING, _codes_of(keys, len(batch)))
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
        reader: the reader of the table.
        requests: how.
    """

    def __init__(self, definition: LookupJoinDefinition, reader: LookupReader, requests: LookupRequests) -> None:
        super().__init__(reader, definition.result.output_type, definition.table_type, requests, copies=False)
        self._definition = definition
        self._key_types = [definition.table_type.field_types[field] for field in definition.fields]
        self.user_code = user_code_of(definition.expressions)

    def _requested(self, batch: Batch) -> RequestedBatch:
        definition = self._definition
        keys, without_request = definition.keys_of(batch, self.context), definition.taking_back(batch)
        return _KeysOfBatch(batch, keys, self._key_types, without_request=without_request)

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
        without_request = self._definition.taking_back(answers.batch)
        self.count(LOOKUP_MISSES, int(((of_rows == 0) & ~without_request).sum()))
        made = self._definition.result.expanded(answers.batch, parents, added, self.context)
        if made is not None:
            self.output.emit(made)


class LookupMaterializeOperator(KeyedChangesOperator):
    """Keeps what was found of the last row of each key, and takes that back with the row.

    The table may have other rows by then, so that a lookup for the retraction would take back what was never emitted.
    A retraction of a row of which nothing is kept is one of a row of which nothing was found.

    Args:
        input_type: the type of the joined rows, with the number of each among those of one row; null for a row of
            which nothing was found, or that was not looked up since it takes another one back.
        output_type: the type of the joined rows without the number.
        codec: the codec of the keys.
        width: the number of columns that are not looked up, which come first.
        keeps_empty: whether a row of which nothing was found is emitted.
        ttl: the time to live of state in milliseconds; 0 for ever.
    """

    store, what = "looked-up-rows", "what was found of rows"

    def __init__(
        self,
        input_type: TypeInformation,
        output_type: TypeInformation,
        codec: KeyCodec,
        *,
        width: int,
        keeps_empty: bool,
        ttl: int = 0,
    ) -> None:
        super().__init__(input_type, output_type, codec, ttl=ttl)
        self._width, self._keeps_empty = width, keeps_empty

    @property
    def state_fields(self) -> list[pa.Field]:
        return list(schema_of(self._input_type))[self._width :]

    def changes(self, arrived: Arrived) -> tuple[Changes, Longs]:
        sequence, stored = arrived.sequence, len(arrived.stored)
        numbers = self._numbers(arrived)[sequence]
        records = sequence - stored
        takes_back = np.zeros(len(sequence), np.bool_)
        takes_back[records >= 0] = arrived.takes_back[records[records >= 0]]
        starts = np.flatnonzero((numbers <= 1) | (np.diff(arrived.of_keys, prepend=-1) != 0))  # of what one row gave
        ends = np.append(starts[1:], len(sequence))
        is_found, is_taken = numbers[starts] > 0, takes_back[starts]
        has_before = np.append(False, np.diff(arrived.of_keys[starts]) == 0)
        takes_found = is_taken & has_before & np.append(False, (is_found & ~is_taken)[:-1])
        emits = ~is_taken & (is_found | self._keeps_empty) | (is_taken & ~takes_found & self._keeps_empty)
        own = _places_of_rows(starts[emits], ends[emits])
        before = np.flatnonzero(takes_found) - 1
        taken = _places_of_rows(starts[before], ends[before])
        causes = np.repeat(starts[before + 1], ends[before] - starts[before])
        places, by = np.concatenate((own, taken)), np.concatenate((own, causes))
        there = records[by] >= 0
        found = Changes(sequence[places[there]], self._kinds(arrived, records[by[there]]), records[by[there]])
        is_last = np.append(np.diff(arrived.of_keys[starts]) != 0, True)
        left = is_last & is_found & ~is_taken
        return found.take(in_order(found.records)), sequence[_places_of_rows(starts[left], ends[left])]

    def _numbers(self, arrived: Arrived) -> Longs:
        mine = [arrived.batch.columns.columns[-1]]
        parts = [arrived.stored.rows.columns[-1], *mine] if len(arrived.stored) else mine
        return np.concatenate([np.asarray(part.fill_null(0)) for part in parts])

    def _kinds(self, arrived: Arrived, records: Longs) -> npt.NDArray[np.int8]:
        kinds = arrived.batch.kinds
        return np.zeros(len(records), np.int8) if kinds is None else kinds[records]

    def _found(self, arrived: Arrived, rows: Longs) -> list[pa.Array]:
        """The columns that the lookup has found for rows, and their numbers."""
        mine = arrived.batch.columns.columns[self._width :]
        if not len(arrived.stored):
            return [gather(column, rows) for column in mine]
        pairs = zip(arrived.stored.rows.columns, mine, strict=True)
        return [gather(pa.concat_arrays(list(pair)), rows) for pair in pairs]

    def remembered(self, arrived: Arrived, left: Longs) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(self._found(arrived, left), schema=pa.schema(self.state_fields))

    def _emit(self, arrived: Arrived, found: Changes) -> None:
        if not len(found.rows):
            return
        given = [gather(column, found.records) for column in arrived.batch.columns.columns[: self._width]]
        columns = [*given, *self._found(arrived, found.rows)[:-1]]
        times = arrived.batch.timestamps[found.records], arrived.batch.watermarks[found.records]
        made = pa.RecordBatch.from_arrays(columns, schema=schema_of(self._output_type))
        kinds = found.kinds if found.kinds.any() else None
        self.output.emit(Batch(self._output_type, *times, columns=made, kinds=kinds))


def _places_of_rows(starts: Longs, ends: Longs) -> Longs:
    """All positions of some ranges, one range after the other."""
    counts = ends - starts
    found: Longs = np.arange(counts.sum()) + np.repeat(starts - np.cumsum(counts) + counts, counts)
    return found
