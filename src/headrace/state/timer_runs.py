"""Timers as runs: sorted by time, so that those that are due are a prefix, and nothing behind it is touched.

The ``meta`` of a run says how far it has been passed: timers up to ``floor`` have fired (or were deleted), ``low`` is
the first row that has not been passed, ``next`` its time. Rows at or below the floor are dead, those above are pending,
whatever the present event time is: so a timer that was registered when its time had been passed already survives the
end of the epoch, and fires with the next advance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.state.runs import HASH, SORT
from headrace.state.runs.layout import KEY
from headrace.state.runs.merge_input import MergeInput, concat, lasts_of, same_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from headrace.state.keys import KeyColumn
    from headrace.state.runs import Run

TIMERS: Final = "timers"
TIME: Final = "time"
NAMESPACE: Final = "namespace"
LIVE: Final = "live"
"""False in the row of a deleted timer, which hides the one that an older run holds."""

FLOOR: Final = "floor"
LOW: Final = "low"
NEXT: Final = "next"
TIMER_ORDER: Final = [TIME, HASH, KEY, NAMESPACE]

FIRST_PROBE: Final = 1024
"""How many rows are looked at first when those that are due are searched for."""


def timer_batch(
    times: npt.NDArray[np.int64], keys: KeyColumn, namespaces: pa.Array, live: npt.NDArray[np.bool_]
) -> pa.RecordBatch:
    """Timers in the order of a run, as columns."""
    batch = pa.RecordBatch.from_arrays(
        [pa.array(times), pa.array(keys.hashes), keys.values, namespaces, pa.array(live)],
        names=[*TIMER_ORDER, LIVE],
    )
    return batch.take(pa.array(timer_order(batch)))


def timer_order(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """The stable order of timers by time, hash, key and namespace."""
    times, hashes = batch.column(TIME).to_numpy(), batch.column(HASH).to_numpy()
    order = np.lexsort((hashes, times))
    equal = (times[order[1:]] == times[order[:-1]]) & (hashes[order[1:]] == hashes[order[:-1]])
    if not equal.any():
        return order
    sequence = pa.array(np.arange(batch.num_rows))
    table = pa.table([*(batch.column(name) for name in TIMER_ORDER), sequence], names=[*TIMER_ORDER, "sequence"])
    columns = [(name, "ascending") for name in table.column_names]
    return np.asarray(pc.sort_indices(table, sort_keys=columns)).astype(np.int64)


def newest(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Of batches of timers, oldest first, the newest row of each timer, in order; tombstones included."""
    whole = concat(batches)
    whole = whole.take(pa.array(timer_order(whole)))
    if len(batches) == 1 or whole.num_rows < 2:
        return whole
    rows = np.arange(1, whole.num_rows)
    times, hashes = whole.column(TIME).to_numpy(), whole.column(HASH).to_numpy()
    repeated = rows[(times[1:] == times[:-1]) & (hashes[1:] == hashes[:-1])]
    for name in (KEY, NAMESPACE):
        repeated = repeated[same_values(whole.column(name), repeated, repeated - 1)]
    firsts = np.ones(whole.num_rows, dtype=bool)
    firsts[repeated] = False
    return whole.filter(pa.array(lasts_of(firsts)))


def merge_timers(given: MergeInput) -> pa.RecordBatch:
    """The timers that are pending; a tombstone goes when nothing older is left that it could hide."""
    merged = newest([pending(run) for run in given.runs])
    return merged.filter(merged.column(LIVE)) if given.is_oldest else merged


def pending(run: Run) -> pa.RecordBatch:
    """The rows of a run that have not been passed."""
    batch = run.batch
    return batch.slice(first_above(batch, run.meta.get(FLOOR)))


def first_above(batch: pa.RecordBatch, floor: int | None) -> int:
    """The first row whose time is above ``floor``."""
    return 0 if floor is None else int(np.searchsorted(batch.column(TIME).to_numpy(), floor, side="right"))


def described(meta: dict[str, Any], batch: pa.RecordBatch) -> dict[str, Any]:
    """The ``meta`` of a run of which nothing has been passed yet, after the model of another one."""
    kept = {name: value for name, value in meta.items() if name not in {FLOOR, LOW, NEXT}}
    return {**kept, "kind": TIMERS, SORT: TIMER_ORDER, LOW: 0, NEXT: batch.column(TIME)[0].as_py()}


def due_rows(run: Run, low: int, up_to: int) -> int:
    """The first row at or after ``low`` whose time is above ``up_to``; touches only what comes before it, or a bit."""
    step = FIRST_PROBE
    rows = run.rows
    while low < rows:
        stop = min(low + step, rows)
        times = run.section.rows_of(TIME, low, stop).to_numpy()
        if times[-1] > up_to:
            return low + int(np.searchsorted(times, up_to, side="right"))
        low, step = stop, step * 2
    return rows


def own_slice(run: Run, low: int, high: int) -> pa.RecordBatch:
    """The rows of a run from ``low`` up to ``high`` whose keys the task owns."""
    batch = run.section.slice(low, high)
    if run.whole:
        return batch
    hashes = batch.column(HASH).to_numpy()
    own = (hashes >= np.uint64(run.hashes[0])) & (hashes <= np.uint64(run.hashes[1] - 1))
    return batch.filter(pa.array(own))
