"""Materializers in front of sinks with a key: what several updates of a row leave of it.

They are Flink's ``SinkUpsertMaterializer`` and ``WatermarkCompactingSinkMaterializer``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import Picked, codes_of
from headrace.common.batch import Batch, take_back
from headrace.common.errors import EvaluationError
from headrace.common.typeinfo import RowTypeInfo, Types
from headrace.common.typeinfo.composite import schema_of
from headrace.operators.base import EpochScope, KeyedBatch, OperatorContext, keys_of
from headrace.operators.changelog.event_time import EventTimeOperator, keys_of_due
from headrace.operators.changelog.keyed_changes import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    Arrived,
    Changes,
    KeyedChangesOperator,
)
from headrace.operators.changelog.lifetimes import EqualRows, Lifetimes
from headrace.operators.changelog.pending_rows import DueRows
from headrace.operators.changelog.rows_of_keys import RowsOfKeys, StoredRows
from headrace.operators.user_code import user_error
from headrace.state.runs.grouping import in_order

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation
    from headrace.state.keys import KeyCodec, KeyColumn


Longs = npt.NDArray[np.int64]
_Part = tuple[Longs, npt.NDArray[np.int8], Longs]
"""Rows to emit, their kinds, and the positions of the records that cause them."""
_Latest = Callable[[Longs, Longs], Longs]


class UpsertMaterializeOperator(KeyedChangesOperator):
    """Keeps all rows of each key in the order of arrival, and emits the last of them.

    A table's key can differ from that of the query, so changes of different rows may arrive for one key of the table,
    in any order. When the last row is retracted, the one before it is emitted again; when none is left, the key is
    deleted. A retraction of an unknown row is dropped.

    Args:
        type_: the type of the records.
        codec: the codec of the keys.
        unique_key: the positions of the columns that identify a row; all columns when there is no such key.
        ttl: the time to live of state in milliseconds; 0 for ever.
    """

    store, what = "materialized-rows", "the rows of keys"

    def __init__(
        self, type_: TypeInformation, codec: KeyCodec, *, unique_key: Sequence[int] = (), ttl: int = 0
    ) -> None:
        super().__init__(type_, type_, codec, ttl=ttl)
        self._unique_key = unique_key

    def changes(self, arrived: Arrived) -> tuple[Changes, Longs]:
        latest: _Latest = _themselves
        if self._unique_key:
            rows = _UniqueRows.of(arrived, self._unique_key)
            lifetimes, latest = rows.lifetimes, rows.latest
        else:
            lifetimes = Lifetimes.of(arrived, range(arrived.rows.num_columns))
        records = arrived.sequence - len(arrived.stored)
        self._count_unknown(arrived, lifetimes)
        parts = [self._added(arrived, lifetimes), *self._retracted(arrived.sequence, lifetimes, latest)]
        rows_of, kinds, positions = (np.concatenate(each) for each in zip(*parts, strict=True))
        left = arrived.sequence[latest(lifetimes.left, np.full(len(lifetimes.left), len(records)))]
        found = Changes(rows_of, kinds, records[positions])
        return found.take(in_order(found.records)), left

    def _count_unknown(self, arrived: Arrived, lifetimes: Lifetimes) -> None:
        unknown = int(arrived.takes_back.sum()) - len(lifetimes.retracts)
        if unknown:
            self.count("numUnknownRowsDropped", unknown)

    def _added(self, arrived: Arrived, lifetimes: Lifetimes) -> _Part:
        """The rows that come."""
        sequence = arrived.sequence
        is_added = sequence >= len(arrived.stored)
        is_added[is_added] = ~arrived.takes_back[sequence[is_added] - len(arrived.stored)]
        positions = np.flatnonzero(is_added)
        before = (lifetimes.counts - lifetimes.steps)[positions]
        return sequence[positions], np.where(before > 0, UPDATE_AFTER, INSERT), positions

    def _retracted(self, sequence: Longs, lifetimes: Lifetimes, latest: _Latest) -> Iterator[_Part]:
        """The keys that are without rows, and the last row of those of which the last one is retracted."""
        retracts = lifetimes.retracts
        is_gone = lifetimes.counts[retracts] == 0
        gone, others = retracts[is_gone], retracts[~is_gone]
        yield sequence[gone], np.full(len(gone), DELETE), gone
        last = lifetimes.last_there(others)
        was_last = last < lifetimes.taken[others]
        others, last = others[was_last], last[was_last]
        yield sequence[latest(last, others)], np.full(len(others), UPDATE_AFTER), others


def _themselves(begins: Longs, _: Longs) -> Longs:
    return begins


@dataclass(frozen=True)
class _UniqueRows:
    """Rows with a unique key: one that comes takes the place of the one before, if there is one.

    Attributes:
        rows: all rows and records.
        lifetimes: the lifetime of each place, from the first row that has it.
    """

    rows: EqualRows
    lifetimes: Lifetimes

    @staticmethod
    def of(arrived: Arrived, unique_key: Sequence[int]) -> _UniqueRows:
        """The rows by the columns of a unique key."""
        rows = EqualRows.of(arrived, unique_key)
        order, takes_back = rows.order, rows.takes_back
        is_first = np.zeros(len(order), np.bool_)
        is_first[rows.segments.starts] = True
        is_there = ~is_first & ~np.append(True, takes_back[:-1])
        begins, taken = np.zeros(len(order), np.bool_), np.full(len(order), -1)
        begins[order] = ~is_there & ~takes_back
        retracts = np.flatnonzero(takes_back & is_there)
        first = np.maximum.accumulate(np.where(is_there, 0, np.arange(len(order))))
        taken[order[retracts]] = order[first[retracts]]
        return _UniqueRows(rows, Lifetimes(arrived.segments, begins, taken))

    @cached_property
    def _packed(self) -> Longs:
        return self.rows.segments.ids * (len(self.rows.order) + 1) + self.rows.order

    def latest(self, begins: Longs, positions: Longs) -> Longs:
        """The positions of the rows that have places before some positions, given where the places began."""
        inverse = np.empty(len(self.rows.order), np.int64)
        inverse[self.rows.order] = self.rows.segments.ids
        wanted = inverse[begins] * (len(inverse) + 1) + positions
        found: Longs = self.rows.order[np.searchsorted(self._packed, wanted) - 1]
        return found


def row_identities(rows: pa.RecordBatch, fields: Sequence[int]) -> list[int]:
    """A number for each row that is the same for equal rows."""
    columns = [rows.column(field) for field in fields]
    found: list[int] = codes_of(pa.StructArray.from_arrays(columns, [str(field) for field in fields])).tolist()
    return found


_CURRENT: Final = "current"
_Change = tuple[int, np.int8, int]
"""A change to emit: the row, its kind, and the record whose watermark emits it."""


class WatermarkCompactingOperator(EventTimeOperator):
    """Buffers the changes of each key until the next watermark, and then emits what is left of them.

    Changes that cancel out are gone by then. Where several rows of a key are left, the first one stays, or the job
    fails.

    Args:
        type_: the type of the records.
        codec: the codec of the keys.
        key_fields: the positions of the columns of the key, which errors name.
        unique_key: the positions of the columns that identify a row; all columns when there is no such key.
        fails: whether several rows of a key are an error.
        ttl: the time to live of state in milliseconds; 0 for ever.
    """

    stores = (_CURRENT,)

    def __init__(
        self,
        type_: TypeInformation,
        codec: KeyCodec,
        *,
        key_fields: Sequence[int] = (),
        unique_key: Sequence[int] = (),
        fails: bool,
        ttl: int = 0,
    ) -> None:
        names = (*type_.field_names, "$retracts", "$timestamp")
        buffered = RowTypeInfo((*type_.field_types, Types.BOOLEAN(), Types.LONG()), names)
        super().__init__(buffered, codec, 0)
        self._output_type, self._width = type_, len(type_.field_names)
        self._key_fields, self._unique_key, self._fails, self._ttl = key_fields, unique_key, fails, ttl

    def restore_state(self, context: OperatorContext) -> None:
        super().restore_state(context)
        schema = schema_of(self._output_type)
        self._current = RowsOfKeys(context, _CURRENT, "the rows of keys", self._codec, schema, self._ttl)

    def begin_epoch(self, scope: EpochScope) -> None:
        super().begin_epoch(scope)
        self._current.begin_epoch(scope.processing_time)

    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        retracts = take_back(batch.row_kinds)
        columns = [*batch.columns.columns, pa.array(retracts), pa.array(batch.timestamps)]
        made = pa.RecordBatch.from_arrays(columns, schema=schema_of(self._type))
        buffered = Batch(self._type, batch.timestamps, batch.watermarks, columns=made)
        self._add(KeyedBatch.of(buffered, keys_of(batch)), batch.watermarks + 1)

    def handle(self, due: DueRows) -> None:
        keys, segments = keys_of_due(due)
        stored = self._current.find(keys)
        rows = _concatenated(stored.rows, due.rows)
        current: dict[int, int] = {key: row for row, key in enumerate(stored.of_keys.tolist())}
        compaction = _KeyCompaction(rows, self._unique_key, due.rows.column(self._width).to_pylist())
        emitted: list[_Change] = []
        left: dict[int, int] = {}
        for key, bounds in enumerate(_bounds(segments.starts, len(due))):
            row = current.get(key)
            for start, stop in _stretches(due.watermarks[bounds]):
                kept = compaction.compacted(row, range(bounds.start + start, bounds.start + stop))
                self._check(rows, kept)
                change = compaction.change(row, kept, bounds.start + stop - 1)
                if change is not None:
                    emitted.append(change)
                    row = None if change[1] == DELETE else change[0]
            if row is not None:
                left[key] = row
        self._store(keys, rows, left, [key for key in current if key not in left])
        self._emit_changes(due, rows, emitted)

    def end_epoch(self) -> None:
        super().end_epoch()
        self._current.end_epoch()

    def _check(self, rows: pa.RecordBatch, kept: Sequence[int]) -> None:
        """Refuse several rows of a key.

        Raises:
            UserFunctionError: where they are an error.
        """
        if not self._fails or len(kept) < 2:
            return
        record = {name: column[kept[-1]].as_py() for name, column in zip(rows.schema.names, rows.columns, strict=True)}
        names = [self._output_type.field_names[field] for field in self._key_fields]
        shown = ", ".join(f"{name}={record[name]}" for name in names)
        text = (
            f"Primary key constraint violation: several different rows have the key [{shown}]. Write ON CONFLICT DO "
            "NOTHING to keep the first one, or ON CONFLICT DO DEDUPLICATE to keep the last one"
        )
        raise user_error(EvaluationError(text), self.context, record)

    def _store(self, keys: KeyColumn, rows: pa.RecordBatch, left: dict[int, int], gone: list[int]) -> None:
        chosen = rows.take(pa.array(list(left.values()), pa.int64()))
        self._current.write(keys, StoredRows(np.array(list(left), np.int64), chosen), np.array(gone, np.int64))

    def _emit_changes(self, due: DueRows, rows: pa.RecordBatch, emitted: list[_Change]) -> None:
        if not emitted:
            return
        chosen, kinds, records = (np.array(each) for each in zip(*emitted, strict=True))
        shown = due.take(records)
        ranks = self.ranks(shown, np.arange(len(records)))
        order = np.lexsort((ranks, shown.watermarks))
        times = shown.rows.column(self._width + 1).to_numpy()[order]
        made = rows.take(pa.array(chosen[order]))
        batch = Batch(self._output_type, times, shown.stamps[order], columns=made, kinds=kinds[order].astype(np.int8))
        self.output.emit(batch)


class _KeyCompaction:
    """Compacts the changes of a key.

    Args:
        rows: stored rows, then those of changes.
        unique_key: the positions of the columns that identify a row; all columns when there is no such key.
        retracts: whether each change takes a row back.
    """

    def __init__(self, rows: pa.RecordBatch, unique_key: Sequence[int], retracts: Sequence[bool]) -> None:
        self._stored, self._retracts = rows.num_rows - len(retracts), retracts
        self._rows = row_identities(rows, range(rows.num_columns))
        self._is_unique = bool(unique_key)
        self._identities = row_identities(rows, unique_key) if unique_key else self._rows

    def compacted(self, current: int | None, changes: range) -> list[int]:
        """The rows that are left of the current one and changes between two watermarks."""
        kept = [] if current is None else [current]
        for change in self._without_pairs(changes):
            row = change + self._stored
            place = next(
                (at for at, other in enumerate(kept) if self._identities[other] == self._identities[row]), None
            )
            if self._retracts[change]:
                if place is not None:
                    del kept[place]
            elif place is not None and self._is_unique:
                kept[place] = row
            else:
                kept.append(row)
        return kept

    def _without_pairs(self, changes: range) -> list[int]:
        """The changes without those that add and retract equal rows."""
        left: list[int] = []
        for change in changes:
            row = self._rows[change + self._stored]
            pair = (
                at
                for at, other in enumerate(left)
                if self._retracts[other] is not self._retracts[change] and self._rows[other + self._stored] == row
            )
            place = next(pair, None)
            if place is None:
                left.append(change)
            else:
                del left[place]
        return left

    def change(self, current: int | None, kept: Sequence[int], record: int) -> _Change | None:
        """The change from the current row to the first one that is left; None where it stays the same."""
        if not kept:
            return None if current is None else (current, DELETE, record)
        if current is None:
            return kept[0], INSERT, record
        if len(kept) > 1 or self._rows[kept[0]] == self._rows[current]:
            return None
        return kept[0], UPDATE_AFTER, record


def _concatenated(stored: pa.RecordBatch, due: Picked) -> pa.RecordBatch:
    columns = [pa.concat_arrays([column, due.column(place)]) for place, column in enumerate(stored.columns)]
    return pa.RecordBatch.from_arrays(columns, schema=stored.schema)


def _bounds(starts: Longs, total: int) -> Iterator[slice]:
    first = starts.tolist()
    return map(slice, first, [*first[1:], total])


def _stretches(watermarks: Longs) -> list[tuple[int, int]]:
    """The stretches of records that are due at the same watermark."""
    starts = np.flatnonzero(np.diff(watermarks, prepend=watermarks[0] - 1)).tolist()
    return list(zip(starts, [*starts[1:], len(watermarks)], strict=True))
