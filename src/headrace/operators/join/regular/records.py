"""The records that a join of changelogs processes at a time, the rows that it needs for that, and how these match.

Operators that join changelogs derive from :class:`ChangelogJoinOperator`, which keeps the rows of their inputs. Matches
come in the order in which Flink's state gives them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.batch import Kinds, take_back
from headrace.operators.base import EpochScope, KeyedBatch, OperatorContext
from headrace.operators.binary_rows import buckets
from headrace.operators.join.find_pairs import LEFT, RIGHT, portions
from headrace.operators.join.regular.definition import JoinCondition, SideState, Uniqueness
from headrace.operators.join.regular.stored_rows import STORED, FoundRows, JoinEntries, RowsThere, StoredSide, no_rows
from headrace.operators.join.results import NO_MATCH
from headrace.operators.waiting import BufferingOperator, TakenBatches
from headrace.operators.window.columnar.accumulators import ArrivalCounter
from headrace.state.keys import KeyColumn
from headrace.state.runs.grouping import group_keys, sorted_by
from headrace.state.runs.layout import rows_of_ranges
from headrace.state.runs.merge_input import concat

if TYPE_CHECKING:
    from headrace.state.keys import KeyCodec


Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Arrivals:
    """Records of both inputs in the order of arrival.

    Attributes:
        sides: the input of each.
        entries: the place of each among the entries of its input.
        of_keys: its key.
        takes_back: whether it retracts a row.
        has_matches: whether its key can match, and has no NULL in a strict column.
        timestamps: its timestamp.
        watermarks: the watermark that it has met.
    """

    sides: Longs
    entries: Longs
    of_keys: Longs
    takes_back: Mask
    has_matches: Mask
    timestamps: Longs
    watermarks: Longs

    def __len__(self) -> int:
        return len(self.sides)


@dataclass(frozen=True)
class Matches:
    """Records and the rows that match them, in order.

    Attributes:
        first: the first one of the records.
        stop: the end of the records, exclusive.
        records: the record of each match.
        others: the matching entry of the other input.
    """

    first: int
    stop: int
    records: Longs
    others: Longs

    def of(self, chosen: Mask | Longs) -> Matches:
        """The matches at some positions."""
        return Matches(self.first, self.stop, self.records[chosen], self.others[chosen])

    @property
    def counts(self) -> Longs:
        """The number of matches of each record."""
        return np.bincount(self.records - self.first, minlength=self.stop - self.first)


def find_matches(
    arrivals: Arrivals, sides: tuple[JoinEntries, JoinEntries], condition: JoinCondition
) -> Iterator[Matches]:
    """The matches of all records, in chunks of whole records."""
    there = (RowsThere.of(sides[LEFT]), RowsThere.of(sides[RIGHT]))
    starts, counts = np.zeros(len(arrivals), np.int64), np.zeros(len(arrivals), np.int64)
    for side in (LEFT, RIGHT):
        own = np.flatnonzero((arrivals.sides == side) & arrivals.has_matches)
        firsts, stops = there[1 - side].found_by(arrivals.of_keys[own], own)
        starts[own], counts[own] = firsts, stops - firsts
    candidates = _Candidates(arrivals, sides, there, condition, starts, counts)
    for first, stop in portions(counts + 1):
        parts = [candidates.matches(side, first, stop) for side in (LEFT, RIGHT)]
        records, others = (np.concatenate(each) for each in zip(*parts, strict=True))
        if len(parts[LEFT][0]) and len(parts[RIGHT][0]):
            order = np.argsort(records, kind="stable")
            records, others = records[order], others[order]
        yield Matches(first, stop, records, others)


@dataclass(frozen=True)
class _Candidates:
    """The rows of the other input with the key of each record that came before it.

    Attributes:
        arrivals: the records.
        sides: the entries of both inputs.
        there: the rows among them.
        condition: the condition on matches besides equal keys.
        starts: the start of each record's rows.
        counts: the number of each record's rows.
    """

    arrivals: Arrivals
    sides: tuple[JoinEntries, JoinEntries]
    there: tuple[RowsThere, RowsThere]
    condition: JoinCondition
    starts: Longs
    counts: Longs

    def matches(self, side: int, first: int, stop: int) -> tuple[Longs, Longs]:
        """The matches of the records of one input: the record and the entry of each."""
        is_own = (self.arrivals.sides[first:stop] == side) & (self.counts[first:stop] > 0)
        own, there = first + np.flatnonzero(is_own), self.there[1 - side]
        found = np.repeat(own, self.counts[own])
        others = there.order[rows_of_ranges(self.starts[own], self.counts[own])]
        is_there = there.entries.deaths[others] > found
        if not is_there.all():
            found, others = found[is_there], others[is_there]
        is_match = self._holding(side, found, others)
        if (found[1:] == found[:-1]).any():
            order = in_order_of_state(there.entries, found, others)
            found, others = found[order], others[order]
            is_match = None if is_match is None else is_match[order]
        return (found, others) if is_match is None else (found[is_match], others[is_match])

    def _holding(self, side: int, records: Longs, others: Longs) -> Mask | None:
        """True for each match that meets the condition; None if all do."""
        if self.condition.is_always_true or not len(records):
            return None
        own = self.arrivals.entries[records]
        lefts, rights = (own, others) if side == LEFT else (others, own)
        return self.condition.holds(self.sides[LEFT].rows, self.sides[RIGHT].rows, lefts, rights)


def in_order_of_state(entries: JoinEntries, records: Longs, others: Longs) -> Longs:
    """The order of the rows that are there when each record comes: that of a hash map of Java, as in Flink.

    Its entries are different rows, whose hashes are those of their buckets; equal ones follow one another.
    """
    found = entries.lifetimes
    sizes = np.bincount(records[found.are_firsts[others]], minlength=int(records[-1]) + 1)
    places = buckets(entries.hashes[others], sizes[records])
    return np.lexsort((found.numbers[others], found.places[others], places, records))


_WAITING_ROWS: Final = 1 << 16


@dataclass(frozen=True)
class JoinRecords:
    """Records of all inputs that are processed together, in the order of arrival.

    Attributes:
        batches: those of each input; None where there are none.
        sides: the input of each.
        keys: their distinct keys, by hash and key.
        of_keys: the key of each.
        kinds: the kind of each.
        timestamps: its timestamp.
        watermarks: the watermark that it has met.
    """

    batches: tuple[KeyedBatch | None, ...]
    sides: Longs
    keys: KeyColumn
    of_keys: Longs
    kinds: Kinds
    timestamps: Longs
    watermarks: Longs

    @staticmethod
    def of(taken: TakenBatches[KeyedBatch], inputs: int) -> JoinRecords:
        """The records of batches, given the number of inputs."""
        keys = KeyColumn.concat([batch.keys for batch in taken.batches])
        groups = group_keys(keys.hashes, keys.values)
        of_keys = groups.numbers
        return JoinRecords(
            tuple(taken.of(side) for side in range(inputs)),
            taken.sides,
            keys.take(groups.first_rows),
            of_keys,
            np.concatenate([batch.row_kinds for batch in taken.batches]),
            taken.timestamps,
            taken.watermarks,
        )

    def in_turn(self) -> JoinRecords:
        """The records with the first of all inputs in front of the second of all, and so on."""
        places = np.empty(len(self.sides), np.int64)
        for side in range(len(self.batches)):
            own = np.flatnonzero(self.sides == side)
            places[own] = len(self.batches) * np.arange(len(own)) + side
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

    def entries(self, sides: Sequence[JoinEntries]) -> Longs:
        """The place of each record among the entries of its input."""
        found = np.empty(len(self.sides), np.int64)
        for side, entries in enumerate(sides):
            own = np.flatnonzero(self.sides == side)
            found[own] = len(entries) - len(own) + np.arange(len(own))
        return found


@dataclass(frozen=True)
class RowsOfSide:
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
            left = np.full(int(groups.max()) + 1, NO_MATCH)
            left[of_groups[is_there]] = numbers[is_there]
            gone &= left[of_groups[:stored]] != numbers[:stored]
        return gone


@dataclass(frozen=True)
class JoinSide:
    """One input of a join.

    Attributes:
        index: its place among the inputs.
        state: how its rows are kept.
        stored: its rows in state.
        schema: their columns.
        needs_own_rows: whether a record finds the other rows of its own input as well.
    """

    index: int
    state: SideState
    stored: StoredSide
    schema: pa.Schema
    needs_own_rows: bool = False

    def rows(self, records: JoinRecords, numbers: ArrivalCounter) -> RowsOfSide:
        """The relevant rows: of keys with records of other inputs, or that may be replaced.

        Args:
            records: the records to process.
            numbers: gives new rows their numbers.
        """
        batch = records.batches[self.index]
        own = np.flatnonzero(records.sides == self.index)
        takes_back = records.takes_back[own]
        is_wanted = np.zeros(len(records.keys), np.bool_)
        is_wanted[records.of_keys[records.sides != self.index]] = True
        if self.needs_own_rows or self.state.uniqueness is not Uniqueness.NONE or takes_back.any():
            is_wanted[records.of_keys[own]] = True
        wanted = np.flatnonzero(is_wanted)
        found = self.stored.find(records.keys.take(wanted)) if len(wanted) else no_rows(self.schema)
        stored = len(found.of_keys)
        entries = JoinEntries(
            self.state,
            np.concatenate((wanted[found.of_keys], records.of_keys[own])),
            np.concatenate((np.full(stored, STORED), own)),
            np.concatenate((np.zeros(stored, np.bool_), takes_back)),
            np.concatenate((found.numbers, numbers.next(len(own)))),
            concat([found.rows, *([] if batch is None else [batch.columns])]),
            len(records.sides),
        )
        return RowsOfSide(entries, found, np.concatenate((found.partners, np.zeros(len(own), np.int64))))


class ChangelogJoinOperator(BufferingOperator):
    """Joins keyed changelogs, many records at once, and keeps the rows of each input.

    A subclass makes its sides when state is restored.

    Args:
        codec: the codec of the keys.
    """

    def __init__(self, codec: KeyCodec) -> None:
        super().__init__(_WAITING_ROWS)
        self._codec = codec
        self._sides: list[JoinSide] = []

    def _add_side(
        self,
        context: OperatorContext,
        name: str,
        state: SideState,
        schema: pa.Schema,
        *,
        counts_partners: bool = False,
        needs_own_rows: bool = False,
    ) -> None:
        stored = StoredSide(context, name, self._codec, schema, state, counts_partners=counts_partners)
        self._sides.append(JoinSide(len(self._sides), state, stored, schema, needs_own_rows))

    def begin_epoch(self, scope: EpochScope) -> None:
        super().begin_epoch(scope)
        self._numbers = ArrivalCounter(scope.epoch)
        for side in self._sides:
            side.stored.begin_epoch(scope.processing_time)

    def end_epoch(self) -> None:
        for side in self._sides:
            side.stored.end_epoch()
