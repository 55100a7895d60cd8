"""Merging small recent runs within the task, so that a store never has more than a few."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.state.mergers import merge_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.state.runs import Run, RunStore

INLINE_ROWS: Final = 1 << 18
"""More rows, or elements of lists, are left to compaction, unless there are too many runs."""

MANY_RUNS: Final = 5
"""From more runs than this on, compaction merges even what is small or of unequal size."""

MAX_RUNS: Final = 20
"""How many runs a store may have when nobody compacts; then the newest are merged, however large they are."""

GROWTH: Final = 2
"""A run is merged with newer ones once these have half as many rows: a row is rewritten log2(rows) times or so."""


def merge_small_runs(store: RunStore, now: int, most_rows: int = INLINE_ROWS) -> None:
    """Merges the newest runs of a store where that is due.

    Args:
        store: the store.
        now: the processing time that expiry is judged by.
        most_rows: more of them, or of elements of lists, are left to compaction, unless there are too many runs.
    """
    runs = store.runs
    start = _start_of_merge(runs, min(most_rows, INLINE_ROWS))
    if start < len(runs) - 1:
        old = runs[start:]
        table, meta = merge_runs(old, is_oldest=start == 0, now=now)
        store.replace(old, table, meta)


def _start_of_merge(runs: Sequence[Run], most_rows: int) -> int:
    """The first of the runs that are to be merged with all that are newer."""
    start = len(runs) - 1
    if start < 0:
        return start
    rows = runs[start].weight
    while start > 0 and runs[start - 1].weight <= GROWTH * rows and rows + runs[start - 1].weight <= most_rows:
        start -= 1
        rows += runs[start].weight
    # Too many: merge so that half of the allowed runs are left, and it is some time until that is due again.
    return start if start < MAX_RUNS else MAX_RUNS // 2 - 1
