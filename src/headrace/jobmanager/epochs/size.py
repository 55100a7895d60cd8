"""How much input an epoch admits."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.common import options
from headrace.connectors.source import ReadBudget

if TYPE_CHECKING:
    from collections.abc import Iterable

_GROWTH: Final = 8.0
"""An epoch has at most so many times the records of the one before: what was measured with few records says little
about many."""

_LONGEST: Final = 2.0
"""No epoch is made so large that it could take longer than so many times what it should, if all of the last one's time
went by its records."""

_COLD: Final = 4.0
_MANY_RECORDS: Final = 250_000
"""The first epoch starts workers and loads code, so it says little about the next: that has as many records as take so
many times the target at most, even if all of the first one's time went by its records. Nothing else holds it back where
these were many, as in batch mode."""

_LEAST_RECORDS: Final = 1_000
"""No epoch is made smaller than this, or its fixed cost would be all that is left. Only where records are so slow that
so many would take longer than an epoch should, there are fewer."""

_LEAST_SHARE: Final = 0.02
"""The share of an epoch's time that its records take at least: measurements are noisy."""

_SHORTEST_SECONDS: Final = 0.1
"""No timer makes an epoch shorter than this, nor shorter than three times its fixed cost: with many timers one is
always due soon, and a job that hurried after each would do nothing else."""

_REMEMBERED: Final = 16
"""So many epochs tell together what is fixed."""

_SURPRISE: Final = 2.0
"""An epoch is odd when its records take so many times as long as expected, or as short. One that has so many times the
records of all before is never odd for being short: it tells the cost of records better than those that were small."""

_NOISE: Final = 0.1
"""The share of an epoch's time that says nothing."""

_TELLING: Final = 0.2
"""Two epochs tell a fixed cost from one a record when the smaller one has this share less records."""


@dataclass(frozen=True, slots=True)
class EpochLimits:
    """What the user allows.

    Attributes:
        max_records: records an epoch.
        max_bytes: bytes an epoch, as the sources store them.
        target_seconds: how long an epoch should take.
        first_records: how many records the first epoch has.
        backlog_seconds: how long an epoch should take while history is read; as all others when left out.
    """

    max_records: int
    max_bytes: int
    target_seconds: float
    first_records: int = options.EPOCH_FIRST_RECORDS.default
    backlog_seconds: float | None = None


class _Measured(NamedTuple):
    """One epoch that was run."""

    records: int
    seconds: float


class _Line(NamedTuple):
    """What an epoch costs by its size."""

    fixed: float
    each: float


