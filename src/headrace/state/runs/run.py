"""Runs: immutable Arrow tables, oldest first, that together are one store of an operator; and finding keys in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.errors import StateError
from headrace.state.keys.codecs import KeyColumn, order_by_hash
from headrace.state.keys.hashing import HASH_END
from headrace.state.runs.layout import ELEMENT_COUNT, HASH, KEY, SORT
from headrace.state.runs.sections import Section

Indices = npt.NDArray[np.int64]


HashRange = tuple[int, int]
"""The hashes from the first up to, but without, the second."""

ALL_HASHES: Final[HashRange] = (0, HASH_END)


class Run:
    """One immutable table, of which the rows of some keys count (those that the task owns).

    Attributes:
        meta: what its writer said about it: JSON.
        section: where the whole table is.
        hashes: the hashes of the keys whose rows count.
        whole: whether every row counts, so that nothing needs to be left out.
        origin: the partition that wrote it.
        span: the hashes that all rows of the table have; as many as ``hashes`` where that is not known.
    """

    __slots__ = ("_own", "hashes", "meta", "origin", "section", "span", "whole")

    _own: slice | npt.NDArray[np.bool_] | None

    def __init__(
        self,
        section: Section,
        meta: dict[str, Any],
        hashes: HashRange,
        *,
        whole: bool = True,
        origin: int = 0,
        span: HashRange | None = None,
    ) -> None:
        self.section = section
        self.meta = meta
        self.hashes = hashes
        self.whole = whole
        self.origin = origin
        self.span = span or hashes
        self._own = None

    @property
    def rows(self) -> int:
        """Return how many rows the table has, including those of keys that the task does not own."""
        return self.section.rows

    @property
    def weight(self) -> int:
        """About how many of the rows that count a merge has to move, or how many elements of their lists."""
        return int(max(self.rows, self.meta.get(ELEMENT_COUNT, 0)) * self._share) or 1

    @property
    def nbytes(self) -> int:
        """About how many bytes these take."""
        return int(self.section.nbytes * self._share)

    @property
    def _share(self) -> float:
        """The part of the rows that count: hashes are spread evenly."""
        (low, high), (first, end) = self.hashes, self.span
        return (high - low) / max(1, end - first)

    @property
    def batch(self) -> pa.RecordBatch:
        """The rows that count. Not copied, unless rows in the middle of a run must be left out."""
        if self.whole:
            return self.section.batch
        if self._is_by_hash:
            return self.section.between(self.hashes)
        own = self.own_rows()
        batch = self.section.batch
        return batch.slice(own.start, own.stop - own.start) if isinstance(own, slice) else batch.filter(pa.array(own))

    @property
    def table(self) -> pa.Table:
        """The rows that count, as a table of one chunk."""
        return pa.Table.from_batches([self.batch])

    def column(self, name: str) -> pa.Array:
        """One column of the rows that count; only its part of the file is touched."""
        array = self.section.column(name)
        own = self.own_rows()
        if isinstance(own, slice):
            return array if self.whole else array.slice(own.start, own.stop - own.start)
        return array.filter(pa.array(own))

    def own_rows(self) -> slice | npt.NDArray[np.bool_]:
        """Return which rows of :attr:`section` count: a slice where the run is sorted by hash, else a mask."""
        if self.whole:
            return slice(0, self.rows)
        if self._own is None:
            self._own = self._find_own_rows()
        return self._own

    def count_own_rows(self, first: int = 0) -> int:
        """Return how many rows count, of those from ``first`` on."""
        own = self.own_rows()
        return max(0, own.stop - max(own.start, first)) if isinstance(own, slice) else int(own[first:].sum())

    def _find_own_rows(self) -> slice | npt.NDArray[np.bool_]:
        if HASH not in self.section.schema.names:
            return slice(0, self.rows)
        if self._is_by_hash:
            return slice(*self.section.rows_between(self.hashes))
        hashes = self.section.column(HASH).to_numpy()
        own: npt.NDArray[np.bool_] = (hashes >= np.uint64(self.hashes[0])) & (hashes <= np.uint64(self.hashes[1] - 1))
        return own

    @property
    def _is_by_hash(self) -> bool:
        return bool(self.meta.get(SORT, [""])[0] == HASH)

    def restricted(self, hashes: HashRange) -> Run | None:
        """The same run for the keys that are within ``hashes`` as well; None when none can be."""
        low, high = max(self.hashes[0], hashes[0]), min(self.hashes[1], hashes[1])
        if low >= high:
            return None
        whole = self.whole and (low, high) == self.hashes
        return Run(self.section, self.meta, (low, high), whole=whole, origin=self.origin, span=self.span)

    def without(self, hashes: HashRange) -> list[Run]:
        """The same run for the keys below ``hashes``, and for those above, as far as there can be any."""
        parts = (self.restricted((0, hashes[0])), self.restricted((hashes[1], HASH_END)))
        return [part for part in parts if part is not None]

    def with_rows(self, section: Section) -> Run:
        """A run that has others of the rows of the same keys."""
        return Run(section, self.meta, self.hashes, whole=self.whole, origin=self.origin, span=self.span)

    def with_meta(self, meta: dict[str, Any]) -> Run:
        """A run of the same rows, of which something else is said."""
        return Run(self.section, meta, self.hashes, whole=self.whole, origin=self.origin, span=self.span)


class RunStore:
    """The runs of one store, such as one keyed state, of one operator in one partition.

    Args:
        name: what the operator calls it.
        hashes: the hashes of the keys that the partition owns.
        runs: those of the version that was opened, oldest first.
    """

    def __init__(self, name: str, hashes: HashRange, runs: Iterable[Run] = (), *, partition: int = 0) -> None:
        self.name = name
        self.changed = False
        self._hashes = hashes
        self._partition = partition
        self._runs = list(runs)

    @property
    def runs(self) -> Sequence[Run]:
        """All runs, oldest first, those that were appended in this epoch included."""
        return tuple(self._runs)

    @property
    def rows(self) -> int:
        """Return how many rows all runs have."""
        return sum(run.rows for run in self._runs)

    def append(self, table: pa.RecordBatch | pa.Table, meta: dict[str, Any]) -> Run | None:
        """Adds a run that is newer than all others; a table without rows is none.

        ``meta["sort"]`` should name the columns that the rows are sorted by. A run of keyed state has a column
        ``hash`` (uint64) with the hashes of the keys, all of them owned by this partition.
        """
        if not table.num_rows:
            return None
        run = Run(Section(one_batch(table)), meta, self._hashes, origin=self._partition)
        self._runs.append(run)
        self.changed = True
        return run

    def drop(self, run: Run) -> None:
        """Removes a run."""
        del self._runs[self._index(run)]
        self.changed = True

    def replace(
        self, old_runs: Sequence[Run], new_table: pa.RecordBatch | pa.Table | None, meta: dict[str, Any]
    ) -> Run | None:
        """Puts one run, or nothing, in the place of runs that follow one another."""
        start = self._span(old_runs)
        new = [] if new_table is None or not new_table.num_rows else [one_batch(new_table)]
        runs = [Run(Section(batch), meta, hashes_of(old_runs), origin=self._partition) for batch in new]
        self._runs[start : start + len(old_runs)] = runs
        self.changed = True
        return runs[0] if runs else None

    def rewrite(self, run: Run, batch: pa.RecordBatch, meta: dict[str, Any]) -> Run:
        """Puts rows that stand for those of a run that count in its place; the run that holds them."""
        renewed = Run(Section(batch), meta, run.hashes, origin=self._partition)
        self.substitute([run], [renewed])
        return renewed

    def substitute(self, old_runs: Sequence[Run], new_runs: Sequence[Run]) -> None:
        """Puts runs that exist already in the place of runs that follow one another."""
        start = self._span(old_runs)
        self._runs[start : start + len(old_runs)] = new_runs
        self.changed = True

    def annotate(self, run: Run, **changes: object) -> Run:
        """Changes entries of a run's ``meta``; the run is replaced by one with the same rows, which is returned."""
        renewed = run.with_meta({**run.meta, **changes})
        self._runs[self._index(run)] = renewed
        self.changed = True
        return renewed

    def _index(self, run: Run) -> int:
        for index, candidate in enumerate(self._runs):
            if candidate is run:
                return index
        raise StateError(f"the store {self.name!r} does not hold this run (any more)")

    def _span(self, runs: Sequence[Run]) -> int:
        start = self._index(runs[0])
        if [*map(id, self._runs[start : start + len(runs)])] != [*map(id, runs)]:
            raise StateError(f"the runs to be replaced do not follow one another in the store {self.name!r}")
        return start


