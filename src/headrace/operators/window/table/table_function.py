"""``TUMBLE``, ``HOP`` and ``CUMULATE``: each row with each of its windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.typeinfo.composite import schema_of
from headrace.operators.base import Operator
from headrace.operators.changelog.order import millis_of, places_of_values
from headrace.operators.window.table.local_time import LocalTime
from headrace.windowing.intervals import GrowingWindows, RegularWindows

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation

Longs = npt.NDArray[np.int64]


class WindowTableFunctionOperator(Operator):
    """Emits each row once for each of its windows, with window_start, window_end and window_time appended.

    Args:
        windows: the windows.
        time_field: the position of the column of times.
        time_name: its name, for errors.
        clock: the clock by which windows start and end.
        output_type: the type of the emitted rows.
        is_batch: whether rows without a time are dropped, as in batch mode, and not refused.
    """

    def __init__(
        self,
        windows: RegularWindows,
        time_field: int,
        time_name: str,
        clock: LocalTime,
        output_type: TypeInformation,
        *,
        is_batch: bool = False,
    ) -> None:
        super().__init__()
        self._is_batch = is_batch
        self._windows, self._clock, self._output_type = windows, clock, output_type
        self._time_field, self._time_name = time_field, time_name

    def process(self, input_index: int, batch: Batch) -> None:
        column = batch.columns.column(self._time_field)
        if self._is_batch and column.null_count:
            batch = batch.take(places_of_values(column))
        if not len(batch):
            return
        times = self._clock.of(millis_of(batch.columns.column(self._time_field), self._time_name))
        pairs = self._windows.assign(times)
        ends, records = pairs.ends, pairs.records
        if isinstance(self._windows, GrowingWindows):
            order = np.lexsort((ends, records))
            ends, records = ends[order], records[order]
        schema = schema_of(self._output_type)
        columns = [column.take(pa.array(records)) for column in batch.columns.columns]
        columns += window_columns(self._windows.starts_of(ends), ends, self._clock, schema)
        made = pa.RecordBatch.from_arrays(columns, schema=schema)
        self.output.emit(batch.replaced(self._output_type, columns=made, sources=records))


def window_columns(starts: Longs, ends: Longs, clock: LocalTime, schema: pa.Schema) -> list[pa.Array]:
    """The last three columns of a schema, window_start, window_end and window_time, from local times."""
    start, end, time = (field.type for field in list(schema)[-3:])
    moments = clock.back(ends - 1)
    return [moments_of(values, type_) for values, type_ in ((starts, start), (ends, end), (moments, time))]


def moments_of(millis: Longs, type_: pa.DataType) -> pa.Array:
    """Milliseconds as a column of timestamps."""
    per_milli = {"us": 1000, "ns": 1_000_000, "ms": 1}[type_.unit]
    return pa.array(millis * per_milli).view(type_)
