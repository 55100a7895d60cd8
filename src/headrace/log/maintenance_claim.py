"""``MaintenanceClaim``: that a process is at work on a log, so that others do not do the same work for nothing.

Nothing rests on it: of two rounds at once the commits of one would be refused. One that has not changed for some
minutes is of a process that died.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.storage.folder import Folder

_NAME: Final = "maintenance"

_BEAT: Final = 1.0
"""How many seconds lie between two signs of life, at least."""

_LIFE: Final = 300.0
"""Seconds after which a claim that has not changed meanwhile is nobody's any more."""


class MaintenanceClaim:
    """The claim of one process.

    Args:
        folder: where it lies.
        clock: tells the time in seconds; that of this process alone.
    """

    def __init__(self, folder: Folder, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._clock = clock
        self._owner = uuid.uuid4().hex
        self._is_held = False
        self._beats = 0
        self._beaten = 0.0
        self._seen = b""
        self._since = 0.0

    @contextlib.contextmanager
    def held(self) -> Iterator[bool]:
        """Hold the claim for a round; gives whether it is this process that has it."""
        self._is_held = self._take()
        try:
            yield self._is_held
        finally:
            if self._is_held and self._read().startswith(self._owner.encode()):
                self._folder.remove(_NAME)
            self._is_held = False

    def renew(self) -> None:
        """Show that whoever holds the claim lives; nothing where nobody does."""
        now = self._clock()
        if self._is_held and now - self._beaten >= _BEAT:
            self._beats += 1
            self._beaten = now
            self._folder.write(_NAME, (self._content(),), durable=False)

    def _take(self) -> bool:
        if self._folder.create(_NAME, self._content()):
            return True
        found = self._read()
        if found != self._seen:
            self._seen, self._since = found, self._clock()
            return False
        if self._clock() - self._since < _LIFE:
            return False
        self._folder.remove(_NAME)
        return self._folder.create(_NAME, self._content())

    def _read(self) -> bytes:
        try:
            return self._folder.read(_NAME)
        except FileNotFoundError:
            return b""

    def _content(self) -> bytes:
        return f"{self._owner} {self._beats}".encode()
