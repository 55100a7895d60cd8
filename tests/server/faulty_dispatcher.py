"""A dispatcher as a process, which kills or pauses itself at a place of its code: ``STORAGE [PLACE WHEN SIGNAL]``.

The place is a method, ``module:Class.method`` below ``headrace.server``; the signal is sent before or behind its first
call.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

from headrace.common import Configuration
from headrace.server.cluster.service import ClusterService
from tests.server.clusters import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable


def fail_at(place: str, when: str, number: int) -> None:
    """Have the process send itself a signal at a place."""
    module, _, path = place.partition(":")
    owner = importlib.import_module(f"headrace.server.{module}")
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    original: Callable[..., Any] = getattr(owner, name)
    is_static = isinstance(vars(owner).get(name), staticmethod)
    once = threading.Lock()

    def faulty(*arguments: Any, **named: Any) -> Any:
        is_first = once.acquire(blocking=False)
        if is_first and when == "before":
            os.kill(os.getpid(), number)
        result = original(*arguments, **named)
        if is_first and when == "behind":
            os.kill(os.getpid(), number)
        return result

    setattr(owner, name, staticmethod(faulty) if is_static else faulty)


def main() -> None:
    """Run until SIGTERM."""
    storage, *fault = sys.argv[1:]
    if fault:
        fail_at(fault[0], fault[1], int(fault[2]))
    service = ClusterService(Configuration.from_dict(SETTINGS | {"high-availability.storageDir": storage}))
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    service.start()
    while not ended.wait(0.1):
        pass
    service.stop()


if __name__ == "__main__":
    main()
