"""Columnar watermark generators: how the timestamps of a split become watermarks, a whole batch at a time.

A watermark is in force *before* a record when it follows from the records before it, so the stamps of a split depend on
its records alone and never on how they were cut into batches or epochs (Flink emits every 200 ms of wall clock, which
is coarser and differs from run to run).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from headrace.common.constants import MIN_WATERMARK

if TYPE_CHECKING:
    import numpy.typing as npt

    from headrace.common.batch import Stamps

_FEW: Final = 1024
"""The stamps of fewer records are laid out at once, which takes no longer than to find the last of them."""


class ColumnarWatermarkGenerator(ABC):
    """Turns timestamps into watermarks; immutable, its only memory is the watermark itself.

    So the pieces of a split can be read at the same time, each by a task of its own. One that looks at records, or
    remembers more, is a :class:`headrace.time.generators.WatermarkGenerator`.

    Examples:
        >>> import numpy as np
        >>> from headrace.common import ColumnarWatermarkGenerator, WatermarkStrategy
        >>> class Exact(ColumnarWatermarkGenerator):
        ...     def stamp(self, timestamps, watermark):
        ...         stamps = np.maximum.accumulate(np.concatenate([[watermark], timestamps]))
        ...         return stamps[:-1], int(stamps[-1])
        >>> strategy = WatermarkStrategy.for_generator(Exact())
    """

    @abstractmethod
    def stamp(self, timestamps: npt.NDArray[np.int64], watermark: int) -> tuple[npt.NDArray[np.int64], int]:
        """The watermark in force before each record, and the one after the last.

        Args:
            timestamps: event times in milliseconds.
            watermark: the watermark before the first record.
        """

    def stamp_later(
        self, timestamps: npt.NDArray[np.int64], watermark: int
    ) -> tuple[npt.NDArray[np.int64] | Stamps, int]:
        """The same, where watermarks may be laid out only when somebody looks at them."""
        return self.stamp(timestamps, watermark)


@dataclass(frozen=True, slots=True)
class BoundedOutOfOrderness(ColumnarWatermarkGenerator):
    """``largest timestamp so far - bound - 1 ms`` (Flink's ``BoundedOutOfOrdernessWatermarks``).

    Attributes:
        bound: how far a record may be behind the newest one, in milliseconds; 0 for ascending timestamps.
    """

    bound: int

    def stamp(self, timestamps: npt.NDArray[np.int64], watermark: int) -> tuple[npt.NDArray[np.int64], int]:
        stamps = np.empty(len(timestamps) + 1, dtype=np.int64)
        stamps[0] = watermark
        # Raised to the lowest value that does not wrap: a record without a timestamp must not push the watermark.
        np.maximum(timestamps, MIN_WATERMARK + self.bound + 1, out=stamps[1:])
        stamps[1:] -= self.bound + 1
        np.maximum.accumulate(stamps, out=stamps)
        return stamps[:-1], int(stamps[-1])

    def stamp_later(
        self, timestamps: npt.NDArray[np.int64], watermark: int
    ) -> tuple[npt.NDArray[np.int64] | Stamps, int]:
        if len(timestamps) < _FEW:
            return self.stamp(timestamps, watermark)
        last = max(watermark, self._behind(int(timestamps[:-1].max())))
        return _StampsOfLargest(self, timestamps, watermark, last), max(last, self._behind(int(timestamps[-1])))

    def _behind(self, largest: int) -> int:
        """The watermark behind the largest timestamp so far."""
        return max(largest - self.bound - 1, MIN_WATERMARK)


@dataclass(frozen=True)
class _StampsOfLargest:
    """The stamps of a batch; see :class:`headrace.common.batch.Stamps`.

    Attributes:
        generator: makes them.
        timestamps: the event times of the records.
        watermark: the watermark before the first record.
        last: the watermark that the last record meets.
    """

    generator: BoundedOutOfOrderness
    timestamps: npt.NDArray[np.int64]
    watermark: int
    last: int

    @cached_property
    def each(self) -> npt.NDArray[np.int64]:
        """The watermark that each record meets."""
        return self.generator.stamp(self.timestamps, self.watermark)[0]


@dataclass(frozen=True, slots=True)
class NoWatermarks(ColumnarWatermarkGenerator):
    """Never a watermark, until the input ends."""

    def stamp(self, timestamps: npt.NDArray[np.int64], watermark: int) -> tuple[npt.NDArray[np.int64], int]:
        return np.full(len(timestamps), watermark, dtype=np.int64), watermark
