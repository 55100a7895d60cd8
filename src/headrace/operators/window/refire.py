"""The firings of late but allowed records: one for each, with all that had come until then.

Flink fires a window again for every single record that comes late but within the allowed lateness. The contents grow
from record to record, so the results are a running aggregate over the late records of each (window, key), on top of
what the window already held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headrace.operators.window.arrays import concat, gather
from headrace.operators.window.kernels import Groups, Segments, group_rows
from headrace.operators.window.partials import Partials
from headrace.operators.window.parts import GroupedRows

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.operators.window.part_list import PartList
    from headrace.operators.window.partials import Chunk


def running_partials(parts: PartList, held: Partials, late: Chunk) -> Partials:
    """The contents of each late record's window just after the record was added, in the order of the records.

    Args:
        parts: what the windows remember.
        held: what the windows held before, at most one row a key and window; other rows do no harm.
        late: the late records, in the order in which they came.
    """
    each = Segments(np.arange(len(late)), len(late))
    singles = parts.begin(GroupedRows(late.columns, late.arrivals, Groups(each.starts, each)))
    rows = Partials.concat([held, Partials(late.ends, late.hashes, late.keys, singles)])
    groups = group_rows(rows.ends, rows.hashes, rows.keys)
    columns = _scan(parts, [gather(column, groups.order) for column in rows.columns], groups.segments)
    places = np.empty(len(rows), np.int64)
    places[groups.order] = np.arange(len(rows))
    return Partials(late.ends, late.hashes, late.keys, [gather(column, places[len(held) :]) for column in columns])


def _scan(parts: PartList, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
    """Each row merged with all rows before it in its group, by doubling: as many rounds as the depth has bits."""
    total = segments.total
    depths = np.arange(total) - segments.starts[segments.ids]
    deepest = int(depths.max())
    step = 1
    while step <= deepest:
        rows = np.flatnonzero(depths >= step)
        pairs = np.column_stack((rows - step, rows)).ravel()
        couples = Segments(np.arange(0, len(pairs), 2), len(pairs))
        merged = parts.merge([gather(column, pairs) for column in columns], couples)
        sources = np.arange(total)
        sources[rows] = total + np.arange(len(rows))
        columns = [gather(concat([old, new]), sources) for old, new in zip(columns, merged, strict=True)]
        step *= 2
    return columns
