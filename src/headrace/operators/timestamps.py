"""Assigns timestamps and makes watermarks, for each split on its own."""

import contextlib
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import fixed_width
from headrace.common.batch import Batch, Stamps
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.errors import BadRecordError, InvalidTypeError
from headrace.expressions import Bound, bind
from headrace.operators.base import EpochScope, Operator, OperatorContext
from headrace.operators.functions import method_of
from headrace.operators.stateless import computed
from headrace.operators.user_code import UserCodeGuard, record_text, user_error
from headrace.time.watermark_strategy import (
    ColumnarWatermarkGenerator,
    ExpressionTimestamps,
    ExpressionWatermarks,
    FieldTimestamps,
    GeneratorPerSplit,
    IngestionTimeAssigner,
    Json,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
    stored_state,
)


class RecordWatermarks:
    """The generator of the split that is being read, which is made anew for each share of a split.

    Args:
        suppliers: makes it.
    """

    def __init__(self, suppliers: GeneratorPerSplit) -> None:
        self._suppliers = suppliers
        self._state: Json = None
        self._generator: WatermarkGenerator | None = None

    def restore(self, state: Json) -> None:
        """Begin the records of a split whose generator had this state; None where there was none yet."""
        self._state = state
        self._generator = None

    def stamp(
        self, batch: Batch, timestamps: npt.NDArray[np.int64], watermark: int, context: OperatorContext
    ) -> tuple[npt.NDArray[np.int64], int]:
        """The watermark in force before each record, and the one after the last.

        Args:
            batch: the records.
            timestamps: their event times in milliseconds.
            watermark: the watermark before the first record.
            context: the operator, for messages.
        """
        if self._generator is None:
            with UserCodeGuard(context):
                self._generator = self._suppliers.restored(self._state)
        generator, output, row = self._generator, WatermarkOutput(watermark), None
        is_periodic = type(generator).on_periodic_emit is not WatermarkGenerator.on_periodic_emit
        stamps = []
        try:
            for row, timestamp in zip(batch.rows, timestamps.tolist(), strict=True):
                stamps.append(output.watermark)
                generator.on_event(row, timestamp, output)
                if is_periodic:
                    generator.on_periodic_emit(output)
        except BaseException as error:
            raise user_error(error, context, row) from error
        return np.array(stamps, dtype=np.int64), output.watermark

    def state(self, context: OperatorContext) -> Json:
        """The state of the generator as a checkpoint has it."""
        if self._generator is None:
            return self._state
        with UserCodeGuard(context):
            return stored_state(self._generator)


_PER_MILLI: Final = {"ms": 1, "us": 1000, "ns": 1_000_000}

_INTEGERS: Final = (int, np.integer)

_NO_MILLIS: Final = (
    "a timestamp is an int, the milliseconds since 1970, not {}; of an aware datetime that is "
    "int(moment.timestamp() * 1000), of seconds int(seconds * 1000)"
)


