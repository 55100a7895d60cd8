"""The partial matches of some keys as read from state: summaries, and rows that are decoded as far as they may change.

Keys with many partial matches have a summary beside the rows of these. An event that changes none of them reads none:
it is known in which states they are, when they began, and which numbers the next row and event get.

What time ends is not taken from the rows at once, where no time-outs are handled: the summary says until when
matches that began are gone. They are when the rows are next read, and these are read when a quarter of a window has
passed since.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import fixed_width
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.operators.base import OperatorContext
from headrace.operators.changelog.rows_of_keys import RowsOfKeys, StoredRows
from headrace.operators.pattern.shared_buffer import (
    FIRST,
    NOT_TAKEN,
    WIDTH,
    KnownRows,
    NfaState,
    PartialMatch,
    state_of,
)
from headrace.state.keys import KeyColumn
from headrace.state.runs.grouping import in_order
from headrace.state.runs.layout import rows_of_ranges

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

SUMMARIES_STORE: Final = "pattern-summaries"

MANY: Final = 256
"""The number of partial matches of a key, or of their rows, from which it has a summary."""

_FIELDS: Final = ("live", "first", "last", "passed", "next_row", "next_number")
_SCHEMA: Final = pa.schema([(name, pa.int64()) for name in _FIELDS])
_NOTHING_PASSED: Final = MIN_WATERMARK


@dataclass(frozen=True, slots=True)
class MatchSummary:
    """The summary of the partial matches of a key.

    Attributes:
        live: the states in which they are, as bits; there may be more.
        first: the time at which the first of the stored ones began, or an earlier one.
        last: the time at which the last one began.
        next_row: the number that the next row gets.
        next_number: the number that the next event gets.
        passed: the time until which those that began are gone, though their rows may be there.
    """

    live: int
    first: int
    last: int
    next_row: int
    next_number: int
    passed: int = _NOTHING_PASSED

    @classmethod
    def of(cls, state: NfaState, next_row: int) -> MatchSummary:
        """The summary of the partial matches of a key."""
        partial = state.partial
        return cls(state.live, partial[0][0][0], partial[-1][0][0], next_row, state.next_number)

    def with_more(self, state: NfaState, next_row: int) -> MatchSummary:
        """The summary of these partial matches and others, which are stored behind them."""
        if not state.partial:
            return self
        new = MatchSummary.of(state, next_row)
        times = {"first": min(self.first, new.first), "last": max(self.last, new.last)}
        return replace(new, live=self.live | new.live, passed=self.passed, **times)

    def passed_by(self, time: int) -> MatchSummary:
        """The summary of the partial matches that are left without those that began until a time."""
        return replace(self, passed=time) if self.first <= time > self.passed else self

    @property
    def addition(self) -> NfaState:
        """A state for what begins, which is stored behind what there is."""
        return NfaState(next_number=self.next_number, known=KnownRows(self.next_row))


Summaries = Mapping[int, MatchSummary]
"""Summaries of some keys, by the positions of these."""


class StoredSummaries:
    """The summaries of the keys of one subtask.

    Args:
        context: the operator.
        name: the name of the store.
    """

    def __init__(self, context: OperatorContext, name: str) -> None:
        codec = context.state.keyed.codec
        self._rows = RowsOfKeys(context, name, "what is known of keys with many partial matches", codec, _SCHEMA)

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        self._rows.begin_epoch(0)

    def end_epoch(self) -> None:
        """Puts what has changed into state."""
        self._rows.end_epoch()

    def find(self, keys: KeyColumn) -> dict[int, MatchSummary]:
        """Return what is known of different keys, which are in the order of hash and key."""
        found = self._rows.find(keys)
        if not len(found):
            return {}
        columns = dict(zip(_FIELDS, (fixed_width(column).tolist() for column in found.rows.columns), strict=True))
        rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
        return {position: MatchSummary(**row) for position, row in zip(found.of_keys.tolist(), rows, strict=True)}

    def write(self, keys: KeyColumn, written: Summaries, gone: Collection[int]) -> None:
        """Writes summaries.

        Args:
            keys: different keys, in the order of hash and key.
            written: what is known of some of them now.
            gone: the positions of others, of which nothing is known any more.
        """
        if not (written or gone):
            return
        positions = sorted(written)
        columns = [pa.array([getattr(written[each], name) for each in positions], pa.int64()) for name in _FIELDS]
        rows = StoredRows(np.array(positions, np.int64), pa.RecordBatch.from_arrays(columns, schema=_SCHEMA))
        self._rows.write(keys, rows, np.array(sorted(gone), np.int64))


ROW_COLUMN: Final = 2
FIRST_COLUMN: Final = 4
"""Behind hash, key, the number of the row and whether it is there."""

ALL_STATES: Final = -1
"""Matches may be changed whatever state they are in."""

_NONE: Final[Summaries] = {}


class FoundMatches:
    """The partial matches that were found of some keys.

    Attributes:
        positions: the positions of the keys that have something and were read, ascending.
        counts: the number of rows of each.
        records: the events, as one column.
        summaries: what was known of keys with many partial matches.
        unread: the positions of those that were left unread, ascending.

    Args:
        of_keys: the position of each row's key, ascending.
        found: the rows, those of a key by their numbers.
        summaries: see above.
        unread: what is known of keys that were left unread when time has come to where it does.
        first: the place of the first event among those that have been taken.
    """

    def __init__(
        self,
        of_keys: Longs,
        found: pa.RecordBatch,
        summaries: Summaries,
        unread: Summaries = _NONE,
        first: int = 0,
    ) -> None:
        self._first, self._of_keys = first, of_keys
        self.records = found.column(found.num_columns - 1)
        self._columns = [fixed_width(column) for column in found.columns[FIRST_COLUMN:-1]]
        self._rows: Longs = fixed_width(found.column(ROW_COLUMN))
        self.positions, self._starts = np.unique(of_keys, return_index=True)
        self.counts = np.diff(self._starts, append=len(of_keys))
        self.summaries = summaries
        self._unread = unread
        self.unread = np.array(sorted(unread), np.int64)
        self._is_out = np.zeros(len(of_keys), np.bool_)
        """Rows that are decoded, or gone without being decoded."""
        self._is_undecoded = np.zeros(len(self.positions), np.bool_)
        """Keys of which rows go or come without being decoded."""
        self._is_part = np.zeros(len(self.positions), np.bool_)
        """Keys of which some rows are decoded."""

    def events(self) -> tuple[Longs, Longs]:
        """The places of all events, by key and in the order in which they were matched, and the positions of keys."""
        takers, _, _, _, numbers = self._columns
        rows = np.flatnonzero(takers >= 0)
        rows = rows[np.lexsort((numbers[rows], self._of_keys[rows]))]
        return -1 - self._first - rows, self._of_keys[rows]

    @cached_property
    def live(self) -> Longs:
        """For each key the states that its partial matches are in, as bits; of up to 62 states."""
        states = self._columns[1].astype(np.int64)
        return self._reduced(np.bitwise_or, np.where(states >= 0, 1 << np.maximum(states, 0), 0))

    @cached_property
    def first_begun(self) -> Longs:
        """The time of the first event of the first match of each key."""
        return self._reduced(np.minimum, np.where(self._are_first, self._columns[3], MAX_WATERMARK))

    @cached_property
    def last_begun(self) -> Longs:
        """The time of the first event of the last match of each key."""
        return self._reduced(np.maximum, np.where(self._are_first, self._columns[3], MIN_WATERMARK))

    @property
    def _are_first(self) -> Mask:
        taken, _, previous, *_ = self._columns
        are_first: Mask = (previous == FIRST) & (taken != NOT_TAKEN)
        return are_first

    def _reduced(self, ufunc: np.ufunc, values: Longs) -> Longs:
        return np.asarray(ufunc.reduceat(values, self._starts)) if len(values) else values

    def gone(self, positions: Longs) -> Longs:
        """Say of all rows of some keys, which have some, that they are gone."""
        places = np.searchsorted(self.positions, positions)
        return self._gone(rows_of_ranges(self._starts[places], self.counts[places]))

    def _gone(self, rows: Longs) -> Longs:
        written = np.zeros((WIDTH, len(rows)), np.int64)
        written[0], written[1] = self._of_keys[rows], self._rows[rows]
        return written

    def begun_until(self, is_wanted: Mask, time: int) -> Longs:
        """Say of the matches of some of the keys that began until a time that they are gone.

        An event of them that others share is stored in another row from now on.
        """
        rows = rows_of_ranges(self._starts[is_wanted], self.counts[is_wanted])
        if not len(rows):
            return self._gone(rows)
        self._is_undecoded |= is_wanted
        takers, states, previous, times, numbers = (column[rows] for column in self._columns)
        of_keys, own = self._of_keys[rows], self._rows[rows]
        is_over = times[_roots(of_keys, own, previous)] <= time
        self._is_out[rows] = is_over
        stored = np.flatnonzero(is_over & (takers >= 0))
        sharing = np.flatnonzero(~is_over & (takers < NOT_TAKEN))
        gone = self._gone(rows[is_over])
        if not len(sharing):
            return gone
        _, firsts = np.unique(np.stack([of_keys[sharing], numbers[sharing]]), axis=1, return_index=True)
        sharing = sharing[np.sort(firsts)]
        holders = _places(of_keys[stored], numbers[stored], of_keys[sharing], numbers[sharing])
        heirs, holders = sharing[holders >= 0], stored[holders[holders >= 0]]
        kept = np.ones((WIDTH, len(heirs)), np.int64)
        columns = [of_keys, own, None, -2 - takers, states, previous, times, numbers]
        for part, column in enumerate(columns):
            if column is not None:
                kept[part] = column[heirs]
        kept[-2] = -1 - (self._first + rows[holders])
        return np.concatenate([gone, kept], axis=1)

    def additions(self, is_wanted: Mask, unread: Longs) -> dict[int, NfaState]:
        """Return states for what begins of some of the keys, which is stored behind what they have.

        Args:
            is_wanted: which of the keys that were read.
            unread: the positions of keys that were left unread.
        """
        of_unread = {position: self._unread[position].addition for position in unread.tolist()}
        if not is_wanted.any():
            return of_unread
        self._is_undecoded |= is_wanted
        rows, numbers = (column[is_wanted].tolist() for column in self._next())
        positions = self.positions[is_wanted].tolist()
        return of_unread | {
            position: NfaState(next_number=number, known=KnownRows(row))
            for position, number, row in zip(positions, numbers, rows, strict=True)
        }

    @property
    def undecoded(self) -> Sequence[int]:
        """The positions of keys that were read, and of which rows go or come without being decoded."""
        found: list[int] = self.positions[self._is_undecoded].tolist()
        return found

    def outdated(self, since: int) -> Mask:
        """The keys with rows of matches that are gone, and may not have been by the time to which time has come.

        Args:
            since: the time until which matches that began are gone by now.
        """
        are = {position for position, summary in self.summaries.items() if summary.passed > since}
        return np.isin(self.positions, [*are]) if are else np.zeros(len(self.positions), np.bool_)

    def left(self, changed: Sequence[int]) -> dict[int, MatchSummary]:
        """The summary of the matches that were not decoded, without those that begin.

        Args:
            changed: the positions of keys of which what was decoded has changed.
        """
        found = dict(self._unread)
        is_chosen = self._is_undecoded
        if self._is_part.any():
            is_chosen = is_chosen | (self._is_part & np.isin(self.positions, changed))
        if not is_chosen.any():
            return found
        is_left = self._are_first & ~self._is_out
        times, states = self._columns[3], self._columns[1].astype(np.int64)
        bits = np.where((states >= 0) & ~self._is_out, 1 << np.maximum(states, 0), 0)
        columns = [
            self._reduced(np.bitwise_or, bits),
            self._reduced(np.minimum, np.where(is_left, times, MAX_WATERMARK)),
            self._reduced(np.maximum, np.where(is_left, times, MIN_WATERMARK)),
            *self._next(),
        ]
        chosen = is_chosen & (self._reduced(np.add, is_left.astype(np.int64)) > 0)
        rows = zip(self.positions[chosen].tolist(), *(column[chosen].tolist() for column in columns), strict=True)
        return found | {position: MatchSummary(*values) for position, *values in rows}

    def all_states(self) -> dict[int, NfaState]:
        """Return what all keys have, by their positions."""
        return self._decoded(np.ones(len(self._rows), np.bool_))

    def states(self, is_wanted: Mask, moved: Longs, until: int) -> dict[int, NfaState]:
        """Return what some of the keys have, by their positions; events have negative places.

        Of keys with many rows the matches are left out that nothing changes, with all that began with the same events.

        Args:
            is_wanted: the keys.
            moved: for each key the states in which matches may be changed, as bits.
            until: the time until which those that began may be changed as well.
        """
        is_decoded = np.repeat(is_wanted, self.counts)
        parts = is_wanted & (self.counts >= MANY) & (moved != ALL_STATES)
        if parts.any():
            rows = rows_of_ranges(self._starts[parts], self.counts[parts])
            is_decoded[rows] = self._may_change(rows, np.repeat(moved[parts], self.counts[parts]), until)
            self._is_out |= is_decoded
            parts &= self._reduced(np.add, is_decoded.astype(np.int64)) < self.counts
            self._is_part = parts
        found = self._decoded(is_decoded)
        next_rows, next_numbers = self._next()
        for at in np.flatnonzero(parts).tolist():
            state = found.setdefault(int(self.positions[at]), NfaState())
            known, next_row = state.known, int(next_rows[at])
            state.known = KnownRows(next_row) if known is None else replace(known, next_row=next_row, is_part=True)
            state.next_number = int(next_numbers[at])
        return found

    def _decoded(self, is_decoded: Mask) -> dict[int, NfaState]:
        rows = np.flatnonzero(is_decoded)
        of_keys = self._of_keys[rows]
        columns = [column[rows].tolist() for column in (*self._columns, self._rows)]
        places = (-1 - self._first - rows).tolist()
        starts = np.flatnonzero(np.diff(of_keys, prepend=-1))
        stops = np.append(starts[1:], len(rows))[: len(starts)]
        bounds = zip(of_keys[starts].tolist(), starts.tolist(), stops.tolist(), strict=True)
        found = {
            position: state_of([column[start:stop] for column in columns], places[start:stop])
            for position, start, stop in bounds
        }
        for position in found.keys() & self.summaries.keys():
            _forget(found[position], self.summaries[position].passed)
        return found

    def _may_change(self, rows: Longs, moved: Longs, until: int) -> Mask:
        """Return which rows are of matches that may change, or of others that began with the same events.

        Where such a match shares an event with another one, all rows of the key are.
        """
        takers, states, previous, times, numbers = (column[rows] for column in self._columns)
        of_keys = self._of_keys[rows]
        roots = _roots(of_keys, self._rows[rows], previous)
        moves = (states >= 0) & ((moved >> np.maximum(states, 0)) & 1 != 0)
        are_changed = times[roots] <= until
        are_changed[roots[moves]] = True
        is_changed: Mask = are_changed[roots]
        if (takers < NOT_TAKEN).any():
            shares = np.flatnonzero(takers != NOT_TAKEN)
            order = shares[in_order(of_keys[shares], numbers[shares])]
            is_same = (np.diff(of_keys[order]) == 0) & (np.diff(numbers[order]) == 0)
            is_split = is_same & (is_changed[order[1:]] != is_changed[order[:-1]])
            is_changed |= np.isin(of_keys, of_keys[order[1:][is_split]])
        return is_changed

    def _next(self) -> tuple[Longs, Longs]:
        """The numbers that the next row and the next event of each key get."""
        return self._rows[self._starts + self.counts - 1] + 1, self._reduced(np.maximum, self._columns[4]) + 1


def _forget(state: NfaState, until: int) -> None:
    """Removes the partial matches that began until a time."""
    gone = bisect_right(state.partial, until, key=_begun)
    if gone:
        del state.partial[:gone]
        state.live = state.live if state.partial else 0
        state.is_changed = True


def _begun(match: PartialMatch) -> int:
    return match[0][0]


def _roots(of_keys: Longs, rows: Longs, previous: Longs) -> Longs:
    """For each row the first step of its match, as its place among rows of keys, by key and number."""
    is_first = previous == FIRST
    roots = _places(of_keys, rows, of_keys, np.where(is_first, rows, previous))
    while not is_first[roots].all():
        roots = roots[roots]
    return roots


def _places(of_keys: Longs, numbers: Longs, wanted_of: Longs, wanted: Longs) -> Longs:
    """Find the places of pairs of a key and a number among distinct pairs; -1 for those that are missing."""
    all_keys, all_numbers = np.concatenate([of_keys, wanted_of]), np.concatenate([numbers, wanted])
    order = in_order(all_keys, all_numbers)
    all_keys, all_numbers, is_wanted = all_keys[order], all_numbers[order], order >= len(of_keys)
    before = np.maximum.accumulate(np.where(is_wanted, -1, np.arange(len(order))))
    is_found = (before >= 0) & (all_keys[before] == all_keys) & (all_numbers[before] == all_numbers)
    places = np.empty(len(wanted), np.int64)
    places[order[is_wanted] - len(of_keys)] = np.where(is_found, order[before], -1)[is_wanted]
    return places
