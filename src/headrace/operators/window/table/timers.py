"""``TimerQueue``: timers in the order of Flink's heap, also among timers of one time."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class TimerHeap(Generic[K]):
    """A binary heap of timers by time, each of them once.

    Timers of one time leave a heap in an order that depends on its layout, so this is Flink's heap step by step
    (``HeapPriorityQueue``).

    Args:
        timers: times and keys, as :attr:`timers` has given them.
    """

    def __init__(self, timers: list[tuple[int, K]] | None = None) -> None:
        self.timers = list(timers or ())
        self._known = set(self.timers)

    def __len__(self) -> int:
        return len(self.timers)

    @property
    def first(self) -> int:
        """The time of the first timer; the queue is not empty."""
        return self.timers[0][0]

    def add(self, time: int, key: K) -> None:
        """Adds a timer, unless it is there already."""
        timer = time, key
        if timer in self._known:
            return
        self._known.add(timer)
        self.timers.append(timer)
        self._up(len(self.timers) - 1)

    def poll(self) -> tuple[int, K]:
        """Removes and returns the first timer; the queue is not empty."""
        first, last = self.timers[0], self.timers.pop()
        self._known.remove(first)
        if self.timers:
            self.timers[0] = last
            self._down(0)
        return first

    def _up(self, place: int) -> None:
        timers, moved = self.timers, self.timers[place]
        while place and moved[0] < timers[(place - 1) >> 1][0]:
            above = (place - 1) >> 1
            timers[place] = timers[above]
            place = above
        timers[place] = moved

    def _down(self, place: int) -> None:
        timers, size, moved = self.timers, len(self.timers), self.timers[place]
        while (below := 2 * place + 1) < size:
            if below + 1 < size and timers[below + 1][0] < timers[below][0]:
                below += 1
            if timers[below][0] >= moved[0]:
                break
            timers[place] = timers[below]
            place = below
        timers[place] = moved
