"""Keeps Python's cyclic garbage collector out of the way of millions of new objects that are no garbage.

Records, keys and state live in containers that the collector looks at again and again, each time for nothing: they go
by reference counting. With a million keys it took a third of an epoch's time.
"""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_TASK_THRESHOLD: Final = 2_500_000
"""New objects between two collections while a task runs; bounds what user functions leave behind in cycles."""


class _Threshold:
    """The collector's threshold, which is raised while at least one task runs; tasks may overlap in several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks = 0
        self._before: tuple[int, int, int] = (0, 0, 0)

    @contextmanager
    def raised(self) -> Iterator[None]:
        """Lets the collector run only once for every few million new objects; for as long as a task runs."""
        with self._lock:
            self._tasks += 1
            if self._tasks == 1:
                self._before = gc.get_threshold()
                if 0 < self._before[0] < _TASK_THRESHOLD:  # zero: the user has switched it off
                    gc.set_threshold(_TASK_THRESHOLD, *self._before[1:])
        try:
            yield
        finally:
            with self._lock:
                self._tasks -= 1
                if self._tasks == 0:
                    gc.set_threshold(*self._before)


gc_relaxed: Final = _Threshold().raised


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pauses the collector; for no longer than the conversion of a batch, which makes no garbage.

    The pause counts for the whole process.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
