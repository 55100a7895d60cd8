"""Merging runs: which function merges those of which kind, and which of them are merged within the task.

A run says its kind in ``meta["kind"]``. Small recent runs are merged by the task itself, so that a store never has more
than a few; :mod:`headrace.state.compaction` merges larger ones beside the epochs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.errors import StateError
from headrace.state.runs.expiry import aged
from headrace.state.runs.keyed_mergers import merge_lists, merge_maps, merge_values
from headrace.state.runs.layout import ELEMENT_COUNT, KIND, SORT, SUBTASK_LIST, TIMERS, VALUE
from headrace.state.runs.merge_input import MergeInput
from headrace.state.runs.ordered import described, newest, ordered_merger
from headrace.state.runs.run import one_batch, starts_of_levels

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.state.runs.ordered import Combine
    from headrace.state.runs.run import Run, RunStore

    Merger = Callable[[MergeInput], pa.RecordBatch | pa.Table | None]
    Describe = Callable[[dict[str, Any], pa.RecordBatch], dict[str, Any]]


INLINE_ROWS: Final = 1 << 18
"""More rows, or elements of lists, are left to compaction, unless there are too many runs."""

MANY_RUNS: Final = 5
"""From more runs than this on, compaction merges even what is small or of unequal size."""

MAX_RUNS: Final = 20
"""In how many runs a key may be when nobody compacts; then the newest are merged, however large they are."""

GROWTH: Final = 2
"""A run is merged with newer ones once these have half as many rows: a row is rewritten log2(rows) times or so."""

MOST_BYTES: Final = 1 << 28
"""Ordered runs of more bytes together are not merged, which takes three times as much memory."""

MOST_INLINE_BYTES: Final = 1 << 26
"""The same for any runs within a task, which has an epoch in memory besides."""

_MOST_TIMES: Final = 4
"""An epoch that has added many rows can afford to write so many times as many anew."""


def _unchanged(meta: dict[str, Any], _: pa.RecordBatch) -> dict[str, Any]:
    return meta


def _counted(meta: dict[str, Any], batch: pa.RecordBatch) -> dict[str, Any]:
    return aged({**meta, ELEMENT_COUNT: len(batch.column(VALUE).flatten())}, batch)


def register_merger(kind: str, merger: Merger, describe: Describe = _unchanged) -> None:
    """Makes ``merger`` merge runs whose ``meta["kind"]`` is ``kind``.

    It gets the runs, oldest first, and returns the rows of the merged run, sorted as the ``meta["sort"]`` of the
    newest run says. It must be a pure function of them: compaction may run it in any process, which has to have
    imported the module that calls this. Where runs are sorted by hash, it may get the rows of a range of hashes alone,
    so what it makes of a key has to follow from the rows of that key. Runs that say no kind keep all rows.
    ``describe`` is given the ``meta`` of the newest run and the merged rows, and returns the ``meta`` of the merged
    run; it is needed where ``meta`` says something about the rows of the run.
    """
    _MERGERS[kind] = (merger, describe)


def register_ordered_merger(kind: str, combine: Combine) -> None:
    """Makes ``combine`` merge ordered runs whose ``meta["kind"]`` is ``kind``; see :func:`register_merger`.

    It gets the rows that are not over, all of them or those of some times and hashes.
    """
    register_merger(kind, ordered_merger(combine), described)


def merge_runs(runs: Sequence[Run], *, is_oldest: bool, now: int) -> tuple[pa.RecordBatch | None, dict[str, Any]]:
    """The rows of the run that replaces ``runs`` (oldest first, following one another), and its ``meta``.

    ``is_oldest`` says that no run is older than these, ``now`` is what time it is, in the time that elements age in.

    Raises:
        StateError: when no merger of their kind is known in this process.
    """
    given = MergeInput(runs, is_oldest, now)
    merger, describe = _merger_of(given.meta.get(KIND))
    merged = merger(given)
    if merged is None or not merged.num_rows:
        return None, given.meta
    batch = one_batch(merged)
    return batch, describe(given.meta, batch)


def describe_run(meta: dict[str, Any], batch: pa.RecordBatch) -> dict[str, Any]:
    """The ``meta`` of a run with these rows, after the model of another one of its kind.

    Raises:
        StateError: when no merger of the kind is known in this process.
    """
    return _merger_of(meta.get(KIND))[1](meta, batch)


def _merger_of(kind: str | None) -> tuple[Merger, Describe]:
    """How runs of a kind are merged; to keep all their rows without knowing them would be a guess."""
    if kind is None:
        return _merge_sorted, _unchanged
    try:
        return _MERGERS[kind]
    except KeyError:
        raise StateError(
            f"runs of the kind {kind!r} cannot be merged in this process: it has not imported the module that calls "
            f"register_merger({kind!r}, …)"
        ) from None


def merge_small_runs(store: RunStore, now: int, most_rows: int | None = None) -> None:
    """Merges the newest runs of a store where that is due.

    Args:
        store: the store.
        now: what time it is, in milliseconds of the time that elements age in.
        most_rows: runs of more rows together are left to compaction, unless there are too many; by default
            ``INLINE_ROWS``.
    """
    runs = store.runs
    start = _start_of_merge(runs, INLINE_ROWS if most_rows is None else min(most_rows, INLINE_ROWS))
    if start < len(runs) - 1:
        old = runs[start:]
        table, meta = merge_runs(old, is_oldest=start == 0, now=now)
        store.replace(old, table, meta)


def can_be_rewritten(rows: int, size: int, added: int) -> bool:
    """Whether an epoch can afford to write rows anew, only to leave out what is over.

    Args:
        rows: how many there are.
        size: the bytes that they take.
        added: how many rows the epoch has added.
    """
    return rows <= max(INLINE_ROWS, _MOST_TIMES * added) and size <= MOST_BYTES


def _start_of_merge(runs: Sequence[Run], most_rows: int) -> int:
    """The first of the runs that are to be merged with all that are newer."""
    start = len(runs) - 1
    if start < 0:
        return start
    lowest = next((index + 1 for index in range(start, -1, -1) if runs[index].section.is_table), 0)
    rows = runs[start].weight
    while start > lowest and runs[start - 1].weight <= GROWTH * rows and rows + runs[start - 1].weight <= most_rows:
        start -= 1
        rows += runs[start].weight
    # Too many: merge so that half of the allowed levels are left, and it is some time until that is due again.
    levels = starts_of_levels([run.hashes for run in runs[:start]])
    return _start_of_fitting(runs, start if len(levels) < MAX_RUNS else max(lowest, levels[MAX_RUNS // 2 - 1]))


def _start_of_fitting(runs: Sequence[Run], start: int) -> int:
    """The first, from ``start`` on, of the runs that are not too large together."""
    size = 0
    for index in range(len(runs) - 1, start - 1, -1):
        size += runs[index].section.nbytes
        if size > MOST_INLINE_BYTES:
            return index + 1
    return start


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


_MERGERS: dict[str, tuple[Merger, Describe]] = {
    "value": (merge_values, aged),
    "reducing": (merge_values, aged),
    "aggregating": (merge_values, aged),
    "list": (merge_lists, _counted),
    "map": (merge_maps, _counted),
    TIMERS: (ordered_merger(newest), described),
    SUBTASK_LIST: (_merge_sorted, _unchanged),
}
