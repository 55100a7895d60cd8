"""Cutting the rows of exported tables into pieces, so that memory does not grow with the state.

What is kept by key alone is cut between the hashes of keys. Each piece has a range of hashes of its own, and those that
follow one another are one level of runs, as the slices of compaction are. That takes rows in the order of hashes, as
tables are written. Where rows are in another order, ranges overlap: runs are then levels of their own, which is as
right, and compaction brings them together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from headrace.state.compaction import FULL_BYTES, SLICE_BYTES
from headrace.state.runs.layout import HASH
from headrace.state.runs.merge_input import concat

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from headrace.state.runs import HashRange

PIECE_BYTES: Final = SLICE_BYTES // 2
"""A piece of what is kept by key has so many bytes, and the rows of one key more; slices of compaction have as many."""

ORDERED_BYTES: Final = FULL_BYTES * 5 // 4
"""The same of rows in the order of time: so many that compaction leaves their run alone until it is over."""


class Piece(NamedTuple):
    """Some rows of a table that follow one another.

    Attributes:
        rows: the rows.
        hashes: a range that the hashes of their keys are in.
    """

    rows: pa.RecordBatch
    hashes: HashRange


def cut_by_hash(batches: Iterable[pa.RecordBatch], hashes: HashRange, most_bytes: int) -> Iterator[Piece]:
    """Pieces of which none ends between rows of one hash, where these follow one another.

    Args:
        batches: rows with a column ``hash``.
        hashes: the range that all of them are in.
        most_bytes: a piece ends when it has so many.
    """
    pending: list[pa.RecordBatch] = []
    size, end = 0, hashes[0]
    for batch in _small(batches, most_bytes):
        pending.append(batch)
        size += batch.nbytes
        start = _start_of_last_hash(batch) if size >= most_bytes else 0
        if start:
            pending[-1] = batch.slice(0, start)
            piece = _piece(pending, end, hashes[0])
            pending = [batch.slice(start)] if start < batch.num_rows else []
            size, end = sum(rest.nbytes for rest in pending), piece.hashes[1]
            yield piece
            del piece  # whoever got it is done with it
    if pending:
        last = _piece(pending, end, hashes[0])
        pending = []
        yield last._replace(hashes=(last.hashes[0], hashes[1]))


def cut_anywhere(batches: Iterable[pa.RecordBatch], hashes: HashRange, most_bytes: int) -> Iterator[Piece]:
    """Pieces of so many bytes, each for all hashes of the range; arguments as of :func:`cut_by_hash`."""
    pending: list[pa.RecordBatch] = []
    size = 0
    for batch in _small(batches, most_bytes):
        pending.append(batch)
        size += batch.nbytes
        if size >= most_bytes:
            rows, size = concat(pending), 0
            pending.clear()
            yield Piece(rows, hashes)
            del rows
    if pending:
        yield Piece(concat(pending), hashes)


def _small(batches: Iterable[pa.RecordBatch], most_bytes: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of about so many bytes at most, none of them empty."""
    for batch in batches:
        rows = max(1, batch.num_rows * most_bytes // max(1, batch.nbytes))
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def _start_of_last_hash(batch: pa.RecordBatch) -> int:
    """Where the rows begin that have the hash of the last row; behind all rows where these are in another order."""
    hashes = batch.column(HASH).to_numpy()
    is_sorted = bool((hashes[1:] >= hashes[:-1]).all())
    return int(np.searchsorted(hashes, hashes[-1])) if is_sorted else len(hashes)


def _piece(batches: list[pa.RecordBatch], end: int, lowest: int) -> Piece:
    """These rows, of which the range begins where that of the last piece ended if they are all behind that."""
    columns = [batch.column(HASH).to_numpy() for batch in batches]
    first, last = min(int(column.min()) for column in columns), max(int(column.max()) for column in columns)
    return Piece(concat(batches), (end if first >= end else lowest, last + 1))
