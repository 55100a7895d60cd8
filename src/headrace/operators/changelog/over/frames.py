"""Window frames of rows, and aggregates over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import gather, replaced
from headrace.operators.aggregates.aggregator import Aggregator, AggregatorList
from headrace.state.runs.grouping import Segments

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_SIGNED_BITS: Final = 62


@dataclass(frozen=True, slots=True)
class OverFrame:
    """``ROWS | RANGE BETWEEN low AND high``, as offsets from the row: negative ones precede it.

    Attributes:
        is_rows: whether offsets count rows (``ROWS``), and are not differences of the sort key (``RANGE``).
        low: the offset of the first row; None when unbounded.
        high: the offset of the last row; None when unbounded.
    """

    is_rows: bool
    low: int | None = None
    high: int | None = 0


@dataclass(frozen=True)
class PartitionedRows:
    """Rows of several keys, key by key in sort order.

    Attributes:
        segments: the rows of each key.
        codes: numbers that compare as the sort keys of rows do; peers have the same.
    """

    segments: Segments
    codes: Longs

    def bounds(self, frame: OverFrame, places: Longs) -> tuple[Longs, Longs]:
        """The frames of the rows at some positions: the first row of each, and the end, exclusive."""
        ids = self.segments.ids[places]
        starts, stops = self.segments.starts[ids], (self.segments.starts + self.segments.counts)[ids]
        if frame.is_rows:
            low = starts if frame.low is None else np.clip(places + frame.low, starts, stops)
            high = stops if frame.high is None else np.clip(places + frame.high + 1, starts, stops)
            return low, np.maximum(low, high)
        codes = self.codes[places]
        low = starts if frame.low is None else self._search(ids, codes + frame.low, "left")
        high = stops if frame.high is None else self._search(ids, codes + frame.high, "right")
        return low, np.maximum(low, high)

    @property
    def peers(self) -> tuple[Longs, Longs]:
        """The peers of each row: the first, and the end, exclusive."""
        is_new = np.ones(self.segments.total, np.bool_)
        is_new[1:] = self.codes[1:] != self.codes[:-1]
        is_new[self.segments.starts] = True
        starts = np.flatnonzero(is_new)
        counts = np.diff(starts, append=self.segments.total)
        return np.repeat(starts, counts), np.repeat(starts + counts, counts)

    def _search(self, ids: Longs, codes: Longs, side: Literal["left", "right"]) -> Longs:
        """Positions at which codes would be inserted among those of keys."""
        own, step = self.codes, 0
        if len(own):
            lowest, highest = int(own.min()), int(own.max())
            step = highest - lowest + 2
        if step * len(self.segments) >= 1 << _SIGNED_BITS:
            different, own = np.unique(own, return_inverse=True)
            codes = np.searchsorted(different, codes, side=side)
            lowest, highest, step, side = 0, len(different) - 1, len(different) + 1, "left"
        packed = self.segments.ids * step + (own - lowest)
        wanted = ids * step + (np.clip(codes, lowest, highest + 1) - lowest)
        before = np.searchsorted(packed, wanted, side=side)
        found: Longs = np.where(codes < lowest, self.segments.starts[ids], before)
        return found


def framed(aggregators: AggregatorList, columns: Sequence[pa.Array], low: Longs, high: Longs) -> list[pa.Array]:
    """The accumulator of each range of rows from ``low`` up to ``high``, given the accumulators of all rows.

    Counts and sums are the differences of two running values, which are exact. Of other aggregates, ranges are cut into
    pieces whose lengths are powers of two. Where a range is empty, all columns are null.
    """
    found: list[pa.Array] = []
    has_rows = bool((low < high).all())
    for aggregator, (start, stop) in zip(aggregators.aggregators, aggregators.bounds, strict=True):
        own = list(columns[start:stop])
        at_once = aggregator.of_ranges(own, low, high) if has_rows else None
        found += _of_pieces(aggregator, own, low, high) if at_once is None else at_once
    return found


def _of_pieces(aggregator: Aggregator, columns: list[pa.Array], low: Longs, high: Longs) -> list[pa.Array]:
    """The accumulators of ranges, for any aggregate.

    The accumulators of all pieces of one length follow from those of half of it. A range is the largest piece from its
    start on, then the pieces of the rest; where values may count twice, it is two pieces that may overlap.
    """
    places, lengths, overlaps = low.copy(), high - low, aggregator.is_idempotent
    found: list[pa.Array] = [pa.nulls(len(low), column.type) for column in columns]
    has_some = np.zeros(len(low), np.bool_)
    size = 1
    while (lengths >= size).any():
        chosen = np.flatnonzero((lengths >= size) & (lengths < 2 * size) if overlaps else lengths & size)
        if len(chosen):
            found = _joined(aggregator, found, columns, chosen, places[chosen], has_some[chosen])
            places[chosen] += size
            has_some[chosen] = True
            if overlaps:
                found = _joined(aggregator, found, columns, chosen, high[chosen] - size, has_some[chosen])
        count = len(columns[0]) - size
        if count <= 0:
            break
        columns = aggregator.combine([column[:count] for column in columns], [column[size:] for column in columns])
        size *= 2
    return found


def _joined(
    aggregator: Aggregator,
    found: list[pa.Array],
    columns: list[pa.Array],
    rows: Longs,
    places: Longs,
    has_some: Mask,
) -> list[pa.Array]:
    """Accumulators, with one more piece merged into some rows."""
    pieces = [gather(column, places) for column in columns]
    old = rows[has_some]
    if len(old):
        mine = np.flatnonzero(has_some)
        merged = aggregator.combine(
            [gather(column, old) for column in found], [gather(piece, mine) for piece in pieces]
        )
        pieces = [replaced(piece, mine, both) for piece, both in zip(pieces, merged, strict=True)]
    return [replaced(column, rows, piece) for column, piece in zip(found, pieces, strict=True)]
