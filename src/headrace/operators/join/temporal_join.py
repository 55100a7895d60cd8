"""Temporal joins: each row with the version of another one that was valid at its time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import fixed_width
from headrace.common.batch import Batch, take_back
from headrace.common.typeinfo import RowTypeInfo, TypeInformation, Types
from headrace.common.typeinfo.composite import schema_of
from headrace.operators.base import EpochScope, KeyedBatch, OperatorContext, concat_keyed
from headrace.operators.changelog.event_time import EventTimeOperator
from headrace.operators.changelog.order import millis_of
from headrace.operators.join.find_pairs import LEFT, RIGHT
from headrace.operators.join.regular.definition import JoinCondition, JoinDefinition, SideState
from headrace.operators.join.regular.stored_rows import FoundRows, StoredSide
from headrace.operators.join.results import NO_MATCH, JoinType
from headrace.operators.window.columnar.accumulators import ArrivalCounter
from headrace.state.keys import KeyColumn
from headrace.state.runs.grouping import group_keys, in_order
from headrace.state.runs.merge_input import concat

if TYPE_CHECKING:
    from headrace.operators.changelog.pending_rows import DueRows
    from headrace.state.keys import KeyCodec

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_STORE: Final = "versions"
_KIND: Final = "$kind"


class TemporalJoinOperator(EventTimeOperator):
    """Joins the rows of the left input with the versions of rows of the right one, in event time.

    A version is valid from its time until that of the next one with its key. A row of the left input waits until the
    watermark has passed its time; of versions, the last one before the watermark is kept, and later ones. Results are
    changes of the kinds of the rows of the left input.

    Args:
        definition: the join.
        codec: the codec of the keys.
        time_fields: the position of the time column of each input.
        has_changes: whether rows of the left input may be updates and deletions.
    """

    stores = (_STORE,)
    timers = None
    takes_late = True

    def __init__(
        self, definition: JoinDefinition, codec: KeyCodec, *, time_fields: tuple[int, int], has_changes: bool = False
    ) -> None:
        left = definition.input_types[LEFT]
        super().__init__(_with_kinds(left) if has_changes else left, codec, time_fields[LEFT])
        self._definition, self._version_time, self._has_changes = definition, time_fields[RIGHT], has_changes
        self.user_code = definition.user_code

    def restore_state(self, context: OperatorContext) -> None:
        super().restore_state(context)
        self._condition = JoinCondition(self._definition, context)
        fields = [pa.field("time", pa.int64()), pa.field("watermark", pa.int64()), pa.field("is_deleted", pa.bool_())]
        self._schema = pa.schema([*fields, *schema_of(self._definition.input_types[RIGHT])])
        self._stored = StoredSide(context, _STORE, self._codec, self._schema, SideState(), counts_partners=False)

    def begin_epoch(self, scope: EpochScope) -> None:
        super().begin_epoch(scope)
        self._stored.begin_epoch(scope.processing_time)
        self._numbers, self._arrived = ArrivalCounter(scope.epoch), list[KeyedBatch]()

    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        if input_index == RIGHT:
            self._arrived.append(batch)
            self._pending.meet(batch.watermarks)
        else:
            super().process_keyed(input_index, self._timed(batch))

    def _timed(self, batch: KeyedBatch) -> KeyedBatch:
        """Rows of the left input with their kinds in a column, if they may be changes."""
        if not self._has_changes:
            return batch
        columns = [*batch.columns.columns, pa.array(batch.row_kinds)]
        made = pa.RecordBatch.from_arrays(columns, schema=schema_of(self._type))
        return KeyedBatch.of(Batch(self._type, batch.timestamps, batch.watermarks, columns=made), batch.keys)

    def accepts(self, batch: KeyedBatch, times: Longs) -> Mask:
        return np.ones(len(batch), np.bool_)  # a late row waits for the next watermark

    def _take(self, watermark: int) -> None:
        due = self._pending.take(watermark)
        if due is not None or self._arrived:
            self._join(due, watermark)

    def end_epoch(self) -> None:
        super().end_epoch()
        self._stored.end_epoch()

    def handle(self, due: DueRows) -> None:
        raise AssertionError("rows are joined with versions that have arrived, not handled alone")

    def _join(self, due: DueRows | None, watermark: int) -> None:
        arrived = concat_keyed(self._arrived) if self._arrived else None
        self._arrived = []
        parts = [each.keys for each in (due, arrived) if each is not None]
        keys = KeyColumn.concat(parts)
        groups = group_keys(keys.hashes, keys.values)
        of_keys = groups.numbers
        different = keys.take(groups.first_rows)
        rows = 0 if due is None else len(due)
        versions = self._versions(different, arrived, of_keys[rows:])
        if due is not None:
            self._emit_joined(due, versions, of_keys[:rows])
        self._stored.write(different, *versions.written(watermark))

    def _versions(self, keys: KeyColumn, arrived: KeyedBatch | None, of_arrived: Longs) -> _RowVersions:
        """The stored versions of keys, and the newly arrived ones."""
        found = self._stored.find(keys)
        if arrived is None:
            return _RowVersions.of(found.of_keys, found.numbers, found.rows, len(found.of_keys))
        name = self._definition.input_types[RIGHT].field_names[self._version_time]
        numbers = [
            millis_of(arrived.columns.column(self._version_time), name),
            arrived.watermarks,
            take_back(arrived.row_kinds),
        ]
        columns = [*(pa.array(each) for each in numbers), *arrived.columns.columns]
        rows = concat([found.rows, pa.RecordBatch.from_arrays(columns, schema=self._schema)])
        of_keys = np.concatenate((found.of_keys, of_arrived))
        return _RowVersions.of(
            of_keys, np.concatenate((found.numbers, self._numbers.next(len(arrived)))), rows, len(found.of_keys)
        )

    def _emit_joined(self, due: DueRows, versions: _RowVersions, of_keys: Longs) -> None:
        times = self._times_of(due.rows)
        found = versions.valid(of_keys, times, due.times - 1, due.watermarks)
        whole, kinds = due.whole(), None
        if self._has_changes:
            kinds = fixed_width(whole.column(whole.num_columns - 1))
            whole = whole.select(range(whole.num_columns - 1))
        sides = whole, versions.records
        at = np.flatnonzero(found != NO_MATCH)
        kept, _ = self._condition.filtered(sides, at, found[at])
        matched = np.zeros(len(due), np.bool_)
        matched[kept] = True
        found = np.where(matched, found, NO_MATCH)
        order = _in_order(due, times, of_keys)
        if self._definition.join_type is not JoinType.LEFT:
            order = order[matched[order]]
        if len(order):
            stamps = times[order], due.stamps[order]
            shown = None if kinds is None else kinds[order]
            self.output.emit(self._definition.results(order, found[order], sides, stamps, shown))


def _with_kinds(type_: TypeInformation) -> TypeInformation:
    return RowTypeInfo((*type_.field_types, Types.BYTE()), (*type_.field_names, _KIND))


def _in_order(due: DueRows, times: Longs, of_keys: Longs) -> Longs:
    """The order of results: by watermark, then key by key as their timers fire, then as rows came."""
    steps = np.unique(due.watermarks, return_inverse=True)[1]
    groups = steps * (int(of_keys.max(initial=0)) + 1) + of_keys
    different, inverse = np.unique(groups, return_inverse=True)
    first = np.full(len(different), np.iinfo(np.int64).max)
    np.minimum.at(first, inverse, times)
    came = np.full(len(different), np.iinfo(np.int64).max)
    np.minimum.at(came, inverse, due.arrivals)
    return np.lexsort((due.arrivals, came[inverse], first[inverse], steps))


@dataclass(frozen=True)
class _RowVersions:
    """Versions of rows, by key, time and arrival.

    Attributes:
        of_keys: the key of each.
        times: when each becomes valid.
        watermarks: the watermark that each has met.
        is_deleted: which of them are deletions.
        numbers: the number of each in state.
        is_stored: which are in state.
        rows: the rows in the form in which they are stored.
    """

    of_keys: Longs
    times: Longs
    watermarks: Longs
    is_deleted: Mask
    numbers: Longs
    is_stored: Mask
    rows: pa.RecordBatch

    @staticmethod
    def of(of_keys: Longs, numbers: Longs, rows: pa.RecordBatch, stored: int) -> _RowVersions:
        """Versions, of which the first ones are stored."""
        times = rows.column(0).to_numpy()
        order = in_order(of_keys, times)
        return _RowVersions(
            of_keys[order],
            times[order],
            rows.column(1).to_numpy()[order],
            np.asarray(rows.column(2))[order],
            numbers[order],
            order < stored,
            rows.take(pa.array(order)),
        )

    @property
    def records(self) -> pa.RecordBatch:
        """The records of the right input."""
        return self.rows.select(range(3, self.rows.num_columns))

    def valid(self, of_keys: Longs, times: Longs, passed: Longs, watermarks: Longs) -> Longs:
        """The version that is valid for each row; ``NO_MATCH`` if there is none, or it has been dropped from state.

        Args:
            of_keys: the key of each row.
            times: its time.
            passed: the watermark that a late row has met.
            watermarks: the watermark at which it is joined: versions that come then are not seen.
        """
        if not len(self.times):
            return np.full(len(times), NO_MATCH)
        found = self._last_before(of_keys, times, watermarks)
        late = np.flatnonzero((times <= passed) & (found != NO_MATCH))
        newest = self._last_before(of_keys[late], passed[late], np.minimum(watermarks[late], passed[late]))
        is_forgotten = (newest != NO_MATCH) & (self.times[newest] > self.times[found[late]])
        is_forgotten &= self.watermarks[found[late]] < passed[late]
        found[late[is_forgotten]] = NO_MATCH
        found[(found != NO_MATCH) & self.is_deleted[found]] = NO_MATCH
        return found

    def _last_before(self, of_keys: Longs, times: Longs, watermarks: Longs) -> Longs:
        """The last version of each key up to a time that came before a watermark."""
        keys = np.concatenate((self.of_keys, of_keys))
        moments = np.concatenate((self.times, times))
        is_row = np.repeat([0, 1], [len(self.times), len(times)])
        order = in_order(keys, moments, is_row)
        places = np.empty(len(order), np.int64)
        places[order] = np.cumsum(1 - is_row[order]) - 1
        found = places[len(self.times) :]
        while True:
            is_own = (found >= 0) & (self.of_keys[found] == of_keys)
            is_unseen = is_own & (self.watermarks[found] >= watermarks)
            if not is_unseen.any():
                return np.where(is_own, found, NO_MATCH)
            found = np.where(is_unseen, found - 1, found)

    def written(self, watermark: int) -> tuple[FoundRows, Mask]:
        """The versions to write, in the order of state, and which of them are kept."""
        is_last = np.ones(len(self.times), np.bool_)
        has_next = self.of_keys[1:] == self.of_keys[:-1]
        # A version expires when the next one replaces it, or is valid at a watermark that came after both.
        is_over = (self.times[1:] <= watermark) & (self.watermarks[1:] < watermark) & (self.watermarks[:-1] < watermark)
        is_last[:-1] = ~(has_next & (is_over | (self.times[1:] == self.times[:-1])))
        places = np.flatnonzero(is_last != self.is_stored)
        places = places[in_order(self.of_keys[places], self.numbers[places])]
        zeros = np.zeros(len(places), np.int64)
        rows = self.rows.take(pa.array(places))
        return FoundRows(self.of_keys[places], self.numbers[places], zeros, rows), is_last[places]
