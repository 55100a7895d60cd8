"""The functions of an ``OVER`` window: aggregates, ranking functions, ``LAG`` and ``LEAD``, over frames of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import Picked, gather, replaced
from headrace.common.errors import UnsupportedOperationError
from headrace.common.typeinfo.composite import schema_of
from headrace.operators.aggregates.aggregator import (
    Aggregator,
    AggregatorList,
    BoundAggregate,
    DerivedColumn,
    GroupedRows,
    Input,
    running_sums,
)
from headrace.operators.aggregates.calls import AggregateOperation
from headrace.operators.aggregates.calls.nothing import accumulators_of_nothing
from headrace.operators.aggregates.simple import CountRows
from headrace.state.runs.grouping import Groups, Segments

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation


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


RANKING: Final = frozenset({"ROW_NUMBER", "RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "NTILE"})
_DEFAULT: Final = 2
"""The position of the default argument of ``LAG`` and ``LEAD``."""

NAVIGATION: Final = frozenset({"LAG", "LEAD"})


@dataclass(frozen=True)
class OverFunctions:
    """The functions of one window.

    Attributes:
        calls: the functions in the order of their columns.
        input_type: the type of the rows.
        frame: the window frame of the aggregates.
    """

    calls: tuple[AggregateOperation, ...]
    input_type: TypeInformation
    frame: OverFrame

    @cached_property
    def bound(self) -> dict[AggregateOperation, BoundAggregate]:
        """The aggregates among the calls."""
        others = RANKING | NAVIGATION
        return {call: call.bind(self.input_type) for call in self.calls if call.function not in others}

    @cached_property
    def aggregators(self) -> AggregatorList:
        """The aggregators of all aggregates, each once, after a row count."""
        found = {CountRows(): None} | {one: None for each in self.bound.values() for one in each.aggregators}
        return AggregatorList(tuple(found))

    @property
    def reach(self) -> int:
        """The largest offset of ``LAG``: rows to keep before a row, besides those of the frame."""
        return max((self.offset_of(call) for call in self.calls if call.function == "LAG"), default=0)

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """The positions of the columns of rows that later frames read."""
        inputs = self.aggregators.inputs
        if any(isinstance(source, DerivedColumn) for source in inputs):
            return tuple(range(len(schema_of(self.input_type))))
        offsets = (call.arguments for call in self.calls if call.function in NAVIGATION)
        read = {source for source in inputs if isinstance(source, int)} | {each for some in offsets for each in some}
        return tuple(sorted(read))

    @staticmethod
    def offset_of(call: AggregateOperation) -> int:
        """The offset of ``LAG`` or ``LEAD``.

        Raises:
            UnsupportedOperationError: when it is no literal.
        """
        offset = dict(call.constants).get(1, 1 if len(call.arguments) < 2 else None)
        if not isinstance(offset, int):
            raise UnsupportedOperationError(f"{call.function} takes a literal as its second argument: how many rows")
        return offset

    def accumulators(self, rows: pa.RecordBatch | Picked, arrivals: Longs) -> list[pa.Array]:
        """The accumulator of each row."""
        columns: dict[Input, pa.Array] = {}
        for source in self.aggregators.inputs:
            if isinstance(source, DerivedColumn):
                columns[source] = source.of(rows)
            elif isinstance(source, int):
                columns[source] = rows.column(source)
        each = Groups(np.arange(rows.num_rows), Segments(np.arange(rows.num_rows), rows.num_rows))
        return self.aggregators.accumulate(GroupedRows(columns, arrivals, each))

    def results(self, accumulators: Sequence[pa.Array]) -> dict[AggregateOperation, pa.Array]:
        """The results of the aggregates, given the accumulator of each row's frame."""
        found = self.aggregators.results(accumulators)
        return {call: each.emit([found[one] for one in each.aggregators]) for call, each in self.bound.items()}

    def running(self, accumulators: Sequence[pa.Array], segments: Segments) -> dict[AggregateOperation, pa.Array]:
        """The running results of the aggregates in each key."""
        values = self.aggregators.running_values(list(self.bound.values()), accumulators, segments)
        return dict(zip(self.bound, values, strict=True))

    def over_all(self, rows: pa.RecordBatch, ordered: PartitionedRows, arrivals: Longs) -> list[pa.Array]:
        """The columns of all functions, when all rows of each key are present."""
        found: dict[AggregateOperation, pa.Array] = {}
        if self.bound:
            low, high = ordered.bounds(self.frame, np.arange(ordered.segments.total))
            around = framed(self.aggregators, self.accumulators(rows, arrivals), low, high)
            found = self._of_frames(around, low == high)
        return [self.value(call, found, rows, ordered) for call in self.calls]

    def _of_frames(self, around: list[pa.Array], is_empty: npt.NDArray[np.bool_]) -> dict[AggregateOperation, pa.Array]:
        if is_empty.any():
            nothing = accumulators_of_nothing(self.aggregators, self.input_type, len(is_empty))
            around = [pc.if_else(pa.array(is_empty), b, a) for a, b in zip(around, nothing, strict=True)]
        return self.results(around)

    def value(
        self,
        call: AggregateOperation,
        aggregated: dict[AggregateOperation, pa.Array],
        rows: pa.RecordBatch | Picked,
        ordered: PartitionedRows,
    ) -> pa.Array:
        """The column of one function; those of aggregates have been computed before."""
        if call in aggregated:
            made = aggregated[call]
        elif call.function in NAVIGATION:
            made = self.navigated(call, rows, ordered)
        else:
            made = ranked_rows(call, ordered)
        return made if made.type == call.type.arrow_type else made.cast(call.type.arrow_type)

    def navigated(self, call: AggregateOperation, rows: pa.RecordBatch | Picked, ordered: PartitionedRows) -> pa.Array:
        """The column of ``LAG`` or ``LEAD``."""
        segments, offset = ordered.segments, self.offset_of(call)
        places = np.arange(segments.total) + (offset if call.function == "LEAD" else -offset)
        starts = segments.starts[segments.ids]
        stops = np.append(segments.starts[1:], segments.total)[segments.ids]
        is_there = (places >= starts) & (places < stops)
        column = rows.column(call.arguments[0])
        found = column.take(pa.array(np.where(is_there, places, 0), mask=~is_there))
        if len(call.arguments) <= _DEFAULT:
            return found
        default = rows.column(call.arguments[_DEFAULT]).cast(found.type)
        shown = pc.if_else(pa.array(is_there), found, default)
        return shown if call.type.nullable else pc.coalesce(shown, default)


