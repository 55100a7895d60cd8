"""The input of a merge: rows of several runs brought together by key, and what runs say of expiries."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.state.keys.hashing import are_within
from headrace.state.runs.grouping import Groups, group_rows
from headrace.state.runs.layout import EXPIRY, FORMER_TTL, HALF_EXPIRED, HASH, KEY, LIVE, REACHED, SHOWN, SORT, TTL
from headrace.state.runs.run import Run, RunStore, order_by_key
from headrace.state.ttl import TtlScale

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Combine = Callable[[dict[str, Any], Sequence[pa.RecordBatch]], pa.RecordBatch]
"""Of the meta of a run and of batches, oldest first, each in the order of a run: one batch in that order."""


def aged(meta: dict[str, Any], batch: pa.RecordBatch) -> dict[str, Any]:
    """The ``meta`` of a run with these rows: it says when half of the elements will have expired, if ever."""
    known = _without_age(meta)
    if scale_of(meta) is None or EXPIRY not in batch.schema.names:
        return known
    expiries = batch.column(EXPIRY)
    expiries = expiries.flatten() if pa.types.is_list(expiries.type) else expiries
    times = expiries.drop_null().to_numpy()
    half = (len(expiries) + 1) // 2
    if not half or len(times) < half:
        return known
    return {**known, HALF_EXPIRED: int(np.partition(times, half - 1)[half - 1])}


def scale_of(meta: dict[str, Any]) -> TtlScale | None:
    """In which time the expiries of a run are; None where it has none, or none that count."""
    scale: TtlScale | None = meta.get(TTL) or meta.get(FORMER_TTL)
    return scale


def expires(run: Run) -> bool:
    """Return whether elements of a run have expiries that count, or will when the state has a time to live again."""
    return scale_of(run.meta) is not None and EXPIRY in run.section.schema.names


def merged_scale(runs: Sequence[Run]) -> dict[str, Any]:
    """The time domain of expiries in a run that several (oldest first) are merged into.

    Where runs differ, which a state that some tasks have not opened can leave, the newest ones count: elements of the
    others were there when the state got another time to live, and do not expire until they are written again.
    """
    present = runs[-1].meta.get(TTL)
    if present:
        return {TTL: present}
    former = next((scale_of(run.meta) for run in reversed(runs) if expires(run)), None)
    return {} if former is None else {FORMER_TTL: former}


def follow(store: RunStore, scale: TtlScale | None) -> None:
    """Has the runs of a store say what becomes of their expiries, now that the state has this time to live, or none.

    Without one they are kept. In another time they never count again: their elements age from their next write on.
    """
    for run in store.runs:
        known = scale_of(run.meta)
        if known is None:
            continue
        others = {entry: said for entry, said in run.meta.items() if entry not in (TTL, FORMER_TTL)}
        if scale is None:
            meta = {**others, FORMER_TTL: known}
        else:
            meta = {**others, TTL: scale} if known == scale else _without_age(others)
        if meta != run.meta:
            store.substitute([run], [run.with_meta(meta)])


def _without_age(meta: dict[str, Any]) -> dict[str, Any]:
    return {entry: said for entry, said in meta.items() if entry != HALF_EXPIRED}


_OF_ROWS: Final = frozenset({TTL, FORMER_TTL, REACHED, SHOWN})
"""The entries of ``meta`` about the rows of a run, and not about the whole store."""


@dataclass(frozen=True, slots=True)
class MergeInput:
    """Runs of one store that follow one another and are to become one.

    Attributes:
        runs: them, oldest first.
        is_oldest: whether there is no older run, so that nothing is left that a tombstone could hide.
        now: what time it is, in milliseconds of the time that elements age in.
    """

    runs: Sequence[Run]
    is_oldest: bool
    now: int

    @property
    def meta(self) -> dict[str, Any]:
        """The description of the newest run; of its rows, what is true of those of all runs."""
        newest = {entry: said for entry, said in self.runs[-1].meta.items() if entry not in _OF_ROWS}
        least = {entry: self._least(entry) for entry in (REACHED, SHOWN)}
        return {**newest, **merged_scale(self.runs), **{name: said for name, said in least.items() if said is not None}}

    def furthest(self, run: Run, entry: str) -> int | None:
        """Return how far the task came that has written a run; None where it has said nothing of that.

        After a start at another parallelism there are runs of several tasks, which have come to different watermarks.
        Those of one task share hashes.
        """
        others = (
            other for other in self.runs if max(other.hashes[0], run.hashes[0]) < min(other.hashes[1], run.hashes[1])
        )
        return max((other.meta[entry] for other in others if entry in other.meta), default=None)

    def _least(self, entry: str) -> int | None:
        known = [said for run in self.runs if (said := self.furthest(run, entry)) is not None]
        return min(known) if len(known) == len(self.runs) else None

    @property
    def drops_expired(self) -> bool:
        """Return whether the state has a time to live at present."""
        return bool(self.meta.get(TTL))

    def table(self) -> pa.RecordBatch:
        """All rows of all runs, oldest first; a column that some runs lack is null there."""
        scale = scale_of(self.meta)
        batches = [_with_expiries(run, scale) for run in self.runs]
        schema = pa.unify_schemas([batch.schema for batch in batches])
        return concat([_with_schema(batch, schema) for batch in batches])


def _with_expiries(run: Run, scale: TtlScale | None) -> pa.RecordBatch:
    """The rows of a run, with their expiries where these are in that time."""
    batch = run.batch
    if EXPIRY not in batch.schema.names or (scale is not None and scale_of(run.meta) == scale):
        return batch
    return batch.drop_columns([EXPIRY])


def concat(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of the rows of several, which have the same columns."""
    some = [batch for batch in batches if batch.num_rows] or batches[:1]
    if len(some) == 1:
        return some[0]
    schema = some[0].schema
    arrays = [pa.concat_arrays([batch.column(index) for batch in some]) for index in range(len(schema))]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def by_key(batch: pa.RecordBatch) -> tuple[Indices, Mask]:
    """The same as ``order_by_key`` of the rows of several runs, one behind the other."""
    return order_by_key(batch.column(HASH).to_numpy(), batch.column(KEY), are_runs=True)


