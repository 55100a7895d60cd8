"""Answers that were just given: however many ask for one, it is made now and then, so that nobody slows a job down."""

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from headrace.jobmanager.status import JobSnapshot

_SHARE: Final = 0.02
"""The largest share of a core that the making of an answer takes, up to the most seconds that it is given again."""

_MOST_KEPT: Final = 64

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Given(Generic[T]):
    """An answer.

    Attributes:
        answer: what it is.
        jobs: what was known of the jobs that it tells of.
        until: until when it is given again, in seconds that never go back.
    """

    answer: T
    jobs: Sequence[JobSnapshot]
    until: float


@dataclass(slots=True)
class _Place(Generic[T]):
    """Where an answer is kept.

    Attributes:
        lock: is held by who makes it.
        given: the answer; None before it was made.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    given: _Given[T] | None = None


class RecentAnswers(Generic[T]):
    """The answers that were given last; from any thread. Each is made by one thread at a time.

    Args:
        least_seconds: so long an answer is given again: there are spans in it that grow while nothing happens.
        most_seconds: the longest that one is given again which takes long to make.
        clock: seconds, never going back.
        spent: the seconds of processor time that this thread has taken.
    """

    def __init__(
        self,
        least_seconds: float,
        most_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        spent: Callable[[], float] = time.thread_time,
    ) -> None:
        self._least = least_seconds
        self._most = most_seconds
        self._clock = clock
        self._spent = spent
        self._lock = threading.Lock()
        self._places: dict[Hashable, _Place[T]] = {}

    def fresh(self, key: Hashable, jobs: Sequence[JobSnapshot] = ()) -> T | None:
        """The answer to a request; None where it has to be made anew.

        Args:
            key: what is asked for.
            jobs: what is known now of the jobs that it tells of, where it may not be older than that.
        """
        place = self._places.get(key)
        given = None if place is None else place.given
        if given is None or self._clock() >= given.until or len(given.jobs) != len(jobs):
            return None
        is_same = all(one is other for one, other in zip(given.jobs, jobs, strict=True))
        return given.answer if is_same else None

    def get(self, key: Hashable, make: Callable[[], T], jobs: Sequence[JobSnapshot] = ()) -> T:
        """The answer to a request; while one thread makes it anew, others get it as it was.

        Args:
            key: what is asked for.
            make: makes the answer.
            jobs: what is known now of the jobs that it tells of, where it may not be older than that.
        """
        found = self.fresh(key, jobs)
        if found is not None:
            return found
        place = self._place(key)
        known = place.given
        if not place.lock.acquire(blocking=known is None):
            assert known is not None
            return known.answer
        try:
            found = self.fresh(key, jobs)
            return self._made(place, make, jobs) if found is None else found
        finally:
            place.lock.release()

    def _made(self, place: _Place[T], make: Callable[[], T], jobs: Sequence[JobSnapshot]) -> T:
        begun = self._spent()
        answer = make()
        seconds = min(self._most, max(self._least, (self._spent() - begun) / _SHARE))
        place.given = _Given(answer, jobs, self._clock() + seconds)
        return answer

    def _place(self, key: Hashable) -> _Place[T]:
        with self._lock:
            place = self._places.get(key)
            if place is None:
                place = _Place()
                others = list(self._places.items())[1 - _MOST_KEPT :]
                self._places = {**dict(others), key: place}
            return place
