"""``BackgroundRounds``: work that is due now and then, beside those who make it due."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

from headrace.common.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

logger = get_logger(__name__)


class BackgroundRounds:
    """Rounds of work by name: of one name never two at once, and one that is asked for meanwhile comes next.

    A thread comes with the first round and goes with the last. The interpreter waits for it at its end; a process that
    is killed may leave a round half done.
    """

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def request(self, name: str, work: Callable[[], None]) -> None:
        """Have a round done soon.

        Args:
            name: what it is about.
            work: the round. Of several that are asked for while one is under way the last is done.
        """
        with self._lock:
            is_running = name in self._threads
            self._waiting[name] = work
            if is_running:
                return
            thread = threading.Thread(target=self._run, args=(name,), name=f"headrace-rounds {name}")
            try:
                thread.start()
            except RuntimeError:  # the interpreter ends: another process has to do it
                del self._waiting[name]
            else:
                self._threads[name] = thread

    def wait(self, name: str) -> None:
        """Wait until nothing is under way."""
        with self._lock:
            thread = self._threads.get(name)
        if thread is not None:
            thread.join()

    def _run(self, name: str) -> None:
        while True:
            with self._lock:
                work = self._waiting.pop(name, None)
                if work is None:
                    del self._threads[name]
                    return
            try:
                work()
            except Exception:
                logger.exception("%s: what is done in the background has failed", name)

    def _forget(self) -> None:
        """Threads do not outlive a fork."""
        self._lock = threading.Lock()
        self._threads = dict[str, threading.Thread]()
        self._waiting = dict[str, "Callable[[], None]"]()


MAINTENANCE: Final = BackgroundRounds()
"""That of logs, by their locations: however often a process has opened one, it does one round at a time."""
