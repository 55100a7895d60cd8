"""How much input an epoch admits."""

from __future__ import annotations

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


class EpochSizer:
    """Sizes epochs by what the last ones took: flow control by pull.

    An epoch grows at most fourfold from one to the next, and shrinks as far as it has to.
    """

    def __init__(self, limits: EpochLimits) -> None:
        self._limits = limits
        self._records = min(_FIRST_RECORDS, limits.max_records)

    def budget(self) -> ReadBudget:
        """What the next epoch may read, over all splits."""
        return ReadBudget(self._records, self._limits.max_bytes)

    def took(self, records: int, seconds: float) -> None:
        """Learn from an epoch."""
        if records < self._records // 2:
            return  # the input was the limit, so this tells nothing about a larger epoch
        wanted = records * self._limits.target_seconds / max(seconds, 1e-3)
        grown = min(wanted, self._records * _GROWTH)
        self._records = int(min(max(grown, _LEAST_RECORDS), self._limits.max_records))
