"""Columns appended to records where they are processed: times, and random bits."""

from collections.abc import Sequence
from enum import Enum

import numpy as np
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.constants import MIN_WATERMARK, NO_TIMESTAMP
from headrace.common.typeinfo import TypeInformation
from headrace.operators.base import EpochScope, Operator


class RecordTime(Enum):
    """A time of a record, or at which it is processed."""

    EVENT_TIME = "event time"
    """Its timestamp; null where it has none."""

    PROCESSING_TIME = "processing time"
    """The time of the clock, read once for each epoch."""
    WATERMARK = "watermark"
    """The event time that the record meets; null before the first watermark."""
    RANDOM = "random"
    """No time, but 64 random bits; the same ones when the same epoch is processed again."""


class RecordTimesOperator(Operator):
    """Adds times to each record.

    Args:
        times: which.
        output_type: the type of the records with them.
    """

    def __init__(self, times: Sequence[RecordTime], output_type: TypeInformation) -> None:
        super().__init__()
        self._times = times
        self._output_type = output_type

    def begin_epoch(self, scope: EpochScope) -> None:
        super().begin_epoch(scope)
        self._processing_time = scope.processing_time
        uid = int.from_bytes(self.context.uid.encode())
        self._random = np.random.default_rng([scope.epoch, self.context.subtask, uid])

    def process(self, input_index: int, batch: Batch) -> None:
        schema = layout_of(self._output_type).schema
        columns = batch.columns.columns
        fields = list(schema)[len(columns) :]
        added = [self._column(time, batch).cast(field.type) for time, field in zip(self._times, fields, strict=True)]
        made = pa.RecordBatch.from_arrays([*columns, *added], schema=schema)
        self.output.emit(batch.replaced(self._output_type, columns=made))

    def _column(self, time: RecordTime, batch: Batch) -> pa.Array:
        if time is RecordTime.PROCESSING_TIME:
            return pa.repeat(pa.scalar(self._processing_time, pa.timestamp("ms", "UTC")), len(batch))
        if time is RecordTime.EVENT_TIME:
            timestamps = batch.timestamps
            return pa.array(timestamps, mask=timestamps == NO_TIMESTAMP).cast(pa.timestamp("ms", "UTC"))
        if time is RecordTime.RANDOM:
            return pa.array(self._random.integers(0, 1 << 64, len(batch), np.uint64).view(np.int64))
        watermarks = batch.watermarks
        return pa.array(watermarks, mask=watermarks == MIN_WATERMARK).cast(pa.timestamp("ms", "UTC"))
