"""Window frames of rows, and aggregates over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.operators.aggregates.aggregator import AggregatorList
from headrace.operators.arrays import gather, replaced
from headrace.state.runs.grouping import Segments

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


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
class OrderedRows:
    """Rows of several keys, key by key in sort order.

    Attributes:
        segments: the rows of each key.
        codes: numbers that compare as the sort keys of rows do; peers have the same.
    """

    segments: Segments
    codes: Longs

    def bounds(self, frame: OverFrame) -> tuple[Longs, Longs]:
        """The frame of each row: its first row, and the end, exclusive."""
        starts = self.segments.starts[self.segments.ids]
        stops = np.append(self.segments.starts[1:], self.segments.total)[self.segments.ids]
        places = np.arange(self.segments.total)
        if frame.is_rows:
            low = starts if frame.low is None else np.clip(places + frame.low, starts, stops)
            high = stops if frame.high is None else np.clip(places + frame.high + 1, starts, stops)
            return low, np.maximum(low, high)
        low = starts if frame.low is None else self._search(self.codes + frame.low, "left")
        high = stops if frame.high is None else self._search(self.codes + frame.high, "right")
        return low, np.maximum(low, high)

    @property
    def peers(self) -> tuple[Longs, Longs]:
        """The peers of each row: the first, and the end, exclusive."""
        return self._search(self.codes, "left"), self._search(self.codes, "right")

    def _search(self, codes: Longs, side: str) -> Longs:
        """Positions at which codes would be inserted among those of their own key."""
        ids = self.segments.ids
        whole = np.concatenate((self.codes, codes))
        different, ranks = np.unique(whole, return_inverse=True)
        step = len(different) + 1
        packed = ids * step + ranks[: len(ids)]
        found: Longs = np.searchsorted(packed, ids * step + ranks[len(ids) :], side=side)  # type: ignore[call-overload]
        return found


def framed(aggregators: AggregatorList, columns: Sequence[pa.Array], low: Longs, high: Longs) -> list[pa.Array]:
    """The accumulator of each range of rows from ``low`` up to ``high``, given the accumulators of all rows.

    Each range is cut into pieces whose lengths are different powers of two, and the accumulators of all pieces of one
    length follow from those of half of it. So the number of steps is logarithmic in the longest range, for any
    aggregate, and no aggregate has to retract. Where a range is empty, all columns are null.
    """
    columns, places, lengths = list(columns), low.copy(), high - low
    found: list[pa.Array] = [pa.nulls(len(low), column.type) for column in columns]
    has_some = np.zeros(len(low), np.bool_)
    size = 1
    while (lengths >= size).any():
        chosen = np.flatnonzero(lengths & size)
        if len(chosen):
            found = _joined(aggregators, found, columns, chosen, places[chosen], has_some[chosen])
            places[chosen] += size
            has_some[chosen] = True
        count = len(columns[0]) - size
        if count <= 0:
            break
        columns = aggregators.combine([column[:count] for column in columns], [column[size:] for column in columns])
        size *= 2
    return found


def _joined(
    aggregators: AggregatorList,
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
        merged = aggregators.combine(
            [gather(column, old) for column in found], [gather(piece, mine) for piece in pieces]
        )
        pieces = [replaced(piece, mine, both) for piece, both in zip(pieces, merged, strict=True)]
    return [replaced(column, rows, piece) for column, piece in zip(found, pieces, strict=True)]
