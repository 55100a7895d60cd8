"""What a merge of runs is given, and how rows of several runs are brought together by key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.state.runs.expiry import merged_scale, scale_of
from headrace.state.runs.layout import EXPIRY, FORMER_TTL, HASH, KEY, REACHED, SHOWN, TTL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from headrace.state.runs.run import Run
    from headrace.state.ttl import TtlScale

    Indices = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

_OF_ROWS: Final = frozenset({TTL, FORMER_TTL, REACHED, SHOWN})
"""What ``meta`` says of the rows of a run, and not of the whole store."""


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
        """What the newest run says about itself; of its rows, what is so of those of all runs."""
        newest = {entry: said for entry, said in self.runs[-1].meta.items() if entry not in _OF_ROWS}
        least = {entry: self._least(entry) for entry in (REACHED, SHOWN)}
        return {**newest, **merged_scale(self.runs), **{name: said for name, said in least.items() if said is not None}}

    def furthest(self, run: Run, entry: str) -> int | None:
        """How far the task came that has written a run; None where it has said nothing of that.

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
        """Whether the state has a time to live at present."""
        return bool(self.meta.get(TTL))

    def table(self, prepare: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None) -> pa.RecordBatch:
        """All rows of all runs, oldest first, ``prepare``d; a column that some runs lack is null there."""
        scale = scale_of(self.meta)
        batches = [_with_expiries(run, scale) for run in self.runs]
        if prepare is not None:
            batches = [*map(prepare, batches)]
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
    if len(batches) == 1:
        return batches[0]
    schema = batches[0].schema
    arrays = [pa.concat_arrays([batch.column(index) for batch in batches]) for index in range(len(schema))]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def by_key(batch: pa.RecordBatch) -> tuple[Indices, Mask]:
    """The stable order of rows by hash and key, and which of them, in that order, is the first one of its key."""
    hashes = batch.column(HASH).to_numpy()
    keys = batch.column(KEY)
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    repeated = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
    same = same_values(keys, order[repeated], order[repeated - 1])
    if not same.all():  # two keys have the same hash: their rows may be mixed
        return _by_key_exactly(batch)
    firsts = np.ones(len(order), dtype=bool)
    firsts[repeated] = False
    return order, firsts


def _by_key_exactly(batch: pa.RecordBatch) -> tuple[Indices, Mask]:
    sequence = pa.array(np.arange(batch.num_rows))
    table = pa.table({HASH: batch.column(HASH), KEY: batch.column(KEY), "sequence": sequence})
    columns = [(name, "ascending") for name in table.column_names]
    order = np.asarray(pc.sort_indices(table, sort_keys=columns)).astype(np.int64)
    firsts = np.ones(len(order), dtype=bool)
    firsts[1:] = ~same_values(batch.column(KEY), order[1:], order[:-1])
    return order, firsts


def same_values(array: pa.Array, left: Indices, right: Indices) -> Mask:
    """Whether the values at ``left`` are equal to those at ``right``, one by one."""
    return np.asarray(pc.equal(array.take(pa.array(left)), array.take(pa.array(right)))).astype(bool)


def lasts_of(firsts: Mask) -> Mask:
    """Which rows are the last ones of their group, given the first ones."""
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