class EpochCost:
    """What epochs cost: a fixed part and one for each record, learnt from epochs of different sizes.

    It is the line through the last epochs, in the lower middle of all lines through two of them. An epoch far from it
    counts at once as far as it was slow. It counts for good when the next one is far from the line, too: then what was
    before is forgotten.

    Args:
        target_seconds: how long epochs should take: differences that are small beside it are noise.

    Attributes:
        fixed: seconds.
        each: seconds a record; 0 as long as nothing is known.
    """

    def __init__(self, target_seconds: float) -> None:
        self.fixed = 0.0
        self.each = 0.0
        self._target = target_seconds
        self._epochs: deque[_Measured] = deque(maxlen=_REMEMBERED)
        self._odd: _Measured | None = None
        self._line = _Line(0.0, 0.0)
        self._is_known = False

    @property
    def is_first_guess(self) -> bool:
        """Whether one epoch tells all that is known."""
        return len(self._epochs) == 1

    @property
    def is_guessed(self) -> bool:
        """Whether all epochs were so much alike that nothing tells the fixed cost from that of the records."""
        return len(self._epochs) > 1 and not self._is_known

    def learn(self, records: int, seconds: float) -> None:
        """Learn from an epoch."""
        epoch = _Measured(records, seconds)
        if self._is_odd(epoch):
            if self._odd is None:
                self._odd = epoch
                self.each = max(self.each, (seconds - self.fixed) / records)
                return
            self._epochs.clear()
            self._epochs.append(self._odd)
        self._odd = None
        self._epochs.append(epoch)
        self._draw(records)

    def _is_odd(self, epoch: _Measured) -> bool:
        if not self._epochs or not (self._is_known or self._slope([self._epochs[-1], epoch]) is None):
            return False
        expected, found = self._line.each * epoch.records, epoch.seconds - self._line.fixed
        is_far = abs(found - expected) > _NOISE * max(self._target, epoch.seconds)
        least = 0.0 if epoch.records > _SURPRISE * max(self._epochs).records else expected / _SURPRISE
        return is_far and not least <= found <= expected * _SURPRISE

    def _draw(self, records: int) -> None:
        slope = self._slope(self._epochs)
        typical = median(epoch.seconds for epoch in self._epochs)
        fixed = self._line.fixed
        if slope is not None:
            fixed = max(0.0, median(epoch.seconds - slope * epoch.records for epoch in self._epochs))
        fixed = min(fixed, typical)
        for_records = typical - fixed if slope is None else slope * records
        self._is_known = slope is not None
        self._line = _Line(fixed, max(for_records, typical * _LEAST_SHARE) / records)
        self.fixed, self.each = self._line

    def _slope(self, epochs: Iterable[_Measured]) -> float | None:
        """Seconds a record by some epochs; None when they are too much alike to tell."""
        ordered = sorted(epochs)
        slopes = sorted(
            (large.seconds - small.seconds) / (large.records - small.records)
            for number, large in enumerate(ordered)
            for small in ordered[:number]
            if self._tell(small, large)
        )
        # Not the middle one: where they differ much, too small an epoch costs more than one that is somewhat too large.
        return max(0.0, slopes[len(slopes) // 3]) if slopes else None

    def _tell(self, small: _Measured, large: _Measured) -> bool:
        """Whether two epochs tell a fixed cost from one a record: noise must not hide what the difference took."""
        share = 1 - small.records / large.records
        return share >= _TELLING and share * large.seconds >= _NOISE * self._target


class EpochSizer:
    """Sizes epochs by what the last ones took: flow control by pull.

    Only the cost of the records shrinks with the epoch, so where the fixed part alone exceeds the target, making epochs
    smaller would make all worse: records then get half the target on top of it.

    An epoch that has to be over earlier, since a timer is due, gets its share of the records of a whole one.
    """

    def __init__(self, limits: EpochLimits) -> None:
        self._limits = limits
        self._target = limits.target_seconds
        self._records = min(limits.first_records, limits.max_records)
        self._admitted = self._records
        self._cost = EpochCost(limits.target_seconds)
        self._is_cold = True

    def aim(self, *, is_backlog: bool) -> None:
        """Say whether history is read from now on: epochs may be longer then, and are short again right after that."""
        limits = self._limits
        longer = limits.backlog_seconds if is_backlog else None
        target = limits.target_seconds if longer is None else max(longer, limits.target_seconds)
        if target < self._target:
            share = self._for_records(target) / self._for_records(self._target)
            least = min(self._records, _LEAST_RECORDS, limits.max_records)
            self._records = max(least, int(self._records * share))
        self._target = target

    def budget(self, seconds_left: float | None = None) -> ReadBudget:
        """What the next epoch may read, over all splits.

        Args:
            seconds_left: when the next one should begin, because a timer is due; None when that does not matter.
        """
        self._admitted = self._records
        if seconds_left is not None:
            shortest = max(_SHORTEST_SECONDS, 3 * self._cost.fixed)
            share = self._for_records(max(seconds_left, shortest)) / self._for_records(self._target)
            self._admitted = max(min(self._records, _LEAST_RECORDS), int(self._records * min(share, 1.0)))
        return ReadBudget(self._admitted, self._limits.max_bytes)

    def observe(self, records: int, seconds: float) -> None:
        """Learn from an epoch."""
        if not records:
            return
        seconds = max(seconds, 1e-9)
        is_cold, self._is_cold = self._is_cold, False
        if not is_cold:
            self._cost.learn(records, seconds)
        if records < self._admitted // 2:
            return  # the input was the limit, so nothing calls for another size
        wanted = self._after_cold_start(seconds) if is_cold else self._by_cost(records, seconds)
        self._records = int(min(max(wanted, self._least(records, seconds)), self._limits.max_records))

    def _least(self, records: int, seconds: float) -> int:
        """How many records no epoch has less than, after one of so many that took so long."""
        return max(1, int(min(_LEAST_RECORDS, records * self._target / seconds)))

    def _after_cold_start(self, seconds: float) -> float:
        most = _GROWTH if self._records < _MANY_RECORDS else math.inf
        return self._records * min(_COLD * self._target / seconds, most)

    def _by_cost(self, records: int, seconds: float) -> float:
        for_records = self._for_records(self._target)
        safe = max(records * _LONGEST * (self._cost.fixed + for_records) / seconds, self._records)
        wanted = for_records / self._cost.each
        if self._cost.is_first_guess and seconds < self._target / _LONGEST:
            wanted = safe  # what is fixed of so short an epoch is not known yet, and it may be nearly all
        wanted = min(wanted, self._records * _GROWTH, safe)
        is_alike = records * (1 - _TELLING) < wanted < records / (1 - _TELLING)
        return wanted * (1 - 2 * _TELLING) if is_alike and self._cost.is_guessed else wanted

    def _for_records(self, seconds: float) -> float:
        """How much of an epoch of that length is for its records."""
        return max(seconds - self._cost.fixed, seconds / 2)
