"""Finds the matches of two inputs all at once: by binary search in sections that are sorted by hash, key and time.

Every record that has arrived looks for those of the other input that came before it, in what is kept of older ones and
among those that have arrived with it. So a pair is found once, by the later one, whose place in the order of arrival
and whose watermark it has. The pairs of one record come in the order of time of the others, and where that is the same
as they came. A key with very many records costs time, not memory: pairs are laid out some at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import concat, gather
from headrace.common.typeinfo import TypeInformation
from headrace.operators.base import KeyedBatch
from headrace.operators.binary_rows import buckets
from headrace.operators.waiting import TakenBatches
from headrace.state.evolution import NOTHING_RENAMED, RenamedFields
from headrace.state.key_sorted_table import key_ranges, key_sorted, register_key_sorted_merger
from headrace.state.keys import KeyCodec, KeyColumn
from headrace.state.runs.grouping import in_order, sorted_by
from headrace.state.runs.layout import HASH, KEY, RETAINED_UNTIL, TYPES, rows_of_ranges
from headrace.state.runs.sections import Section
from headrace.state.sorted_table import TableLayout

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


LEFT: Final = 0
RIGHT: Final = 1
"""The inputs of a join."""

SIDES: Final = ("left", "right")
"""The names of the two sides."""


@dataclass(frozen=True, slots=True)
class JoinInterval:
    """``right.time`` has to be from ``left.time + lower`` to ``left.time + upper``; both are included.

    Attributes:
        lower: milliseconds, at most ``upper``.
        upper: milliseconds.
    """

    lower: int
    upper: int

    @property
    def reach(self) -> int:
        """Return how far two records of a pair may be from each other, at most."""
        return max(abs(self.lower), abs(self.upper))

    def seen_from(self, side: int) -> tuple[int, int]:
        """From where to where the times of the other input's records are that match one of ``side`` at time 0."""
        return (self.lower, self.upper) if side == LEFT else (-self.upper, -self.lower)

    def retention(self, side: int) -> int:
        """For how long after its time a record of ``side`` is retained: no record that is not late matches it then.

        As in Flink it goes when the watermark reaches the end of that, also where a record that meets this very
        watermark would match.
        """
        return max(self.seen_from(side)[1], 0)

    def order_of(self, records: Longs, times: Longs) -> Longs:
        """The order of matches.

        Args:
            records: the place of the record that has found each match, in the order of arrival.
            times: the time of the match.
        """
        return sorted_by(records - records.min(initial=0), times)


@dataclass(frozen=True, slots=True)
class TableJoinInterval(JoinInterval):
    """The interval between times in columns of tables."""

    def retention(self, side: int) -> int:
        """For how long after its time a row is retained: while, by the watermark, one on time may match it."""
        return max(self.seen_from(side)[1], 0) + 1

    def order_of(self, records: Longs, times: Longs) -> Longs:
        """The order of matches: that of a hash map of Java by their times, as in Flink."""
        order = sorted_by(records - records.min(initial=0), times)
        records, times = records[order], times[order]
        if len(records) < 2 or (records[1:] != records[:-1]).all():
            return order
        words = times.view(np.uint64)
        hashes = (words ^ (words >> np.uint64(32))).astype(np.uint32)
        is_first = np.append(True, (records[1:] != records[:-1]) | (times[1:] != times[:-1]))
        numbers = np.cumsum(np.append(True, records[1:] != records[:-1])) - 1
        sizes = np.bincount(numbers[is_first])
        return order[in_order(numbers, buckets(hashes, sizes[numbers]))]


TIME: Final = "time"
"""The timestamp of a record."""
AT_WATERMARK: Final = "at_watermark"
"""True where the watermark stood at the record's time when it came; only where records without a partner are
emitted."""
NUMBER: Final = "number"
"""A number of its own, where records without a partner are shown and those of one key and time match one by one."""
RECORD: Final = "record"
"""The record, as one column."""

_KIND: Final = "join-log"
_RETENTION: Final = "retention"
_WORDS: Final = {
    "keys": "key type",
    TYPES: "type of records",
    _RETENTION: "interval, for which a record is retained so long (in milliseconds)",
}

register_key_sorted_merger(_KIND)


