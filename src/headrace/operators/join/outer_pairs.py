"""Outer joins: records that no other one has matched, shown among the pairs when they expire."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.constants import MAX_WATERMARK, NO_TIMESTAMP
from headrace.operators.join import find_pairs
from headrace.operators.join.find_pairs import (
    AT_WATERMARK,
    LEFT,
    NUMBER,
    RECORD,
    RIGHT,
    TIME,
    ArrivedSide,
    JoinInterval,
    Pairs,
    RowsWithPartner,
    gathered,
)
from headrace.state.key_sorted_table import key_ranges, key_sorted
from headrace.state.keys import KeyCodec, KeyColumn
from headrace.state.runs import RunStore
from headrace.state.runs.grouping import group_rows
from headrace.state.runs.layout import HASH, KEY, LIVE, RETAINED_UNTIL, rows_of_ranges
from headrace.state.runs.merge_input import NO_TIME, concat, newest
from headrace.state.runs.merging import INLINE_ROWS, merge_runs, register_ordered_merger
from headrace.state.runs.sections import Section
from headrace.state.sorted_table import TableLayout, TimeSortedTable

Longs = npt.NDArray[np.int64]


_KIND: Final = "join-alone"
_GROUP: Final = "group"
_ORDER: Final = [RETAINED_UNTIL, HASH, KEY, _GROUP]


@dataclass(frozen=True)
class ExpiredRows:
    """Rows that have expired.

    Attributes:
        ends: the watermark at which each has.
        numbers: the section that each is in.
        rows: its row there.
    """

    ends: Longs
    numbers: Longs
    rows: Longs

    @staticmethod
    def concat(parts: "Sequence[ExpiredRows]") -> "ExpiredRows":
        """The rows of all parts."""
        arrays = ([getattr(part, name) for part in parts] for name in ("ends", "numbers", "rows"))
        return ExpiredRows(*(np.concatenate([np.empty(0, np.int64), *each]) for each in arrays))


class UnmatchedLog:
    """The groups of one input in one task.

    Args:
        store: the state.
        codec: how keys are stored.
        retention: for how long after its time a record is retained, in milliseconds.

    Raises:
        StateMigrationError: when keys of another type are stored.
    """

    def __init__(self, store: RunStore, codec: KeyCodec, retention: int) -> None:
        types = [pa.int64(), pa.uint64(), codec.arrow_type, pa.int64(), pa.bool_()]
        schema = pa.schema(list(zip([*_ORDER, LIVE], types, strict=True)))
        about = {"keys": codec.to_json()}
        self._layout = TableLayout(
            "the unmatched records of a join", _KIND, schema, len(_ORDER), about, {"keys": "key type"}
        )
        self._store = store
        self._table = TimeSortedTable(store, self._layout, newest, INLINE_ROWS, spills=True)
        self._retention = retention

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        self._table.begin_epoch()

    def end_epoch(self, *, anew: bool) -> None:
        """Puts what was added into state.

        Args:
            anew: whether the log of the join was written anew. Then this one is, too: what is left of its runs would
                keep files of which nothing else is needed any more.
        """
        self._table.end_epoch()
        runs = self._store.runs
        if anew and runs:
            self._store.replace(runs, *merge_runs(runs, is_oldest=True, now=0))

    @property
    def next_expiry(self) -> int:
        """At which watermark the first group expires, be it matched or not; above all watermarks if there is none."""
        return self._table.first

    def expired(self, sections: Sequence[Section], watermark: int) -> ExpiredRows:
        """The rows of all groups that expire up to a watermark, among those of some sections."""
        batches = self._table.up_to(watermark)
        if not batches:
            return ExpiredRows.concat([])
        groups = newest(self._layout.meta, batches)
        groups = groups.filter(groups.column(LIVE))
        until, own = groups.column(RETAINED_UNTIL).to_numpy(), groups.column(_GROUP).to_numpy()
        times = until - self._retention - (own & 1 if self._retention == 0 else 0)
        hashes, values = groups.column(HASH).to_numpy(), groups.column(KEY)
        order, of_keys = key_sorted(hashes, values, times)
        keys = KeyColumn(values, hashes).take(order[np.flatnonzero(np.diff(of_keys, prepend=-1))])
        wanted = _Wanted(keys, of_keys, times[order], own[order], until[order])
        return ExpiredRows.concat([wanted.found_in(section, number) for number, section in enumerate(sections)])

    def add(self, section: Section, rows: Longs, watermark: int) -> None:
        """Rows of a section have not been matched so far; those that expire up to a watermark do not count."""
        self._table.append(self._groups(section, rows, watermark, live=True))

    def remove(self, section: Section, rows: Longs, watermark: int) -> None:
        """Rows of a section have been matched, some perhaps before; those that have expired do not count."""
        if not len(rows) or self._table.first == NO_TIME:
            return
        groups = self._groups(section, rows, watermark, live=False)
        if not groups.num_rows:
            return
        until, hashes = groups.column(RETAINED_UNTIL).to_numpy(), groups.column(HASH).to_numpy()
        is_other = np.append(True, (until[1:] != until[:-1]) | (hashes[1:] != hashes[:-1]))
        found = self._table.find(until[is_other], hashes[is_other])
        if found:
            known = newest(self._layout.meta, found)
            self._table.append(_in_both(known.filter(known.column(LIVE)), groups))

    def forget(self, watermark: int) -> None:
        """Drops the groups that expire up to a watermark."""
        self._table.forget(watermark)

    def _groups(self, section: Section, rows: Longs, watermark: int, *, live: bool) -> pa.RecordBatch:
        """The groups of some rows, in order, of those that have not expired at a watermark."""
        until = _until(section, rows)
        is_retained = until > watermark
        until, rows = until[is_retained], rows[is_retained]
        keys = [section.take(name, rows) for name in (HASH, KEY)]
        columns = [
            pa.array(until),
            *keys,
            pa.array(_groups_of(section, rows)),
            pa.array(np.full(len(rows), live)),
        ]
        groups = pa.RecordBatch.from_arrays(columns, schema=self._layout.schema)
        return newest(self._layout.meta, [groups]) if groups.num_rows else groups


@dataclass(frozen=True)
class _Wanted:
    """Groups whose rows are looked for, by hash, key and time.

    Attributes:
        keys: the different keys.
        of_keys: which of them each group has.
        times: the time of each.
        groups: which of those of its key and time it is.
        ends: when it expires.
    """

    keys: KeyColumn
    of_keys: Longs
    times: Longs
    groups: Longs
    ends: Longs

    def found_in(self, section: Section, number: int) -> ExpiredRows:
        """Their rows in a section, which has a number."""
        found, starts, stops = key_ranges(section, self.keys, self.of_keys, self.times, self.times)
        lengths = stops - starts
        rows = rows_of_ranges(starts, lengths)
        groups = np.repeat(found, lengths)
        is_own = _groups_of(section, rows) == self.groups[groups]
        rows = rows[is_own]
        return ExpiredRows(self.ends[groups[is_own]], np.full(len(rows), number), rows)


def in_order_of_expiry(parts: Sequence[ExpiredRows]) -> tuple[ExpiredRows, Longs]:
    """The rows of several inputs in the order in which they expire, and of which input each is."""
    whole = ExpiredRows.concat(parts)
    order = np.argsort(whole.ends, kind="stable")
    sides = np.repeat(np.arange(len(parts)), [len(part.rows) for part in parts])
    return ExpiredRows(whole.ends[order], whole.numbers[order], whole.rows[order]), sides[order]


def arrived_expired(section: Section, number: int, watermark: int) -> ExpiredRows:
    """The rows of a section that expire up to a watermark."""
    until = _until(section, np.arange(section.rows))
    rows = np.flatnonzero(until <= watermark)
    return ExpiredRows(until[rows], np.full(len(rows), number), rows)


def _until(section: Section, rows: Longs) -> Longs:
    """The watermark at which each row expires."""
    until: Longs = section.take(RETAINED_UNTIL, rows).to_numpy()
    return until


def _groups_of(section: Section, rows: Longs) -> Longs:
    """Return the group of each row, among the rows of its key and time.

    Rows that come while the watermark stands at their time expire at another one. Where a condition is on more than
    keys and times, each row is a group of its own.
    """
    groups = np.asarray(section.take(AT_WATERMARK, rows).to_numpy(zero_copy_only=False), np.int64)
    if NUMBER in section.schema.names:
        groups += 2 * section.take(NUMBER, rows).to_numpy()
    return groups


def _in_both(known: pa.RecordBatch, groups: pa.RecordBatch) -> pa.RecordBatch:
    """Return the groups of some that are known; of both each is there once."""
    whole = concat([known, groups])
    until, hashes = whole.column(RETAINED_UNTIL).to_numpy(), whole.column(HASH).to_numpy()
    found = group_rows(until, hashes, whole.column(KEY), whole.column(_GROUP))
    is_both = found.segments.counts == 2
    return whole.take(pa.array(found.order[found.segments.starts[is_both] + 1]))


register_ordered_merger(_KIND, newest)


class UnmatchedRecords:
    """Shows records that have not been matched, each once.

    Args:
        interval: which times match.
        logs: the groups of unmatched records, by the inputs whose records are to be shown.
    """

    def __init__(self, interval: JoinInterval, logs: Mapping[int, UnmatchedLog]) -> None:
        self._interval = interval
        self._logs = logs

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        for log in self._logs.values():
            log.begin_epoch()

    def end_epoch(self, anew: Sequence[bool]) -> None:
        """Puts what was found into state.

        Args:
            anew: of each input whether the log of the join was written anew.
        """
        for side, log in self._logs.items():
            log.end_epoch(anew=anew[side])

    def wait_until(self) -> int:
        """The watermark at which there may be some to be shown; above all watermarks if there is none."""
        return min(log.next_expiry for log in self._logs.values())

    def joined(
        self,
        sources: Sequence[Sequence[Section]],
        arrived: Sequence[ArrivedSide],
        watermarks: Longs,
        before: int,
        watermark: int,
        is_match: Callable[[Pairs], npt.NDArray[np.bool_]] | None = None,
    ) -> Iterator[Pairs]:
        """Pairs and unmatched records, in the order of the watermarks at which they are emitted.

        Args:
            sources: for each input the earlier sections, oldest first, and the section of the newly arrived records.
            arrived: these.
            watermarks: the watermark that each of these has met, in the order in which they came.
            before: the watermark when the first one came.
            watermark: the watermark afterwards.
            is_match: as of ``find_pairs``.
        """
        matched = RowsWithPartner(sources, self._logs.keys())
        expired = _ExpiredRecords(
            *in_order_of_expiry([self._expired(side, sources[side], watermark) for side in (LEFT, RIGHT)]),
            sources,
            matched,
            tuple(map(self._interval.retention, (LEFT, RIGHT))),
            np.append(before, watermarks),
        )
        found = find_pairs.find_pairs(self._interval, sources, arrived, watermarks, matched, is_match)
        yield from _merged(found, expired)
        self._note(sources, matched, watermark)

    def _expired(self, side: int, sections: Sequence[Section], watermark: int) -> ExpiredRows:
        """The rows of one input that expire up to a watermark, but for those that had been matched before."""
        if side not in self._logs:
            return ExpiredRows.concat([])
        newest = len(sections) - 1
        stored = self._logs[side].expired(sections[:newest], watermark)
        return ExpiredRows.concat([stored, arrived_expired(sections[newest], newest, watermark)])

    def _note(self, sources: Sequence[Sequence[Section]], matched: RowsWithPartner, watermark: int) -> None:
        """Keeps which rows have been matched, and which have not."""
        for side, log in self._logs.items():
            log.forget(watermark)
            *stored, arrived = sources[side]
            for number, section in enumerate(stored):
                log.remove(section, matched.rows(side, number), watermark)
            rows = np.arange(arrived.rows)
            log.add(arrived, rows[matched.are_unmatched(side, np.full(len(rows), len(stored)), rows)], watermark)


@dataclass
class _ExpiredRecords:
    """Records that expire, in order, from which the next ones are taken.

    Attributes:
        expired: their rows.
        sides: the input of each.
        sources: of each input all sections.
        matched: the rows that have been matched.
        retention: of each input for how long after its time a record is retained.
        watermarks: all that are met, ascending.
        start: how many have been taken.
    """

    expired: ExpiredRows
    sides: Longs
    sources: Sequence[Sequence[Section]]
    matched: RowsWithPartner
    retention: Sequence[int]
    watermarks: Longs
    start: int = 0

    def until(self, watermark: int) -> Iterator[tuple[Longs, Pairs]]:
        """Takes those that expire up to a watermark, some at a time: when each expires, and what is shown of it."""
        last = int(np.searchsorted(self.expired.ends, watermark, side="right"))
        while self.start < last:
            start, self.start = self.start, min(last, self.start + find_pairs.PAIRS)
            rows = np.arange(start, self.start)
            rows = rows[self._are_unmatched(rows)]
            if len(rows):
                yield self.expired.ends[rows], self._shown(rows)

    def _are_unmatched(self, rows: Longs) -> npt.NDArray[np.bool_]:
        unmatched = np.zeros(len(rows), np.bool_)
        for side in (LEFT, RIGHT):
            of_side = self.sides[rows] == side
            own = rows[of_side]
            unmatched[of_side] = self.matched.are_unmatched(side, self.expired.numbers[own], self.expired.rows[own])
        return unmatched

    def _shown(self, rows: Longs) -> Pairs:
        (left, left_times), (right, right_times) = (self._of_side(side, rows) for side in (LEFT, RIGHT))
        sides = self.sides[rows]
        times = np.where(sides == LEFT, left_times, right_times) + np.array(self.retention)[sides]
        before = np.searchsorted(self.watermarks, self.expired.ends[rows]) - 1
        return Pairs(left, right, left_times, right_times, times, self.watermarks[np.maximum(before, 0)])

    def _of_side(self, side: int, rows: Longs) -> tuple[pa.Array, Longs]:
        """The records of one input and their times; there are none at the places of records of the other one."""
        at = np.flatnonzero(self.sides[rows] == side)
        sections, numbers, own = self.sources[side], self.expired.numbers[rows[at]], self.expired.rows[rows[at]]
        times, places = np.full(len(rows), NO_TIMESTAMP), np.zeros(len(rows), np.int64)
        times[at], places[at] = gathered(sections, TIME, numbers, own).to_numpy(), np.arange(len(at))
        records = gathered(sections, RECORD, numbers, own)
        return records.take(pa.array(places, mask=times == NO_TIMESTAMP)), times


def _merged(found: Iterator[Pairs], expired: _ExpiredRecords) -> Iterator[Pairs]:
    """Pairs and unmatched records: these before whatever has met the watermark at which they expire."""
    for pairs in found:
        start = 0
        for ends, unmatched in expired.until(int(pairs.watermarks[-1])):
            stop = int(np.searchsorted(pairs.watermarks, ends[-1]))
            order = np.argsort(np.concatenate((ends, pairs.watermarks[start:stop])), kind="stable")
            yield unmatched.followed_by(pairs.slice(start, stop)).take(order)
            start = stop
        if start < len(pairs):
            yield pairs.slice(start, len(pairs))
    for _, unmatched in expired.until(MAX_WATERMARK):
        yield unmatched
