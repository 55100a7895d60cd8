"""Which function merges runs of which kind; a run says its kind in ``meta["kind"]``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.state.keyed_mergers import merge_lists, merge_maps, merge_values
from headrace.state.merge_input import MergeInput
from headrace.state.runs import SORT
from headrace.state.timer_runs import TIMERS, described, merge_timers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.state.runs import Run

    Merger = Callable[[MergeInput], pa.RecordBatch | pa.Table | None]

_MERGERS: dict[str, Merger] = {
    "value": merge_values,
    "reducing": merge_values,
    "aggregating": merge_values,
    "list": merge_lists,
    "map": merge_maps,
    TIMERS: merge_timers,
}


def register_merger(kind: str, merger: Merger) -> None:
    """Makes ``merger`` merge runs whose ``meta["kind"]`` is ``kind``.

    It gets the runs, oldest first, and returns the rows of the merged run, sorted as the ``meta["sort"]`` of the
    newest run says. It must be a pure function of them: compaction may run it in any process. A kind without a merger
    keeps all rows.
    """
    _MERGERS[kind] = merger


def merge_runs(runs: Sequence[Run], *, is_oldest: bool, now: int) -> tuple[pa.RecordBatch | None, dict[str, Any]]:
    """The rows of the run that replaces ``runs`` (oldest first, following one another), and its ``meta``.

    ``is_oldest`` says that no run is older than these, ``now`` is the processing time that expiry is judged by.
    """
    given = MergeInput(runs, is_oldest, now)
    merged = _MERGERS.get(given.meta.get("kind", ""), _merge_sorted)(given)
    if merged is None or not merged.num_rows:
        return None, given.meta
    batch = merged if isinstance(merged, pa.RecordBatch) else merged.combine_chunks().to_batches()[0]
    meta = described(given.meta, batch) if given.meta.get("kind") == TIMERS else given.meta
    return batch, meta


def _merge_sorted(given: MergeInput) -> pa.RecordBatch:
    """All rows, in the order of the columns that ``meta["sort"]`` names; rows that are equal there stay in order."""
    table = given.table()
    columns = given.meta.get(SORT, [])
    if not columns:
        return table
    sequence = pa.array(np.arange(table.num_rows))
    keyed = pa.table([*(table.column(name) for name in columns), sequence], names=[*map(str, range(len(columns) + 1))])
    order = pc.sort_indices(keyed, sort_keys=[(name, "ascending") for name in keyed.column_names])
    return table.take(order)
