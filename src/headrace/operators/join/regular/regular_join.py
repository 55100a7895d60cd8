"""``RegularJoinOperator``: the changelog of a join of two changelogs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from headrace.common.columns import schema_of
from headrace.operators.base import KeyedBatch, OperatorContext
from headrace.operators.changelog.rows_of_keys import check_stores
from headrace.operators.join.find_pairs import LEFT, RIGHT
from headrace.operators.join.regular.changes import JoinChanges, changes_of
from headrace.operators.join.regular.definition import JoinCondition, JoinDefinition
from headrace.operators.join.regular.lifetimes import JoinEntries
from headrace.operators.join.regular.matches import Arrivals, find_matches
from headrace.operators.join.regular.records import ChangelogJoinOperator, JoinRecords
from headrace.operators.join.regular.stored_rows import SideState
from headrace.operators.waiting import TakenBatches

if TYPE_CHECKING:
    from headrace.state.keys import KeyCodec

_STORES: Final = ("join-rows-left", "join-rows-right")


class RegularJoinOperator(ChangelogJoinOperator):
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
        super().__init__(codec)
        self._joins_itself = joins_itself
        self._definition, self._states = definition, states
        self.user_code = definition.user_code
        self._changes = changes_of(definition.join_type)

    def restore_state(self, context: OperatorContext) -> None:
        check_stores(context, _STORES)
        definition = self._definition
        self._condition = JoinCondition(definition, context)
        self._sides = []
        for side, counts in enumerate(self._changes.counting_sides):
            schema = schema_of(definition.input_types[side])
            self._add_side(context, _STORES[side], self._states[side], schema, counts_partners=counts)

    def handle_taken(self, taken: TakenBatches[KeyedBatch]) -> None:
        records = JoinRecords.of(taken, len(_STORES))
        self._handle(records.in_turn() if self._joins_itself else records)

    def _handle(self, records: JoinRecords) -> None:
        left, right = (side.rows(records, self._numbers) for side in self._sides)
        entries, partners = (left.entries, right.entries), (left.partners, right.partners)
        arrivals = self._arrivals(records, entries)
        for matches in find_matches(arrivals, entries, self._condition):
            self._emit(arrivals, self._changes.of(arrivals, records.kinds, matches, partners), entries)
        for side, rows in ((LEFT, left), (RIGHT, right)):
            self._sides[side].stored.write(records.keys, *rows.written())

    def _arrivals(self, records: JoinRecords, sides: tuple[JoinEntries, JoinEntries]) -> Arrivals:
        """The records, each as an entry of its input."""
        has_matches = np.ones(len(records.sides), np.bool_)
        for side, batch in enumerate(records.batches):
            if batch is not None:
                has_matches[records.sides == side] = self._definition.has_matches(side, batch.columns)
        return Arrivals(
            records.sides,
            records.entries(sides),
            records.of_keys,
            records.takes_back,
            has_matches,
            records.timestamps,
            records.watermarks,
        )

    def _emit(self, arrivals: Arrivals, changes: JoinChanges, sides: tuple[JoinEntries, JoinEntries]) -> None:
        if not len(changes):
            return
        rows = sides[LEFT].rows, sides[RIGHT].rows
        times = arrivals.timestamps[changes.records], arrivals.watermarks[changes.records]
        kinds = changes.kinds if changes.kinds.any() else None
        self.output.emit(self._definition.results(changes.lefts, changes.rights, rows, times, kinds))
