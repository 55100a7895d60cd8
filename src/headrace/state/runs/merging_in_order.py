"""Merging ordered runs stretch by stretch of their order, so that memory does not grow with the state.

What is merged of the rows of one time and hash follows from these alone, so runs can be cut between any two of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.state.keys.groups import HASH_END
from headrace.state.runs.layout import HASH, SORT
from headrace.state.runs.merging import merge_runs
from headrace.state.runs.ordered import LOW, floor_of, owned, rows_above, time_at
from headrace.state.runs.run import Run
from headrace.state.runs.sections import Section

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    Place = tuple[int, int]
    """A time and a hash, by which ordered rows are sorted first."""


def merged_in_order(runs: Sequence[Run], rows: int, now: int) -> Iterator[tuple[pa.RecordBatch, dict[str, Any]]]:
    """What ordered runs make together, in pieces that follow one another.

    Args:
        runs: all runs of a store, oldest first.
        rows: about so many rows are merged at once; more where more have the same time and hash.
        now: as of ``merge_runs``.

    Yields:
        Merged rows, and what their run would say about itself.
    """
    rests = [_Rest(run) for run in runs]
    while left := [rest for rest in rests if not rest.is_over]:
        place = _next_place(left, rows)
        taken = [batch for rest in left if (batch := rest.take(place)).num_rows]
        if not taken:  # all of them are of keys of other tasks
            continue
        meta = {**runs[-1].meta, LOW: 0}
        parts = [Run(Section(batch), meta, runs[-1].hashes) for batch in taken]
        merged, about = merge_runs(parts, is_oldest=True, now=now)
        if merged is not None:
            yield merged, about


def _next_place(rests: Sequence[_Rest], rows: int) -> Place:
    """Up to where to merge next, so that this is about so many rows."""
    step = rows
    while True:
        place = min(rest.place(step) for rest in rests)
        if step == 1 or sum(rest.rows_up_to(place) for rest in rests) <= rows:
            return place
        step = -(-step // 2)


class _Rest:
    """The rows of an ordered run that are not over, as far as they have not been taken."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._row = floor_of(run).row

    @property
    def is_over(self) -> bool:
        """Whether no rows are left."""
        return self._row == self._run.rows

    def place(self, rows: int) -> Place:
        """The time and hash of the last of so many rows, or of all where fewer are left."""
        last = min(self._row + rows, self._run.rows) - 1
        return time_at(self._run, last), self._run.section.rows_of(HASH, last, last + 1)[0].as_py()

    def rows_up_to(self, place: Place) -> int:
        """How many rows are not behind a place."""
        return self._end(place) - self._row

    def take(self, place: Place) -> pa.RecordBatch:
        """The rows that are not behind a place, of keys that the task owns; they are not left any more."""
        start, self._row = self._row, self._end(place)
        return owned(self._run, self._run.section.slice(start, self._row))

    def _end(self, place: Place) -> int:
        time, hash_ = place
        section, column = self._run.section, self._run.meta[SORT][0]
        first = section.lower_bound(column, np.int64(time), self._row, self._run.rows)
        end = rows_above(self._run, time, first).row
        if first == end or hash_ == HASH_END - 1:
            return end
        return section.lower_bound(HASH, np.uint64(hash_ + 1), first, end)
