"""The rows of one input of a join of changelogs: those in state, and those that come and go with the records at hand.

:class:`StoredSide` has the former; :class:`EntryLifetimes` have the times at which each row is inserted and retracted
while many records are processed at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import codes_of, fixed_width
from headrace.common.constants import MIN_WATERMARK
from headrace.operators.base import OperatorContext
from headrace.operators.binary_rows import Words, hashes_of
from headrace.operators.changelog.last_row import running_maximum
from headrace.operators.join.regular.definition import SideState, Uniqueness
from headrace.state.key_sorted_table import KeySortedTable, register_key_sorted_merger
from headrace.state.keys import KeyCodec, KeyColumn
from headrace.state.runs.grouping import in_order, sorted_by
from headrace.state.runs.layout import HASH, KEY, LIVE, RETAINED_UNTIL, fields_of_rows
from headrace.state.sorted_table import TableLayout

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


_KIND: Final = "regular-join"
_KIND_THAT_EXPIRES: Final = "regular-join-that-expires"
_NUMBER: Final = "number"
_PARTNERS: Final = "partners"
_WORDS: Final = {"keys": "key type", "rows": "type of rows", "state": "unique key", "partners": "kind of join"}

register_key_sorted_merger(_KIND, replaces_rows=True)
register_key_sorted_merger(_KIND_THAT_EXPIRES, replaces_rows=True)


@dataclass(frozen=True)
class FoundRows:
    """Stored rows of some keys.

    Attributes:
        of_keys: the position of each row's key, ascending.
        numbers: the number of each row among those of its key, ascending.
        partners: the number of matches of each in the other input; zeros if they are not counted.
        rows: the rows.
    """

    of_keys: Longs
    numbers: Longs
    partners: Longs
    rows: pa.RecordBatch


class StoredSide:
    """The rows of one input in one task, each by its key and a number, and with the number of its matches.

    Args:
        context: the operator.
        name: the name of the store.
        codec: the codec of the keys.
        schema: the columns of the rows.
        state: how they are kept.
        counts_partners: whether the matches of each row are counted.
    """

    def __init__(
        self,
        context: OperatorContext,
        name: str,
        codec: KeyCodec,
        schema: pa.Schema,
        state: SideState,
        *,
        counts_partners: bool,
    ) -> None:
        self._ttl, self._now = state.ttl, MIN_WATERMARK
        self._row_schema, self._counts_partners = schema, counts_partners
        fields = [pa.field(HASH, pa.uint64()), pa.field(KEY, codec.arrow_type), pa.field(_NUMBER, pa.int64())]
        fields += [pa.field(LIVE, pa.bool_())]
        fields += [pa.field(_PARTNERS, pa.int64())] if counts_partners else []
        self._first = len(fields)
        fields += fields_of_rows(schema)
        fields += [pa.field(RETAINED_UNTIL, pa.int64())] if state.ttl else []
        self._schema = pa.schema(fields)
        about: dict[str, Any] = {
            "keys": codec.to_json(),
            "rows": [str(field.type) for field in schema],
            "state": [state.uniqueness.value, *state.unique_key],
            "partners": counts_partners,
        }
        kind = _KIND_THAT_EXPIRES if state.ttl else _KIND
        layout = TableLayout("the rows of a join", kind, self._schema, 3, about, _WORDS)
        self._table = KeySortedTable(context.state.store(name), layout, replaces_rows=True)

    def begin_epoch(self, processing_time: int) -> None:
        """Starts an epoch with the state that the last one left."""
        self._now = processing_time if self._ttl else MIN_WATERMARK
        self._table.begin_epoch(self._now)

    def find(self, keys: KeyColumn) -> FoundRows:
        """The rows of distinct keys, which are in the order of hash and key."""
        of_keys, found = self._table.find(keys)
        columns = found.columns[self._first : self._first + len(self._row_schema)]
        partners = fixed_width(found.column(4)) if self._counts_partners else np.zeros(len(of_keys), np.int64)
        rows = pa.RecordBatch.from_arrays(columns, schema=self._row_schema)
        return FoundRows(of_keys, fixed_width(found.column(2)), partners, rows)

    def write(self, keys: KeyColumn, found: FoundRows, is_live: Mask) -> None:
        """Writes rows, in the order of their keys and numbers; those that are not live are deleted.

        Args:
            keys: distinct keys, in the order of hash and key.
            found: the rows of some of them.
            is_live: which rows are live.
        """
        written = keys.take(found.of_keys)
        arrays: list[pa.Array] = [pa.array(written.hashes), written.values, pa.array(found.numbers), pa.array(is_live)]
        arrays += [pa.array(found.partners)] if self._counts_partners else []
        arrays += found.rows.columns
        arrays += [pa.array(np.full(len(is_live), self._now + self._ttl))] if self._ttl else []
        self._table.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema), self._now)

    def end_epoch(self) -> None:
        """Flushes the writes of the epoch to state."""
        self._table.end_epoch(self._now)


def no_rows(schema: pa.Schema) -> FoundRows:
    """No rows of any key."""
    nothing = np.empty(0, np.int64)
    return FoundRows(nothing, nothing, nothing, pa.RecordBatch.from_pylist([], schema))


STORED = -1
"""The time of arrival of stored rows."""


@dataclass(frozen=True)
class JoinEntries:
    """Stored rows, and then the records that have arrived, of one input.

    Attributes:
        state: how rows are kept.
        of_keys: the key of each.
        times: the arrival of each: ``STORED``, or the record's place in the order of arrival.
        takes_back: which of them are retractions.
        numbers: of stored rows their number; of records one that is higher, and rises.
        rows: the rows.
        end: a time after all records.
    """

    state: SideState
    of_keys: Longs
    times: Longs
    takes_back: Mask
    numbers: Longs
    rows: pa.RecordBatch
    end: int

    def __len__(self) -> int:
        return len(self.times)

    @cached_property
    def lifetimes(self) -> EntryLifetimes:
        """The lifetime of each row."""
        if not len(self):
            return EntryLifetimes(self.times, self.numbers, self.numbers, self.takes_back)
        return _of_unique_rows(self) if self.is_unique else _of_equal_rows(self)

    @property
    def is_unique(self) -> bool:
        """Return whether rows have a unique key, so that a row takes the place of the one before."""
        return self.state.uniqueness is not Uniqueness.NONE

    @cached_property
    def deaths(self) -> Longs:
        """The time at which each row is retracted or replaced; ``end`` for live rows, and for retractions."""
        if not self.is_unique and not self.takes_back.any():
            return np.full(len(self), self.end)
        return self.lifetimes.deaths

    @cached_property
    def hashes(self) -> Words:
        """The hash of each row by which Flink's state finds it."""
        columns = self.rows.columns
        if self.is_unique:
            columns = [columns[index] for index in self.state.unique_key]
        return hashes_of(columns, len(self))

    @cached_property
    def groups(self) -> tuple[Longs, Longs]:
        """Entries of one row, which are equal or have the same unique key: their order, and the group of each there."""
        numbers = self.of_keys
        if self.state.uniqueness is not Uniqueness.ONE_ROW:
            columns = self.rows.columns
            if self.is_unique:
                columns = [columns[index] for index in self.state.unique_key]
            for column in columns:
                codes = codes_of(column)
                numbers = np.unique(numbers * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)[1]
        order = in_order(numbers)
        return order, numbers[order]


