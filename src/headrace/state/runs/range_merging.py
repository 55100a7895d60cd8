"""Merging runs piece by piece, so that memory does not grow with the state.

Runs that are sorted by hash can be cut between any two hashes: what is merged of the keys of a range follows from the
rows of that range alone. Those in the order of time are cut along that (:mod:`.merging_in_order`).
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from headrace.state.keys.groups import HASH_END
from headrace.state.runs.layout import HASH, KEY_ORDER, KIND, SORT
from headrace.state.runs.merging import merge_runs
from headrace.state.runs.ordered import LOW, floor_of, is_ordered, owned, rows_above, time_at
from headrace.state.runs.run import Run, hashes_of
from headrace.state.runs.sections import Section

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.state.runs.run import HashRange

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


Piece = tuple[pa.RecordBatch, dict[str, Any]]
"""Merged rows, and what their run would say about itself."""

CHUNK_ROWS: Final = 1 << 16
CHUNK_BYTES: Final = 8 << 20
"""So many rows, or elements of lists, and bytes are merged at once, as far as hashes are spread evenly."""

_BY_KEY: Final = frozenset({"value", "reducing", "aggregating", "list", "map"})
"""The kinds of keyed state, which have one row for each key."""


def is_by_key(meta: dict[str, Any]) -> bool:
    """Whether what is merged of a key in runs that say this about themselves follows from its own rows alone."""
    return meta.get(KIND) in _BY_KEY and meta.get(SORT) == KEY_ORDER


def is_by_hash(meta: dict[str, Any]) -> bool:
    """Whether runs that say this about themselves are sorted by hash first; keyed state is, and so are some logs."""
    return bool(meta.get(SORT, [])[:1] == [HASH])


def merged_pieces(runs: Sequence[Run], now: int) -> Iterator[Piece]:
    """All rows of a store, in pieces: lists of subtasks, which these have in memory, are one; as of ``merge_runs``."""
    if all(is_by_hash(run.meta) for run in runs):
        yield from merged_in_ranges(runs, is_oldest=True, now=now)
    elif all(is_ordered(run.meta) for run in runs):
        yield from merged_in_order(runs, _rows_at_once(runs), now)
    else:
        batch, meta = merge_runs(runs, is_oldest=True, now=now)
        if batch is not None:
            yield batch, meta


def _rows_at_once(runs: Sequence[Run]) -> int:
    """So many rows of runs are merged at once, by what one takes."""
    rows, size = sum(run.rows for run in runs), sum(run.section.nbytes for run in runs)
    return max(1, min(CHUNK_ROWS, CHUNK_BYTES * rows // max(1, size)))


def merged_in_ranges(runs: Sequence[Run], *, is_oldest: bool, now: int) -> Iterator[Piece]:
    """What runs by key make together, range of hashes by range of hashes; arguments as of ``merge_runs``."""
    rows, size = sum(run.weight for run in runs), sum(run.section.nbytes for run in runs)
    for hashes in equal_ranges(hashes_of(runs), 1 + max(rows // CHUNK_ROWS, size // CHUNK_BYTES)):
        parts = [_part(run, hashes) for run in runs]
        if any(part.rows for part in parts):  # all of them, since a row has the columns of all
            batch, meta = merge_runs(parts, is_oldest=is_oldest, now=now)
            if batch is not None:
                yield batch, meta


def equal_ranges(hashes: HashRange, count: int) -> list[HashRange]:
    """A range of hashes in so many parts of the same size.

    >>> equal_ranges((0, 100), 4)
    [(0, 25), (25, 50), (50, 75), (75, 100)]
    """
    low, high = hashes
    return list(pairwise(low + (high - low) * number // count for number in range(count + 1)))


def _part(run: Run, hashes: HashRange) -> Run:
    """The rows of a run with these hashes, as far as they count."""
    start, stop = max(hashes[0], run.hashes[0]), min(hashes[1], run.hashes[1])
    if start < stop:
        return Run(Section(run.section.between((start, stop))), run.meta, run.hashes)
    return Run(Section(pa.RecordBatch.from_pylist([], run.section.schema)), run.meta, run.hashes)
