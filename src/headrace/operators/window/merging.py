"""Merging what windows hold: tables block by block when windows fire, and whole runs of state when they pile up.

All tables are sorted by (window end, hash), so the rows of a window, and those of a range of hashes within a large
window, are a stretch of each table. Blocks follow one another in that order; memory stays bounded, and the arrays of a
block stay in the cache. Importing this module makes the merging of runs known to compaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from headrace.operators.window.accumulators import Accumulators
from headrace.operators.window.aggregators import AggregatorList
from headrace.operators.window.kernels import group_rows
from headrace.operators.window.window_tables import description
from headrace.state.runs.merging import register_merger

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.state.runs.merge_input import MergeInput

ACCUMULATORS_KIND: Final = "window-partials"
"""The kind of runs that hold accumulators: those of a key and window are merged."""
VALUES_KIND: Final = "window-values"
"""The kind of runs that hold folded values: the newest of a key and window counts."""
ELEMENTS_KIND: Final = "window-elements"
"""The kind of runs that hold all elements."""

_ROWS = 1 << 16
"""About so many rows are merged at a time."""
_HASH_BITS = 64


def merge_blocks(tables: Sequence[Accumulators], rows: int = _ROWS) -> Iterator[list[Accumulators]]:
    """The rows of all tables, cut into blocks at the same keys and windows.

    Args:
        tables: sorted tables.
        rows: about how many rows a block is to have.
    """
    if sum(map(len, tables)) <= rows:
        if tables:
            yield list(tables)
        return
    gathered: list[list[Accumulators]] = []
    for end in np.unique(np.concatenate([table.windows[0] for table in tables])).tolist():
        window = [piece for table in tables if len(piece := _window(table, end))]
        if gathered and _total(gathered) + sum(map(len, window)) > rows:
            yield _flat(gathered)
            gathered = []
        if sum(map(len, window)) > rows:
            yield from _by_hash(window, rows)
        else:
            gathered.append(window)
    if gathered:
        yield _flat(gathered)


def _window(table: Accumulators, end: int) -> Accumulators:
    ends, offsets = table.windows
    place = int(np.searchsorted(ends, end))
    if place == len(ends) or ends[place] != end:
        return table.slice(0, 0)
    return table.slice(int(offsets[place]), int(offsets[place + 1]))


def _by_hash(window: Sequence[Accumulators], rows: int) -> Iterator[list[Accumulators]]:
    """The rows of one window by ranges of hashes, all equally wide: a good hash fills them evenly."""
    bits = (sum(map(len, window)) // rows).bit_length()
    edges = np.arange(1, 1 << bits, dtype=np.uint64) << np.uint64(_HASH_BITS - bits)
    cuts = [[0, *np.searchsorted(piece.hashes, edges).tolist(), len(piece)] for piece in window]
    for i in range(1 << bits):
        block = [piece.slice(cut[i], cut[i + 1]) for piece, cut in zip(window, cuts, strict=True)]
        if any(map(len, block)):
            yield block


def _total(windows: Sequence[Sequence[Accumulators]]) -> int:
    return sum(len(piece) for window in windows for piece in window)


def _flat(windows: Sequence[Sequence[Accumulators]]) -> list[Accumulators]:
    return [piece for window in windows for piece in window]


def newest(rows: Accumulators) -> Accumulators:
    """The newest row of each key and window, of rows in order of age."""
    groups = group_rows(rows.ends, rows.hashes, rows.keys)
    return rows.take(groups.order[groups.segments.starts + groups.segments.counts - 1])


def sorted_rows(rows: Accumulators) -> Accumulators:
    """All rows, by window and key; those of a key and window stay in order."""
    return rows.take(group_rows(rows.ends, rows.hashes, rows.keys).order)


def _merge_accumulators(given: MergeInput) -> pa.Table:
    aggregators = AggregatorList.for_merging(given.meta["parts"])
    return Accumulators.regrouped(aggregators, _pieces(given)).to_table(given.runs[-1].section.schema)


def _merge_values(given: MergeInput) -> pa.Table:
    return newest(Accumulators.concat(_pieces(given))).to_table(given.runs[-1].section.schema)


def _merge_elements(given: MergeInput) -> pa.Table:
    return sorted_rows(Accumulators.concat(_pieces(given))).to_table(given.runs[-1].section.schema)


def _pieces(given: MergeInput) -> list[Accumulators]:
    """The rows of all runs. Those of windows that are over leave with the whole run: it is not known here which."""
    return [Accumulators.of_table(run.table) for run in given.runs]


def _described(meta: dict[str, Any], batch: pa.RecordBatch) -> dict[str, Any]:
    """The windows of the merged run, in place of those of the newest one."""
    return {**meta, **description(meta["kind"], Accumulators.of_table(pa.Table.from_batches([batch])))}


register_merger(ACCUMULATORS_KIND, _merge_accumulators, _described)
register_merger(VALUES_KIND, _merge_values, _described)
register_merger(ELEMENTS_KIND, _merge_elements, _described)