def log_layout(
    codec: KeyCodec,
    record: TypeInformation,
    retention: int,
    renamed: RenamedFields = NOTHING_RENAMED,
    *,
    is_outer: bool,
    is_numbered: bool = False,
) -> TableLayout:
    """Return what a join keeps of an input: its records by key and time, each until no other one can match it.

    Args:
        codec: how keys are stored.
        record: the type of the records.
        retention: for how long after its time a record is retained, in milliseconds.
        renamed: which fields of the records have other names than in what is stored.
        is_outer: whether records without a partner are shown.
        is_numbered: whether they match one by one, rather than all of one key and time.
    """
    outer = {AT_WATERMARK: pa.bool_(), **({NUMBER: pa.int64()} if is_numbered else {})} if is_outer else {}
    columns = {HASH: pa.uint64(), KEY: codec.arrow_type, TIME: pa.int64(), RETAINED_UNTIL: pa.int64(), **outer}
    schema = pa.schema({**columns, RECORD: record.storage_type})
    about = {"keys": codec.to_json(), _RETENTION: retention}
    return TableLayout("the records of a join", _KIND, schema, 3, about, _WORDS, record, column=RECORD, renamed=renamed)


PAIRS: Final = 1 << 17
"""About so many pairs are laid out at a time."""


@dataclass(frozen=True)
class ArrivedSide:
    """Records of one input, of which there may be none, by hash, key and time.

    Attributes:
        section: their rows, as a log has them.
        keys: the different keys.
        of_keys: which of them each record has.
        ordinals: the place of each in the order in which records of both inputs came.
    """

    section: Section
    keys: KeyColumn
    of_keys: Longs
    ordinals: Longs


def arrived_records(
    interval: JoinInterval, schemas: Sequence[pa.Schema], taken: TakenBatches[KeyedBatch], numbers: Longs
) -> tuple[ArrivedSide, ArrivedSide]:
    """The records of both inputs that have waited, each in the order of its log.

    Args:
        interval: which times match.
        schemas: of each input the columns of its log.
        taken: the records.
        numbers: the number of each.
    """
    left, right = (
        _side(taken.of(side), np.flatnonzero(taken.sides == side), interval.retention(side), schemas[side], numbers)
        for side in (LEFT, RIGHT)
    )
    return left, right


def _side(batch: KeyedBatch | None, ordinals: Longs, retention: int, schema: pa.Schema, numbers: Longs) -> ArrivedSide:
    if batch is None:
        nothing = pa.RecordBatch.from_pylist([], schema)
        none = np.empty(0, np.int64)
        return ArrivedSide(Section(nothing), KeyColumn(nothing.column(1), none.view(np.uint64)), none, none)
    keys, times = batch.keys, batch.timestamps
    order, of_keys = key_sorted(keys.hashes, keys.values, times)
    in_order, at = times[order], pa.array(order)
    until = in_order + retention
    flags = []
    if retention == 0 or AT_WATERMARK in schema.names:
        at_watermark = (batch.watermarks == times)[order]
        flags = [pa.array(at_watermark)] if AT_WATERMARK in schema.names else []
        if retention == 0:  # as in Flink, where a timer that is set for the present waits for the next advance
            until += at_watermark
    if NUMBER in schema.names:
        flags.append(pa.array(numbers[ordinals[order]]))
    columns = [pa.array(keys.hashes[order]), keys.values.take(at), pa.array(in_order), pa.array(until), *flags]
    section = Section(pa.RecordBatch.from_arrays([*columns, batch.as_array().take(at)], schema=schema))
    firsts = order[np.concatenate(((0,), np.flatnonzero(of_keys[1:] != of_keys[:-1]) + 1))] if len(order) else order
    return ArrivedSide(section, keys.take(firsts), of_keys, ordinals[order])


@dataclass(frozen=True)
class Pairs:
    """Matches, in order.

    Attributes:
        left: the records of the left input, as one column.
        right: those of the right input.
        left_times: the timestamps of the former; ``NO_TIMESTAMP`` where there is no record.
        right_times: those of the latter.
        times: the timestamp of each pair.
        watermarks: the watermark that the later one of each pair has met.
    """

    left: pa.Array
    right: pa.Array
    left_times: Longs
    right_times: Longs
    times: Longs
    watermarks: Longs

    def __len__(self) -> int:
        return len(self.watermarks)

    def slice(self, start: int, stop: int) -> Pairs:
        """Some of them."""
        return self._each(lambda column: column[start:stop])

    def take(self, order: Longs) -> Pairs:
        """The candidates at some places."""
        return self._each(lambda column: gather(column, order) if isinstance(column, pa.Array) else column[order])

    def followed_by(self, other: Pairs) -> Pairs:
        """These and others."""
        records = [concat([getattr(self, name), getattr(other, name)]) for name in _RECORDS]
        return Pairs(*records, *(np.concatenate((getattr(self, name), getattr(other, name))) for name in _NUMBERS))

    def _each(self, change: Callable[[Any], Any]) -> Pairs:
        return Pairs(*(change(getattr(self, name)) for name in (*_RECORDS, *_NUMBERS)))


_RECORDS: Final = ("left", "right")
_NUMBERS: Final = ("left_times", "right_times", "times", "watermarks")