@dataclass(frozen=True)
class EntryLifetimes:
    """The lifetimes of entries.

    Attributes:
        deaths: as of :class:`JoinEntries`.
        numbers: the number under which each is stored.
        places: the number of the first one of the equal rows that are there together with each; state has them in the
            order of these.
        are_firsts: which are these first ones.
    """

    deaths: Longs
    numbers: Longs
    places: Longs
    are_firsts: Mask


def _of_unique_rows(entries: JoinEntries) -> EntryLifetimes:
    """A row lives until the next record with its unique key, which replaces or retracts it."""
    order, groups = entries.groups
    times, takes_back = entries.times[order], entries.takes_back[order]
    is_first = np.diff(groups, prepend=-1) != 0
    deaths = np.full(len(entries), entries.end)
    is_followed = ~np.append(is_first[1:], True)
    deaths[order[is_followed]] = times[1:][is_followed[:-1]]
    deaths[entries.takes_back] = entries.end
    begins = is_first | np.append(True, takes_back[:-1])
    numbers = np.empty(len(entries), np.int64)
    numbers[order] = entries.numbers[order][_latest(begins)]
    return EntryLifetimes(deaths, numbers, numbers, np.ones(len(entries), np.bool_))


def _of_equal_rows(entries: JoinEntries) -> EntryLifetimes:
    """The latest of equal rows is retracted first. A retraction of an unknown row changes nothing."""
    order, groups = entries.groups
    takes_back = entries.takes_back[order]
    is_first = np.diff(groups, prepend=-1) != 0
    counts = _counts(np.where(takes_back, -1, 1), groups, is_first)
    before = np.append(0, counts[:-1])
    before[is_first] = 0
    levels = np.where(takes_back, before, counts)
    deaths = np.full(len(entries), entries.end)
    effective = np.flatnonzero(levels > 0)
    by_level = effective[np.lexsort((levels[effective], groups[effective]))]
    is_pair = takes_back[by_level[1:]] & (groups[by_level[1:]] == groups[by_level[:-1]])
    is_pair &= levels[by_level[1:]] == levels[by_level[:-1]]
    deaths[order[by_level[:-1][is_pair]]] = entries.times[order[by_level[1:][is_pair]]]
    are_firsts = np.zeros(len(entries), np.bool_)
    are_firsts[order] = (levels == 1) & ~takes_back
    places = np.empty(len(entries), np.int64)
    places[order] = entries.numbers[order][_latest(is_first | are_firsts[order])]
    return EntryLifetimes(deaths, entries.numbers, places, are_firsts)


