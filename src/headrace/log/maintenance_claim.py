"""``MaintenanceClaim``: that a process is at work on a log, so that others do not do the same work for nothing.

Nothing rests on it: of two rounds at once the commits of one would be refused. A claim that many commits have followed
is of a process that died; clocks have no say in that, nor how long those live who look at it.
"""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.storage.folder import Folder

_NAME: Final = "maintenance"

_LIFE: Final = 2_048
"""After how many commits a claim that was not renewed is nobody's any more."""

_BEAT: Final = 256
"""After how many commits a claim is renewed."""


class MaintenanceClaim:
    """The claim of one process.

    Args:
        folder: where it lies.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._owner = uuid.uuid4().hex
        self._version: int | None = None

    @contextlib.contextmanager
    def held(self, version: int) -> Iterator[bool]:
        """Hold the claim for a round, if it is to be had; gives whether it is.

        Args:
            version: of the log.
        """
        is_mine = self._take(version)
        self._version = version if is_mine else None
        try:
            yield is_mine
        finally:
            self._version = None
            if is_mine and self._read()[0] == self._owner:
                self._folder.remove(_NAME)

    def renew(self, version: int) -> None:
        """Show that whoever holds the claim lives; nothing where nobody does, or has just done so."""
        if self._version is not None and version >= self._version + _BEAT:
            self._version = version
            self._folder.write(_NAME, (self._content(version),), durable=False)

    def _take(self, version: int) -> bool:
        if self._folder.create(_NAME, self._content(version)):
            return True
        owner, since = self._read()
        if owner != self._owner and abs(version - since) < _LIFE:  # one of far ahead is of a log that was put back
            return False
        self._folder.remove(_NAME)
        return self._folder.create(_NAME, self._content(version))

    def _read(self) -> tuple[str, int]:
        """Who holds it, and since which version; whoever asks, where that cannot be told."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            owner, version = self._folder.read(_NAME).decode().split()
            return owner, int(version)
        return self._owner, 0

    def _content(self, version: int) -> bytes:
        return f"{self._owner} {version}".encode()