class TimestampsOperator(Operator):
    """Replaces timestamps and watermarks; of the watermarks before it only the last one, at the end of input, counts.

    Args:
        strategy: how timestamps are taken and watermarks made.
        is_batch: in batch mode no watermark is made before the end, so nothing is ever late.
    """

    def __init__(self, strategy: WatermarkStrategy, *, is_batch: bool = False) -> None:
        super().__init__()
        self._strategy = strategy
        self._is_batch = is_batch
        self.watermark = MIN_WATERMARK
        self.saw_records = False
        self.event_time: int | None = None
        self._expression: Bound | None = None
        generator = strategy.generator
        self._records = RecordWatermarks(generator) if isinstance(generator, GeneratorPerSplit) else None

    def begin_epoch(self, scope: EpochScope) -> None:
        self._processing_time = scope.processing_time
        self.begin_channel(scope.watermark)

    def begin_channel(self, watermark: int) -> None:
        """Begin the records of another split, or another piece of one, that has reached ``watermark``."""
        self.watermark = watermark
        self.saw_records = False
        self.event_time = None

    def restore_generator(self, state: object) -> None:
        """Begin the records of a split whose generator had this state, or of a new one (None)."""
        if self._records is not None:
            self._records.restore(state)

    def generator_state(self) -> Any:
        """The state that the generator of the split has come to; None for one without memory."""
        return None if self._records is None else self._records.state(self.context)

    def process(self, input_index: int, batch: Batch) -> None:
        timestamps = self._timestamps(batch)
        if len(batch):
            self.saw_records = True
            self.event_time = int(timestamps[-1])
        stamps, self.watermark = self._stamped(batch, timestamps)
        self.output.emit(batch.with_times(timestamps, stamps))

    def advance_watermark(self, watermark: int) -> None:
        if watermark == MAX_WATERMARK:
            self.watermark = MAX_WATERMARK
        self.output.advance_watermark(self.watermark)

    def _stamped(self, batch: Batch, timestamps: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64] | Stamps, int]:
        """The watermark before each record, and the one after the last."""
        if self._is_batch:
            return np.full(len(batch), self.watermark, dtype=np.int64), self.watermark
        generator = self._strategy.generator
        if isinstance(generator, ExpressionWatermarks):
            (column,) = computed((generator.expression,), batch, self.context)
            timestamps = np.where(column.is_null(), MIN_WATERMARK, _millis(_without_nulls(column)))
        if isinstance(generator, ColumnarWatermarkGenerator):
            with UserCodeGuard(self.context):
                return generator.stamp_later(timestamps, self.watermark)
        assert self._records is not None
        return self._records.stamp(batch, timestamps, self.watermark, self.context)

    def _timestamps(self, batch: Batch) -> npt.NDArray[np.int64]:
        assigner = self._strategy.timestamp_assigner
        if assigner is None:
            return batch.timestamps
        if isinstance(assigner, FieldTimestamps):
            column = batch.columns.column(batch.type.field_index(assigner.field) if batch.type.is_composite else 0)
            return self._of_column(batch, column, f"field {assigner.field!r}")
        if isinstance(assigner, ExpressionTimestamps):
            if self._expression is None:
                self._expression = bind(assigner.expression, batch.type)
            (column,) = computed((self._expression,), batch, self.context)
            return self._of_column(batch, column, self._expression.text)
        if isinstance(assigner, IngestionTimeAssigner):
            return np.full(len(batch), self._processing_time, dtype=np.int64)
        return self._of_function(batch, assigner)

    def _of_function(self, batch: Batch, assigner: object) -> npt.NDArray[np.int64]:
        extract = method_of(assigner, "extract_timestamp")
        row, found = None, []
        try:
            for row, timestamp in zip(batch.rows, batch.timestamps.tolist(), strict=True):
                found.append(extract(row, timestamp))
        except BaseException as error:
            raise user_error(error, self.context, row) from error
        if all(issubclass(kind, _INTEGERS) and kind is not bool for kind in set(map(type, found))):
            with contextlib.suppress(OverflowError):
                return np.array(found, dtype=np.int64)
        wrong = next(number for number, timestamp in enumerate(found) if not _is_timestamp(timestamp))
        refused = InvalidTypeError(_NO_MILLIS.format(record_text(found[wrong])))
        raise user_error(refused, self.context, batch.rows[wrong], function=extract)

    def _of_column(self, batch: Batch, column: pa.Array, called: str) -> npt.NDArray[np.int64]:
        if column.null_count:
            row = batch.slice(column.is_null().index(True).as_py(), len(batch)).rows[0]
            raise BadRecordError(
                f"operator {self.context.name!r} ({self.context.call_site}): {called} holds no timestamp in "
                f"record {record_text(row)}"
            )
        return _millis(column)


def _without_nulls(column: pa.Array) -> pa.Array:
    return column.view(pa.int64()).fill_null(0).view(column.type) if column.null_count else column


def _millis(column: pa.Array) -> npt.NDArray[np.int64]:
    """The times of a column without nulls; moments are rounded down, as epoch_millis() does, not towards 1970."""
    if not pa.types.is_timestamp(column.type):
        return fixed_width(column.cast(pa.int64()))
    return fixed_width(column) // _PER_MILLI[column.type.unit]


def _is_timestamp(value: object) -> bool:
    return isinstance(value, _INTEGERS) and type(value) is not bool and bool(-(2**63) <= value < 2**63)