def find_pairs(
    interval: JoinInterval,
    sources: Sequence[Sequence[Section]],
    arrived: Sequence[ArrivedSide],
    watermarks: Longs,
    matched: RowsWithPartner | None = None,
    is_match: Callable[[Pairs], Mask] | None = None,
) -> Iterator[Pairs]:
    """The pairs that newly arrived records make.

    Args:
        interval: which times match.
        sources: for each input the earlier sections, oldest first, and the section of the newly arrived records.
        arrived: the newly arrived records of each input.
        watermarks: the watermark that each of these has met, in the order in which they came.
        matched: is called with the rows that have been matched, before the pairs come; None if nothing needs them.
        is_match: returns which pairs within the interval match; None where all do.
    """
    found = [
        _CandidateRanges.of(interval, later, arrived[later], source, number)
        for later in (LEFT, RIGHT)
        for number, source in enumerate(sources[1 - later])
    ]
    counts = np.zeros(len(watermarks), np.int64)
    for candidates in found:
        counts[candidates.ordinals] += candidates.stops - candidates.starts
    rows = np.empty(len(watermarks), np.int64)
    for side in arrived:
        rows[side.ordinals] = np.arange(len(side.ordinals))
    layout = _PairLayout(interval, sources, arrived, watermarks, rows, matched, is_match)
    for start, stop in portions(counts):
        matches = layout.matches([candidates.slice(start, stop) for candidates in found])
        for first in range(0, len(matches), PAIRS):
            yield layout.pairs(matches.slice(first, first + PAIRS))


@dataclass(frozen=True)
class _CandidateRanges:
    """Ranges of rows of one source that match records of the other input by key and time.

    Attributes:
        later: the input of the records that look.
        source: the number of the source among those of the other input.
        ordinals: the places of the records in the order of arrival, ascending.
        starts: where the rows begin that match each.
        stops: where they end.
    """

    later: int
    source: int
    ordinals: Longs
    starts: Longs
    stops: Longs

    @staticmethod
    def of(interval: JoinInterval, later: int, side: ArrivedSide, source: Section, number: int) -> _CandidateRanges:
        """Return what the records of one input find in a source of the other one."""
        first, last = interval.seen_from(later)
        times = side.section.column(TIME).to_numpy()
        found, starts, stops = key_ranges(source, side.keys, side.of_keys, times + first, times + last)
        ordinals = side.ordinals[found]
        order = np.argsort(ordinals)
        return _CandidateRanges(later, number, ordinals[order], starts[order], stops[order])

    def slice(self, start: int, stop: int) -> _CandidateRanges:
        """The candidates from one place in the order of arrival up to another."""
        first, last = np.searchsorted(self.ordinals, (start, stop)).tolist()
        arrays = (array[first:last] for array in (self.ordinals, self.starts, self.stops))
        return _CandidateRanges(self.later, self.source, *arrays)


@dataclass(frozen=True)
class _Matches:
    """Pairs: the positions of the records that match.

    Attributes:
        ordinals: the places of those that came later, in the order of arrival.
        sources: the source that each found the other one in.
        rows: its row there.
    """

    ordinals: Longs
    sources: Longs
    rows: Longs

    def __len__(self) -> int:
        return len(self.ordinals)

    def slice(self, start: int, stop: int) -> _Matches:
        """Some of them."""
        return _Matches(self.ordinals[start:stop], self.sources[start:stop], self.rows[start:stop])


