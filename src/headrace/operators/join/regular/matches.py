"""Matches of records with the rows of the other input, in the order in which Flink's state gives these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.operators.binary_rows import buckets
from headrace.operators.join.find_pairs import LEFT, RIGHT, portions
from headrace.operators.join.regular.definition import JoinCondition
from headrace.operators.join.regular.lifetimes import JoinEntries, RowsThere
from headrace.state.runs.layout import rows_of_ranges

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

    Its entries are different rows, whose hashes say in which bucket they are; equal ones follow one another.
    """
    found = entries.lifetimes
    sizes = np.bincount(records[found.are_firsts[others]], minlength=int(records[-1]) + 1)
    places = buckets(entries.hashes[others], sizes[records])
    return np.lexsort((found.numbers[others], found.places[others], places, records))