def _counts(signs: Longs, groups: Longs, is_first: Mask) -> Longs:
    """The running sum of each group, which never falls below zero."""
    sums = np.cumsum(signs)
    starts = np.flatnonzero(is_first)
    before = (sums - signs)[starts]
    sums = sums - np.repeat(before, np.diff(starts, append=len(sums)))
    found: Longs = sums + np.maximum(running_maximum(-sums, groups), 0)
    return found


def _latest(marks: Mask) -> Longs:
    """The place of the latest mark at each place; the first one is marked."""
    found: Longs = np.maximum.accumulate(np.where(marks, np.arange(len(marks)), 0))
    return found


@dataclass(frozen=True)
class RowsThere:
    """An index of the rows of one input by key and time of arrival, for records of the other input.

    Attributes:
        entries: the entries.
        order: the entries that are rows, and not retractions.
        packed: their keys and times as one number, ascending.
    """

    entries: JoinEntries
    order: Longs
    packed: Longs

    @staticmethod
    def of(entries: JoinEntries) -> RowsThere:
        """The index of the rows among entries."""
        rows = np.flatnonzero(~entries.takes_back)
        of_keys, times = entries.of_keys[rows], entries.times[rows]
        order = rows[sorted_by(of_keys, times)]
        return RowsThere(entries, order, _packed(entries.of_keys[order], entries.times[order], entries.end))

    def found_by(self, of_keys: Longs, times: Longs) -> tuple[Longs, Longs]:
        """The ranges in :attr:`order` of the rows with each key that arrived before a time."""
        keys_first = _packed(of_keys, np.full(len(of_keys), STORED), self.entries.end)
        starts = np.searchsorted(self.packed, keys_first)
        stops = np.searchsorted(self.packed, _packed(of_keys, times, self.entries.end))
        if self.entries.state.uniqueness is Uniqueness.ONE_ROW:
            starts = np.maximum(starts, stops - 1)
        return starts, stops


def _packed(of_keys: Longs, times: Longs, end: int) -> Longs:
    return of_keys * (end + 2) + times - STORED