def hashes_of(runs: Iterable[Run]) -> HashRange:
    """The hashes from the first to the last of some runs."""
    lows, highs = zip(*(run.hashes for run in runs), strict=True)
    return min(lows), max(highs)


def starts_of_levels(ranges: Sequence[HashRange]) -> list[int]:
    """Return where the levels of a store begin, given the hashes of its runs.

    A level is of runs that follow one another, and so do their hashes: a key is in one of them at most.

    >>> starts_of_levels([(0, 10), (10, 20), (0, 20), (0, 5)])
    [0, 2, 3]
    """
    later = [index for index in range(1, len(ranges)) if ranges[index][0] < ranges[index - 1][1]]
    return [0, *later] if ranges else []


def one_batch(table: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
    """The rows of a table that has some, in one piece."""
    if isinstance(table, pa.RecordBatch):
        return table
    return table.combine_chunks().to_batches()[0]


def order_of_keys(keys: KeyColumn) -> Indices:
    """The order of keys by hash, then by canonical value."""
    return order_by_key(keys.hashes, keys.values)[0]


def order_by_key(
    hashes: npt.NDArray[np.uint64], keys: pa.Array, *, are_runs: bool = False
) -> tuple[Indices, npt.NDArray[np.bool_]]:
    """The stable order of rows by hash and key, and which of them, in that order, is the first one of its key.

    Args:
        hashes: the hash of each row's key.
        keys: the keys.
        are_runs: whether the rows are runs, one behind the other, each in order: to merge them is faster than to sort.
    """
    if are_runs:
        order = np.argsort(hashes, kind="stable")
        ordered = hashes[order]
    else:
        order, ordered = order_by_hash(hashes)
    firsts = np.ones(len(order), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=firsts[1:])
    if pa.types.is_int64(keys.type):  # different integers have different hashes
        return order, firsts
    repeated = np.flatnonzero(~firsts)
    if not same_values(keys, order[repeated], order[repeated - 1]).all():  # the rows of two keys may be mixed
        table = pa.table({HASH: hashes, KEY: keys, "sequence": np.arange(len(hashes))})
        columns = [(name, "ascending") for name in table.column_names]
        order = np.asarray(pc.sort_indices(table, sort_keys=columns)).astype(np.int64)
        firsts[1:] = ~same_values(keys, order[1:], order[:-1])
    return order, firsts


def same_values(array: pa.Array, left: Indices, right: Indices) -> npt.NDArray[np.bool_]:
    """Return whether the values at ``left`` are equal to those at ``right``, one by one."""
    return np.asarray(pc.equal(array.take(pa.array(left)), array.take(pa.array(right)))).astype(bool)


def narrowed(run: Run, keys: KeyColumn) -> Run:
    """A run that has the rows of keys, sorted by hash; where it lies in a table, others are not read."""
    section = run.section.narrowed(keys.slice(*_own_keys(run, keys)))
    return run if section is run.section else run.with_rows(section)


def find_rows(run: Run, keys: KeyColumn) -> tuple[Indices, Indices]:
    """Return where keys, sorted by hash, are in a run: the positions of those found, and their rows in its section.

    Keys whose rows do not count in this run are not found.
    """
    start, stop = _own_keys(run, keys)
    found, rows = _find(run.section, keys.slice(start, stop))
    return found + start, rows


def _own_keys(run: Run, keys: KeyColumn) -> tuple[int, int]:
    """First and last of those keys, sorted by hash, whose rows count in a run."""
    if run.hashes == ALL_HASHES:
        return 0, len(keys)
    low, last = np.uint64(run.hashes[0]), np.uint64(run.hashes[1] - 1)
    return int(np.searchsorted(keys.hashes, low)), int(np.searchsorted(keys.hashes, last, side="right"))


def _find(section: Section, keys: KeyColumn) -> tuple[Indices, Indices]:
    if not section.rows or not len(keys):
        return _NOTHING, _NOTHING
    # The probes are sorted, so the search walks through the run once, which is several times as fast.
    rows = section.lower_bounds(HASH, keys.hashes)
    found = np.flatnonzero(_hashes_at(section, rows) == keys.hashes)
    rows = rows[found]
    if pa.types.is_int64(keys.values.type) or not len(found):
        return found, rows  # different integers have different hashes
    return _verified(section, keys, found, rows)


_NOTHING: Final = np.zeros(0, dtype=np.int64)


def _hashes_at(section: Section, rows: Indices) -> npt.NDArray[np.uint64]:
    """The hashes in these rows; that of the last row for one beyond it."""
    hashes: npt.NDArray[np.uint64] = section.take(HASH, np.minimum(rows, section.rows - 1)).to_numpy()
    return hashes


def _verified(section: Section, keys: KeyColumn, found: Indices, rows: Indices) -> tuple[Indices, Indices]:
    """Keeps the rows that hold the key itself; where another key has the same hash, looks at the rows that follow."""
    positions, places = [], []
    while len(found):
        same = np.asarray(pc.equal(section.take(KEY, rows), keys.values.take(pa.array(found)))).astype(bool)
        positions.append(found[same])
        places.append(rows[same])
        found, rows = found[~same], rows[~same] + 1
        if len(found):
            more = (rows < section.rows) & (_hashes_at(section, rows) == keys.hashes[found])
            found, rows = found[more], rows[more]
    return np.concatenate(positions), np.concatenate(places)
