"""Mini-batches: many records of a key make one change of its result.

Keys leave a mini-batch in the order of a hash map of Java over binary rows, as in Flink. So the order of changes, and
which records of two phases meet in one mini-batch, are those of Flink.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from headrace.common.arrays import gather
from headrace.common.batch import Kinds, take_back
from headrace.operators.aggregates.aggregator import AggregatorList, GroupedRows
from headrace.operators.base import KeyedBatch
from headrace.operators.binary_rows import buckets, hashes_of
from headrace.operators.window.columnar.accumulators import Accumulators, Chunk
from headrace.operators.window.columnar.local_aggregate import FEWEST_SAMPLED, LocalWindowAggregateOperator
from headrace.state.keys import KeyColumn
from headrace.state.runs.grouping import group_rows, in_order
from headrace.windowing.intervals import Assignment, OneWindow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.operators.window.columnar.accumulators import ColumnarWindowLayout

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MiniBatch:
    """Settings of mini-batches.

    Attributes:
        size: the maximum number of records, or of accumulators, in one.
        has_two_phases: whether senders aggregate mini-batches of records, and receivers mini-batches of accumulators.
        is_ordered: whether keys leave a mini-batch in the order in which they leave it in Flink.
        is_incremental: whether records are results of another aggregate, whose mini-batches Flink puts together with
            these; keys in one bucket then leave in the opposite order.
    """

    size: int
    has_two_phases: bool
    is_ordered: bool = True
    is_incremental: bool = False

    def numbers(self, start: int, count: int) -> Longs:
        """The mini-batch of each of some consecutive records, of which the first has this place."""
        found: Longs = np.arange(start, start + count) // self.size
        return found


_ROWS_OF_FEW: Final = 64
"""The rows of each group, on average, where there are few groups."""

WHOLE_INPUT: Final = MiniBatch(1 << 62, has_two_phases=True, is_ordered=False)
"""A bounded input as one mini-batch."""


def parts_of(chunk: Chunk, kinds: Kinds | None) -> Iterator[tuple[Chunk, bool]]:
    """The records that are added and those that are taken back, and whether they are the latter."""
    if kinds is None:
        yield chunk, False
        return
    are_taken_back = take_back(kinds)
    for is_taken_back in (False, True):
        rows = np.flatnonzero(are_taken_back == is_taken_back)
        if len(rows):
            yield chunk.take(rows), is_taken_back


def accumulators_of_records(
    layout: ColumnarWindowLayout, parts: Sequence[Chunk], are_taken_back: Sequence[bool]
) -> Accumulators:
    """The accumulators of records by mini-batch and key, in the order of their first records.

    Args:
        layout: the aggregates and the columns.
        parts: the records, of which there is one at least.
        are_taken_back: whether those of each part are taken back.
    """
    found, firsts, aggregators = [], [], layout.aggregators
    for is_taken_back, make in ((False, aggregators.accumulate), (True, aggregators.retract)):
        chunks = [part for part, each in zip(parts, are_taken_back, strict=True) if each is is_taken_back]
        if not chunks:
            continue
        chunk = Chunk.concat(chunks)
        groups = group_rows(chunk.ends, chunk.hashes, chunk.keys)
        rows = groups.first_rows
        columns = make(GroupedRows(chunk.columns, chunk.arrivals, groups))
        found.append(Accumulators(chunk.ends[rows], chunk.hashes[rows], gather(chunk.keys, rows), columns))
        firsts.append(chunk.arrivals[rows])
    return Accumulators.concat(found).take(in_order(np.concatenate(firsts)))


def merged_in_mini_batches(aggregators: AggregatorList, rows: Accumulators) -> Accumulators:
    """One row for each mini-batch and key, in the order of arrival, as the rows are."""
    groups = group_rows(rows.ends, rows.hashes, rows.keys)
    firsts = groups.first_rows
    columns = aggregators.merge([gather(column, groups.order) for column in rows.columns], groups.segments)
    merged = Accumulators(rows.ends[firsts], rows.hashes[firsts], gather(rows.keys, firsts), columns)
    return merged.take(in_order(firsts))


def in_order_of_leaving(
    layout: ColumnarWindowLayout, rows: Accumulators, *, is_incremental: bool = False
) -> Accumulators:
    """The rows in the order in which their keys leave their mini-batches.

    Args:
        layout: the aggregates and the columns.
        rows: one row for each mini-batch and key, in the order of arrival.
        is_incremental: as of :class:`MiniBatch`.
    """
    fields = layout.aggregators.results(rows.columns, layout.key_fields)
    hashes = hashes_of(layout.key_columns(rows.keys, fields), len(rows))
    _, bounds = rows.windows
    sizes = np.diff(bounds)
    places = -np.arange(len(rows)) if is_incremental else np.arange(len(rows))
    return rows.take(in_order(rows.ends, buckets(hashes, np.repeat(sizes, sizes)), places))


def last_records(batch: KeyedBatch, size: int, fields: Sequence[int]) -> KeyedBatch:
    """The last record of each mini-batch and key, in the order in which keys leave their mini-batches.

    Args:
        batch: the records.
        size: the maximum number of records in a mini-batch.
        fields: the columns of the key.
    """
    return _one_of_each(batch, size, fields, takes_last=True)


def first_records(batch: KeyedBatch, size: int, fields: Sequence[int]) -> KeyedBatch:
    """The first record of each mini-batch and key, like :func:`last_records`."""
    return _one_of_each(batch, size, fields, takes_last=False)


def _one_of_each(batch: KeyedBatch, size: int, fields: Sequence[int], *, takes_last: bool) -> KeyedBatch:
    bundles = np.arange(len(batch)) // size
    groups = group_rows(bundles, batch.keys.hashes, batch.keys.values)
    firsts, ends = groups.first_rows, groups.segments.starts + groups.segments.counts
    chosen = groups.order[ends - 1] if takes_last else firsts
    hashes = hashes_of([gather(batch.columns.column(field), firsts) for field in fields], len(firsts))
    sizes = np.bincount(bundles[firsts])
    order = in_order(bundles[firsts], buckets(hashes, sizes[bundles[firsts]]), firsts)
    return batch.take(chosen[order])


class LocalGroupAggregateOperator(LocalWindowAggregateOperator):
    """Aggregates mini-batches of records before the shuffle: the windows are mini-batches.

    Args:
        layout: the aggregates and the columns.
        mini_batch: the settings.
    """

    def __init__(self, layout: ColumnarWindowLayout, mini_batch: MiniBatch) -> None:
        super().__init__(layout, OneWindow())
        self._mini_batch = mini_batch

    def _pairs(self, batch: KeyedBatch) -> Assignment:
        count = len(batch)
        return Assignment(np.arange(count), self._mini_batch.numbers(self._held_rows, count), True)

    def _is_worthwhile(self, batch: KeyedBatch, pairs: Assignment, records: int) -> bool:
        return records <= FEWEST_SAMPLED or super()._is_worthwhile(batch, pairs, records)

    def _arrivals(self, batch: KeyedBatch) -> Longs:
        self._last_time = int(batch.timestamps[-1])
        return np.arange(self._held_rows, self._held_rows + len(batch))

    def _append(self, batch: KeyedBatch, chunk: Chunk) -> None:
        kinds = batch.kinds if self._layout.retracts else None
        for part, is_taken_back in parts_of(chunk, kinds):
            self._held.append(part)
            self._are_taken_back.append(is_taken_back)

    def _hold(self, batch: KeyedBatch, pairs: Assignment) -> None:
        groups = self._groups
        super()._hold(batch, pairs)
        if not self._mini_batch.is_ordered and groups is not None and groups * _ROWS_OF_FEW <= self._held_rows:
            self._send()  # of so few groups it is quicker while the columns are in the cache

    def _accumulators(self, held: Sequence[Chunk]) -> KeyedBatch:
        is_scattered = not self._mini_batch.is_ordered and self._layout.aggregators.are_scatterable
        if is_scattered and not any(self._are_taken_back):
            return super()._accumulators(held)
        rows = accumulators_of_records(self._layout, held, self._are_taken_back)
        if any(self._are_taken_back):
            rows = merged_in_mini_batches(self._layout.aggregators, rows)
        rows = in_order_of_leaving(self._layout, rows) if self._mini_batch.is_ordered else rows
        times = np.full(len(rows), self._last_time)
        return self._sent(rows.ends, KeyColumn(rows.keys, rows.hashes), rows.columns, times)

    def _forget(self) -> None:
        super()._forget()
        self._are_taken_back: list[bool] = []
