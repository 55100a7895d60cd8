"""``RegularJoinOperator``: the changelog of a join of two changelogs, change by change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from headrace.common.typeinfo.composite import schema_of
from headrace.common.types import RowKind
from headrace.operators.base import KeyedBatch, OperatorContext
from headrace.operators.changelog.rows_of_keys import check_stores
from headrace.operators.join.find_pairs import LEFT, RIGHT
from headrace.operators.join.regular.definition import JoinCondition, JoinDefinition, SideState
from headrace.operators.join.regular.records import Arrivals, ChangelogJoinOperator, JoinRecords, find_matches
from headrace.operators.join.regular.stored_rows import JoinEntries
from headrace.operators.join.results import NO_MATCH, JoinType
from headrace.operators.waiting import TakenBatches

if TYPE_CHECKING:
    from headrace.common.batch import Kinds
    from headrace.operators.join.regular.records import Matches
    from headrace.state.keys import KeyCodec

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

INSERT, DELETE = np.int8(RowKind.INSERT.value), np.int8(RowKind.DELETE.value)


@dataclass(frozen=True)
class JoinChanges:
    """The changes that a join emits.

    Attributes:
        records: the record that causes each change.
        lefts: the entry of the left input; ``NO_MATCH`` where there is none.
        rights: that of the right one.
        kinds: the kind of each.
    """

    records: Longs
    lefts: Longs
    rights: Longs
    kinds: Kinds

    def __len__(self) -> int:
        return len(self.records)


class _Collected:
    """Changes of some records, each with its place among those of its record."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._parts: list[tuple[Longs, Longs, Longs, Longs, Kinds]] = []

    def add(self, records: Longs, places: Longs, own: Longs, others: Longs, kinds: Kinds | np.int8) -> None:
        """Adds changes, with an entry of the input of the record and one of the other input."""
        is_left = self._arrivals.sides[records] == LEFT
        lefts, rights = np.where(is_left, own, others), np.where(is_left, others, own)
        self._parts.append((records, places, lefts, rights, np.broadcast_to(kinds, len(records))))

    def ordered(self) -> JoinChanges:
        """All changes in order."""
        parts = [part for part in self._parts if len(part[0])] or self._parts[:1]
        records, places, lefts, rights, kinds = (np.concatenate(each) for each in zip(*parts, strict=True))
        if len(parts) > 1:
            order = np.lexsort((places, records))
            return JoinChanges(records[order], lefts[order], rights[order], kinds[order])
        return JoinChanges(records, lefts, rights, kinds)


class ChangesOfJoin(ABC):
    """The changes of one kind of join.

    Args:
        join_type: the kind of join.
    """

    def __init__(self, join_type: JoinType) -> None:
        self._outer = (join_type.outer.left, join_type.outer.right)
        self._is_anti = join_type is JoinType.ANTI

    @property
    @abstractmethod
    def counting_sides(self) -> tuple[bool, bool]:
        """Return whether the matches of each row are counted, for each input."""

    @abstractmethod
    def of(self, arrivals: Arrivals, kinds: Kinds, matches: Matches, partners: tuple[Longs, Longs]) -> JoinChanges:
        """The changes that records cause.

        Args:
            arrivals: all records.
            kinds: the row kind of each.
            matches: the matches of some of them.
            partners: the number of matches of each entry, by input; updated in place.
        """

    def partners_before(self, arrivals: Arrivals, matches: Matches, partners: tuple[Longs, Longs]) -> Longs:
        """The number of matches that the other row of each match had before it; zeros if they are not counted.

        Args:
            arrivals: all records.
            matches: those of some of them.
            partners: as of :meth:`of`.
        """
        own = np.arange(matches.first, matches.stop)
        before = np.zeros(len(matches.records), np.int64)
        for side in (LEFT, RIGHT):
            if not self.counting_sides[side]:
                continue
            added = (arrivals.sides[own] == side) & ~arrivals.takes_back[own]
            partners[side][arrivals.entries[own[added]]] = matches.counts[added]
            of_side = np.flatnonzero(arrivals.sides[matches.records] == 1 - side)
            others = matches.others[of_side]
            signs = np.where(arrivals.takes_back[matches.records[of_side]], -1, 1)
            before[of_side] = partners[side][others] + _sums_before(others, signs)
            np.add.at(partners[side], others, signs)
        return before


