"""``KeyedChangesOperator``: records are buffered, and processed together key by key."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import gather
from headrace.common.batch import Batch, Kinds, take_back
from headrace.common.typeinfo.composite import schema_of
from headrace.common.types import RowKind
from headrace.operators.base import EpochScope, KeyedBatch, OperatorContext, concat_keyed
from headrace.operators.changelog.rows_of_keys import RowsOfKeys, StoredRows, check_stores
from headrace.operators.waiting import BufferingOperator, TakenBatches
from headrace.state.keys import KeyColumn
from headrace.state.runs.grouping import Groups, Segments, group_keys, in_order

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation
    from headrace.state.keys import KeyCodec

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = (
    np.int8(kind.value) for kind in (RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE)
)

_WAITING_ROWS: Final = 1 << 18
"""The maximum number of buffered records; the more there are, the less often the rows of a key are read and written."""


@dataclass(frozen=True)
class Arrived:
    """Records that are processed together, and the stored rows of their keys.

    Rows are numbered: first the stored ones, then the records in the order of arrival.

    Attributes:
        batch: the records.
        groups: the records in the order of their keys.
        keys: the distinct keys, by hash and key.
        stored: the stored rows of the keys.
    """

    batch: KeyedBatch
    groups: Groups
    keys: KeyColumn
    stored: StoredRows

    @cached_property
    def rows(self) -> pa.RecordBatch:
        """All rows by their numbers."""
        mine = self.batch.columns
        if not len(self.stored):
            return mine
        columns = [pa.concat_arrays(pair) for pair in zip(self.stored.rows.columns, mine.columns, strict=False)]
        return pa.RecordBatch.from_arrays(columns, schema=mine.schema)

    @cached_property
    def takes_back(self) -> Mask:
        """True for each record that retracts a row."""
        kinds = self.batch.kinds
        if kinds is None:
            return np.zeros(len(self.batch), np.bool_)
        return take_back(kinds)

    @property
    def sequence(self) -> Longs:
        """The numbers of all rows, key by key: the stored ones, then the records in the order of arrival."""
        return self._by_key[0]

    @property
    def of_keys(self) -> Longs:
        """The key of each row of :attr:`sequence`."""
        return self._by_key[1]

    @cached_property
    def _by_key(self) -> tuple[Longs, Longs]:
        if not len(self.stored):
            return self.groups.order, self.groups.segments.ids
        keys = np.concatenate((self.stored.of_keys, self.groups.segments.ids))
        numbers = np.concatenate((np.arange(len(self.stored)), self.groups.order + len(self.stored)))
        order = in_order(keys)
        return numbers[order], keys[order]

    @cached_property
    def segments(self) -> Segments:
        """The rows of each key in :attr:`sequence`; every key has records."""
        return Segments(np.flatnonzero(np.diff(self.of_keys, prepend=-1)), len(self.of_keys))


@dataclass(frozen=True)
class Changes:
    """The rows that an operator emits, with their kinds.

    Attributes:
        rows: the numbers of the rows.
        kinds: the kind of each.
        records: the position of the record that causes it.
        numbers: integer columns to append to the rows.
    """

    rows: Longs
    kinds: Kinds
    records: Longs
    numbers: tuple[Longs, ...] = ()

    def take(self, places: Longs) -> Changes:
        """The rows at some positions, in that order."""
        return Changes(
            self.rows[places], self.kinds[places], self.records[places], tuple(each[places] for each in self.numbers)
        )

    @staticmethod
    def concat(parts: list[Changes]) -> Changes:
        """Concatenates changes."""
        return Changes(
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.kinds for part in parts]),
            np.concatenate([part.records for part in parts]),
            tuple(np.concatenate(list(each)) for each in zip(*(part.numbers for part in parts), strict=True)),
        )


class KeyedChangesOperator(BufferingOperator):
    """Processes the records of each key with the stored rows of the key, and emits changes.

    Results are those of processing one record after the other in the order of arrival.

    Args:
        input_type: the type of the records, which are stored as they are.
        output_type: the type of the emitted rows.
        codec: the codec of the keys.
        ttl: the time to live of state in milliseconds; 0 for ever.
    """

    store = "rows"
    what = "rows of keys"

    def __init__(
        self, input_type: TypeInformation, output_type: TypeInformation, codec: KeyCodec, *, ttl: int = 0
    ) -> None:
        super().__init__(_WAITING_ROWS)
        self._input_type, self._output_type = input_type, output_type
        self._codec, self._ttl = codec, ttl

    @abstractmethod
    def changes(self, arrived: Arrived) -> tuple[Changes, Longs]:
        """The changes that records cause, and the positions of the rows to keep, key by key."""

    @property
    def state_fields(self) -> list[pa.Field]:
        """The columns of the stored rows; those of the records come first."""
        return list(schema_of(self._input_type))

    def restore_state(self, context: OperatorContext) -> None:
        check_stores(context, [self.store])
        schema = pa.schema(self.state_fields)
        self._rows = RowsOfKeys(context, self.store, self.what, self._codec, schema, self._ttl)

    def begin_epoch(self, scope: EpochScope) -> None:
        super().begin_epoch(scope)
        self._rows.begin_epoch(scope.processing_time)

    def end_epoch(self) -> None:
        self._rows.end_epoch()

    def handle_taken(self, taken: TakenBatches[KeyedBatch]) -> None:
        arrived = self._arrived(concat_keyed(taken.batches))
        found, left = self.changes(arrived)
        self._remember(arrived, left)
        self._emit(arrived, found)

    def _arrived(self, batch: KeyedBatch) -> Arrived:
        keys = batch.keys
        groups = group_keys(keys.hashes, keys.values)
        different = keys.take(groups.first_rows)
        return Arrived(batch, groups, different, self._rows.find(different))

    def remembered(self, arrived: Arrived, left: Longs) -> pa.RecordBatch:
        """The rows with these numbers, in the form in which they are stored."""
        rows = arrived.rows
        return pa.RecordBatch.from_arrays([gather(column, left) for column in rows.columns], schema=rows.schema)

    def _remember(self, arrived: Arrived, left: Longs) -> None:
        keys_of = np.empty(arrived.segments.total, np.int64)
        keys_of[arrived.sequence] = arrived.of_keys
        of_keys = keys_of[left]
        now, before = (np.bincount(each, minlength=len(arrived.keys)) for each in (of_keys, arrived.stored.of_keys))
        if not self._ttl:  # else a key is written so that it expires later
            is_changed = now != before
            is_changed[of_keys[left >= len(arrived.stored)]] = True
            left, of_keys = left[is_changed[of_keys]], of_keys[is_changed[of_keys]]
        gone = np.flatnonzero((before > 0) & (now == 0))
        self._rows.write(arrived.keys, StoredRows(of_keys, self.remembered(arrived, left)), gone)

    def _emit(self, arrived: Arrived, found: Changes) -> None:
        if not len(found.rows):
            return
        columns = [gather(column, found.rows) for column in arrived.rows.columns]
        columns += [pa.array(number) for number in found.numbers]
        times = arrived.batch.timestamps[found.records], arrived.batch.watermarks[found.records]
        made = pa.RecordBatch.from_arrays(columns, schema=schema_of(self._output_type))
        kinds = found.kinds if found.kinds.any() else None
        self.output.emit(Batch(self._output_type, *times, columns=made, kinds=kinds))
