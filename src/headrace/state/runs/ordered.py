"""Ordered runs: sorted by time first, so that what is due, or over, is a prefix, and nothing behind it is touched.

A row is (time, hash, key) or (time, hash, key, namespace), then values; ``meta["sort"]`` names these columns, of which
the first may be called anything (the end of a window is a time). How rows that are equal there become one when runs
are merged depends on the kind of the run: see :func:`ordered_merger`.

The ``meta`` of a run also says what of it is over: rows up to the time ``floor`` are, ``low`` is the first row that is
not, ``next`` its time. What is above the floor counts, whatever time it is now: so a timer that was registered when its
time had been passed already survives the end of the epoch, and fires with the next advance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.state.keys.groups import are_within
from headrace.state.runs.grouping import group_rows
from headrace.state.runs.layout import HASH, SORT
from headrace.state.runs.merge_input import MergeInput, concat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.state.runs.grouping import Groups
    from headrace.state.runs.run import Run

    Combine = Callable[[dict[str, Any], Sequence[pa.RecordBatch]], pa.RecordBatch]
    """Of the meta of a run and of batches, oldest first, each in the order of a run: one batch in that order."""

FLOOR: Final = "floor"
LOW: Final = "low"
NEXT: Final = "next"

LIVE: Final = "live"
"""A column that is false in the row of something deleted, which hides what an older run holds."""

NO_TIME: Final = MAX_WATERMARK + 1
"""The time of the next row when there is none: later than every time."""

FIRST_PROBE: Final = 1024
"""How far the first row to be looked at is from where a search begins."""

_OF_OTHER_ROWS: Final = {FLOOR, LOW, NEXT, "ends", "offsets"}
"""What ``meta`` says of the rows of one run; earlier versions listed the times of windows and where each begins."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Where in a run the rows begin that are above a time.

    Attributes:
        time: the time.
        row: the first row that is above it.
        next: the time of that row; ``NO_TIME`` when there is none.
    """

    time: int
    row: int
    next: int


def floor_of(run: Run) -> Bound:
    """Where the rows of a run begin that are not over."""
    low: int = run.meta.get(LOW, 0)
    upcoming = run.meta.get(NEXT)
    return Bound(run.meta.get(FLOOR, MIN_WATERMARK - 1), low, time_at(run, low) if upcoming is None else upcoming)


def rows_above(run: Run, time: int, start: int = 0) -> Bound:
    """Where the rows of a run begin that are above a time, searched from a row on that is not behind them.

    The search begins with small steps: of what is far behind the answer nothing is touched.
    """
    low, step = start, FIRST_PROBE
    while (high := low + step) < run.rows and time_at(run, high) <= time:
        low, step = high, step * 2
    high = min(high, run.rows)
    if time < MAX_WATERMARK:
        row = run.section.lower_bound(_time_column(run), np.int64(time + 1), low, high)
    else:
        row = run.rows
    return Bound(time, row, time_at(run, row))


def owned(run: Run, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Of rows of a run those whose keys the task owns."""
    if run.whole:
        return batch
    return batch.filter(pa.array(are_within(batch.column(HASH).to_numpy(), run.hashes)))


def rest_of(run: Run, floor: Bound) -> pa.RecordBatch:
    """The rows behind a bound whose keys the task owns."""
    return owned(run, run.section.slice(floor.row, run.rows))


def described(meta: dict[str, Any], batch: pa.RecordBatch) -> dict[str, Any]:
    """The ``meta`` of a run with these rows, of which nothing is over yet, after the model of another one."""
    kept = {name: value for name, value in meta.items() if name not in _OF_OTHER_ROWS}
    return {**kept, LOW: 0, NEXT: batch.column(meta[SORT][0])[0].as_py()}


def without_rows(meta: dict[str, Any]) -> dict[str, Any]:
    """The ``meta`` of a run that has no rows, after the model of another one, in order or not."""
    if not is_ordered(meta):
        return meta
    return {**{name: value for name, value in meta.items() if name != FLOOR}, LOW: 0, NEXT: NO_TIME}


def is_ordered(meta: dict[str, Any]) -> bool:
    """Whether this is the ``meta`` of an ordered run."""
    return NEXT in meta


def brought_to(run: Run, floor: int) -> Run | None:
    """The run with the rows up to a time over as well; None when no others are left."""
    bound = rows_above(run, floor)
    if bound.row == run.rows:
        return None
    return run.with_meta({**run.meta, FLOOR: floor, LOW: bound.row, NEXT: bound.next})


def ordered_merger(combine: Combine) -> Callable[[MergeInput], pa.RecordBatch]:
    """Merges ordered runs: what is over goes, what is left is combined.

    A row of something deleted goes when nothing older is left that it could hide.
    """

    def merge(given: MergeInput) -> pa.RecordBatch:
        merged = combine(given.meta, [rest_of(run, floor_of(run)) for run in given.runs])
        return merged.filter(merged.column(LIVE)) if given.is_oldest and LIVE in merged.schema.names else merged

    return merge


def newest(meta: dict[str, Any], batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Of rows that are equal in the columns of the order, the last one of the newest batch."""
    whole = concat(batches)
    groups = _groups(meta, whole)
    return whole.take(pa.array(groups.order[groups.segments.starts + groups.segments.counts - 1]))


def all_rows(meta: dict[str, Any], batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """All rows; those that are equal in the columns of the order stay as they came."""
    whole = concat(batches)
    return whole.take(pa.array(_groups(meta, whole).order))


def _groups(meta: dict[str, Any], batch: pa.RecordBatch) -> Groups:
    time, _, *identity = meta[SORT]
    columns = (batch.column(name) for name in identity)
    return group_rows(batch.column(time).to_numpy(), batch.column(HASH).to_numpy(), *columns)


def _time_column(run: Run) -> str:
    name: str = run.meta[SORT][0]
    return name


def time_at(run: Run, row: int) -> int:
    """The time of a row; ``NO_TIME`` behind the last one."""
    if row >= run.rows:
        return NO_TIME
    time: int = run.section.rows_of(_time_column(run), row, row + 1)[0].as_py()
    return time