def lasts_of(firsts: Mask) -> Mask:
    """Return which rows are the last ones of their group, given the first ones."""
    lasts = np.ones(len(firsts), dtype=bool)
    lasts[:-1] = firsts[1:]
    return lasts


def _with_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(schema):
        return batch
    names = batch.schema.names
    arrays = [batch.column(field.name) if field.name in names else _missing(field, batch) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _missing(field: pa.Field, batch: pa.RecordBatch) -> pa.Array:
    """The column that a batch lacks: nulls; in a list column, as many as the other lists have elements."""
    if not pa.types.is_list(field.type):
        return pa.nulls(batch.num_rows, field.type)
    model = next(batch.column(other.name) for other in batch.schema if pa.types.is_list(other.type))
    lengths = model.value_lengths().to_numpy()
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.nulls(int(offsets[-1]), field.type.value_type))


FLOOR: Final = "floor"
LOW: Final = "low"
NEXT: Final = "next"

NO_TIME: Final = MAX_WATERMARK + 1
"""The time of the next row when there is none: later than every time."""

FIRST_PROBE: Final = 1024
"""The distance of the first probe from where a search begins."""

_OF_OTHER_ROWS: Final = {FLOOR, LOW, NEXT}
"""The entries of ``meta`` about the rows of one run."""


@dataclass(frozen=True, slots=True)
class RunBound:
    """The bound in a run from which on rows are above a time.

    Attributes:
        time: the time.
        row: the first row that is above it.
        next: the time of that row; ``NO_TIME`` when there is none.
    """

    time: int
    row: int
    next: int


def floor_of(run: Run) -> RunBound:
    """Return where the rows of a run begin that are not over."""
    low: int = run.meta.get(LOW, 0)
    upcoming = run.meta.get(NEXT)
    return RunBound(run.meta.get(FLOOR, MIN_WATERMARK - 1), low, time_at(run, low) if upcoming is None else upcoming)


def rows_above(run: Run, time: int, start: int = 0) -> RunBound:
    """Return where the rows of a run begin that are above a time, searched from a row on that is not behind them.

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
    return RunBound(time, row, time_at(run, row))


def owned(run: Run, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Of rows of a run those whose keys the task owns."""
    if run.whole:
        return batch
    return batch.filter(pa.array(are_within(batch.column(HASH).to_numpy(), run.hashes)))


def rest_of(run: Run, floor: RunBound) -> pa.RecordBatch:
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
    """Return whether this is the ``meta`` of an ordered run."""
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
