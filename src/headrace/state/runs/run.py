"""Runs: immutable Arrow tables, oldest first, that together are one store of one operator's state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from headrace.common.errors import StateError
from headrace.state.keys.groups import HASH_END
from headrace.state.runs.layout import ELEMENT_COUNT, HASH, SORT
from headrace.state.runs.sections import Section

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

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
    """

    __slots__ = ("_own", "hashes", "meta", "origin", "section", "whole")

    _own: slice | npt.NDArray[np.bool_] | None

    def __init__(
        self, section: Section, meta: dict[str, Any], hashes: HashRange, *, whole: bool = True, origin: int = 0
    ) -> None:
        self.section = section
        self.meta = meta
        self.hashes = hashes
        self.whole = whole
        self.origin = origin
        self._own = None

    @property
    def rows(self) -> int:
        """How many rows the table has, including those of keys that the task does not own."""
        return self.section.rows

    @property
    def weight(self) -> int:
        """How many rows a merge has to move, or how many elements of their lists."""
        return weight_of(self.meta, self.rows)

    @property
    def batch(self) -> pa.RecordBatch:
        """The rows that count. Not copied, unless rows in the middle of a run must be left out."""
        own = self.own_rows()
        batch = self.section.batch
        if isinstance(own, slice):
            return batch if self.whole else batch.slice(own.start, own.stop - own.start)
        return batch.filter(pa.array(own))

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
        """Which rows of :attr:`section` count: a slice where the run is sorted by hash, else a mask."""
        if self.whole:
            return slice(0, self.rows)
        if self._own is None:
            self._own = self._find_own_rows()
        return self._own

    def _find_own_rows(self) -> slice | npt.NDArray[np.bool_]:
        if HASH not in self.section.schema.names:
            return slice(0, self.rows)
        hashes = self.section.column(HASH).to_numpy()
        low, last = np.uint64(self.hashes[0]), np.uint64(self.hashes[1] - 1)
        if self.meta.get(SORT, [""])[0] == HASH:
            return slice(int(np.searchsorted(hashes, low)), int(np.searchsorted(hashes, last, side="right")))
        own: npt.NDArray[np.bool_] = (hashes >= low) & (hashes <= last)
        return own

    def restricted(self, hashes: HashRange) -> Run | None:
        """The same run for the keys that are within ``hashes`` as well; None when none can be."""
        low, high = max(self.hashes[0], hashes[0]), min(self.hashes[1], hashes[1])
        if low >= high:
            return None
        whole = self.whole and (low, high) == self.hashes
        return Run(self.section, self.meta, (low, high), whole=whole, origin=self.origin)


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
        """How many rows all runs have."""
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
        runs = [Run(Section(batch), meta, self._hashes, origin=self._partition) for batch in new]
        self._runs[start : start + len(old_runs)] = runs
        self.changed = True
        return runs[0] if runs else None

    def rewrite(self, run: Run, batch: pa.RecordBatch, meta: dict[str, Any]) -> Run:
        """Puts rows that stand for those of a run that count in its place; the run that holds them."""
        renewed = Run(Section(batch), meta, self._hashes, origin=self._partition)
        self.substitute([run], [renewed])
        return renewed

    def substitute(self, old_runs: Sequence[Run], new_runs: Sequence[Run]) -> None:
        """Puts runs that exist already in the place of runs that follow one another."""
        start = self._span(old_runs)
        self._runs[start : start + len(old_runs)] = new_runs
        self.changed = True

    def annotate(self, run: Run, **changes: Any) -> Run:
        """Changes entries of a run's ``meta``; the run is replaced by one with the same rows, which is returned."""
        meta = {**run.meta, **changes}
        renewed = Run(run.section, meta, run.hashes, whole=run.whole, origin=run.origin)
        self._runs[self._index(run)] = renewed
        self.changed = True
        return renewed

    def own_rows(self, run: Run) -> slice | npt.NDArray[np.bool_]:
        """Which rows of ``run.section`` count: a slice where the run is sorted by hash, else a mask."""
        return run.own_rows()

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


def weight_of(meta: dict[str, Any], rows: int) -> int:
    """The weight of a run that says this about itself."""
    elements: int = meta.get(ELEMENT_COUNT, rows)
    return max(rows, elements)


def one_batch(table: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
    """The rows of a table that has some, in one piece."""
    if isinstance(table, pa.RecordBatch):
        return table
    return table.combine_chunks().to_batches()[0]
