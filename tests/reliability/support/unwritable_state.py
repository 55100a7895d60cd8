"""A disk without room for the state of some epochs, where their tasks write it, in whatever process that is."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

from headrace.state.hashmap_backend import HashMapTaskStates

_snapshot = HashMapTaskStates.snapshot


class UnwritableState:
    """A function that gives back what it gets; for some epochs a task of its process cannot write its state.

    Args:
        folder: an empty folder, in which it counts.
        times: how many times.
    """

    def __init__(self, folder: Path, times: int) -> None:
        self._folder = folder
        self._times = times

    def __call__(self, value: Any) -> Any:
        is_set = HashMapTaskStates.snapshot is not _snapshot
        if not is_set and len(list(self._folder.iterdir())) < self._times:
            HashMapTaskStates.snapshot = self._fails  # type: ignore[assignment, method-assign]
        return value

    def _fails(self, *arguments: Any) -> Any:
        HashMapTaskStates.snapshot = _snapshot  # type: ignore[method-assign]
        (self._folder / str(len(list(self._folder.iterdir())))).touch()
        raise OSError(errno.ENOSPC, "No space left on device")
