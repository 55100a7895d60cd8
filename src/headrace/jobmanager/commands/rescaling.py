"""Rescaling: a job that goes on at another parallelism while its runtime stays.

It is what stopping the program and starting it again would do, without a new process, a new Java and new workers: the
same graph is planned anew, and the job goes on from its newest manifest, as after a failure. Operators for which the
program sets a parallelism keep it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.time.clock import Clock

LOOK_MILLIS = 1_000
"""How often a job in reactive mode looks at its cluster: asking Spark takes a millisecond."""


class SlotWatcher:
    """Reactive mode: says when a job should go on at the parallelism that the cluster has come to offer.

    As in Flink, the number of slots has to be the same for a while, and a job that was rescaled is left alone for a
    while: executors come and go one by one.

    Args:
        slots: how many tasks can run at the same time now.
        clock: tells the time.
        stable_millis: for how long the number has to be the same.
        cooldown_millis: how long after a change nothing is changed again.
    """

    def __init__(self, slots: Callable[[], int], clock: Clock, stable_millis: int, cooldown_millis: int) -> None:
        self._slots = slots
        self._clock = clock
        self._stable = stable_millis
        self._cooldown = cooldown_millis
        self._seen = 0
        self._since = 0
        self._looked_at: int | None = None
        self._changed_at: int | None = None

    def wanted(self, current: int, most: int) -> int | None:
        """The parallelism to go on at; None to stay.

        Args:
            current: the parallelism that the job has.
            most: the highest that it can have.
        """
        now = self._clock.now()
        if self._looked_at is not None and now - self._looked_at < LOOK_MILLIS:
            return None
        self._looked_at = now
        slots = max(1, min(self._slots(), most))
        if slots != self._seen:
            self._seen, self._since = slots, now
        if slots == current or now - self._since < self._stable or self._is_cooling(now):
            return None
        self._changed_at = now
        return slots

    def _is_cooling(self, now: int) -> bool:
        return self._changed_at is not None and now - self._changed_at < self._cooldown
