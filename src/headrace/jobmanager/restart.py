"""What happens when the infrastructure fails: how often, and after which delay, an epoch is run again."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class RestartStrategy(Protocol):
    """Flink's restart strategies, applied to epochs."""

    def delay_after(self, attempt: int) -> float | None:
        """Seconds to wait after failed attempt number ``attempt`` (from 1); None to give up."""


@dataclass(frozen=True, slots=True)
class NoRestart:
    """The first fault fails the job."""

    def delay_after(self, attempt: int) -> float | None:
        return None


@dataclass(frozen=True, slots=True)
class FixedDelay:
    """So many more attempts, with the same delay.

    Attributes:
        attempts: how many.
        delay: seconds.
    """

    attempts: int
    delay: float

    def delay_after(self, attempt: int) -> float | None:
        return self.delay if attempt <= self.attempts else None


@dataclass(frozen=True, slots=True)
class ExponentialDelay:
    """Any number of attempts, with a growing delay.

    Attributes:
        initial: seconds after the first fault.
        maximum: the longest delay in seconds.
        multiplier: by how much it grows.
        attempts: after so many faults in a row the job fails all the same; Flink has no such limit, but an epoch that
            never succeeds would hang for ever without a word.
    """

    initial: float = 1.0
    maximum: float = 60.0
    multiplier: float = 1.5
    attempts: int = 10

    def delay_after(self, attempt: int) -> float | None:
        if attempt > self.attempts:
            return None
        return float(min(self.initial * self.multiplier ** (attempt - 1), self.maximum))


class FailureRate:
    """Any number of attempts, as long as faults do not come too often.

    Args:
        max_failures: so many faults within the interval are borne.
        interval: seconds.
        delay: seconds after each fault.
        monotonic: tells seconds; tests pass their own.
    """

    def __init__(
        self, max_failures: int, interval: float, delay: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_failures = max_failures
        self._interval = interval
        self._delay = delay
        self._monotonic = monotonic
        self._failures: deque[float] = deque()

    def delay_after(self, attempt: int) -> float | None:
        now = self._monotonic()
        self._failures.append(now)
        while self._failures[0] <= now - self._interval:
            self._failures.popleft()
        return self._delay if len(self._failures) <= self._max_failures else None
