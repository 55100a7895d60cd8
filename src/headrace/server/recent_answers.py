"""A cache of answers: however many clients request one, it is made now and then, so that none slows a job down."""

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Generic, TypeVar

from headrace.jobmanager.status import JobSnapshot

_BURST_SECONDS: Final = 1.0
"""The time without requests that counts as credit: only in a flood of them are answers not the latest."""

_MOST_KEPT: Final = 64

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Given(Generic[T]):
    """An answer.

    Attributes:
        answer: what it is.
        jobs: what was known of the jobs that it is about.
        until: until when it is given again while that is the same, in seconds that never go back.
        at_least: until when it is given again even if more epochs are known.
    """

    answer: T
    jobs: Sequence[JobSnapshot]
    until: float
    at_least: float

    def holds(self, jobs: Sequence[JobSnapshot], now: float) -> bool:
        """Return whether it is given again."""
        if now >= self.until or len(jobs) != len(self.jobs):
            return False
        pairs = [(one, other) for one, other in zip(self.jobs, jobs, strict=True) if one is not other]
        return not pairs or (now < self.at_least and all(_differ_by_epochs(*pair) for pair in pairs))


def _differ_by_epochs(one: JobSnapshot, other: JobSnapshot) -> bool:
    """Return whether a job has done more epochs, and nothing else: clients see at once what they have requested."""
    return all(getattr(one, name) is getattr(other, name) for name in _SELDOM_CHANGED)


_SELDOM_CHANGED: Final = ("status", "start", "plan", "held", "failure", "savepoints", "resumptions", "end")


@dataclass(slots=True)
class _Place(Generic[T]):
    """The place in which an answer is kept.

    Attributes:
        lock: is held while it is made.
        given: the answer; None before it was made.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    given: _Given[T] | None = None


class RecentAnswers(Generic[T]):
    """The answers that were given last; from any thread. Each is made by one thread at a time.

    Args:
        least_seconds: so long an answer is given again: there are spans in it that grow while nothing happens.
        most_seconds: the longest that one is given again while many others have to be made.
        share: of a core, for making answers while requests would take more for a while.
        clock: seconds, never going back.
        spent: the seconds of processor time that this thread has taken.
    """

    def __init__(
        self,
        least_seconds: float,
        most_seconds: float,
        share: float,
        clock: Callable[[], float] = time.monotonic,
        spent: Callable[[], float] = time.thread_time,
    ) -> None:
        self._least = least_seconds
        self._most = most_seconds
        self._share = share
        self._clock = clock
        self._spent = spent
        self._lock = threading.Lock()
        self._places: dict[Hashable, _Place[T]] = {}
        self._paid = clock() - _BURST_SECONDS
        """The time at which all answers together have taken no more than their share."""

    def fresh(self, key: Hashable, jobs: Sequence[JobSnapshot] = ()) -> T | None:
        """The answer to a request; None where it has to be made anew.

        Args:
            key: identifies the request.
            jobs: what is known now of the jobs that it is about.
        """
        place = self._places.get(key)
        given = None if place is None else place.given
        return given.answer if given is not None and given.holds(jobs, self._clock()) else None

    def get(self, key: Hashable, make: Callable[[], T], jobs: Sequence[JobSnapshot] = ()) -> T:
        """The answer to a request; while one thread makes it anew, others get it as it was a moment ago.

        Args:
            key: identifies the request.
            make: makes the answer.
            jobs: what is known now of the jobs that it is about.
        """
        found = self.fresh(key, jobs)
        if found is not None:
            return found
        place = self._place(key)
        known = place.given
        if known is not None and self._clock() < known.until + self._most:
            if not place.lock.acquire(blocking=False):
                return known.answer
        else:
            place.lock.acquire()
        try:
            found = self.fresh(key, jobs)
            return self._made(place, make, jobs) if found is None else found
        finally:
            place.lock.release()

    def expire(self) -> None:
        """Have the next answers of jobs that have gone on made anew: a client looks for what it has brought about."""
        for place in tuple(self._places.values()):
            given = place.given
            if given is not None:
                place.given = replace(given, at_least=0.0)

    def _made(self, place: _Place[T], make: Callable[[], T], jobs: Sequence[JobSnapshot]) -> T:
        begun = self._spent()
        answer = make()
        now, spent = self._clock(), self._spent() - begun
        with self._lock:
            self._paid = paid = max(self._paid, now - _BURST_SECONDS) + spent / self._share
        at_least = min(paid, now + self._most)
        place.given = _Given(answer, jobs, max(now + self._least, at_least), at_least)
        return answer

    def _place(self, key: Hashable) -> _Place[T]:
        with self._lock:
            place = self._places.get(key)
            if place is None:
                place = _Place()
                others = list(self._places.items())[1 - _MOST_KEPT :]
                self._places = {**dict(others), key: place}
            return place
