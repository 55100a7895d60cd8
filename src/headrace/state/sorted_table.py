"""Sorted tables: rows of (key, sort key, values) that an operator keeps, in runs that are sorted and never change.

Whatever an operator has to find again by a key *and* by an order within it is such a table: timers, contents of
windows, records that wait for event time, both inputs of a join. They differ in what comes first in the order, since
that decides what a search touches:

- :class:`TimeSortedTable`: the sort key first, which is a time. What is due, or over, is a prefix of each run.
- :class:`~headrace.state.key_sorted_table.KeySortedTable`: the key first. The rows of a key within a range of sort
  keys are found by binary search.

:class:`SortedTable` is what both have in common, and :class:`TableLayout` says what one holds, which may be what an
earlier version of the program has stored. Appending reads nothing: what an epoch adds is one more run at its end, and a
row that has to go is left out when runs are merged.
"""

import mmap
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.durable import PREFIX, writing
from headrace.common.errors import StateMigrationError
from headrace.common.logs import get_logger
from headrace.common.typeinfo import TypeInformation, type_from_json
from headrace.state.evolution import (
    NOTHING_RENAMED,
    OTHER_UID,
    Incompatible,
    RenamedFields,
    difference,
    difference_of_columns,
    evolution,
    evolve_run,
    rewrite_run,
)
from headrace.state.runs import ALL_HASHES, HASH, SORT, Run, RunStore
from headrace.state.runs.grouping import group_times
from headrace.state.runs.key_dictionary import OrderedKeys
from headrace.state.runs.layout import KIND, TYPES, VALUE, rows_of_ranges
from headrace.state.runs.merge_input import (
    FLOOR,
    LOW,
    NEXT,
    NO_TIME,
    Combine,
    RunBound,
    described,
    floor_of,
    owned,
    rest_of,
    rows_above,
    time_at,
)
from headrace.state.runs.merging import can_be_rewritten, merge_runs, merge_small_runs
from headrace.state.runs.sections import Section

logger = get_logger(__name__)


@dataclass(frozen=True)
class TableLayout:
    """The layout of a table.

    Attributes:
        what: what it is called in errors: ``"timers"``.
        kind: the kind of its runs, by which compaction knows how to merge them.
        schema: the columns: those of the order first, which begins with time, hash and key, or with hash and key.
        order: how many columns the order has; rows that are equal in them are combined in a table in the order of time.
        about: what its runs say about themselves besides, which has to be the same as long as there are any.
        words: what the entries of ``about`` are called in errors.
        values: the type of the column of values, where values of an earlier type may become those of this one.
        advice: what to do when something else is stored.
        column: the column of values.
        renamed: which fields of the values have other names than in what is stored.
        named_now: gives what a run says about itself, with the names of today; columns stay in their places.
    """

    what: str
    kind: str
    schema: pa.Schema
    order: int
    about: Mapping[str, Any]
    words: Mapping[str, str] = field(default_factory=dict)
    values: TypeInformation | None = None
    advice: str = OTHER_UID
    column: str = VALUE
    renamed: RenamedFields = NOTHING_RENAMED
    named_now: Callable[[dict[str, Any]], dict[str, Any]] | None = None

    @property
    def meta(self) -> dict[str, Any]:
        """The description of a run, whatever its rows are."""
        types = {} if self.values is None else {TYPES: self.values.to_json()}
        return {KIND: self.kind, SORT: self.schema.names[: self.order], **self.about, **types}

    def take_over(self, store: RunStore) -> None:
        """Checks the runs of a store, and rewrites those with values of an earlier type, or with earlier names.

        Raises:
            StateMigrationError: when they hold something else.
        """
        for run in store.runs:
            left = self.adapted(store, run)
            if left is not None:
                self.check(left)

    def adapted(self, store: RunStore, run: Run) -> Run | None:
        """The run with values of the declared type, under the names of today; what it says besides may be another one.

        Returns:
            None when no row of it counts, so that it was dropped.

        Raises:
            StateMigrationError: when the values cannot be taken over.
        """
        evolved = self._evolved(store, run)
        return None if evolved is None else self._renamed(store, evolved)

    def _renamed(self, store: RunStore, run: Run) -> Run | None:
        about = run.meta if self.named_now is None else self.named_now(run.meta)
        # Only these: the rows that are written may be fewer, and what is over of them is another part.
        others = {entry: said for entry, said in about.items() if said != run.meta.get(entry)}
        if not others or run.section.schema.types != self.schema.types:
            return run
        logger.info("%s: what was stored has the names of today", self.what)
        return rewrite_run(store, run, lambda batch: batch.rename_columns(self.schema.names), others)

    def _evolved(self, store: RunStore, run: Run) -> Run | None:
        stored = run.meta.get(TYPES)
        if self.values is None or stored is None or stored == self.values.to_json():
            return run
        try:
            change = evolution(type_from_json(stored), self.values, self.renamed)
        except Incompatible as error:
            problem = f"{self._differs(TYPES, stored, self.values.to_json())} ({error})"
            raise self._other(problem) from error
        logger.info("%s: what was stored becomes what is declared: %s", self.what, change)
        return evolve_run(store, run, change, self.values.to_json(), self.column)

    def _differs(self, entry: str, stored: object, declared: object) -> str:
        return f"another {self.words.get(entry, entry)}: {difference(stored, declared)}"

    def check(self, run: Run) -> None:
        """Return whether a run can be one of this table.

        Raises:
            StateMigrationError: when it holds something else.
        """
        for entry, declared in self.meta.items():
            stored = run.meta.get(entry, declared)
            if stored != declared:
                raise self._other(self._differs(entry, stored, declared))
        if not run.section.schema.equals(self.schema):
            raise self._other(f"other columns: {difference_of_columns(run.section.schema, self.schema)}")

    def _other(self, difference: str) -> StateMigrationError:
        return StateMigrationError(f"{self.what} were stored with {difference}; {self.advice}")


