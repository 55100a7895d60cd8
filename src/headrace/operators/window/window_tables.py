"""Sorted tables of what windows hold, in memory or in state, and how stretches of them are found.

The tables are sorted by window first, so what is due, and what may be forgotten, is a contiguous stretch of each; the
ends of a run's windows stand in its description, so a run is not touched before one of its windows is due.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.errors import StateMigrationError
from headrace.operators.window.accumulators import Accumulators
from headrace.operators.window.assign import cleanup_time, cleanup_times
from headrace.operators.window.kernels import group_ends

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt
    import pyarrow as pa

    from headrace.state.runs import Run, RunStore
    from headrace.time.windows import AlignedWindows

    Longs = npt.NDArray[np.int64]

_SMALL_RUN = 1 << 14
_MOST_SMALL_RUNS = 16
"""So many small runs at the end are merged into one: a quiet stream writes a small run an epoch."""


class WindowTable:
    """A sorted table of accumulators whose rows are read only when they are asked for."""

    def __init__(self, ends: Longs, offsets: Longs) -> None:
        self.ends = ends
        self.offsets = offsets

    @cached_property
    def accumulators(self) -> Accumulators:
        """The rows."""
        raise NotImplementedError

    def between(self, after: int, upto: int) -> Accumulators | None:
        """The rows of windows whose largest timestamp is above ``after`` but not above ``upto``."""
        first, last = self._places(after, upto)
        if first == last:
            return None
        return self.accumulators.slice(int(self.offsets[first]), int(self.offsets[last]))

    def ends_between(self, after: int, upto: int) -> Longs:
        """The ends of those windows."""
        first, last = self._places(after, upto)
        return self.ends[first:last]

    def next_end(self, watermark: int) -> int | None:
        """The earliest window that ``watermark`` has not passed."""
        place = int(np.searchsorted(self.ends - 1, watermark, side="right"))
        return int(self.ends[place]) if place < len(self.ends) else None

    def _places(self, after: int, upto: int) -> tuple[int, int]:
        limits = [min(max(limit, MIN_WATERMARK), MAX_WATERMARK) for limit in (after, upto)]
        first, last = np.searchsorted(self.ends - 1, np.array(limits, np.int64), side="right")
        return int(first), max(int(first), int(last))

    def rows_of(self, ends: Longs, hashes: npt.NDArray[np.uint64]) -> Accumulators | None:
        """The rows of some windows and hashes, which are given in order; rows of other keys may be among them."""
        wanted, bounds = group_ends(ends)
        found = []
        for i, end in enumerate(wanted.tolist()):
            place = int(np.searchsorted(self.ends, end))
            if place == len(self.ends) or self.ends[place] != end:
                continue
            start, stop = int(self.offsets[place]), int(self.offsets[place + 1])
            window = self.accumulators.hashes[start:stop]
            probes = hashes[bounds[i] : bounds[i + 1]]
            first, last = (np.searchsorted(window, probes, side=side) for side in ("left", "right"))
            found.append(start + _ranges(first, last))
        rows = np.concatenate(found) if found else np.empty(0, np.int64)
        return self.accumulators.take(rows) if len(rows) else None


class MemoryTable(WindowTable):
    """A table of this epoch."""

    def __init__(self, accumulators: Accumulators) -> None:
        super().__init__(*accumulators.windows)
        self._accumulators = accumulators

    @cached_property
    def accumulators(self) -> Accumulators:
        return self._accumulators


class StoredTable(WindowTable):
    """A run of an earlier epoch.

    Args:
        run: the run in the store.
        sort: brings rows in order that are not as a window operator has written them.

    Attributes:
        run: the run in the store.
    """

    def __init__(self, run: Run, sort: Callable[[Accumulators], Accumulators]) -> None:
        self.run = run
        self._sort = sort
        # After a change of parallelism some rows belong to others; after a compaction the description is an old one.
        self._is_as_written = run.whole and run.meta["offsets"][-1] == run.rows
        if self._is_as_written:
            super().__init__(np.array(run.meta["ends"], np.int64), np.array(run.meta["offsets"], np.int64))
        else:
            super().__init__(*self.accumulators.windows)

    @cached_property
    def accumulators(self) -> Accumulators:
        accumulators = Accumulators.of_table(self.run.table)
        return accumulators if self._is_as_written else self._sort(accumulators)

    def is_over(self, lateness: int, watermark: int) -> bool:
        """Whether the time of all its windows has passed."""
        return not len(self.ends) or cleanup_time(int(self.ends[-1]), lateness) <= watermark


def live_rows(table: WindowTable, lateness: int, watermark: int) -> Accumulators:
    """The rows of windows whose contents are still needed."""
    dead = int(np.searchsorted(cleanup_times(table.ends, lateness), watermark, side="right"))
    return table.accumulators.slice(int(table.offsets[dead]), int(table.offsets[-1]))


def description(kind: str, accumulators: Accumulators) -> dict[str, Any]:
    """What a run of these rows says about itself."""
    ends, offsets = accumulators.windows
    return {"kind": kind, "sort": ["window_end", "hash", "key"], "ends": ends.tolist(), "offsets": offsets.tolist()}


def about_windows(windows: AlignedWindows) -> dict[str, int]:
    """What a run says about the windows whose contents it has: those of other windows must not be mixed with them."""
    return {"size": windows.size, "slide": windows.slide, "offset": windows.offset % windows.slide}


def check_stored(store: RunStore, about: Mapping[str, Any], schema: pa.Schema) -> None:
    """Whether what is stored is what the program declares now.

    Args:
        store: the runs.
        about: what new runs say about themselves, besides which windows they hold.
        schema: the columns of new runs.

    Raises:
        StateMigrationError: when it is something else.
    """
    for run in store.runs:
        for entry, declared in about.items():
            stored = run.meta.get(entry, declared)
            if stored != declared:
                raise _other(f"another {_WORDS[entry]}: stored {stored}, declared {declared}")
        if not run.section.schema.equals(schema):
            raise _other(f"other columns: stored {run.section.schema.names}, declared {schema.names}")


_WORDS: Final = {
    "kind": "kind of contents",
    "keys": "key type",
    "size": "size in milliseconds",
    "slide": "slide in milliseconds (that of tumbling windows is their size)",
    "offset": "offset in milliseconds",
    "parts": "set of aggregates",
    "types": "type of contents",
}


def _other(difference: str) -> StateMigrationError:
    return StateMigrationError(
        f"the contents of windows were stored with {difference}; give the operator another uid, or restore the old "
        "declaration"
    )


def small_runs(store: RunStore) -> list[Run]:
    """The small runs at the end of a store, when there are so many that they should be one."""
    small: list[Run] = []
    for run in reversed(store.runs):
        if run.rows > _SMALL_RUN:
            break
        small.insert(0, run)
    return small if len(small) >= _MOST_SMALL_RUNS else []


def _ranges(starts: Longs, stops: Longs) -> Longs:
    """All integers of the ranges ``[start, stop)``, one range after the other."""
    lengths = stops - starts
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
