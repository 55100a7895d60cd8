"""Pages that were just made: however many ask for one, it is made now and then, so that nobody slows a job down."""

import gzip
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

_LEAST_SECONDS: Final = 1.0
"""So long a page stays as it is."""

_MOST_SECONDS: Final = 5.0
"""The longest that a page stays as it is which takes long to make."""

_SHARE: Final = 0.02
"""The largest share of a core that the making of a page takes, up to that."""

_MOST_KEPT: Final = 50
_LEVEL: Final = 4


@dataclass(frozen=True, slots=True)
class RecentPage:
    """A page.

    Attributes:
        text: what it is.
        compressed: the same by gzip.
        until: until when it stays as it is, in seconds that never go back.
    """

    text: bytes
    compressed: bytes
    until: float


@dataclass(slots=True)
class _Place:
    """Where a page is kept.

    Attributes:
        lock: is held by who makes it.
        page: the page; None before it was made.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    page: RecentPage | None = None


class RecentPages:
    """The pages that were made last; from any thread. Each is made by one thread at a time.

    Args:
        clock: seconds, never going back.
        spent: the seconds of processor time that this thread has taken.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, spent: Callable[[], float] = time.thread_time
    ) -> None:
        self._clock = clock
        self._spent = spent
        self._lock = threading.Lock()
        self._places: dict[tuple[str, ...], _Place] = {}

    def fresh(self, key: tuple[str, ...]) -> RecentPage | None:
        """A page that need not be made again; None where it has to be."""
        place = self._places.get(key)
        page = None if place is None else place.page
        return page if page is not None and self._clock() < page.until else None

    def get(self, key: tuple[str, ...], make: Callable[[], str]) -> RecentPage:
        """A page; while somebody makes it anew, others get it as it was.

        Args:
            key: which page.
            make: makes it.
        """
        place = self._place(key)
        known = place.page
        if not place.lock.acquire(blocking=known is None):
            assert known is not None
            return known
        try:
            return self.fresh(key) or self._made(place, make)
        finally:
            place.lock.release()

    def _made(self, place: _Place, make: Callable[[], str]) -> RecentPage:
        begun = self._spent()
        text = make().encode(errors="replace")
        compressed = gzip.compress(text, _LEVEL, mtime=0)
        seconds = min(_MOST_SECONDS, max(_LEAST_SECONDS, (self._spent() - begun) / _SHARE))
        place.page = page = RecentPage(text, compressed, self._clock() + seconds)
        return page

    def _place(self, key: tuple[str, ...]) -> _Place:
        with self._lock:
            place = self._places.get(key)
            if place is None:
                place = _Place()
                others = list(self._places.items())[-_MOST_KEPT:]
                self._places = {**dict(others), key: place}
            return place
