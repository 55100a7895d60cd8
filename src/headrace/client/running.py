"""The jobs of this process that run now, so that a signal can stop them at an epoch boundary."""

from __future__ import annotations

import threading
from typing import Any, Protocol


class Job(Protocol):
    """A job that can be ended."""

    def stop(self) -> Any:
        """End it at the end of its epoch."""

    def cancel(self) -> Any:
        """Give up the epoch that runs."""


_lock = threading.Lock()
_running: set[Job] = set()


def register(client: Job) -> None:
    """A job begins."""
    with _lock:
        _running.add(client)


def unregister(client: Job) -> None:
    """A job has ended."""
    with _lock:
        _running.discard(client)


def stop_all() -> int:
    """Ask every job to stop at the end of its epoch; how many there are."""
    with _lock:
        clients = list(_running)
    for client in clients:
        client.stop()
    return len(clients)


def cancel_all() -> int:
    """Give up the epochs that run; how many jobs there are."""
    with _lock:
        clients = list(_running)
    for client in clients:
        client.cancel()
    return len(clients)
