"""``ChangelogNormalize`` and ``Deduplicate``: the last row, or the first row, of each key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import differ, gather
from headrace.common.batch import Batch
from headrace.operators.changelog.keyed_changes import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Arrived,
    Changes,
    KeyedChangesOperator,
)
from headrace.operators.changelog.order import millis_of
from headrace.operators.changelog.rows_of_keys import StoredRows
from headrace.operators.mini_batch import first_records, last_records
from headrace.operators.stateless import computed
from headrace.state.runs.grouping import in_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.common.typeinfo import TypeInformation
    from headrace.expressions import Bound
    from headrace.operators.base import KeyedBatch
    from headrace.state.keys import KeyCodec

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_SIGNED_BITS: Final = 62


class LastRowOperator(KeyedChangesOperator):
    """Keeps the last row of each key, and emits its changes.

    A retraction leaves the key without a row, whatever its fields are: those of a tombstone are null except for the
    key. Records that do not meet the condition do the same. A retraction for a key without a row is dropped.

    Args:
        type_: the type of the records.
        codec: the codec of the keys.
        update_before: whether updates include ``UPDATE_BEFORE`` rows.
        emits_equal: whether a row that is equal to the last one is emitted as an update.
        condition: the condition on rows to keep; None for all.
        time_field: the position of the time column, if a row with an earlier time than the last one is to be dropped;
            None for the order of arrival.
        ttl: the time to live of state in milliseconds; 0 for ever.
    """

    store, what = "last-rows", "the last rows of keys"
    mini_batch: tuple[int, Sequence[int]] | None = None
    """The maximum number of records of which only the last one of each key counts, and the positions of the columns of
    the key; None where each record counts."""

    def __init__(
        self,
        type_: TypeInformation,
        codec: KeyCodec,
        *,
        update_before: bool,
        emits_equal: bool = False,
        condition: Bound | None = None,
        time_field: int | None = None,
        ttl: int = 0,
    ) -> None:
        super().__init__(type_, type_, codec, ttl=ttl)
        self._update_before, self._emits_equal = update_before, emits_equal or ttl > 0
        self._condition, self._time_field = condition, time_field

    def _arrived(self, batch: KeyedBatch) -> Arrived:
        return super()._arrived(batch if self.mini_batch is None else last_records(batch, *self.mini_batch))

    def changes(self, arrived: Arrived) -> tuple[Changes, Longs]:
        sequence, of_keys = arrived.sequence, arrived.of_keys
        is_row = self._are_rows(arrived)
        if self._time_field is not None:
            kept = self._in_time(arrived)
            sequence, of_keys = sequence[kept], of_keys[kept]
        is_first = np.diff(of_keys, prepend=-1) != 0
        before = np.empty_like(sequence)
        before[1:] = sequence[:-1]
        has_before = ~is_first
        has_before[1:] &= is_row[sequence[:-1]]
        is_last = np.append(is_first[1:], True)
        left = sequence[is_last & is_row[sequence]]
        is_record = sequence >= len(arrived.stored)
        return self._changes(arrived, sequence, before, has_before & is_record, is_row[sequence] & is_record), left

    def _changes(self, arrived: Arrived, rows: Longs, before: Longs, has_before: Mask, is_row: Mask) -> Changes:
        records = rows - len(arrived.stored)
        updates = np.flatnonzero(is_row & has_before)
        if not self._emits_equal and len(updates):
            updates = updates[_differ(arrived.rows, before[updates], rows[updates])]
        inserts, deletes = np.flatnonzero(is_row & ~has_before), np.flatnonzero(~is_row & has_before)
        parts = [
            _of_kind(UPDATE_BEFORE, before[updates], records[updates]) if self._update_before else None,
            _of_kind(UPDATE_AFTER, rows[updates], records[updates]),
            _of_kind(INSERT, rows[inserts], records[inserts]),
            _of_kind(DELETE, before[deletes], records[deletes]),
        ]
        found = Changes.concat([part for part in parts if part is not None])
        return found.take(in_order(found.records))  # UPDATE_BEFORE stays before UPDATE_AFTER

    def _are_rows(self, arrived: Arrived) -> Mask:
        """True for each row that stays until the next one replaces it; False for retractions."""
        is_row = np.ones(len(arrived.stored) + len(arrived.batch), np.bool_)
        is_row[len(arrived.stored) :] = ~arrived.takes_back
        if self._condition is not None:
            holds = computed((self._condition,), arrived.batch, self.context)[0].fill_null(False)
            is_row[len(arrived.stored) :] &= np.asarray(holds)
        return is_row

    def _in_time(self, arrived: Arrived) -> Mask:
        """True for each row that is not earlier than any before it with its key."""
        assert self._time_field is not None
        name = self._input_type.field_names[self._time_field]
        times = millis_of(arrived.rows.column(self._time_field), name)[arrived.sequence]
        return times >= running_maximum(times, arrived.of_keys)


class FirstRowOperator(KeyedChangesOperator):
    """Emits the first record of each key, in the order of arrival.

    Args:
        type_: the type of the records.
        codec: the codec of the keys.
        ttl: the time to live of state in milliseconds; 0 for ever.
    """

    store, what = "first-rows", "the keys that have had a row"
    mini_batch: tuple[int, Sequence[int]] | None = None
    """The maximum number of records of which only the first one of each key counts, and the positions of the columns of
    the key; None where each record counts."""

    def __init__(self, type_: TypeInformation, codec: KeyCodec, *, ttl: int = 0) -> None:
        super().__init__(type_, type_, codec, ttl=ttl)

    def _arrived(self, batch: KeyedBatch) -> Arrived:
        return super()._arrived(batch if self.mini_batch is None else first_records(batch, *self.mini_batch))

    @property
    def state_fields(self) -> list[pa.Field]:
        return [pa.field("has_row", pa.bool_())]

    def changes(self, arrived: Arrived) -> tuple[Changes, Longs]:
        is_new = np.ones(len(arrived.keys), np.bool_)
        is_new[arrived.stored.of_keys] = False
        firsts = arrived.groups.first_rows[is_new]
        records = np.sort(firsts)
        found = _of_kind(INSERT, records + len(arrived.stored), records)
        return found, firsts + len(arrived.stored)

    def _remember(self, arrived: Arrived, left: Longs) -> None:
        if len(left):
            is_new = np.ones(len(arrived.keys), np.bool_)
            is_new[arrived.stored.of_keys] = False
            rows = StoredRows(np.flatnonzero(is_new), self.remembered(arrived, left))
            self._rows.write(arrived.keys, rows, np.empty(0, np.int64))

    def _emit(self, arrived: Arrived, found: Changes) -> None:
        if len(found.records):
            self.output.emit(Batch.take(arrived.batch, found.records))

    def remembered(self, arrived: Arrived, left: Longs) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pa.array(np.ones(len(left), np.bool_))], schema=pa.schema(self.state_fields))


def running_maximum(values: Longs, of_keys: Longs) -> Longs:
    """The running maximum of the values of each key; keys ascend."""
    if not len(values):
        return values
    lowest, step = int(values.min()), int(values.max()) - int(values.min()) + 1
    if step * (int(of_keys[-1]) + 1) >= 1 << _SIGNED_BITS:
        different, ranks = np.unique(values, return_inverse=True)
        found: Longs = different[running_maximum(ranks.astype(np.int64), of_keys)]
        return found
    # Each key lies above all values of the one before it, so that one pass finds the running maximum of each.
    shift = step * of_keys - lowest
    best: Longs = np.maximum.accumulate(values + shift) - shift
    return best


def _of_kind(kind: np.int8, rows: Longs, records: Longs) -> Changes:
    return Changes(rows, np.full(len(rows), kind), records)


def _differ(rows: pa.RecordBatch, some: Longs, others: Longs) -> Mask:
    found = np.zeros(len(some), np.bool_)
    for column in rows.columns:
        found |= differ(gather(column, some), gather(column, others))
    return found
