"""The jobs of this process that run now, so that Ctrl-C can stop them at an epoch boundary."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.jobmanager.job_manager import JobManager

_lock = threading.Lock()
_running: set[JobManager] = set()


def register(manager: JobManager) -> None:
    """A job begins."""
    with _lock:
        _running.add(manager)


def unregister(manager: JobManager) -> None:
    """A job has ended."""
    with _lock:
        _running.discard(manager)


def stop_all() -> int:
    """Ask every job to stop at the end of its epoch; how many there are."""
    with _lock:
        managers = list(_running)
    for manager in managers:
        manager.stop()
    return len(managers)


def cancel_all() -> int:
    """Give up the epochs that run; how many jobs there are."""
    with _lock:
        managers = list(_running)
    for manager in managers:
        manager.cancel()
    return len(managers)
