"""How much input an epoch admits."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from headrace.connectors.source import ReadBudget

_FIRST_RECORDS = 50_000
_GROWTH = 4.0
_LEAST_RECORDS = 1_000


@dataclass(frozen=True, slots=True)
class EpochLimits:
    """What the user allows.

    Attributes:
        max_records: records an epoch.
        max_bytes: bytes an epoch, as the sources store them.
        target_seconds: how long an epoch should take.
    """

    max_records: int
    max_bytes: int
    target_seconds: float


_REMEMBERED = 8
"""So many epochs tell what an epoch costs."""


class EpochSizer:
    """Sizes epochs by what the last ones took: flow control by pull.

    The cost of an epoch is a fixed part and one for each record. Only the second shrinks with the epoch, so where the
    fixed part alone exceeds the target, making epochs smaller would make all worse: records then get half the target
    on top of it. An epoch grows at most fourfold from one to the next.
    """

    def __init__(self, limits: EpochLimits) -> None:
        self._limits = limits
        self._records = min(_FIRST_RECORDS, limits.max_records)
        self._epochs: deque[tuple[int, float]] = deque(maxlen=_REMEMBERED)

    def budget(self) -> ReadBudget:
        """What the next epoch may read, over all splits."""
        return ReadBudget(self._records, self._limits.max_bytes)

    def took(self, records: int, seconds: float) -> None:
        """Learn from an epoch."""
        if not records:
            return
        self._epochs.append((records, seconds))
        if records < self._records // 2:
            return  # the input was the limit, so nothing calls for another size
        fixed, each = self._costs()
        target = self._limits.target_seconds
        wanted = min(max(target - fixed, target / 2) / each, self._records * _GROWTH)
        self._records = int(min(max(wanted, _LEAST_RECORDS), self._limits.max_records))

    def _costs(self) -> tuple[float, float]:
        """Seconds for an epoch, and for each record: the line through the last epochs (least squares)."""
        count = len(self._epochs)
        mean_records = sum(records for records, _ in self._epochs) / count
        mean_seconds = sum(seconds for _, seconds in self._epochs) / count
        spread = sum((records - mean_records) ** 2 for records, _ in self._epochs)
        slope = 0.0
        if spread:
            slope = sum((r - mean_records) * (s - mean_seconds) for r, s in self._epochs) / spread
        if slope <= 0:  # all of one size, or noise: nothing is known of the fixed part
            return 0.0, max(mean_seconds, 1e-6) / mean_records
        return max(0.0, mean_seconds - slope * mean_records), slope