def _sums_before(groups: Longs, values: Longs) -> Longs:
    """The sum of the values of the same group before each."""
    order = np.argsort(groups, kind="stable")
    ordered = values[order]
    sums = np.cumsum(ordered) - ordered
    is_first = np.diff(groups[order], prepend=-1) != 0
    firsts = np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))
    found = np.empty(len(groups), np.int64)
    found[order] = sums - sums[firsts]
    return found


class ChangesOfPairs(ChangesOfJoin):
    """Inner and outer joins, as Flink's ``StreamingJoinOperator``."""

    @property
    def counting_sides(self) -> tuple[bool, bool]:
        return self._outer

    def of(self, arrivals: Arrivals, kinds: Kinds, matches: Matches, partners: tuple[Longs, Longs]) -> JoinChanges:
        found = _Collected(arrivals)
        own_outer, other_outer = self._outer_of(arrivals, matches.records)
        given = kinds[matches.records]
        takes_back = arrivals.takes_back[matches.records]
        # A row that may be without a partner comes and goes as a row of its own, and is never updated.
        made = np.where(
            takes_back, np.where(own_outer, DELETE, given), np.where(own_outer | other_outer, INSERT, given)
        )
        own, places = arrivals.entries[matches.records], 3 * np.arange(len(made))
        found.add(matches.records, places + 1, own, matches.others, made.astype(np.int8))
        if any(self._outer):
            self._add_rows_alone(found, arrivals, matches, other_outer, partners)
        return found.ordered()

    def _outer_of(self, arrivals: Arrivals, records: Longs) -> tuple[Mask, Mask]:
        """Return whether the input of each record, and the other input, is the outer side of the join."""
        outer, sides = np.array(self._outer), arrivals.sides[records]
        return outer[sides], outer[1 - sides]

    def _add_rows_alone(
        self,
        found: _Collected,
        arrivals: Arrivals,
        matches: Matches,
        other_outer: Mask,
        partners: tuple[Longs, Longs],
    ) -> None:
        before = self.partners_before(arrivals, matches, partners)
        takes_back = arrivals.takes_back[matches.records]
        for kind, is_alone, shift in (
            (DELETE, other_outer & ~takes_back & (before == 0), 0),
            (INSERT, other_outer & takes_back & (before == 1), 2),
        ):
            at = np.flatnonzero(is_alone)
            found.add(matches.records[at], 3 * at + shift, _nobody(at), matches.others[at], kind)
        records = np.arange(matches.first, matches.stop)
        own_outer, _ = self._outer_of(arrivals, records)
        alone = records[own_outer & (matches.counts == 0)]
        kinds = np.where(arrivals.takes_back[alone], DELETE, INSERT)
        found.add(alone, np.zeros(len(alone), np.int64), arrivals.entries[alone], _nobody(alone), kinds)


class ChangesOfLeft(ChangesOfJoin):
    """Semi and anti joins, as Flink's ``StreamingSemiAntiJoinOperator``: left rows with, or without, a match."""

    @property
    def counting_sides(self) -> tuple[bool, bool]:
        return (True, False)

    def of(self, arrivals: Arrivals, kinds: Kinds, matches: Matches, partners: tuple[Longs, Longs]) -> JoinChanges:
        found, records = _Collected(arrivals), np.arange(matches.first, matches.stop)
        before = self.partners_before(arrivals, matches, partners)
        is_shown = (matches.counts == 0) == self._is_anti
        shown = records[is_shown & (arrivals.sides[records] == LEFT)]
        found.add(shown, np.zeros(len(shown), np.int64), arrivals.entries[shown], _nobody(shown), kinds[shown])
        takes_back = arrivals.takes_back[matches.records]
        turns = (arrivals.sides[matches.records] == RIGHT) & (before == takes_back)
        at = np.flatnonzero(turns)
        given = kinds[matches.records[at]]
        made = np.where(takes_back[at], INSERT, DELETE) if self._is_anti else given
        found.add(matches.records[at], at, _nobody(at), matches.others[at], made)
        return found.ordered()


def _nobody(rows: Longs) -> Longs:
    return np.full(len(rows), NO_MATCH)


def changes_of(join_type: JoinType) -> ChangesOfJoin:
    """The changes of a kind of join."""
    return ChangesOfLeft(join_type) if join_type.gives_left_rows else ChangesOfPairs(join_type)


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