Longs = npt.NDArray[np.int64]

Hashes = npt.NDArray[np.uint64]


SMALL_ROWS: Final = 1 << 10
"""Runs of more rows together are left to compaction: what is read once or twice need not be in few runs."""

SPILLED_BYTES: Final = 64 << 20
"""Batches of so many bytes are large."""


def is_large(batch: pa.RecordBatch) -> bool:
    """Return whether a batch should not stay in memory until the epoch ends."""
    return bool(batch.nbytes >= SPILLED_BYTES)


def spilled(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same batch in a file on the machine's own disk.

    The file has no name, so nothing is left of it once the batch is released, however the process ends. Its pages are
    memory as long as there is some to spare.

    Raises:
        InfrastructureError: when it cannot be written: the disk is full, say.
    """
    with writing("a task that holds more than should be in memory"), tempfile.TemporaryFile(prefix=PREFIX) as file:
        with pa.ipc.new_stream(file, batch.schema) as out:
            out.write_batch(batch)
        file.flush()
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return pa.ipc.open_stream(pa.py_buffer(mapped)).read_next_batch()


class _Appended(Protocol):
    @property
    def rows(self) -> int: ...


_Piece = TypeVar("_Piece", bound=_Appended)


class SortedTable(ABC, Generic[_Piece]):
    """The sorted rows of one operator in one task: what earlier epochs left, and what this one has appended.

    Why a table, and not state of keys: state of keys is looked up by the key alone, and is rewritten as a whole when it
    changes. A table is a log-structured merge tree in columns. Whole batches are appended without a look at what is
    there, ranges are read without what lies around them, and rows of a key never become Python objects.

    Within an epoch, appended batches double in size from the newest to the oldest, so a row is combined a logarithmic
    number of times; at the end of the epoch they are one run.

    Args:
        store: the runs.
        layout: what they hold; batches are given in its order.
        combine: makes one batch of several, oldest first, as compaction does for runs of this kind.
        spills: whether what an epoch appends goes to the machine's own disk when it is much; it is not combined then
            before the epoch ends.
        most_alike: the number of appended batches of similar size that are not combined.

    Raises:
        StateMigrationError: when something else is stored.
    """

    def __init__(
        self, store: RunStore, layout: TableLayout, combine: Combine, *, spills: bool, most_alike: int = 0
    ) -> None:
        layout.take_over(store)
        self._most_alike = most_alike
        self._store, self._schema, self._meta = store, layout.schema, layout.meta
        self._combine = combine
        self._spills = spills
        self._appended: list[_Piece] = []

    @abstractmethod
    def _piece(self, batch: pa.RecordBatch) -> _Piece:
        """The part of a batch that is kept until the epoch ends."""

    @abstractmethod
    def _rest(self, piece: _Piece) -> pa.RecordBatch:
        """The rows of an appended piece that are still needed."""

    def append(self, batch: pa.RecordBatch) -> None:
        """Adds rows, which are newer than all others."""
        if not batch.num_rows:
            return
        while len(alike := self._alike(batch)) > self._most_alike:
            del self._appended[-len(alike) :]
            batch = self._combine(self._meta, [*alike, batch])
        self._appended.append(self._piece(spilled(batch) if self._spills and is_large(batch) else batch))

    def _alike(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """The newest batches that are not much larger than a given one, oldest first."""
        found: list[pa.RecordBatch] = []
        for piece in reversed(self._appended):
            if piece.rows > 2 * batch.num_rows:
                break
            rest = self._rest(piece)
            if self._spills and is_large(rest):
                break
            found.append(rest)
        return found[::-1]

    def _take_appended(self) -> pa.RecordBatch | None:
        """The rows that were appended in this epoch and are still needed, in one batch; None when there are none."""
        rests, self._appended = [self._rest(piece) for piece in self._appended], []
        batch = self._combine(self._meta, rests) if len(rests) > 1 else next(iter(rests), None)
        return batch if batch is not None and batch.num_rows else None


class TimeSortedTable(SortedTable["_Cursor"]):
    """Rows in the order of (time, hash, key): the time of a window is its end.

    What is due is read from the front of each run, and what is over is dropped from there: a run notes how far it is
    over instead of being rewritten. What belongs to some keys at some times is found by binary search.

    Args:
        store: the runs.
        layout: what they hold.
        combine: as of :class:`SortedTable`.
        small_rows: runs of more rows together are left to compaction; by default ``SMALL_ROWS``.
        spills: as of :class:`SortedTable`.
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
        super().__init__(store, layout, combine, spills=spills)
        self._small_rows = SMALL_ROWS if small_rows is None else small_rows
        self._trims = trims
        self._stored: list[_Cursor] = []

    def begin_epoch(self) -> None:
        """Takes up what is stored."""
        self._stored = list(map(_Cursor, self._store.runs))
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
        return [batch for cursor in self._cursors() for batch in cursor.up_to(time)]

    def between(self, after: int, up_to: int) -> list[pa.RecordBatch]:
        """The rows that are above ``after`` and not above ``up_to``, oldest batch first."""
        return [batch for cursor in self._cursors() for batch in cursor.between(after, up_to)]

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
        return [batch for cursor in self._cursors() for batch in cursor.find(wanted, probes)]

    def stored_keys(self) -> OrderedKeys | None:
        """The keys that are stored at one time in one run: where they are most; None when nothing is stored."""
        found = [cursor.most_keys() for cursor in self._stored if cursor.rows]
        return max(found, key=lambda keys: len(keys.hashes), default=None)

    def _piece(self, batch: pa.RecordBatch) -> "_Cursor":
        return _Cursor(Run(Section(batch), described(self._meta, batch), ALL_HASHES))

    def _rest(self, piece: "_Cursor") -> pa.RecordBatch:
        return piece.rest()

    def forget(self, up_to: int) -> None:
        """Drops the rows that are not above a time: what was appended at once, what is stored when the epoch ends."""
        for cursor in self._cursors():
            cursor.forget(up_to)
        self._appended = [cursor for cursor in self._appended if cursor.kept.next != NO_TIME]

    def end_epoch(self) -> None:
        """Writes what was appended as one run, and how far the stored runs are over."""
        for cursor in self._stored:
            cursor.save(self._store)
        self._stored = []
        batch = self._take_appended()
        if batch is not None:
            self._store.append(batch, described(self._meta, batch))
        merge_small_runs(self._store, now=0, most_rows=self._small_rows)
        if self._trims:
            self._trim(0 if batch is None else batch.num_rows)

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

    def _cursors(self) -> "Sequence[_Cursor]":
        return (*self._stored, *self._appended)


class _Cursor:
    """One run, and what is known of where times stand in it. Rows are given as one batch, or none where there are none.

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
        """Return how many rows are not over, those of other tasks included."""
        return self._run.rows - self.kept.row

    def above(self, time: int) -> RunBound:
        """Return where the rows begin that are above a time; what is over does not count."""
        reached = self._reached
        if reached.time <= time < reached.next:
            return RunBound(time, reached.row, reached.next)
        if time < self.kept.next:
            return RunBound(time, self.kept.row, self.kept.next)
        if time < reached.time:
            return rows_above(self._run, time, self.kept.row)
        # Requested times rise, as a rule: the next search goes on from here.
        self._reached = rows_above(self._run, time, reached.row)
        return self._reached

    def time_after(self, time: int, rows: int) -> int:
        """The time of a row that is so many behind the first one above ``time``; ``NO_TIME`` when there is none."""
        return time_at(self._run, self.above(time).row + rows)

    def up_to(self, time: int) -> list[pa.RecordBatch]:
        """The rows that are not above a time."""
        return self._slice(self.kept.row, self.above(time).row)

    def between(self, after: int, up_to: int) -> list[pa.RecordBatch]:
        """The rows that are above ``after`` and not above ``up_to``."""
        return self._slice(self.above(after).row, self.above(up_to).row)

    def rest(self) -> pa.RecordBatch:
        """All rows that are not over."""
        return rest_of(self._run, self.kept)

    def find(self, times: Longs, hashes: Sequence[Hashes]) -> list[pa.RecordBatch]:
        """The rows with some times, which are in order, and some hashes for each."""
        section, column = self._run.section, self._run.meta[SORT][0]
        if times[-1] < self.kept.next:
            return []
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
            return []
        schema = section.schema
        batch = pa.RecordBatch.from_arrays([section.take(name, rows) for name in schema.names], schema=schema)
        return self._owned(batch)

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

    def _slice(self, start: int, stop: int) -> list[pa.RecordBatch]:
        return self._owned(self._run.section.slice(start, stop)) if start < stop else []

    def _owned(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        found = owned(self._run, batch)
        return [found] if found.num_rows else []
