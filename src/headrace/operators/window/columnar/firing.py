"""The firing of columnar windows: when they fire, and what they emit.

A window that fires at intervals fires first at a time that its first record sets, then each time an interval has
passed, and at its end. In event time, a firing happens before the first record that meets its time as a watermark, or a
later one: it emits the records that came before that one. A time that had passed when the window got its first record
is due at the next advance. By the clock, firings happen when an epoch begins. A late record that is allowed makes its
window fire once more.

What a window holds changes only where records come between two firings. So these are added up first, for each stretch
between two firings; what has been emitted follows by merging them in order, by the accumulation mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import concat, gather, valid_mask
from headrace.common.batch import Batch, joined_kinds
from headrace.common.types import RowKind
from headrace.operators.aggregates.aggregator import AggregatorList
from headrace.operators.window.columnar.accumulators import Accumulators, Chunk, ColumnarWindowLayout, stretches
from headrace.state.runs.grouping import Groups, Segments, group_rows, sorted_by
from headrace.windowing.definition import AccumulationMode
from headrace.windowing.intervals import RegularWindows

Kinds = npt.NDArray[np.int8]
Longs = npt.NDArray[np.int64]
Columns = list[pa.Array]
Find = Callable[[Longs, npt.NDArray[np.uint64]], Accumulators]
"""The rows of some windows and keys, by ends and hashes, at most one each; the result may hold other rows as well."""


FIRED_ROWS: Final = 1 << 16
"""The results that leave as one batch."""


@dataclass(frozen=True)
class FiredResults:
    """Results of firings.

    Attributes:
        accumulators: the contents of the windows, in the order of their emission.
        watermarks: the output watermark that each result is made under.
        positions: when each result is made: twice the position of the record that the watermark rose before, or one
            more when it is the record itself that makes the window fire again.
        kinds: what the results do in a changelog, as values of ``RowKind``; None where all are insertions.
    """

    accumulators: Accumulators
    watermarks: Longs
    positions: Longs
    kinds: Kinds | None = None

    @staticmethod
    def of_due(due: Accumulators, current: int, watermarks: Longs) -> FiredResults:
        """The results of windows that fire because the watermark rises.

        Args:
            due: the contents, by window.
            current: the watermark before.
            watermarks: the watermarks it rises to, the last of which every window of ``due`` has seen.
        """
        ends, bounds = due.windows
        records, rows = np.searchsorted(watermarks, ends - 1), np.diff(bounds)
        stamps = np.where(records > 0, watermarks[records - 1], current)
        return FiredResults(due, np.repeat(stamps, rows), np.repeat(2 * records, rows))


def result_batch(layout: ColumnarWindowLayout, windows: RegularWindows, emissions: Sequence[FiredResults]) -> Batch:
    """The results of all emissions as one batch, in the order in which they are made."""
    batches = []
    for emission in emissions:
        found = emission.accumulators
        bounds = pa.array(windows.starts_of(found.ends)), pa.array(found.ends)
        batches.append(layout.finish(found.keys, bounds, found.columns))
    kinds = joined_kinds([(len(emission.accumulators), emission.kinds) for emission in emissions])
    if len(emissions) == 1:
        ends, watermarks = emissions[0].accumulators.ends, emissions[0].watermarks
        return Batch(layout.output_type, ends - 1, watermarks, columns=batches[0], kinds=kinds)
    timestamps = np.concatenate([emission.accumulators.ends for emission in emissions]) - 1
    watermarks = np.concatenate([emission.watermarks for emission in emissions])
    order = np.argsort(np.concatenate([emission.positions for emission in emissions]), kind="stable")
    table = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    return Batch(layout.output_type, timestamps, watermarks, columns=table, kinds=kinds).take(order)


@dataclass(frozen=True)
class Firings:
    """Firings, window after window, and for each in the order in which they happen.

    Attributes:
        counts: how often each window fires.
        windows: which window each firing is of.
        times: for when it was due.
        places: how many records have come before it.
        next_times: when each window fires next; of one that has come to its end, its last timestamp.
    """

    counts: Longs
    windows: Longs
    times: Longs
    places: Longs
    next_times: Longs

    @cached_property
    def starts(self) -> Longs:
        """Return where the firings of each window begin."""
        return _starts(self.counts)

    @cached_property
    def numbers(self) -> Longs:
        """Return how many firings of its window have happened before each."""
        return np.arange(len(self.windows)) - self.starts[self.windows]

    def before(self, windows: Longs, records: Longs) -> Longs:
        """Return how many firings of a window have happened before a record is added to it.

        Args:
            windows: the window of each record.
            records: how many records have come before it.
        """
        width = int(self.places.max(initial=0)) + 1
        places = self.windows * width + self.places
        sought = windows * width + np.minimum(records, width - 1)
        return np.searchsorted(places, sought, side="right") - self.starts[windows]


def first_times(interval: int, timestamps: Longs, lasts: Longs) -> Longs:
    """Return when windows first fire: at the multiple of the interval above a timestamp, or at an earlier end.

    Args:
        interval: milliseconds.
        timestamps: that of the first record of each window.
        lasts: the last timestamp of each window.
    """
    below = timestamps - timestamps % interval
    return np.where(lasts - below > interval, below + interval, lasts)


def first_times_of_clock(interval: int, now: int, lasts: Longs) -> Longs:
    """The same by the clock, which may have passed the ends of windows: those of event time go on firing then."""
    below = now - now % interval
    return np.where((lasts > below) & (lasts - below < interval), lasts, below + interval)


def find_firings(interval: int, lasts: Longs, next_times: Longs, known_at: Longs, watermarks: Longs) -> Firings:
    """The firings of windows on the way to a watermark.

    Args:
        interval: how long after a firing the next one is due, in milliseconds.
        lasts: the last timestamp of each window.
        next_times: when each fires next.
        known_at: the watermark in force when that became known; what is not above it is due when event time goes on.
        watermarks: those that the records meet, and at last the one that is reached; they do not fall.
    """
    reached = int(watermarks[-1])
    limits = np.minimum(lasts, reached)
    is_due = (next_times <= limits) & (known_at < reached)
    steps = np.where(is_due, limits - next_times, 0) // interval
    ends_apart = is_due & (limits == lasts) & (next_times + steps * interval < lasts)
    counts = np.where(is_due, steps + 1, 0) + ends_apart
    windows = np.repeat(np.arange(len(counts)), counts)
    numbers = np.arange(len(windows)) - _starts(counts)[windows]
    is_end = numbers > steps[windows]
    times = np.where(is_end, lasts[windows], next_times[windows] + np.where(is_end, 0, numbers) * interval)
    places = np.searchsorted(watermarks, np.maximum(times, known_at[windows] + 1))
    last_times = next_times + steps * interval
    left = lasts - last_times
    following = np.where(left > interval, last_times + np.where(left > interval, interval, 0), lasts)
    return Firings(counts, windows, times, places, np.where(is_due, following, next_times))


def find_firings_of_clock(interval: int, lasts: Longs, next_times: Longs, now: int, *, stops: bool) -> Firings:
    """The firings of windows until the clock shows a time.

    Args:
        interval: how long after a firing the next one is due, in milliseconds.
        lasts: the last timestamp of each window.
        next_times: when each fires next.
        now: what the clock shows.
        stops: whether a window fires for the last time at its end; else it goes on, an interval after its end.
    """
    windows, times, next_times = [], [], next_times.copy()
    while len(due := np.flatnonzero((next_times <= now) & ~(stops & (next_times > lasts)))):
        time, last = next_times[due], lasts[due]
        windows.append(due)
        times.append(time)
        next_times[due] = np.where(time < last, np.minimum(time + interval, last), time + interval)
    of_firings = np.concatenate(windows) if windows else np.empty(0, np.int64)
    order = np.argsort(of_firings, kind="stable")
    due_times = np.concatenate(times)[order] if times else of_firings
    counts = np.bincount(of_firings, minlength=len(lasts))
    return Firings(counts, of_firings[order], due_times, np.zeros(len(order), np.int64), next_times)


def _starts(counts: Longs) -> Longs:
    return np.cumsum(counts) - counts


_NOTHING: Final = -1
"""In place of the row of something that a window has emitted."""


@dataclass(frozen=True)
class Contents:
    """Accumulators of windows, or of panes of keys, whose rows are numbered.

    Attributes:
        windows: the window of each row, or the key; rows of one follow one another.
        columns: the accumulators.
        numbers: how many firings of the window had happened before what is in the row came; or the number of the pane.
    """

    windows: Longs
    columns: Columns
    numbers: Longs

    def __len__(self) -> int:
        return len(self.windows)

    @staticmethod
    def nothing() -> Contents:
        """No rows."""
        return Contents(np.empty(0, np.int64), [], np.empty(0, np.int64))

    @staticmethod
    def of_column(columns: Columns) -> Contents:
        """Return what each of many windows holds, given by one row each; null for a window that holds nothing."""
        windows = np.flatnonzero(valid_mask(columns[0]))
        if len(windows) < len(columns[0]):
            columns = [gather(column, windows) for column in columns]
        return Contents(windows, columns, np.zeros(len(windows), np.int64))

    @staticmethod
    def of_records(
        aggregators: AggregatorList, chunk: Chunk, records: Longs, windows: Longs, firings: Firings
    ) -> Contents:
        """Return what comes to windows between two firings.

        Args:
            aggregators: what windows remember.
            chunk: the records, in the order in which they came.
            records: which record each pair of a record and a window is of; these do not fall.
            windows: the window of each pair.
            firings: when windows fire.
        """
        order = sorted_by(windows, np.arange(len(windows)))
        rows, windows = records[order], windows[order]
        numbers = firings.before(windows, rows)
        segments = stretches(windows, numbers)
        starts, columns = segments.starts, chunk.accumulated(aggregators, Groups(rows, segments))
        return Contents(windows[starts], columns, numbers[starts])

    def take(self, rows: Longs) -> Contents:
        """The rows at ``rows``, in that order."""
        return Contents(self.windows[rows], [gather(column, rows) for column in self.columns], self.numbers[rows])

    def spread(self, windows: int) -> Columns:
        """One row for each of so many windows, null for those that have none here; the others have one."""
        if len(self) == windows:
            return self.columns
        rows = np.zeros(windows, np.int64)
        rows[self.windows] = np.arange(len(self))
        is_missing = np.ones(windows, np.bool_)
        is_missing[self.windows] = False
        places = pa.array(rows, mask=is_missing)
        return [column.take(places) for column in self.columns]

    @staticmethod
    def concat(older: Contents, newer: Contents) -> Contents:
        """The rows of both, window by window; of a window, the older ones come first."""
        if not len(older) or not len(newer):
            return older if not len(newer) else newer
        windows = np.concatenate((older.windows, newer.windows))
        order = sorted_by(windows, np.arange(len(windows)))
        columns = [gather(concat([a, b]), order) for a, b in zip(older.columns, newer.columns, strict=True)]
        return Contents(windows[order], columns, np.concatenate((older.numbers, newer.numbers))[order])

    @staticmethod
    def merged(aggregators: AggregatorList, older: Contents, newer: Contents, *, by_number: bool = False) -> Contents:
        """One row for each window, or for each number of a window."""
        both = Contents.concat(older, newer)
        segments = stretches(both.windows, both.numbers) if by_number else stretches(both.windows)
        if segments.are_single:
            return both
        starts, columns = segments.starts, aggregators.merge(both.columns, segments)
        return Contents(both.windows[starts], columns, both.numbers[starts])


@dataclass(frozen=True)
class EmittedContents:
    """The output of firings, and the contents that are left.

    Attributes:
        firings: the firing of each result, by its position; results of one firing follow one another.
        columns: the accumulators of each result.
        kinds: what results do in a changelog, as values of ``RowKind``; None where all are insertions.
        left: what each window holds now.
        last: what each window has emitted last, where that is remembered.
    """

    firings: Longs
    columns: Columns
    kinds: Kinds | None
    left: Contents
    last: Contents | None = None


def emitted_by(
    mode: AccumulationMode,
    aggregators: AggregatorList,
    held: Contents,
    added: Contents,
    last: Contents | None,
    firings: Firings,
) -> EmittedContents:
    """Return what firings emit.

    Args:
        mode: what windows emit that fire again.
        aggregators: what windows remember.
        held: what windows held before.
        added: what has come since.
        last: what windows have emitted last, where they take it back.
        firings: the firings.
    """
    if not len(firings.windows):
        return EmittedContents(firings.windows, [], None, Contents.merged(aggregators, held, added), last)
    if mode is AccumulationMode.DISCARDING:
        return _emitted_once(aggregators, held, added, firings)
    versions = _versions(aggregators, held, added)
    rows = _rows_at(versions, firings.windows, firings.numbers)
    left = versions.take(_last_rows(versions))
    if last is not None:
        return _emitted_and_retracted(versions, rows, left, last, firings)
    return EmittedContents(np.arange(len(rows)), [gather(column, rows) for column in versions.columns], None, left)


def _emitted_once(aggregators: AggregatorList, held: Contents, added: Contents, firings: Firings) -> EmittedContents:
    both = Contents.merged(aggregators, held, added, by_number=True)
    is_emitted = both.numbers < firings.counts[both.windows]
    emitted, left = both.take(np.flatnonzero(is_emitted)), both.take(np.flatnonzero(~is_emitted))
    return EmittedContents(firings.starts[emitted.windows] + emitted.numbers, emitted.columns, None, left)


def _emitted_and_retracted(
    versions: Contents, rows: Longs, left: Contents, last: Contents, firings: Firings
) -> EmittedContents:
    # In one table: what windows hold at their firings, then what they have emitted before the first of these.
    table = [concat([a, b]) for a, b in zip(versions.columns, last.columns, strict=True)]
    former = np.full(len(firings.counts), _NOTHING)
    former[last.windows] = len(versions) + np.arange(len(last))
    before = np.append(_NOTHING, rows)[: len(rows)]
    is_first = firings.numbers == 0
    before[is_first] = former[firings.windows[is_first]]
    is_again = before != _NOTHING
    results = np.repeat(np.arange(len(rows)), 1 + is_again)
    takes_back = np.append(results[1:] == results[:-1], False)[: len(results)]
    kinds = np.where(is_again[results], RowKind.UPDATE_AFTER.value, RowKind.INSERT.value)
    kinds[takes_back] = RowKind.UPDATE_BEFORE.value
    columns = [gather(column, np.where(takes_back, before[results], rows[results])) for column in table]
    final = np.append(stretches(firings.windows).starts[1:], len(rows))[: len(rows)] - 1
    now = Contents(firings.windows[final], [gather(c, rows[final]) for c in versions.columns], firings.numbers[final])
    stays = last.take(np.flatnonzero(firings.counts[last.windows] == 0))
    return EmittedContents(results, columns, kinds.astype(np.int8), left, Contents.concat(stays, now))


def _versions(aggregators: AggregatorList, held: Contents, added: Contents) -> Contents:
    """Return what windows hold after each of the stretches: all that has come until then."""
    both = Contents.concat(held, added)
    if not len(added):
        return both
    segments = stretches(both.windows)
    return Contents(both.windows, aggregators.scan(both.columns, segments), both.numbers)


def _rows_at(versions: Contents, windows: Longs, numbers: Longs) -> Longs:
    """The row that a window has when it fires; numbers are how often it has fired before."""
    width = max(int(versions.numbers.max(initial=0)), int(numbers.max(initial=0))) + 1
    places = versions.windows * width + versions.numbers
    return np.searchsorted(places, windows * width + numbers, side="right") - 1


def _last_rows(contents: Contents) -> Longs:
    starts = stretches(contents.windows).starts
    return np.append(starts[1:], len(contents))[: len(starts)] - 1


def late_emission(
    mode: AccumulationMode, aggregators: AggregatorList, find: Find, late: Chunk, records: Longs, watermarks: Longs
) -> FiredResults:
    """The results of windows that have ended, which fire again for each late record.

    Args:
        mode: what they emit then.
        aggregators: what windows remember.
        find: gives what they held before.
        late: the pairs of a late record and a window, in the order in which records came.
        records: which record of the batch each pair is of.
        watermarks: the watermarks that the records of the batch meet.
    """
    nothing = Accumulators(late.ends[:0], late.hashes[:0], late.keys.slice(0, 0), [])
    held = find(late.ends, late.hashes) if keeps_contents(mode) else nothing
    keys = concat([held.keys, late.keys])
    groups = group_rows(np.concatenate((held.ends, late.ends)), np.concatenate((held.hashes, late.hashes)), keys)
    windows = groups.numbers
    of_held, order = windows[: len(held)], np.argsort(windows[len(held) :], kind="stable")
    of_firings = windows[len(held) :][order]
    counts = np.bincount(of_firings, minlength=len(groups.segments))
    firings = Firings(counts, of_firings, late.ends[order], records[order], late.ends[:0])
    each = Groups(order, Segments(np.arange(len(order)), len(order)))
    added = Contents(of_firings, late.accumulated(aggregators, each), firings.numbers)
    in_order = np.argsort(of_held)
    before = Contents(of_held, held.columns, np.zeros(len(held), np.int64)).take(in_order)
    emitted = emitted_by(mode, aggregators, before, added, before if mode.retracts else None, firings)
    # Results leave as their records came; of a record, what is taken back comes before what takes its place.
    pairs = order[emitted.firings]
    rows = np.argsort(pairs, kind="stable")
    pairs, columns = pairs[rows], [gather(column, rows) for column in emitted.columns]
    contents = Accumulators(late.ends[pairs], late.hashes[pairs], gather(late.keys, pairs), columns)
    kinds, records = None if emitted.kinds is None else emitted.kinds[rows], records[pairs]
    return FiredResults(contents, watermarks[records], 2 * records + 1, kinds)


def keeps_contents(mode: AccumulationMode) -> bool:
    """Return whether windows that have fired keep what they hold for the late records to come."""
    return mode is not AccumulationMode.DISCARDING
