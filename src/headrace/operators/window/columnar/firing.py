"""The results that columnar windows emit: when they fire at their end, and again for late but allowed records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
import pyarrow as pa

from headrace.common.batch import Batch, joined_kinds
from headrace.common.types import RowKind
from headrace.operators.aggregates.aggregator import GroupedRows
from headrace.operators.arrays import concat, gather
from headrace.operators.window.columnar.accumulators import Accumulators
from headrace.state.runs.grouping import Groups, Segments, group_rows
from headrace.windowing.accumulation_mode import AccumulationMode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from headrace.operators.aggregates.aggregator import AggregatorList
    from headrace.operators.window.columnar.accumulators import Chunk
    from headrace.operators.window.columnar.layout import ColumnarWindowLayout
    from headrace.windowing.intervals import RegularWindows

    Kinds = npt.NDArray[np.int8]
    Longs = npt.NDArray[np.int64]
    Find = Callable[[Longs, npt.NDArray[np.uint64]], Accumulators]
    """What some windows and keys hold, given ends and hashes: at most one row each; other rows do no harm."""


FIRED_ROWS: Final = 1 << 16
"""So many results leave as one batch."""


@dataclass(frozen=True)
class Emission:
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
    def of_due(due: Accumulators, current: int, watermarks: Longs) -> Emission:
        """The results of windows that fire because the watermark rises.

        Args:
            due: the contents, by window.
            current: the watermark before.
            watermarks: the watermarks it rises to, the last of which every window of ``due`` has seen.
        """
        ends, bounds = due.windows
        rows = np.diff(bounds)
        positions = 2 * np.searchsorted(watermarks, ends - 1)
        return Emission(due, np.repeat(stamps_of(ends, current, watermarks), rows), np.repeat(positions, rows))

    @staticmethod
    def of_late(contents: Accumulators, records: Longs, watermarks: Longs, kinds: Kinds | None = None) -> Emission:
        """The results of windows that fire again for late records, given by their positions."""
        return Emission(contents, watermarks[records], 2 * records + 1, kinds)


def stamps_of(ends: Longs, current: int, watermarks: Longs) -> Longs:
    """The watermark in force before the advance that makes each of some windows fire, which are given by their ends.

    Args:
        ends: the ends.
        current: the watermark before.
        watermarks: the watermarks it rises to, the last of which every window has seen.
    """
    records = np.searchsorted(watermarks, ends - 1)
    return np.where(records > 0, watermarks[records - 1], current)


def result_batch(layout: ColumnarWindowLayout, windows: RegularWindows, emissions: Sequence[Emission]) -> Batch:
    """The results of all emissions as one batch, in the order in which they are made."""
    batches = [_rows(layout, windows, emission.accumulators) for emission in emissions]
    kinds = joined_kinds([(len(emission.accumulators), emission.kinds) for emission in emissions])
    if len(emissions) == 1:
        ends, watermarks = emissions[0].accumulators.ends, emissions[0].watermarks
        return Batch(layout.output_type, ends - 1, watermarks, columns=batches[0], kinds=kinds)
    timestamps = np.concatenate([emission.accumulators.ends for emission in emissions]) - 1
    watermarks = np.concatenate([emission.watermarks for emission in emissions])
    order = np.argsort(np.concatenate([emission.positions for emission in emissions]), kind="stable")
    table = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    return Batch(layout.output_type, timestamps, watermarks, columns=table, kinds=kinds).take(order)


def _rows(layout: ColumnarWindowLayout, windows: RegularWindows, accumulators: Accumulators) -> pa.RecordBatch:
    ends = accumulators.ends
    bounds = (pa.array(windows.starts_of(ends)), pa.array(ends))
    return layout.finish(accumulators.keys, bounds, accumulators.columns)


class LateFirings(ABC):
    """One mode.

    Class attributes:
        keeps_contents: whether windows that have fired keep what they hold for the late records to come.
    """

    keeps_contents: ClassVar[bool] = True

    @abstractmethod
    def emission(
        self, aggregators: AggregatorList, find: Find, late: Chunk, records: Longs, watermarks: Longs
    ) -> Emission:
        """The results of windows that fire again.

        Args:
            aggregators: what the windows remember.
            find: gives what they held before.
            late: the pairs of a late record and a window, in the order in which records came.
            records: which record of the batch each pair is of.
            watermarks: the watermarks that the records of the batch meet.
        """


class _Accumulating(LateFirings):
    def emission(
        self, aggregators: AggregatorList, find: Find, late: Chunk, records: Longs, watermarks: Longs
    ) -> Emission:
        running = _Running(aggregators, find(late.ends, late.hashes), late)
        return Emission.of_late(running.after(), records, watermarks)


class _Discarding(LateFirings):
    keeps_contents = False

    def emission(
        self, aggregators: AggregatorList, find: Find, late: Chunk, records: Longs, watermarks: Longs
    ) -> Emission:
        return Emission.of_late(_singles(aggregators, late), records, watermarks)


class _Retracting(LateFirings):
    def emission(
        self, aggregators: AggregatorList, find: Find, late: Chunk, records: Longs, watermarks: Longs
    ) -> Emission:
        running = _Running(aggregators, find(late.ends, late.hashes), late)
        taken_back, given = np.flatnonzero(running.has_fired), np.arange(len(late))
        pairs = np.concatenate([taken_back, given])
        kinds = np.where(running.has_fired, RowKind.UPDATE_AFTER.value, RowKind.INSERT.value)
        kinds = np.concatenate([np.full(len(taken_back), RowKind.UPDATE_BEFORE.value), kinds])
        # Pair by pair, what is taken back comes before what takes its place.
        order = np.argsort(pairs, kind="stable")
        results = Accumulators.concat([running.before(taken_back), running.after()]).take(order)
        return Emission.of_late(results, records[pairs[order]], watermarks, kinds[order].astype(np.int8))


LATE_FIRINGS: Final[dict[AccumulationMode, LateFirings]] = {
    AccumulationMode.ACCUMULATING: _Accumulating(),
    AccumulationMode.DISCARDING: _Discarding(),
    AccumulationMode.ACCUMULATING_AND_RETRACTING: _Retracting(),
}


class _Running:
    """The contents of each late record's window just before and just after the record was added.

    Args:
        aggregators: what the windows remember.
        held: what the windows held before, at most one row a key and window; other rows do no harm.
        late: the pairs of a late record and a window, in the order in which records came.

    Attributes:
        has_fired: whether the window held anything before the record of the pair, and so has fired.
    """

    def __init__(self, aggregators: AggregatorList, held: Accumulators, late: Chunk) -> None:
        singles = _singles(aggregators, late)
        rows = Accumulators.concat([held, singles])
        groups = group_rows(rows.ends, rows.hashes, rows.keys)
        segments = groups.segments
        self._late = late
        self._columns = running_merges(aggregators, [gather(column, groups.order) for column in rows.columns], segments)
        places = np.empty(len(rows), np.int64)
        places[groups.order] = np.arange(len(rows))
        self._places = places[len(held) :]
        self.has_fired = self._places > segments.starts[segments.ids[self._places]]

    def after(self) -> Accumulators:
        """One row a pair, with its record."""
        return self._at(np.arange(len(self._late)), self._places)

    def before(self, pairs: Longs) -> Accumulators:
        """One row for each of some pairs whose windows had fired before, without its record."""
        return self._at(pairs, self._places[pairs] - 1)

    def _at(self, pairs: Longs, places: Longs) -> Accumulators:
        late = self._late
        columns = [gather(column, places) for column in self._columns]
        return Accumulators(late.ends[pairs], late.hashes[pairs], gather(late.keys, pairs), columns)


def _singles(aggregators: AggregatorList, late: Chunk) -> Accumulators:
    """The accumulators of each pair alone."""
    each = Segments(np.arange(len(late)), len(late))
    columns = aggregators.accumulate(GroupedRows(late.columns, late.arrivals, Groups(each.starts, each)))
    return Accumulators(late.ends, late.hashes, late.keys, columns)


def running_merges(aggregators: AggregatorList, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
    """Each row merged with all rows before it in its group, by doubling: as many rounds as the depth has bits."""
    total = segments.total
    depths = np.arange(total) - segments.starts[segments.ids]
    deepest = int(depths.max())
    step = 1
    while step <= deepest:
        rows = np.flatnonzero(depths >= step)
        pairs = np.column_stack((rows - step, rows)).ravel()
        couples = Segments(np.arange(0, len(pairs), 2), len(pairs))
        merged = aggregators.merge([gather(column, pairs) for column in columns], couples)
        sources = np.arange(total)
        sources[rows] = total + np.arange(len(rows))
        columns = [gather(concat([old, new]), sources) for old, new in zip(columns, merged, strict=True)]
        step *= 2
    return columns
