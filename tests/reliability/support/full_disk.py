"""A disk that fills up."""

from __future__ import annotations

import os
from collections.abc import Callable


class FullDisk:
    """``os.write`` on a disk that fills up: one write to a matching file is short, those after it fail.

    Args:
        matches: tells by the path of a file whether it lies on that disk.
        after: so many bytes find room.
    """

    def __init__(self, matches: Callable[[str], bool], after: int) -> None:
        self._matches = matches
        self._room = after
        self._original = os.write
        self.is_full = True
        self.short = self.failed = 0

    def write(self, descriptor: int, data: memoryview) -> int:
        if not self.is_full or not self._matches(os.readlink(f"/proc/self/fd/{descriptor}")):
            return self._original(descriptor, data)
        if self._room <= 0:
            self.failed += 1
            raise OSError(28, "No space left on device")
        count = self._original(descriptor, data[: self._room])
        self._room -= count
        self.short += count < len(data)
        return count
