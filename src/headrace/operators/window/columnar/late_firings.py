"""What a columnar window emits when it fires again for late but allowed records, by the mode of accumulation.

Flink fires a window again for every single record that comes late but within the allowed lateness. The contents grow
from record to record, so the results are a running aggregate over the late records of each (window, key), on top of
what the window already held. A result that is taken back is made again of what the window held before: built-in
aggregates give the same result for the same records, however these were cut.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from headrace.common.row import RowKind
from headrace.operators.aggregates.aggregator import GroupedRows
from headrace.operators.arrays import concat, gather
from headrace.operators.window.columnar.accumulators import Accumulators
from headrace.operators.window.columnar.firing import Emission
from headrace.state.runs.grouping import Groups, Segments, group_rows
from headrace.windowing.accumulation_mode import AccumulationMode

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt
    import pyarrow as pa

    from headrace.operators.aggregates.aggregator_list import AggregatorList
    from headrace.operators.window.columnar.accumulators import Chunk

    Longs = npt.NDArray[np.int64]

    Find = Callable[[Longs, npt.NDArray[np.uint64]], Accumulators]
    """What some windows and keys hold, given ends and hashes: at most one row each; other rows do no harm."""


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
