"""What happens after a failure that may pass: how often, and after which delay, a job begins again.

A strategy is what was configured, and never changes. It begins anew with every run of a job: what it begins keeps the
account of that run's failures.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from random import Random

    from headrace.time.clock import Clock


class Restarts(Protocol):
    """The failures of one run of a job."""

    def next_delay(self) -> float | None:
        """Take a failure into account.

        Returns:
            Seconds to wait before the next attempt; None to give up.
        """


class RestartStrategy(Protocol):
    """Flink's restart strategies, applied to epochs."""

    def begin(self, clock: Clock, chance: Random) -> Restarts:
        """Nothing has failed yet.

        Args:
            clock: tells when something fails.
            chance: whatever is left to chance; seeded by the job, so that jobs differ and each repeats itself.
        """


@dataclass(frozen=True, slots=True)
class NoRestart:
    """The first fault fails the job."""

    def begin(self, clock: Clock, chance: Random) -> Restarts:
        return self

    def next_delay(self) -> float | None:
        return None


@dataclass(frozen=True, slots=True)
class FixedDelay:
    """So many restarts in the life of a job, all after the same delay.

    Attributes:
        attempts: how many.
        delay: seconds.
    """

    attempts: int
    delay: float

    def begin(self, clock: Clock, chance: Random) -> Restarts:
        return _CountedFailures(self)


@dataclass(frozen=True, slots=True)
class ExponentialDelay:
    """A delay that grows from failure to failure, and begins anew after a time without one.

    Attributes:
        initial: milliseconds after the first failure; no delay is shorter.
        maximum: the longest delay, in milliseconds.
        multiplier: by how much it grows with each failure.
        jitter: the share of a delay by which it is varied at random, so that not all jobs that wait for the same thing
            come back at the same moment.
        reset_after: when nothing fails for so many milliseconds after a restart, the next failure counts as the first.
        attempts: so many restarts without such a time between them; the failure after them is for good. None for no
            limit.
    """

    initial: int = 1_000
    maximum: int = 60_000
    multiplier: float = 1.5
    jitter: float = 0.1
    reset_after: int = 3_600_000
    attempts: int | None = None

    def begin(self, clock: Clock, chance: Random) -> Restarts:
        return _GrowingDelays(self, clock, chance)


@dataclass(frozen=True, slots=True)
class FailureRate:
    """Any number of attempts, as long as failures do not come too often.

    Attributes:
        max_failures: so many failures within the interval are borne.
        interval: milliseconds.
        delay: seconds after each failure.
    """

    max_failures: int
    interval: int
    delay: float

    def begin(self, clock: Clock, chance: Random) -> Restarts:
        return _RecentFailures(self, clock)


_ENDLESS: Final = 2**63 - 1
"""A delay in milliseconds that is longer than any, for where the power is too large for a float."""


class _CountedFailures:
    """The failures of a run under :class:`FixedDelay`."""

    def __init__(self, strategy: FixedDelay) -> None:
        self._strategy = strategy
        self._failures = 0

    def next_delay(self) -> float | None:
        self._failures += 1
        return self._strategy.delay if self._failures <= self._strategy.attempts else None


class _GrowingDelays:
    """The failures of a run under :class:`ExponentialDelay`."""

    def __init__(self, strategy: ExponentialDelay, clock: Clock, chance: Random) -> None:
        self._strategy = strategy
        self._clock = clock
        self._chance = chance
        self._failures = 0
        self._restart_at: int | None = None

    def next_delay(self) -> float | None:
        now = self._clock.now()
        # What fails before the restart belongs to the failure before it.
        if self._restart_at is None or now > self._restart_at:
            restart_at = self._restart_at = self._next_restart(now)
        else:
            restart_at = self._restart_at
        limit = self._strategy.attempts
        if limit is not None and self._failures > limit:
            return None
        return (restart_at - now) / 1000

    def _next_restart(self, now: int) -> int:
        if self._restart_at is not None and now - self._restart_at >= self._strategy.reset_after:
            self._failures = 0
        delay = self._delay()
        self._failures += 1
        return now + delay

    def _delay(self) -> int:
        strategy = self._strategy
        try:
            delay = int(strategy.initial * strategy.multiplier**self._failures)
        except OverflowError:
            delay = _ENDLESS
        spread = int(delay * strategy.jitter)
        varied = delay + self._chance.randint(-spread, spread)
        return max(strategy.initial, min(varied, strategy.maximum))


class _RecentFailures:
    """The failures of a run under :class:`FailureRate`."""

    def __init__(self, strategy: FailureRate, clock: Clock) -> None:
        self._strategy = strategy
        self._clock = clock
        self._failures: deque[int] = deque()

    def next_delay(self) -> float | None:
        now = self._clock.now()
        self._failures.append(now)
        while self._failures[0] <= now - self._strategy.interval:
            self._failures.popleft()
        return self._strategy.delay if len(self._failures) <= self._strategy.max_failures else None
