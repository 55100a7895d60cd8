"""Aggregation before the shuffle: what a sender can sum up already need not travel record by record.

A record is summed up only when it is on time **for all its windows** by the watermark it meets. The receiver's
watermark is never ahead of that, so such a record is on time there as well, and its accumulator may arrive early:
nothing is emitted before the watermark passes the window's end. All other records travel as they are, and the receiver
judges them, since its watermark may be lower. So the results are those of a job without this operator.

Only for windows without allowed lateness and without a side output for late records, and for aggregates that do not
depend on the order of records (:attr:`ColumnarWindowLayout.is_ordered`); the planner ensures that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import concat, gather
from headrace.common.batch import Batch
from headrace.common.constants import MIN_WATERMARK
from headrace.operators.aggregates.aggregator import GroupedRows, Input, ScatteredRows
from headrace.operators.base import EpochScope, KeyedBatch, KeyedOperator
from headrace.operators.window.columnar.accumulators import Chunk
from headrace.operators.window.columnar.panes import Panes
from headrace.operators.window.lateness import check_timestamps, is_too_late
from headrace.state.keys import KeyColumn
from headrace.state.keys.hashing import hash_int64
from headrace.state.runs.grouping import group_rows
from headrace.state.runs.key_dictionary import HashGroups, Runs
from headrace.windowing.intervals import Assignment, OneWindow, RegularWindows

if TYPE_CHECKING:
    from headrace.operators.window.columnar.accumulators import ColumnarWindowLayout
    from headrace.operators.window.table.local_time import WindowTime

    Longs = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

ACCUMULATORS_TAG: Final = "headrace.window.partials"
"""The side output that accumulators leave by; raw records leave by the main output."""

RECORDS_INPUT: Final = 0
"""The input that raw records reach the receiver by."""

ACCUMULATORS_INPUT: Final = 1
"""The input that accumulators reach it by."""

_WORTHWHILE = 0.5
"""Records are summed up where accumulators are at most this many a record: a row of these is wider than a record."""

_HELD_ROWS = 1 << 19
_HELD_BYTES = 64 << 20
"""Records are summed up when there are so many, or when what is needed of them takes so much."""

_MORE_TO_COME = 8
"""The batches like the first one that are expected to be summed up with it."""

_SAMPLED_HASHES = np.uint64(1 << 60)
_SAMPLED_PART = 16
"""Keys whose hash is below the first figure, one in so many, give an estimate of the number of keys."""

FEWEST_SAMPLED: Final = 4096
"""Of fewer records all keys are counted."""

_ANY_TIME = np.int64(0)

_HALVINGS = 12
"""A four-thousandth is more exact than the sample."""


class LocalWindowAggregateOperator(KeyedOperator):
    """Sums up the records of some batches by window and key, or by pane and key, where that makes them fewer.

    Whether it does is estimated from the first of these batches alone, so it is the same at every attempt; where it
    does not, some batches of the same size pass through before the next estimate.
    Accumulators leave under the lowest watermark of all, which the receiver raises to where the epoch started: so it
    does not matter how long records have waited here, nor what other branches of the stream have reached.

    Args:
        layout: the aggregates and the columns.
        assigner: assigns records to windows.
        time: the times and the watermarks that windows go by, where these are not those of records.
        fewest_groups: records are not summed up where a batch has fewer groups than that: so the receiver knows in
            which order the records of few windows and keys came.
    """

    _groups: int | None

    def __init__(
        self,
        layout: ColumnarWindowLayout,
        assigner: RegularWindows,
        time: WindowTime | None = None,
        fewest_groups: int = 0,
    ) -> None:
        super().__init__()
        assert not layout.is_ordered
        self.user_code = layout.aggregators.user_code
        self._layout = layout
        self._assigner = assigner
        self._time = time
        self._fewest_groups = fewest_groups
        self._panes = None if (pane := assigner.pane) is None else Panes(assigner, pane)
        self._stretch = assigner.stretch
        self._has_times = not isinstance(assigner, OneWindow)
        self._passing = 0
        self._forget()

    def begin_epoch(self, scope: EpochScope) -> None:
        self._passing = 0
        self._forget()

    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        given = batch if self._time is None else self._time.present(batch)
        if not len(given):
            return
        batch = given if self._time is None else self._time.moved(given)
        if self._has_times:
            check_timestamps(batch, self.context, self._assigner.reach)
        if self._passing > 0:
            self._passing -= len(batch)
            self.output.emit(given)
            return
        pairs = self._pairs(batch)
        stays: Mask | None = None  # the records that the receiver has to judge
        first_end = self._assigner.first_ends(int(batch.timestamps.min()))
        if not pairs.is_identity or first_end - 1 <= batch.last_watermark:
            stays = self._are_late(batch, pairs)
        left = 0 if stays is None else int(np.count_nonzero(stays))
        if stays is not None and left:
            pairs = pairs.where(~stays[pairs.records])
        if not self._held and not self._is_worthwhile(batch, pairs, len(batch) - left):
            # So many records pass after a batch that is not worthwhile, which the estimate is about. Of a small batch
            # it shows little: larger ones of the same stream, held for longer, may well become fewer.
            self._passing = (_MORE_TO_COME - 1) * len(batch) if len(batch) > FEWEST_SAMPLED else 0
            self.output.emit(given)
            return
        if stays is not None and left:
            self.output.emit(given.filter(stays))
        self._hold(batch, pairs)

    def advance_watermark(self, watermark: int) -> None:
        # Called at the end of every piece of a split as well, before the piece's channels are closed.
        self._passing = 0
        self._send()
        super().advance_watermark(watermark)

    def finish(self) -> None:
        self._send()

    def end_epoch(self) -> None:
        assert not self._held, "records came after the last watermark of the epoch"

    def _pairs(self, batch: KeyedBatch) -> Assignment:
        """The windows, or panes, of each record."""
        return (self._panes or self._assigner).assign(batch.timestamps)

    def _are_late(self, batch: Batch, pairs: Assignment) -> Mask:
        """Records with a window that the watermark they meet has passed, and late ones between two windows."""
        if self._panes is not None:
            return ~self._panes.are_on_time(batch.timestamps, batch.watermarks)
        if pairs.is_identity:
            return np.asarray(pairs.ends - 1 <= batch.watermarks)
        is_left = np.zeros(len(batch), np.bool_)
        is_left[pairs.records[pairs.ends - 1 <= batch.watermarks[pairs.records]]] = True
        is_between = np.ones(len(batch), np.bool_)
        is_between[pairs.records] = False
        return is_left | (is_between & is_too_late(batch.timestamps, batch.watermarks, 0))

    def _is_worthwhile(self, batch: KeyedBatch, pairs: Assignment, records: int) -> bool:
        """Return whether accumulators are expected to be so much fewer than the records that the pairs are of."""
        total = len(pairs.ends)
        if not total:
            return False
        ends, hashes, part = pairs.ends, batch.keys.hashes, 1
        if not pairs.is_identity:
            hashes = hashes[pairs.records]
        if total > FEWEST_SAMPLED:
            is_sampled = hashes < _SAMPLED_HASHES
            ends, hashes, part = ends[is_sampled], hashes[is_sampled], _SAMPLED_PART
        groups = part * max(len(np.unique(hashes ^ hash_int64(ends))), 1)  # of few keys none may be in the sample
        self._groups = groups
        if groups < self._fewest_groups:
            return False
        # Records of later windows are of other groups.
        span = int(batch.timestamps.max()) - int(batch.timestamps.min()) + 1
        times = min(_MORE_TO_COME, _HELD_ROWS / total, self._stretch / span)
        return expected_groups(total, groups, max(times, 1.0)) <= _WORTHWHILE * records * max(times, 1.0)

    def _hold(self, batch: KeyedBatch, pairs: Assignment) -> None:
        if not len(pairs.ends):
            return
        chunk = Chunk.of(batch, self._layout.inputs_of(batch, self.context), self._arrivals(batch)).spread(pairs)
        self._append(batch, chunk)
        self._held_rows += len(chunk)
        self._held_bytes += chunk.nbytes
        if self._held_rows >= _HELD_ROWS or self._held_bytes >= _HELD_BYTES:
            self._send()

    def _arrivals(self, batch: KeyedBatch) -> Longs:
        # The time at which records came is not needed: the aggregates do not depend on it.
        return np.broadcast_to(_ANY_TIME, len(batch))

    def _append(self, batch: KeyedBatch, chunk: Chunk) -> None:
        self._held.append(chunk)

    def _send(self) -> None:
        """Sums up what is held."""
        if self._held:
            accumulators = self._accumulators(self._held)
            self._forget()
            self.output.emit_side(ACCUMULATORS_TAG, accumulators)

    def _forget(self) -> None:
        self._groups = None  # as far as they were counted in the first batch that is held
        self._held: list[Chunk] = []
        self._held_rows = self._held_bytes = 0

    def _accumulators(self, held: Sequence[Chunk]) -> KeyedBatch:
        columns = {source: concat([each.columns[source] for each in held]) for source in held[0].columns}
        ends, keys, rows = self._grouped(
            Runs.of_all([each.ends for each in held]), [each.keys for each in held], columns
        )
        values = self._layout.aggregators.accumulate(rows)
        return self._sent(ends, KeyColumn(keys), values, ends - 1)

    def _sent(self, ends: Longs, keys: KeyColumn, values: Sequence[pa.Array], times: Longs) -> KeyedBatch:
        schema = self._layout.accumulator_schema
        columns = pa.RecordBatch.from_arrays([pa.array(ends), keys.values, *values], schema=schema)
        watermarks = np.full(len(ends), MIN_WATERMARK)
        return KeyedBatch.of(Batch(self._layout.accumulator_type, times, watermarks, columns=columns), keys)

    def _grouped(
        self, ends: Runs, keys: Sequence[pa.Array], columns: Mapping[Input, pa.Array]
    ) -> tuple[Longs, pa.Array, GroupedRows]:
        """The window and the key of each group, and the rows by group."""
        if self._layout.aggregators.are_scatterable:
            scattered = HashGroups.of(ends, keys)
            return scattered.times, scattered.keys, ScatteredRows(columns, scattered.segments)
        joined, times = KeyColumn(concat(list(keys))), ends.each()
        groups = group_rows(times, joined.hashes, joined.values)
        rows = GroupedRows(columns, np.arange(len(times)), groups)
        return times[groups.first_rows], gather(joined.values, groups.first_rows), rows


def expected_groups(rows: int, groups: int, times: float) -> float:
    """Return the groups of ``times`` as many rows, when so many rows have so many groups, all equally frequent.

    There must be a row and a group. Of *k* groups, *n* rows are expected to meet *k* (1 - exp(-*n* / *k*)).
    """
    if groups >= rows:
        return rows * times
    # The number of groups that there are at all, per row: found by halving, since met groups grow with it.
    low = high = groups / rows
    while _met(1.0, high) * rows < groups:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _met(1.0, middle) * rows < groups else (low, middle)
    return rows * _met(times, high)


def _met(rows: float, groups: float) -> float:
    return groups * -math.expm1(-rows / groups)
