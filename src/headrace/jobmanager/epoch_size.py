"""How much input an epoch admits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.common import options
from headrace.connectors.source import ReadBudget

_GROWTH: Final = 4.0
"""An epoch has at most so many times the records of the one before: what was measured with few records says little
about many, and a job is at its full size, a hundred times the first one, after four epochs all the same."""

_LEAST_RECORDS: Final = 1_000
"""No epoch is made smaller than this, however slow the records are: its fixed cost would be all that is left."""


@dataclass(frozen=True, slots=True)
class EpochLimits:
    """What the user allows.

    Attributes:
        max_records: records an epoch.
        max_bytes: bytes an epoch, as the sources store them.
        target_seconds: how long an epoch should take.
        first_records: how many records the first epoch has.
    """

    max_records: int
    max_bytes: int
    target_seconds: float
    first_records: int = options.EPOCH_FIRST_RECORDS.default


_TELLING: Final = 1.2
"""Two epochs tell a fixed cost from one a record when one has so many times the records of the other."""

_LEAST_SHARE: Final = 0.02
"""The share of an epoch's time that its records take at least: measurements are noisy."""


class EpochSizer:
    """Sizes epochs by what the last ones took: flow control by pull.

    The cost of an epoch is a fixed part and one for each record. Only the second shrinks with the epoch, so where the
    fixed part alone exceeds the target, making epochs smaller would make all worse: records then get half the target
    on top of it.
    """

    def __init__(self, limits: EpochLimits) -> None:
        self._limits = limits
        self._records = min(limits.first_records, limits.max_records)
        self._last: tuple[int, float] | None = None
        self._fixed = 0.0

    def budget(self) -> ReadBudget:
        """What the next epoch may read, over all splits."""
        return ReadBudget(self._records, self._limits.max_bytes)

    def took(self, records: int, seconds: float) -> None:
        """Learn from an epoch."""
        if not records:
            return
        self._learn_fixed_cost(records, seconds)
        if records < self._records // 2:
            return  # the input was the limit, so nothing calls for another size
        target = self._limits.target_seconds
        each = max(seconds - self._fixed, seconds * _LEAST_SHARE, 1e-9) / records
        wanted = min(max(target - self._fixed, target / 2) / each, self._records * _GROWTH)
        self._records = int(min(max(wanted, _LEAST_RECORDS), self._limits.max_records))

    def _learn_fixed_cost(self, records: int, seconds: float) -> None:
        """Draw a line through the last two epochs, if they differ enough in size to tell anything."""
        last, self._last = self._last, (records, seconds)
        if last is None or (not records * _TELLING < last[0] and not last[0] * _TELLING < records):
            return
        slope = max((seconds - last[1]) / (records - last[0]), 0.0)
        self._fixed = max(0.0, min(seconds, last[1]) - slope * min(records, last[0]))
