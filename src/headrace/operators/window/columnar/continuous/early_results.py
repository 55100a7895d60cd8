"""What windows that fire before their end show each time, by the mode of accumulation, for many at once.

What a window holds changes only where records come between two firings. So these are added up first, for each stretch
between two firings; what has been shown follows by merging them in order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
import pyarrow as pa

from headrace.common.row import RowKind
from headrace.operators.aggregates.aggregator import GroupedRows
from headrace.operators.arrays import concat, gather
from headrace.operators.window.columnar.late_firings import running_merges
from headrace.state.runs.grouping import Groups, Segments, sorted_by
from headrace.windowing.accumulation_mode import AccumulationMode

if TYPE_CHECKING:
    import numpy.typing as npt

    from headrace.operators.aggregates.aggregator_list import AggregatorList
    from headrace.operators.window.columnar.accumulators import Chunk
    from headrace.operators.window.columnar.continuous.early_firings import Firings

    Longs = npt.NDArray[np.int64]
    Kinds = npt.NDArray[np.int8]
    Columns = list[pa.Array]

_NOTHING: Final = -1
"""In place of the row of something that a window has shown."""


@dataclass(frozen=True)
class Contents:
    """Accumulators of windows.

    Attributes:
        windows: the window of each row; rows of a window follow one another.
        columns: the accumulators.
        numbers: how many firings of the window had happened before what is in the row came.
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
        """What each of many windows holds, given by one row each; null for a window that holds nothing."""
        windows = np.flatnonzero(columns[0].is_valid().to_numpy(zero_copy_only=False))
        if len(windows) < len(columns[0]):
            columns = [gather(column, windows) for column in columns]
        return Contents(windows, columns, np.zeros(len(windows), np.int64))

    @staticmethod
    def of_records(
        aggregators: AggregatorList, chunk: Chunk, records: Longs, windows: Longs, firings: Firings | None = None
    ) -> Contents:
        """What comes to windows between two firings.

        Args:
            aggregators: what windows remember.
            chunk: the records, in the order in which they came.
            records: which record each pair of a record and a window is of; these do not fall.
            windows: the window of each pair.
            firings: when windows fire; None where none does meanwhile.
        """
        order = sorted_by(windows, np.arange(len(windows)))
        rows, windows = records[order], windows[order]
        numbers = np.zeros(len(rows), np.int64) if firings is None else firings.before(windows, rows)
        starts = _starts_of(windows, numbers)
        groups = Groups(rows, Segments(starts, len(rows)))
        pieces = [
            aggregators.accumulate(GroupedRows(chunk.columns, chunk.arrivals, block)) for block in groups.blocks()
        ]
        columns = [concat(list(parts)) for parts in zip(*pieces, strict=True)]
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
    def merged(aggregators: AggregatorList, older: Contents, newer: Contents) -> Contents:
        """One row a window."""
        both = Contents.concat(older, newer)
        starts = _starts_of(both.windows)
        if len(starts) == len(both):
            return both
        columns = aggregators.merge(both.columns, Segments(starts, len(both)))
        return Contents(both.windows[starts], columns, both.numbers[starts])


@dataclass(frozen=True)
class Shown:
    """What firings show, and what is left.

    Attributes:
        firings: the firing of each result, by its position; results of one firing follow one another.
        columns: the accumulators of each result.
        kinds: what results do in a changelog, as values of ``RowKind``; None where all are insertions.
        left: what each window holds now.
        last: what each window has shown last, where that is remembered.
    """

    firings: Longs
    columns: Columns
    kinds: Kinds | None
    left: Contents
    last: Contents | None = None


class EarlyResults(ABC):
    """One mode.

    Class attributes:
        remembers_last: whether it has to be known what windows have shown last.
    """

    remembers_last: ClassVar[bool] = False

    @abstractmethod
    def of(
        self, aggregators: AggregatorList, held: Contents, added: Contents, last: Contents | None, firings: Firings
    ) -> Shown:
        """What firings show.

        Args:
            aggregators: what windows remember.
            held: what windows held before.
            added: what has come since.
            last: what windows have shown last, where that is remembered.
            firings: the firings.
        """


class _Accumulating(EarlyResults):
    def of(
        self, aggregators: AggregatorList, held: Contents, added: Contents, last: Contents | None, firings: Firings
    ) -> Shown:
        versions = _versions(aggregators, held, added)
        rows = _rows_at(versions, firings.windows, firings.numbers)
        columns = [gather(column, rows) for column in versions.columns]
        return Shown(np.arange(len(rows)), columns, None, versions.take(_last_rows(versions)))


class _Discarding(EarlyResults):
    def of(
        self, aggregators: AggregatorList, held: Contents, added: Contents, last: Contents | None, firings: Firings
    ) -> Shown:
        both = Contents.concat(held, added)
        starts = _starts_of(both.windows, both.numbers)
        if len(starts) < len(both):
            columns = aggregators.merge(both.columns, Segments(starts, len(both)))
            both = Contents(both.windows[starts], columns, both.numbers[starts])
        is_shown = both.numbers < firings.counts[both.windows]
        shown, left = both.take(np.flatnonzero(is_shown)), both.take(np.flatnonzero(~is_shown))
        return Shown(firings.starts[shown.windows] + shown.numbers, shown.columns, None, left)


class _Retracting(EarlyResults):
    remembers_last = True

    def of(
        self, aggregators: AggregatorList, held: Contents, added: Contents, last: Contents | None, firings: Firings
    ) -> Shown:
        assert last is not None
        versions = _versions(aggregators, held, added)
        rows = _rows_at(versions, firings.windows, firings.numbers)
        # In one table: what windows hold at their firings, then what they have shown before the first of these.
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
        final = np.append(_starts_of(firings.windows)[1:], len(rows))[: len(rows)] - 1
        now = Contents(
            firings.windows[final], [gather(c, rows[final]) for c in versions.columns], firings.numbers[final]
        )
        stays = last.take(np.flatnonzero(firings.counts[last.windows] == 0))
        left = versions.take(_last_rows(versions))
        return Shown(results, columns, kinds.astype(np.int8), left, Contents.concat(stays, now))


EARLY_RESULTS: Final[dict[AccumulationMode, EarlyResults]] = {
    AccumulationMode.ACCUMULATING: _Accumulating(),
    AccumulationMode.DISCARDING: _Discarding(),
    AccumulationMode.ACCUMULATING_AND_RETRACTING: _Retracting(),
}


def _versions(aggregators: AggregatorList, held: Contents, added: Contents) -> Contents:
    """What windows hold after each of the stretches: all that has come until then."""
    both = Contents.concat(held, added)
    if not len(added):
        return both
    segments = Segments(_starts_of(both.windows), len(both))
    return Contents(both.windows, running_merges(aggregators, both.columns, segments), both.numbers)


def _rows_at(versions: Contents, windows: Longs, numbers: Longs) -> Longs:
    """The row that a window has when it fires; numbers are how often it has fired before."""
    width = max(int(versions.numbers.max(initial=0)), int(numbers.max(initial=0))) + 1
    places = versions.windows * width + versions.numbers
    return np.searchsorted(places, windows * width + numbers, side="right") - 1


def _last_rows(contents: Contents) -> Longs:
    """The last row of each window."""
    return np.append(_starts_of(contents.windows)[1:], len(contents)) - 1 if len(contents) else np.empty(0, np.int64)


def _starts_of(*columns: Longs) -> Longs:
    """Where the stretches begin in which all columns stay the same."""
    is_new = np.zeros(len(columns[0]), np.bool_)
    is_new[:1] = True
    for column in columns:
        is_new[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(is_new)
