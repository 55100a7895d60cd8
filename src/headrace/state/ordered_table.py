"""``OrderedTable``: what is kept in the order of time, by key and, where that says more, namespace.

Timers and the contents of windows are such tables. Rows are appended without anything being read; what is due is read
from the front of each run; what is over is dropped from there; and what belongs to some keys at some times is found by
binary search.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headrace.state.runs import ALL_HASHES, HASH, SORT, Run
from headrace.state.runs.grouping import group_times
from headrace.state.runs.key_dictionary import OrderedKeys
from headrace.state.runs.list_columns import rows_of_ranges
from headrace.state.runs.merging import can_be_rewritten, merge_runs, merge_small_runs
from headrace.state.runs.ordered import (
    FLOOR,
    LOW,
    NEXT,
    NO_TIME,
    Bound,
    described,
    floor_of,
    owned,
    rest_of,
    rows_above,
    time_at,
)
from headrace.state.runs.sections import Section
from headrace.state.runs.spilling import is_large, spilled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from headrace.state.runs import RunStore
    from headrace.state.runs.ordered import Combine
    from headrace.state.table_layout import TableLayout

    Longs = npt.NDArray[np.int64]
    Hashes = npt.NDArray[np.uint64]

SMALL_ROWS: Final = 1 << 10
"""Runs of more rows together are left to compaction: what is read once or twice need not be in few runs."""


class OrderedTable:
    """The ordered rows of one operator in one task: what earlier epochs left, and what this one has appended.

    Times that are asked for are those of the first column; batches that are given are in the order of the layout.

    Args:
        store: the runs.
        layout: what they hold.
        combine: makes one batch of several, as compaction does for runs of this kind.
        small_rows: runs of more rows together are left to compaction; by default ``SMALL_ROWS``.
        spills: whether what an epoch appends goes to the machine's own disk when it is much; it is not combined then
            before the epoch ends.
        trims: whether runs of which more than half is over are written anew where an epoch can afford it. What is over
            is a part of files otherwise until a run is over as a whole, or merged.

    Raises:
        StateMigrationError: when something else is stored.
    """

    def __init__(
        self,
        store: RunStore,
        layout: TableLayout,
        combine: Combine,
        small_rows: int | None = None,
        *,
        spills: bool = False,
        trims: bool = False,
    ) -> None:
        layout.take_over(store)
        self._store = store
        self._meta = layout.meta
        self._combine = combine
        self._small_rows = SMALL_ROWS if small_rows is None else small_rows
        self._spills = spills
        self._trims = trims
        self._stored: list[_Cursor] = []
        self._appended: list[_Cursor] = []

    def begin_epoch(self) -> None:
        """Takes up what is stored."""
        self._stored = [_Cursor(run) for run in self._store.runs]
        self._appended = []

    @property
    def first(self) -> int:
        """The time of the first row; ``NO_TIME`` when there is none."""
        return min((cursor.kept.next for cursor in self._cursors()), default=NO_TIME)

    def next_above(self, time: int) -> int:
        """The time of the first row that is above a time; ``NO_TIME`` when there is none."""
        return min((cursor.above(time).next for cursor in self._cursors()), default=NO_TIME)

    def time_after(self, time: int, rows: int) -> int:
        """A time up to which no run has many more than so many rows above ``time``; ``NO_TIME`` when all have fewer."""
        return min((cursor.time_after(time, rows) for cursor in self._cursors()), default=NO_TIME)

    def up_to(self, time: int) -> list[pa.RecordBatch]:
        """The rows that are not above a time, oldest batch first."""
        return _with_rows(cursor.up_to(time) for cursor in self._cursors())

    def between(self, after: int, up_to: int) -> list[pa.RecordBatch]:
        """The rows that are above ``after`` and not above ``up_to``, oldest batch first."""
        return _with_rows(cursor.between(after, up_to) for cursor in self._cursors())

    def times_between(self, after: int, up_to: int) -> Longs:
        """The different times of these rows, ascending."""
        found = [np.unique(batch.column(0).to_numpy()) for batch in self.between(after, up_to)]
        return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)

    def find(self, times: Longs, hashes: Hashes) -> list[pa.RecordBatch]:
        """The rows with some times and hashes, which are in order and different; of other keys too where hashes agree.

        Oldest batch first.
        """
        wanted, bounds = group_times(times)
        probes = [hashes[start:stop] for start, stop in pairwise(bounds)]
        return _with_rows(cursor.find(wanted, probes) for cursor in self._cursors())

    def stored_keys(self) -> OrderedKeys | None:
        """The keys that are stored at one time in one run: where they are most; None when nothing is stored."""
        found = [cursor.most_keys() for cursor in self._stored if cursor.rows]
        return max(found, key=lambda keys: len(keys.hashes), default=None)

    def append(self, batch: pa.RecordBatch) -> None:
        """Adds rows, which are newer than all others."""
        if not batch.num_rows:
            return
        # Batches double in size from the newest to the oldest, so a row is combined a logarithmic number of times.
        while self._appended and self._appended[-1].rows <= 2 * batch.num_rows:
            newest = self._appended[-1].rest()
            if self._spills and is_large(newest):
                break
            self._appended.pop()
            batch = self._combine(self._meta, [newest, batch])
        if self._spills and is_large(batch):
            batch = spilled(batch)
        self._appended.append(_Cursor(Run(Section(batch), described(self._meta, batch), ALL_HASHES)))

    def forget(self, up_to: int) -> None:
        """Drops the rows that are not above a time: what was appended at once, what is stored when the epoch ends."""
        for cursor in self._cursors():
            cursor.forget(up_to)
        self._appended = [cursor for cursor in self._appended if cursor.kept.next != NO_TIME]

    def end_epoch(self) -> None:
        """Writes what was appended as one run, and how far the stored runs are over."""
        for cursor in self._stored:
            cursor.save(self._store)
        added = 0
        if self._appended:
            rests = [cursor.rest() for cursor in self._appended]
            batch = rests[0] if len(rests) == 1 else self._combine(self._meta, rests)
            added = batch.num_rows
            self._store.append(batch, described(self._meta, batch))
        self._stored, self._appended = [], []
        merge_small_runs(self._store, now=0, most_rows=self._small_rows)
        if self._trims:
            self._trim(added)

    def _trim(self, added: int) -> None:
        """Writes runs anew of which more than half is over; all of them together have to fit an epoch."""
        rows = size = 0
        for run in [*self._store.runs]:
            left = run.rows - floor_of(run).row
            left_size = run.section.nbytes * left // run.rows
            is_due = 2 * left < run.rows and not run.section.is_table
            if is_due and can_be_rewritten(rows + left, size + left_size, added):
                rows, size = rows + left, size + left_size
                self._store.replace([run], *merge_runs([run], is_oldest=False, now=0))

    def _cursors(self) -> Sequence[_Cursor]:
        return (*self._stored, *self._appended)


class _Cursor:
    """One run, and what is known of where times stand in it.

    Attributes:
        kept: where the rows begin that are not over.
    """

    __slots__ = ("_reached", "_run", "_start", "kept")

    def __init__(self, run: Run) -> None:
        self._run = run
        self.kept = self._start = floor_of(run)
        self._reached = self.kept

    @property
    def rows(self) -> int:
        """How many rows are not over, those of other tasks included."""
        return self._run.rows - self.kept.row

    def above(self, time: int) -> Bound:
        """Where the rows begin that are above a time; what is over does not count."""
        reached = self._reached
        if reached.time <= time < reached.next:
            return Bound(time, reached.row, reached.next)
        if time < self.kept.next:
            return Bound(time, self.kept.row, self.kept.next)
        if time < reached.time:
            return rows_above(self._run, time, self.kept.row)
        # Times that are asked for rise, as a rule: the next search goes on from here.
        self._reached = rows_above(self._run, time, reached.row)
        return self._reached

    def time_after(self, time: int, rows: int) -> int:
        """The time of a row that is so many behind the first one above ``time``; ``NO_TIME`` when there is none."""
        return time_at(self._run, self.above(time).row + rows)

    def up_to(self, time: int) -> pa.RecordBatch | None:
        """The rows that are not above a time; None when there are none."""
        return self._slice(self.kept.row, self.above(time).row)

    def between(self, after: int, up_to: int) -> pa.RecordBatch | None:
        """The rows that are above ``after`` and not above ``up_to``; None when there are none."""
        return self._slice(self.above(after).row, self.above(up_to).row)

    def rest(self) -> pa.RecordBatch:
        """All rows that are not over."""
        return rest_of(self._run, self.kept)

    def find(self, times: Longs, hashes: Sequence[Hashes]) -> pa.RecordBatch | None:
        """The rows with some times, which are in order, and some hashes for each; None when there are none."""
        section, column = self._run.section, self._run.meta[SORT][0]
        if times[-1] < self.kept.next:
            return None
        starts = np.maximum(section.lower_bounds(column, times), self.kept.row).tolist()
        found = []
        for time, start, probes in zip(times.tolist(), starts, hashes, strict=True):
            if start == self._run.rows or section.rows_of(column, start, start + 1)[0].as_py() != time:
                continue
            stop = rows_above(self._run, time, start).row
            window = section.rows_of(HASH, start, stop).to_numpy()
            first, last = (np.searchsorted(window, probes, side=side) for side in ("left", "right"))
            found.append(start + rows_of_ranges(first, last - first))
        rows = np.concatenate(found) if found else np.empty(0, np.int64)
        if not len(rows):
            return None
        schema = section.schema
        batch = pa.RecordBatch.from_arrays([section.take(name, rows) for name in schema.names], schema=schema)
        return owned(self._run, batch)

    def most_keys(self) -> OrderedKeys:
        """The keys of that time which has most rows, of those that are not over; those of other tasks included."""
        section, (time, *order) = self._run.section, self._run.meta[SORT][:3]
        _, bounds = group_times(section.rows_of(time, self.kept.row, self._run.rows).to_numpy())
        largest = int(np.argmax(np.diff(bounds)))
        start, stop = (self.kept.row + bounds[largest : largest + 2]).tolist()
        hashes, keys = (section.rows_of(name, start, stop) for name in order)
        return OrderedKeys(hashes.to_numpy(), keys)

    def forget(self, up_to: int) -> None:
        """Notes that the rows which are not above a time are over."""
        if up_to >= self.kept.next:
            self.kept = self.above(up_to)

    def save(self, store: RunStore) -> None:
        """Notes in the store what is over; a run that is over as a whole is dropped."""
        kept = self.kept
        if kept.row == self._run.rows:
            store.drop(self._run)
        elif kept is not self._start:
            store.annotate(self._run, **{FLOOR: kept.time, LOW: kept.row, NEXT: kept.next})

    def _slice(self, start: int, stop: int) -> pa.RecordBatch | None:
        return owned(self._run, self._run.section.slice(start, stop)) if start < stop else None


def _with_rows(batches: Iterator[pa.RecordBatch | None]) -> list[pa.RecordBatch]:
    return [batch for batch in batches if batch is not None and batch.num_rows]
