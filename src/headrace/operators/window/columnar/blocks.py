"""Sorted tables of accumulators, cut into blocks that are merged one after the other when windows fire.

All tables are sorted by (window end, hash), so the rows of a window, and those of a range of hashes within a large
window, are a stretch of each table. Blocks follow one another in that order; memory stays bounded, and the arrays of a
block stay in the cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.operators.window.columnar.accumulators import Accumulators

_ROWS = 1 << 16
"""About so many rows are merged at a time."""
_HASH_BITS = 64


def merge_blocks(tables: Sequence[Accumulators], rows: int = _ROWS) -> Iterator[list[Accumulators]]:
    """The rows of all tables, cut into blocks at the same keys and windows.

    Args:
        tables: sorted tables.
        rows: about how many rows a block is to have.
    """
    if sum(map(len, tables)) <= rows:
        if tables:
            yield list(tables)
        return
    gathered: list[list[Accumulators]] = []
    for end in np.unique(np.concatenate([table.windows[0] for table in tables])).tolist():
        window = [piece for table in tables if len(piece := rows_at(table, end))]
        if gathered and _total(gathered) + sum(map(len, window)) > rows:
            yield _flat(gathered)
            gathered = []
        if sum(map(len, window)) > rows:
            yield from _by_hash(window, rows)
        else:
            gathered.append(window)
    if gathered:
        yield _flat(gathered)


def rows_at(table: Accumulators, end: int) -> Accumulators:
    """The rows of a sorted table that have an end."""
    ends, offsets = table.windows
    place = int(np.searchsorted(ends, end))
    if place == len(ends) or ends[place] != end:
        return table.slice(0, 0)
    return table.slice(int(offsets[place]), int(offsets[place + 1]))


def _by_hash(window: Sequence[Accumulators], rows: int) -> Iterator[list[Accumulators]]:
    """The rows of one window by ranges of hashes, all equally wide: a good hash fills them evenly."""
    bits = (sum(map(len, window)) // rows).bit_length()
    edges = np.arange(1, 1 << bits, dtype=np.uint64) << np.uint64(_HASH_BITS - bits)
    cuts = [[0, *np.searchsorted(piece.hashes, edges).tolist(), len(piece)] for piece in window]
    for i in range(1 << bits):
        block = [piece.slice(cut[i], cut[i + 1]) for piece, cut in zip(window, cuts, strict=True)]
        if any(map(len, block)):
            yield block


def _total(windows: Sequence[Sequence[Accumulators]]) -> int:
    return sum(len(piece) for window in windows for piece in window)


def _flat(windows: Sequence[Sequence[Accumulators]]) -> list[Accumulators]:
    return [piece for window in windows for piece in window]