@dataclass(frozen=True)
class _PairLayout:
    """Makes pairs of candidates.

    Attributes:
        interval: which times match.
        sources: of each input all sections, the one of the records that have arrived last.
        arrived: these.
        watermarks: their watermarks, in the order of arrival.
        rows: their rows in their section.
        matched: is called with the rows that have been matched.
        is_match: returns which pairs within the interval match.
    """

    interval: JoinInterval
    sources: Sequence[Sequence[Section]]
    arrived: Sequence[ArrivedSide]
    watermarks: Longs
    rows: Longs
    matched: RowsWithPartner | None
    is_match: Callable[[Pairs], Mask] | None

    def matches(self, found: Sequence[_CandidateRanges]) -> _Matches:
        """The candidates that came before the records and were still kept, in order."""
        parts = [self._matches_of(candidates) for candidates in found if len(candidates.ordinals)]
        if not parts:
            return _Matches(*(np.empty(0, np.int64) for _ in range(3)))
        ordinals, sources, rows, times = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        order = self.interval.order_of(ordinals, times)
        return _Matches(ordinals[order], sources[order], rows[order])

    def _matches_of(self, found: _CandidateRanges) -> tuple[Longs, Longs, Longs, Longs]:
        lengths = found.stops - found.starts
        ordinals = np.repeat(found.ordinals, lengths)
        rows = rows_of_ranges(found.starts, lengths)
        other = 1 - found.later
        source = self.sources[other][found.source]
        times = source.column(TIME).to_numpy()[rows]
        is_match = self._are_retained(source, rows, times + self.interval.retention(other), self.watermarks[ordinals])
        if found.source == len(self.sources[other]) - 1:
            is_match &= self.arrived[other].ordinals[rows] < ordinals
        ordinals, rows, times = ordinals[is_match], rows[is_match], times[is_match]
        if self.is_match is not None and len(rows):
            holds = self.is_match(self.pairs(_Matches(ordinals, np.full(len(rows), found.source), rows)))
            ordinals, rows, times = ordinals[holds], rows[holds], times[holds]
        if self.matched is not None:
            self.matched.add(other, found.source, rows)
            self.matched.add(found.later, len(self.sources[found.later]) - 1, self.rows[ordinals])
        return ordinals, np.full(len(ordinals), found.source), rows, times

    @staticmethod
    def _are_retained(source: Section, rows: Longs, ends: Longs, watermarks: Longs) -> Mask:
        are_retained: Mask = watermarks < ends
        at_end = np.flatnonzero(watermarks == ends)
        if len(at_end):  # those that came when the watermark stood there already are retained until it goes on
            are_retained[at_end] = source.take(RETAINED_UNTIL, rows[at_end]).to_numpy() > ends[at_end]
        return are_retained

    def pairs(self, matches: _Matches) -> Pairs:
        """The records of pairs."""
        is_left = np.zeros(len(self.rows), np.bool_)
        is_left[self.arrived[LEFT].ordinals] = True
        found_by_left, own = is_left[matches.ordinals], self.rows[matches.ordinals]
        records, times = [], []
        for side, is_finder in ((LEFT, found_by_left), (RIGHT, ~found_by_left)):
            sources = np.where(is_finder, len(self.sources[side]) - 1, matches.sources)
            places = np.where(is_finder, own, matches.rows)
            records.append(gathered(self.sources[side], RECORD, sources, places))
            times.append(gathered(self.sources[side], TIME, sources, places).to_numpy())
        (left, right), (left_times, right_times) = records, times
        times_of_pairs = np.maximum(left_times, right_times)
        return Pairs(left, right, left_times, right_times, times_of_pairs, self.watermarks[matches.ordinals])


def portions(counts: Longs) -> Iterator[tuple[int, int]]:
    """Cuts records where about as many candidates as are laid out at a time have come, given how many each has."""
    totals = np.cumsum(counts)
    start, before = 0, 0
    while start < len(totals) and before < totals[-1]:
        stop = max(start + 1, int(np.searchsorted(totals, before + PAIRS, side="right")))
        yield start, stop
        start, before = stop, int(totals[stop - 1])


def gathered(sources: Sequence[Section], name: str, numbers: Longs, rows: Longs) -> pa.Array:
    """Values of a column of several sections."""
    different = np.unique(numbers).tolist() or [0]
    if len(different) == 1:
        return sources[different[0]].take(name, rows)
    places = [np.flatnonzero(numbers == number) for number in different]
    taken = [sources[number].take(name, rows[at]) for number, at in zip(different, places, strict=True)]
    back = np.empty(len(rows), np.int64)
    back[np.concatenate(places)] = np.arange(len(rows))
    return gather(concat(taken), back)


class RowsWithPartner:
    """The rows of some sections of the inputs that have been matched; noted while pairs are found.

    Args:
        sources: of each input the sections.
        sides: the inputs to find pairs for.
    """

    def __init__(self, sources: Sequence[Sequence[Section]], sides: Collection[int]) -> None:
        self._sources = sources
        self._sides = sides
        self._found: dict[tuple[int, int], Mask] = {}

    def add(self, side: int, number: int, rows: Longs) -> None:
        """Rows of a section of one input have been matched."""
        if side in self._sides and len(rows):
            if (side, number) not in self._found:
                self._found[side, number] = np.zeros(self._sources[side][number].rows, np.bool_)
            self._found[side, number][rows] = True

    def rows(self, side: int, number: int) -> Longs:
        """The rows of a section that have been matched."""
        found = self._found.get((side, number))
        return np.empty(0, np.int64) if found is None else np.flatnonzero(found)

    def are_unmatched(self, side: int, numbers: Longs, rows: Longs) -> Mask:
        """Return which of some rows, each of a section with a number, have not been matched so far."""
        unmatched = np.ones(len(rows), np.bool_)
        for number in range(len(self._sources[side])):
            found = self._found.get((side, number))
            if found is not None:
                own = np.flatnonzero(numbers == number)
                unmatched[own] = ~found[rows[own]]
        return unmatched
