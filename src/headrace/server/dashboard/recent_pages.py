"""Pages that were just made: however many ask for one, it is made once a second, so that nobody slows a job down."""

import gzip
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

_FRESH_SECONDS: Final = 1.0

_MOST_KEPT: Final = 50


@dataclass(frozen=True)
class RecentPage:
    """A page.

    Attributes:
        text: what it is.
        made_at: when it was made, in seconds that never go back.
    """

    text: bytes
    made_at: float

    @cached_property
    def compressed(self) -> bytes:
        """The same by gzip."""
        return gzip.compress(self.text, 5, mtime=0)


class RecentPages:
    """The pages that were made last; from any thread. Of several at once one is made after the other.

    Args:
        clock: seconds, never going back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._pages: dict[tuple[str, ...], RecentPage] = {}

    def get(self, key: tuple[str, ...], make: Callable[[], str]) -> RecentPage:
        """A page that is fresh.

        Args:
            key: which page.
            make: makes it.
        """
        with self._lock:
            known = self._pages.get(key)
            if known is not None and self._clock() - known.made_at < _FRESH_SECONDS:
                return known
            made = RecentPage(make().encode(errors="replace"), self._clock())
            others = [each for each in self._pages.items() if each[0] != key]
            self._pages = {**dict(others[-_MOST_KEPT:]), key: made}
            return made
