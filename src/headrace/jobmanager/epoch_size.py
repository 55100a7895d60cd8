"""How much input an epoch admits."""

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final, NamedTuple

from headrace.common import options
from headrace.connectors.source import ReadBudget

_GROWTH: Final = 8.0
"""An epoch has at most so many times the records of the one before: what was measured with few records says little
about many."""

_LONGEST: Final = 2.0
"""No epoch is made so large that it could take longer than so many times what it should, if all of the quickest one's
time went by its records. What it should take is the target, or what the shortest of the last ones took."""

_SURE: Final = 0.75
"""No epoch is made so small that it could not take so much of the target, if all of the quickest one's time went by its
records; half of that after a slow epoch, and half of that again after two."""

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
"""The number of epochs that tell together what is fixed."""

_SURPRISE: Final = 2.0
"""An epoch is slow when its records take so many times as long as expected, and quick when they take so much less."""

_CONVINCED: Final = 4
"""So many slow epochs in a row are believed: fewer are as likely a machine that is busy with something else. The
quickest of so many says within what bounds the next one is."""

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


class _EpochSeen(NamedTuple):
    """One epoch that was run."""

    records: int
    seconds: float


class _Line(NamedTuple):
    """What an epoch costs by its size."""

    fixed: float
    each: float


class EpochCost:
    """What epochs cost: a fixed part and one for each record, learnt from epochs of different sizes.

    It is the line through the last epochs, in the lower middle of all lines through two of them. Whatever else a
    machine does makes epochs longer, never shorter. So a quick epoch is believed at once. A slow one is not: either
    its records were dear, or something disturbed it. Each of several slow epochs in a row moves the cost of a record
    towards what they tell, so the next one has fewer records, and its own time shows which of both it is. The last of
    them is believed.

    Args:
        target_seconds: how long epochs should take: differences that are small beside it are noise.

    Attributes:
        each: seconds a record; 0 as long as nothing is known.
    """

    def __init__(self, target_seconds: float) -> None:
        self.each = 0.0
        self._target = target_seconds
        self._epochs: deque[_EpochSeen] = deque(maxlen=_REMEMBERED)
        self._slow: list[_EpochSeen] = []
        self._latest: deque[_EpochSeen] = deque(maxlen=_REMEMBERED)
        self._line = _Line(0.0, 0.0)
        self._is_known = False

    @property
    def is_first_guess(self) -> bool:
        """Return whether one epoch tells all that is known."""
        return len(self._epochs) == 1

    @property
    def is_guessed(self) -> bool:
        """Return whether all epochs were so much alike that nothing tells the fixed cost from that of the records."""
        return len(self._epochs) > 1 and not self._is_known

    @property
    def fixed(self) -> float:
        """Seconds that most epochs take for other things than their records."""
        return self._line.fixed

    @property
    def slow(self) -> int:
        """Return how many epochs in a row were slow, and are not believed."""
        return len(self._slow)

    @property
    def overhead(self) -> float:
        """Seconds of a mean epoch that are not for its records, all that disturbs it included, but for the worst."""
        others = sorted(self._overheads())[:-1]
        return max(self.fixed, fmean(others)) if others else self.fixed

    @property
    def quickest(self) -> float:
        """Seconds a record of the quickest of the last epochs, its fixed cost included: no record takes more."""
        return min(epoch.seconds / epoch.records for epoch in list(self._latest)[-_CONVINCED:])

    @property
    def shortest(self) -> float:
        """Seconds of the shortest epoch that is remembered: the fixed cost is not more."""
        return min(epoch.seconds for epoch in self._latest)

    def _overheads(self) -> Iterator[float]:
        return (max(0.0, epoch.seconds - self._line.each * epoch.records) for epoch in self._latest)

    def learn(self, records: int, seconds: float) -> None:
        """Learn from an epoch."""
        epoch, expected = _EpochSeen(records, seconds), self._line.each * records
        self._latest.append(epoch)
        found = seconds - self._line.fixed
        is_odd = bool(self._epochs) and abs(found - expected) > _NOISE * max(self._target, seconds)
        if is_odd and found > expected * _SURPRISE:
            self._slow.append(epoch)
            self._suspect()
            return
        self._slow.clear()
        if is_odd and found < expected / _SURPRISE and self._expects(epoch):
            self._epochs.clear()
            if seconds < expected:
                self._latest = deque([epoch], _REMEMBERED)
            self._line = _Line(max(0.0, seconds - expected), self._line.each)
        self._epochs.append(epoch)
        self._draw(records)

    def _expects(self, epoch: _EpochSeen) -> bool:
        """Return whether other epochs have told what it costs: those of its size, or those of different sizes."""
        return self._is_known or self._slope([self._epochs[-1], epoch]) is None

    def _suspect(self) -> None:
        """Learn from slow epochs."""
        line, slow = self._line, self._slow
        slope = self._slope(slow)
        cost = min((each.seconds - line.fixed) / each.records for each in slow) if slope is None else slope
        cost = max(cost, line.each)
        self.each = line.each * (cost / line.each) ** (len(slow) / _CONVINCED)
        if len(slow) == _CONVINCED:
            self._line = _Line(max(0.0, median(each.seconds - cost * each.records for each in slow)), cost)
            self._epochs = deque(slow, _REMEMBERED)
            slow.clear()

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
        self.each = self._line.each

    def _slope(self, epochs: Iterable[_EpochSeen]) -> float | None:
        """Seconds a record by some epochs; None when they are too much alike to tell."""
        slopes = self._slopes(epochs)
        # Not the middle one: where they differ much, too small an epoch costs more than one that is somewhat too large.
        return max(0.0, slopes[len(slopes) // 3]) if slopes else None

    def _slopes(self, epochs: Iterable[_EpochSeen]) -> list[float]:
        """Seconds a record by any two epochs that tell, from the least on."""
        ordered = sorted(epochs)
        return sorted(
            (large.seconds - small.seconds) / (large.records - small.records)
            for number, large in enumerate(ordered)
            for small in ordered[:number]
            if self._tell(small, large)
        )

    def _tell(self, small: _EpochSeen, large: _EpochSeen) -> bool:
        """Return whether two epochs tell a fixed cost from one a record: noise must not hide the difference."""
        share = 1 - small.records / large.records
        return share >= _TELLING and share * large.seconds >= _NOISE * self._target


class EpochSizer:
    """Sizes epochs by what the last ones took: flow control by pull.

    Only the cost of the records shrinks with the epoch, so where the fixed part is most of the target, making epochs
    smaller would make all worse: records then get as much time as an epoch costs without them. So a job that has much
    to read gets at least half of what the machine can do.

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
            shortest = max(_SHORTEST_SECONDS, 3 * self._cost.overhead)
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
        self._records = int(min(max(wanted, self._least(seconds / records)), self._limits.max_records))

    def _least(self, each: float) -> int:
        """Return how many records no epoch has less than; one took so many seconds at most."""
        return max(1, int(min(_LEAST_RECORDS, self._target / (self._cost.each or each))))

    def _after_cold_start(self, seconds: float) -> float:
        most = _GROWTH if self._records < _MANY_RECORDS else math.inf
        return self._records * min(_COLD * self._target / seconds, most)

    def _by_cost(self, records: int, seconds: float) -> float:
        cost = self._cost
        wanted = self._for_records(self._target) / cost.each
        safe = max(_LONGEST * max(self._target, cost.shortest) / cost.quickest, self._records)
        if cost.is_first_guess and seconds < self._target / _LONGEST:
            wanted = safe  # what is fixed of so short an epoch is not known yet, and it may be nearly all
        sure = _SURE * 0.5**cost.slow * self._target / cost.quickest
        wanted = min(max(wanted, sure), self._records * _GROWTH, safe)
        is_alike = records * (1 - _TELLING) < wanted < records / (1 - _TELLING)
        return wanted * (1 - 2 * _TELLING) if is_alike and cost.is_guessed else wanted

    def _for_records(self, seconds: float) -> float:
        """Return how much of an epoch of that length is for its records."""
        return max(seconds - self._cost.fixed, self._cost.overhead)
