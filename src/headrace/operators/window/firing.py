"""What a columnar window emits when it fires, and when it fires again for late but allowed records.

Flink fires a window again for every single record that comes late but within the allowed lateness. The contents grow
from record to record, so the results are a running aggregate over the late records of each (window, key), on top of
what the window already held.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.operators.aggregates.aggregator import GroupedRows
from headrace.operators.arrays import concat, gather
from headrace.operators.window.accumulators import Accumulators
from headrace.state.runs.grouping import Groups, Segments, group_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from headrace.operators.aggregates.aggregator_list import AggregatorList
    from headrace.operators.window.accumulators import Chunk
    from headrace.operators.window.layout import WindowLayout
    from headrace.windowing.intervals import RegularWindows

    Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Emission:
    """Results of firings.

    Attributes:
        accumulators: the contents of the windows, in the order of their emission.
        watermarks: the output watermark that each result is made under.
        positions: when each result is made: twice the position of the record that the watermark rose before, or one
            more when it is the record itself that makes the window fire again.
    """

    accumulators: Accumulators
    watermarks: Longs
    positions: Longs

    @staticmethod
    def of_due(due: Accumulators, current: int, watermarks: Longs) -> Emission:
        """The results of windows that fire because the watermark rises.

        Args:
            due: the contents, by window.
            current: the watermark before.
            watermarks: the watermarks it rises to, the last of which every window of ``due`` has seen.
        """
        records = np.searchsorted(watermarks, due.ends - 1)
        return Emission(due, stamps_of(due.ends, current, watermarks), 2 * records)

    @staticmethod
    def of_late(contents: Accumulators, records: Longs, watermarks: Longs) -> Emission:
        """The results of windows that fire again for late records, given by their positions."""
        return Emission(contents, watermarks[records], 2 * records + 1)


def stamps_of(ends: Longs, current: int, watermarks: Longs) -> Longs:
    """The watermark in force before the advance that makes each of some windows fire, which are given by their ends.

    Args:
        ends: the ends.
        current: the watermark before.
        watermarks: the watermarks it rises to, the last of which every window has seen.
    """
    before = np.concatenate((np.array([current], np.int64), watermarks))
    return before[np.searchsorted(watermarks, ends - 1)]


def result_batch(layout: WindowLayout, windows: RegularWindows, emissions: Sequence[Emission]) -> Batch:
    """The results of all emissions as one batch, in the order in which they are made."""
    batches = [_rows(layout, windows, emission.accumulators) for emission in emissions]
    timestamps = np.concatenate([emission.accumulators.ends for emission in emissions]) - 1
    watermarks = np.concatenate([emission.watermarks for emission in emissions])
    if len(batches) == 1:
        return Batch(layout.output_type, timestamps, watermarks, columns=batches[0])
    order = np.argsort(np.concatenate([emission.positions for emission in emissions]), kind="stable")
    table = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    return Batch(layout.output_type, timestamps, watermarks, columns=table).take(order)


def running_accumulators(aggregators: AggregatorList, held: Accumulators, late: Chunk) -> Accumulators:
    """The contents of each late record's window just after the record was added, in the order of the records.

    Args:
        aggregators: what the windows remember.
        held: what the windows held before, at most one row a key and window; other rows do no harm.
        late: the late records, in the order in which they came.
    """
    each = Segments(np.arange(len(late)), len(late))
    singles = aggregators.accumulate(GroupedRows(late.columns, late.arrivals, Groups(each.starts, each)))
    rows = Accumulators.concat([held, Accumulators(late.ends, late.hashes, late.keys, singles)])
    groups = group_rows(rows.ends, rows.hashes, rows.keys)
    columns = running_merges(aggregators, [gather(column, groups.order) for column in rows.columns], groups.segments)
    places = np.empty(len(rows), np.int64)
    places[groups.order] = np.arange(len(rows))
    return Accumulators(late.ends, late.hashes, late.keys, [gather(column, places[len(held) :]) for column in columns])


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


def _rows(layout: WindowLayout, windows: RegularWindows, accumulators: Accumulators) -> pa.RecordBatch:
    ends = accumulators.ends
    bounds = (pa.array(windows.starts_of(ends)), pa.array(ends))
    return layout.finish(accumulators.keys, bounds, accumulators.columns)
