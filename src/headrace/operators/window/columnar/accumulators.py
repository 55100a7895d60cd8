"""``Accumulators``: a table of accumulators, sorted by (window end, hash, key), and how they are made and merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import concat, fixed_width, gather
from headrace.common.batch import Batch
from headrace.operators.aggregates.aggregator import AggregatorList, GroupedRows, Input, ScatteredRows
from headrace.operators.base import KeyedBatch
from headrace.state.keys.hashing import hash_array
from headrace.state.runs.grouping import Groups, Segments, group_rows, group_times
from headrace.state.runs.key_dictionary import KeyDictionary
from headrace.windowing.intervals import Assignment

Longs = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]


MOST_PAIRS: Final = 1 << 19
"""The number of pairs of a record and a window that are made at a time."""

_NO_END: Final = np.int64(0)


class ArrivalCounter:
    """Numbers the records that a subtask sees: by epoch, and within it one by one.

    Args:
        epoch: the epoch.
        are_asked: whether anybody asks; else all records have the number 0, which takes no memory.
    """

    _SEQUENCE_BITS = 30

    def __init__(self, epoch: int, *, are_asked: bool = True) -> None:
        self._next = epoch << self._SEQUENCE_BITS
        self._are_asked = are_asked

    def next(self, count: int) -> Longs:
        """Numbers for the next records."""
        if not self._are_asked:
            return np.broadcast_to(np.int64(0), count)
        first = self._next
        self._next += count
        return np.arange(first, self._next)


@dataclass(frozen=True)
class Chunk:
    """Pairs of a record and a window, or a pane, that are not aggregated yet.

    Attributes:
        ends: the end of the window or pane of each pair.
        hashes: the hash of the record's key.
        keys: the record's key.
        columns: the input columns that the aggregators need, by what they are of the input.
        arrivals: when each record came.
    """

    ends: Longs
    hashes: Hashes
    keys: pa.Array
    columns: Mapping[Input, pa.Array]
    arrivals: Longs

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def nbytes(self) -> int:
        """Return how much memory the columns take."""
        size = sum(map(attrgetter("nbytes"), (self.hashes, self.keys, *self.columns.values())))
        for times in (self.ends, self.arrivals):
            size += times.nbytes if times.strides != (0,) else 0
        return int(size)

    @staticmethod
    def of(batch: KeyedBatch, columns: Mapping[Input, pa.Array], arrivals: Longs) -> Chunk:
        """The records of a batch, whose windows are not known yet: all have the end 0."""
        return Chunk(np.broadcast_to(_NO_END, len(batch)), batch.keys.hashes, batch.keys.values, columns, arrivals)

    def spread(self, pairs: Assignment) -> Chunk:
        """Each record once for each of its windows."""
        if pairs.is_identity:
            return Chunk(pairs.ends, self.hashes, self.keys, self.columns, self.arrivals)
        rows = pairs.records
        columns = {index: gather(column, rows) for index, column in self.columns.items()}
        return Chunk(pairs.ends, self.hashes[rows], gather(self.keys, rows), columns, self.arrivals[rows])

    def take(self, rows: Longs) -> Chunk:
        """The pairs at ``rows``, in that order."""
        columns = {index: gather(column, rows) for index, column in self.columns.items()}
        return Chunk(self.ends[rows], self.hashes[rows], gather(self.keys, rows), columns, self.arrivals[rows])

    def slice(self, start: int, stop: int) -> Chunk:
        """The pairs from ``start`` up to ``stop``; nothing is copied."""
        length = stop - start
        columns = {index: column.slice(start, length) for index, column in self.columns.items()}
        keys = self.keys.slice(start, length)
        return Chunk(self.ends[start:stop], self.hashes[start:stop], keys, columns, self.arrivals[start:stop])

    def accumulated(self, aggregators: AggregatorList, groups: Groups) -> list[pa.Array]:
        """The columns of the accumulator of each group of pairs."""
        blocks = [aggregators.accumulate(GroupedRows(self.columns, self.arrivals, block)) for block in groups.blocks()]
        return [concat(list(pieces)) for pieces in zip(*blocks, strict=True)]

    def retracted(self, aggregators: AggregatorList, groups: Groups) -> list[pa.Array]:
        """The columns of accumulators that take each group of pairs away from those they are merged with."""
        return aggregators.retract(GroupedRows(self.columns, self.arrivals, groups))

    @staticmethod
    def concat(chunks: Sequence[Chunk]) -> Chunk:
        """The pairs of all chunks, of which there is at least one."""
        if len(chunks) == 1:
            return chunks[0]
        return Chunk(
            _joined([chunk.ends for chunk in chunks]),
            np.concatenate([chunk.hashes for chunk in chunks]),
            concat([chunk.keys for chunk in chunks]),
            {index: concat([chunk.columns[index] for chunk in chunks]) for index in chunks[0].columns},
            _joined([chunk.arrivals for chunk in chunks]),
        )


@dataclass(frozen=True)
class Accumulators:
    """Rows of accumulators: at most one a key and window once they are merged.

    Attributes:
        ends: the end of each row's window.
        hashes: the hash of each row's key.
        keys: each row's key.
        columns: the columns of the aggregators.
    """

    ends: Longs
    hashes: Hashes
    keys: pa.Array
    columns: list[pa.Array]

    def __len__(self) -> int:
        return len(self.ends)

    @cached_property
    def windows(self) -> tuple[Longs, Longs]:
        """The ends of the windows, ascending, and where the rows of each begin (and the total); only when sorted."""
        return group_times(self.ends)

    def slice(self, start: int, stop: int) -> Accumulators:
        """The rows from ``start`` up to ``stop``."""
        length = stop - start
        columns = [column.slice(start, length) for column in self.columns]
        return Accumulators(self.ends[start:stop], self.hashes[start:stop], self.keys.slice(start, length), columns)

    def take(self, rows: Longs) -> Accumulators:
        """The rows at ``rows``, in that order."""
        columns = [gather(column, rows) for column in self.columns]
        return Accumulators(self.ends[rows], self.hashes[rows], gather(self.keys, rows), columns)

    def spread(self, pairs: Assignment) -> Accumulators:
        """Rows of panes as rows of windows."""
        rows = self.take(pairs.records)
        return Accumulators(pairs.ends, rows.hashes, rows.keys, rows.columns)

    def where(self, mask: Mask) -> Accumulators:
        """The rows where ``mask`` is true."""
        return self.take(np.flatnonzero(mask))

    def at(self, end: int) -> Accumulators:
        """The same rows as those of one window."""
        return Accumulators(np.full(len(self), end, np.int64), self.hashes, self.keys, self.columns)

    @staticmethod
    def concat(pieces: Sequence[Accumulators]) -> Accumulators:
        """The rows of all pieces, of which there is at least one."""
        if len(pieces) == 1:
            return pieces[0]
        return Accumulators(
            np.concatenate([piece.ends for piece in pieces]),
            np.concatenate([piece.hashes for piece in pieces]),
            concat([piece.keys for piece in pieces]),
            [concat(list(columns)) for columns in zip(*map(attrgetter("columns"), pieces), strict=True)],
        )

    @staticmethod
    def of_chunk(aggregators: AggregatorList, chunk: Chunk, known: KeyDictionary | None = None) -> Accumulators:
        """The accumulators of each key and window in a chunk; ``known`` are keys that may save sorting it."""
        ranked = None if known is None else known.group(chunk.ends, chunk.hashes, chunk.keys)
        if ranked is not None:
            columns = aggregators.accumulate(ScatteredRows(chunk.columns, ranked.segments))
            return Accumulators(ranked.times, ranked.hashes, ranked.keys, columns)
        groups = group_rows(chunk.ends, chunk.hashes, chunk.keys)
        first = groups.first_rows
        columns = chunk.accumulated(aggregators, groups)
        return Accumulators(chunk.ends[first], chunk.hashes[first], gather(chunk.keys, first), columns)

    @staticmethod
    def taken_back(aggregators: AggregatorList, chunk: Chunk) -> Accumulators:
        """Accumulators that retract the records of a chunk, by key and window, when they are merged."""
        groups = group_rows(chunk.ends, chunk.hashes, chunk.keys)
        first = groups.first_rows
        columns = chunk.retracted(aggregators, groups)
        return Accumulators(chunk.ends[first], chunk.hashes[first], gather(chunk.keys, first), columns)

    @staticmethod
    def merged(
        aggregators: AggregatorList, pieces: Sequence[Accumulators], known: KeyDictionary | None = None
    ) -> Accumulators:
        """One row a key and window, of pieces that are sorted and merged each; earlier pieces came earlier."""
        pieces = list(filter(len, pieces)) or list(pieces[:1])
        if all(before.ends[-1] < after.ends[0] for before, after in pairwise(pieces)):
            return Accumulators.concat(pieces)
        return Accumulators.regrouped(aggregators, pieces, known)

    @staticmethod
    def regrouped(
        aggregators: AggregatorList, pieces: Sequence[Accumulators], known: KeyDictionary | None = None
    ) -> Accumulators:
        """One row a key and window, of rows in any order; earlier rows came earlier."""
        rows = Accumulators.concat(pieces)
        ranked = None if known is None else known.group(rows.ends, rows.hashes, rows.keys)
        if ranked is not None:
            columns = aggregators.merge(rows.columns, ranked.segments)
            return Accumulators(ranked.times, ranked.hashes, ranked.keys, columns)
        groups = group_rows(rows.ends, rows.hashes, rows.keys)
        first = groups.first_rows
        columns = aggregators.merge([gather(column, groups.order) for column in rows.columns], groups.segments)
        return Accumulators(rows.ends[first], rows.hashes[first], gather(rows.keys, first), columns)

    @staticmethod
    def of_batch(batch: pa.RecordBatch) -> Accumulators:
        """The rows of a batch as they are in state; nothing is copied."""
        ends, hashes, keys, *columns = batch.columns
        return Accumulators(fixed_width(ends), fixed_width(hashes), keys, columns)

    def to_batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """The rows as they are in state: window end, hash, key, and the other columns."""
        arrays = [pa.array(self.ends), pa.array(self.hashes), self.keys, *self.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _joined(pieces: Sequence[Longs]) -> Longs:
    """Columns one after the other; one figure that is repeated where each of them is, and it is the same."""
    if all(piece.strides == (0,) for piece in pieces) and len({int(piece[0]) for piece in pieces if len(piece)}) == 1:
        value = next(piece[0] for piece in pieces if len(piece))
        return np.broadcast_to(value, sum(map(len, pieces)))
    return np.concatenate(pieces)


def accumulators_of(batch: Batch) -> Accumulators:
    """The rows of a batch that the sender's half of a window aggregation has made."""
    ends, keys, *columns = batch.columns.columns
    hashes = batch.keys.hashes if isinstance(batch, KeyedBatch) else hash_array(keys)
    return Accumulators(fixed_width(ends), hashes, keys, columns)


def stretches(*columns: Longs) -> Segments:
    """The stretches of rows in which all columns stay the same."""
    is_new = np.zeros(len(columns[0]), np.bool_)
    is_new[:1] = True
    for column in columns:
        is_new[1:] |= column[1:] != column[:-1]
    return Segments(np.flatnonzero(is_new), len(columns[0]))