def row_numbers(segments: Segments, before: Longs) -> pa.Array:
    """The row number of each row in its key, after the rows that came earlier."""
    return pa.array(np.arange(segments.total) - (segments.starts - before)[segments.ids] + 1)


def ranked_rows(call: AggregateOperation, ordered: PartitionedRows) -> pa.Array:
    """The values of a ranking function over the rows of each key in order."""
    segments = ordered.segments
    starts, counts = segments.starts[segments.ids], segments.counts[segments.ids]
    first, behind = ordered.peers
    if call.function == "NTILE":
        return _buckets(call, np.arange(segments.total) - starts, counts)
    if call.function == "DENSE_RANK":
        is_new = (first == np.arange(segments.total)).astype(np.int64)
        return pa.array(running_sums(is_new, segments))
    match call.function:
        case "ROW_NUMBER":
            return pa.array(np.arange(segments.total) - starts + 1)
        case "RANK":
            return pa.array(first - starts + 1)
        case "PERCENT_RANK":
            return pa.array(np.where(counts > 1, (first - starts) / np.maximum(counts - 1, 1), 0.0))
        case _:  # CUME_DIST
            return pa.array((behind - starts) / np.maximum(counts, 1))


def _buckets(call: AggregateOperation, rows: Longs, counts: Longs) -> pa.Array:
    """The bucket of each row (``NTILE``); the first buckets get one row more where rows do not divide evenly."""
    buckets = dict(call.constants).get(0)
    if not isinstance(buckets, int) or buckets < 1:
        raise UnsupportedOperationError("NTILE takes a literal from 1 on: how many buckets")
    small, large = counts // buckets, counts % buckets
    in_large = large * (small + 1)
    behind = large + (rows - in_large) // np.maximum(small, 1)
    return pa.array(np.where(rows < in_large, rows // (small + 1), behind) + 1)
