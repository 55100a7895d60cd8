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

_SHORTEST_SECONDS: Final = 0.1
"""No timer makes an epoch shorter than this, nor shorter than three times its fixed cost: with many timers one is
always due soon, and a job that hurried after each would do nothing else."""


class EpochSizer:
    """Sizes epochs by what the last ones took: flow control by pull.

    The cost of an epoch is a fixed part and one for each record. Only the second shrinks with the epoch, so where the
    fixed part alone exceeds the target, making epochs smaller would make all worse: records then get half the target
    on top of it.

    An epoch that has to be over earlier, since a timer is due, gets its share of the records of a whole one.
    """

    def __init__(self, limits: EpochLimits) -> None:
        self._limits = limits
        self._records = min(limits.first_records, limits.max_records)
        self._admitted = self._records
        self._last: tuple[int, float] | None = None
        self._fixed = 0.0

    def budget(self, seconds_left: float | None = None) -> ReadBudget:
        """What the next epoch may read, over all splits.

        Args:
            seconds_left: when the next one should begin, because a timer is due; None when that does not matter.
        """
        self._admitted = self._records
        if seconds_left is not None:
            shortest = max(_SHORTEST_SECONDS, 3 * self._fixed)
            share = self._for_records(max(seconds_left, shortest)) / self._for_records(self._limits.target_seconds)
            self._admitted = max(min(self._records, _LEAST_RECORDS), int(self._records * min(share, 1.0)))
        return ReadBudget(self._admitted, self._limits.max_bytes)

    def took(self, records: int, seconds: float) -> None:
        """Learn from an epoch."""
        if not records:
            return
        self._learn_fixed_cost(records, seconds)
        if records < self._admitted // 2:
            return  # the input was the limit, so nothing calls for another size
        each = max(seconds - self._fixed, seconds * _LEAST_SHARE, 1e-9) / records
        wanted = min(self._for_records(self._limits.target_seconds) / each, self._records * _GROWTH)
        self._records = int(min(max(wanted, _LEAST_RECORDS), self._limits.max_records))

    def _for_records(self, seconds: float) -> float:
        """How much of an epoch of that length is for its records."""
        return max(seconds - self._fixed, seconds / 2)

    def _learn_fixed_cost(self, records: int, seconds: float) -> None:
        """Draw a line through the last two epochs, if they differ enough in size to tell anything."""
        last, self._last = self._last, (records, seconds)
        if last is None or (not records * _TELLING < last[0] and not last[0] * _TELLING < records):
            return
        slope = max((seconds - last[1]) / (records - last[0]), 0.0)
        self._fixed = max(0.0, min(seconds, last[1]) - slope * min(records, last[0]))
