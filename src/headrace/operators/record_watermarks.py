"""Watermarks that a generator of the user makes, record by record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headrace.operators.user_code import calling_user_code, user_error
from headrace.time.generators import WatermarkGenerator, WatermarkOutput, stored_state

if TYPE_CHECKING:
    import numpy.typing as npt

    from headrace.common.batch import Batch
    from headrace.operators.base import OperatorContext
    from headrace.time.generators import GeneratorPerSplit, Json


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
        """What follows comes from a split whose generator had this state; None where there was none yet."""
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
            with calling_user_code(context):
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
        with calling_user_code(context):
            return stored_state(self._generator)
