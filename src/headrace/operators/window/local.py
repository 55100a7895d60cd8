"""Aggregation before the shuffle: what a sender can sum up already need not travel record by record.

A record is summed up only when it is on time **for all its windows** by the watermark it meets. The receiver's
watermark is never ahead of that, so such a record is on time there as well, and its accumulator may arrive early:
nothing is emitted before the watermark passes the window's end. All other records travel as they are, and the receiver
judges them, since its watermark may be lower. So the results are those of a job without this operator.

Only for windows without allowed lateness and without a side output for late records, and for aggregates that do not
depend on the order of records (:attr:`WindowLayout.is_ordered`); the planner sees to that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import numpy as np
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.operators.aggregates.aggregator import GroupedRows
from headrace.operators.arrays import gather
from headrace.operators.base import Operator
from headrace.operators.keyed import KeyedBatch
from headrace.operators.window.lateness import check_timestamps, is_too_late
from headrace.operators.window.panes import Panes
from headrace.state.keys import KeyColumn
from headrace.state.runs.grouping import group_rows

if TYPE_CHECKING:
    import numpy.typing as npt

    from headrace.operators.window.layout import WindowLayout
    from headrace.state.runs.grouping import Groups
    from headrace.windowing.intervals import AlignedWindows, Assignment

    Mask = npt.NDArray[np.bool_]

ACCUMULATORS_TAG: Final = "headrace.window.partials"
"""The side output that accumulators leave by; raw records leave by the main output."""

RECORDS_INPUT: Final = 0
"""The input that raw records reach the receiver by."""

ACCUMULATORS_INPUT: Final = 1
"""The input that accumulators reach it by."""

_WORTHWHILE = 0.5
"""Partial results are sent when they are at most this many a record: a row of them is wider than a record."""


class LocalWindowAggregate(Operator):
    """Sums up the records of a batch by window and key, or by pane and key, where that makes them fewer.

    The decision is made batch by batch from the batch alone, so it is the same at every attempt.

    Args:
        layout: the aggregates and the columns.
        assigner: puts records into windows.
    """

    def __init__(self, layout: WindowLayout, assigner: AlignedWindows) -> None:
        super().__init__()
        assert not layout.is_ordered
        self._layout = layout
        self._assigner = assigner
        self._panes = Panes.of(assigner)

    def process(self, input_index: int, batch: Batch) -> None:
        if not len(batch):
            return
        check_timestamps(batch, self.context)
        keyed = cast("KeyedBatch", batch)
        if self._panes is None:
            pairs = self._assigner.assign(keyed.timestamps)
            stays = self._left_to_receiver(keyed, pairs)
        else:
            pairs = self._panes.of_timestamps(keyed.timestamps)
            stays = ~self._panes.are_on_time(keyed.timestamps, keyed.watermarks)
        if stays.any():
            pairs = pairs.where(~stays[pairs.records])
        hashes = keyed.keys.hashes if pairs.is_identity else keyed.keys.hashes[pairs.records]
        keys = keyed.keys.values if pairs.is_identity else gather(keyed.keys.values, pairs.records)
        groups = group_rows(pairs.ends, hashes, keys)
        if not len(groups.segments) or len(groups.segments) > _WORTHWHILE * len(keyed):
            self.output.emit(keyed)
            return
        # Under the first watermark of the batch, so that the records left, each under its own, may follow.
        self.output.emit_side(ACCUMULATORS_TAG, self._accumulators(keyed, pairs, groups))
        if stays.any():
            self.output.emit(keyed.filter(stays))

    def _left_to_receiver(self, batch: Batch, pairs: Assignment) -> Mask:
        """Records with a window that the watermark they meet has passed, and late ones between two windows."""
        is_left = np.zeros(len(batch), np.bool_)
        is_left[pairs.records[pairs.ends - 1 <= batch.watermarks[pairs.records]]] = True
        if self._assigner.slide > self._assigner.size:
            is_between = np.ones(len(batch), np.bool_)
            is_between[pairs.records] = False
            is_left |= is_between & is_too_late(batch.timestamps, batch.watermarks, 0)
        return is_left

    def _accumulators(self, batch: KeyedBatch, pairs: Assignment, groups: Groups) -> KeyedBatch:
        rows = pairs.records
        columns = self._layout.inputs_of(batch, self.context)
        if not pairs.is_identity:
            columns = {index: gather(column, rows) for index, column in columns.items()}
        first = groups.first_rows
        keys = batch.keys.take(rows[first])
        ends = pairs.ends[first]
        values = self._layout.aggregators.accumulate(GroupedRows(columns, rows, groups))
        record_batch = pa.RecordBatch.from_arrays(
            [pa.array(ends), keys.values, *values], schema=self._layout.accumulator_schema
        )
        watermarks = np.full(len(ends), batch.watermarks[0])
        accumulators = Batch(self._layout.accumulator_type, ends - 1, watermarks, columns=record_batch)
        return KeyedBatch.of(accumulators, KeyColumn(keys.values, keys.hashes))
