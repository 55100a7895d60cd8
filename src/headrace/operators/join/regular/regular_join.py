"""``RegularJoinOperator``: the changelog of a join of two changelogs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.batch import Kinds, take_back
from headrace.common.columns import schema_of
from headrace.operators.base import EpochScope, KeyedBatch, OperatorContext
from headrace.operators.changelog.rows_of_keys import check_stores
from headrace.operators.join.find_pairs import LEFT, RIGHT
from headrace.operators.join.regular.changes import JoinChanges, changes_of
from headrace.operators.join.regular.definition import JoinCondition, JoinDefinition
from headrace.operators.join.regular.lifetimes import STORED, JoinEntries
from headrace.operators.join.regular.matches import Arrivals, find_matches
from headrace.operators.join.regular.stored_rows import (
    FoundRows,
    SideState,
    StoredSide,
    Uniqueness,
    no_rows,
)
from headrace.operators.join.results import NOBODY
from headrace.operators.waiting import BufferingOperator, TakenBatches
from headrace.operators.window.columnar.accumulators import ArrivalCounter
from headrace.state.keys import KeyColumn
from headrace.state.runs.grouping import group_keys, sorted_by
from headrace.state.runs.merge_input import concat

if TYPE_CHECKING:
    from headrace.state.keys import KeyCodec

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_WAITING_ROWS: Final = 1 << 16
_STORES: Final = ("join-rows-left", "join-rows-right")


class RegularJoinOperator(BufferingOperator):
    """Joins two keyed changelogs.

    Results are those of processing one record after the other, in the order of arrival.

    Args:
        definition: the join.
        codec: the codec of the keys.
        states: how the rows of both inputs are kept.
        joins_itself: whether both inputs are the same records, each of which comes to both before the next does.
    """

    def __init__(
        self,
        definition: JoinDefinition,
        codec: KeyCodec,
        states: tuple[SideState, SideState],
        *,
        joins_itself: bool = False,
    ) -> None:
        super().__init__(_WAITING_ROWS)
        self._joins_itself = joins_itself
        self._definition, self._codec, self._states = definition, codec, states
        self._changes = changes_of(definition.join_type)

    def restore_state(self, context: OperatorContext) -> None:
        check_stores(context, _STORES)
        definition = self._definition
        self._condition = JoinCondition(definition, context)
        self._schemas = [schema_of(type_) for type_ in definition.input_types]
        self._stored = [
            StoredSide(context, name, self._codec, schema, state, counts_partners=counts)
            for name, schema, state, counts in zip(
                _STORES, self._schemas, self._states, self._changes.counting_sides, strict=True
            )
        ]

    def begin_epoch(self, scope: EpochScope) -> None:
        super().begin_epoch(scope)
        self._numbers = ArrivalCounter(scope.epoch)
        for side in self._stored:
            side.begin_epoch(scope.processing_time)

    def end_epoch(self) -> None:
        for side in self._stored:
            side.end_epoch()

    def handle_taken(self, taken: TakenBatches[KeyedBatch]) -> None:
        records = _Records.of(taken)
        self._handle(records.in_turn() if self._joins_itself else records)

    def _handle(self, records: _Records) -> None:
        left, right = self._rows(records, LEFT), self._rows(records, RIGHT)
        entries, partners = (left.entries, right.entries), (left.partners, right.partners)
        arrivals = records.arrivals(entries, self._definition)
        for matches in find_matches(arrivals, entries, self._condition):
            self._emit(arrivals, self._changes.of(arrivals, records.kinds, matches, partners), entries)
        for side, rows in ((LEFT, left), (RIGHT, right)):
            self._stored[side].write(records.keys, *rows.written())

    def _rows(self, records: _Records, side: int) -> _RowsOfSide:
        """The relevant rows of one input: of keys with records of the other input, or that may be replaced."""
        state, batch = self._states[side], records.batches[side]
        own = np.flatnonzero(records.sides == side)
        takes_back = records.takes_back[own]
        is_wanted = np.zeros(len(records.keys), np.bool_)
        is_wanted[records.of_keys[records.sides != side]] = True
        if state.uniqueness is not Uniqueness.NONE or takes_back.any():
            is_wanted[records.of_keys[own]] = True
        wanted = np.flatnonzero(is_wanted)
        schema = self._schemas[side]
        found = self._stored[side].find(records.keys.take(wanted)) if len(wanted) else no_rows(schema)
        stored = len(found.of_keys)
        entries = JoinEntries(
            state,
            np.concatenate((wanted[found.of_keys], records.of_keys[own])),
            np.concatenate((np.full(stored, STORED), own)),
            np.concatenate((np.zeros(stored, np.bool_), takes_back)),
            np.concatenate((found.numbers, self._numbers.next(len(own)))),
            concat([found.rows, *([] if batch is None else [batch.columns])]),
            len(records.sides),
        )
        return _RowsOfSide(entries, found, np.concatenate((found.partners, np.zeros(len(own), np.int64))))

    def _emit(self, arrivals: Arrivals, changes: JoinChanges, sides: tuple[JoinEntries, JoinEntries]) -> None:
        if not len(changes):
            return
        rows = sides[LEFT].rows, sides[RIGHT].rows
        times = arrivals.timestamps[changes.records], arrivals.watermarks[changes.records]
        kinds = changes.kinds if changes.kinds.any() else None
        self.output.emit(self._definition.results(changes.lefts, changes.rights, rows, times, kinds))


@dataclass(frozen=True)
class _Records:
    """Records of both inputs that are processed together, in the order of arrival.

    Attributes:
        batches: those of each input; None where there are none.
        sides: the input of each.
        keys: their distinct keys, by hash and key.
        of_keys: the key of each.
        kinds: the kind of each.
        timestamps: its timestamp.
        watermarks: the watermark that it has met.
    """

    batches: tuple[KeyedBatch | None, KeyedBatch | None]
    sides: Longs
    keys: KeyColumn
    of_keys: Longs
    kinds: Kinds
    timestamps: Longs
    watermarks: Longs

    @staticmethod
    def of(taken: TakenBatches[KeyedBatch]) -> _Records:
        """The records of batches."""
        keys = KeyColumn.concat([batch.keys for batch in taken.batches])
        groups = group_keys(keys.hashes, keys.values)
        of_keys = groups.numbers
        return _Records(
            (taken.of(LEFT), taken.of(RIGHT)),
            taken.sides,
            keys.take(groups.first_rows),
            of_keys,
            np.concatenate([batch.row_kinds for batch in taken.batches]),
            taken.timestamps,
            taken.watermarks,
        )

    def in_turn(self) -> _Records:
        """The records with the first of both inputs in front of the second of both, and so on."""
        places = np.empty(len(self.sides), np.int64)
        for side in (LEFT, RIGHT):
            own = np.flatnonzero(self.sides == side)
            places[own] = 2 * np.arange(len(own)) + side
        order = np.argsort(places)
        return replace(
            self,
            sides=self.sides[order],
            of_keys=self.of_keys[order],
            kinds=self.kinds[order],
            timestamps=self.timestamps[order],
            watermarks=self.watermarks[order],
        )

    @cached_property
    def takes_back(self) -> Mask:
        """True for each record that retracts a row."""
        return take_back(self.kinds)

    def arrivals(self, sides: tuple[JoinEntries, JoinEntries], definition: JoinDefinition) -> Arrivals:
        """The records, each as an entry of its input."""
        entries, has_matches = np.empty(len(self.sides), np.int64), np.ones(len(self.sides), np.bool_)
        for side, batch in enumerate(self.batches):
            if batch is not None:
                own = np.flatnonzero(self.sides == side)
                entries[own] = len(sides[side]) - len(own) + np.arange(len(own))
                has_matches[own] = definition.has_matches(side, batch.columns)
        return Arrivals(
            self.sides, entries, self.of_keys, self.takes_back, has_matches, self.timestamps, self.watermarks
        )


@dataclass(frozen=True)
class _RowsOfSide:
    """The rows of one input while records are processed.

    Attributes:
        entries: the stored rows, and the records.
        found: the stored rows.
        partners: the number of matches of each entry.
    """

    entries: JoinEntries
    found: FoundRows
    partners: Longs

    def written(self) -> tuple[FoundRows, Mask]:
        """The rows to write, in the order of state, and which of them are live."""
        entries, stored = self.entries, len(self.found.of_keys)
        numbers = entries.lifetimes.numbers if entries.is_unique else entries.numbers
        is_there = ~entries.takes_back & (entries.deaths == entries.end)
        is_written = is_there.copy()
        is_written[:stored] &= self.partners[:stored] != self.found.partners
        is_written[:stored] |= self._are_gone(is_there, numbers)
        rows = np.flatnonzero(is_written)
        rows = rows[sorted_by(entries.of_keys[rows], numbers[rows])]
        made = FoundRows(entries.of_keys[rows], numbers[rows], self.partners[rows], entries.rows.take(pa.array(rows)))
        return made, is_there[rows]

    def _are_gone(self, is_there: Mask, numbers: Longs) -> Mask:
        """True for each stored row that is dead, and whose number no other row has taken over."""
        entries, stored = self.entries, len(self.found.of_keys)
        gone = ~is_there[:stored]
        if entries.is_unique and gone.any():
            order, groups = entries.groups
            of_groups = np.empty(len(entries), np.int64)
            of_groups[order] = groups
            left = np.full(int(groups.max()) + 1, NOBODY)
            left[of_groups[is_there]] = numbers[is_there]
            gone &= left[of_groups[:stored]] != numbers[:stored]
        return gone
