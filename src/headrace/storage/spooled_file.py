"""Output that is staged on this machine until it is sent to a remote store."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any, Final, cast

from headrace.storage.output import ContentDigest, StagedFile

if TYPE_CHECKING:
    import io
    from collections.abc import Callable

_IN_MEMORY_BYTES: Final = 8 << 20
"""A chunk up to this size is held in memory until it is sent, a larger one in an unnamed temporary file."""


class SpooledFile(StagedFile):
    """What is sent when it is kept, since its name follows from its content.

    Args:
        put: sends what a file holds to a path; gets its size as well.
    """

    def __init__(self, put: Callable[[str, io.BufferedIOBase, int], None]) -> None:
        self._put = put
        self._digest = ContentDigest()
        self._size = 0
        self._spool: Any = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115

    def write(self, data: object, /) -> int:
        view = memoryview(cast("bytes", data)).cast("B")
        if not self._spool.closed:
            self._digest.update(view)
            self._spool.write(view)
            self._size += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self._size

    def finish(self) -> tuple[int, str]:
        return self._size, self._digest.text()

    def keep(self, path: str) -> None:
        self._spool.seek(0)
        self._put(path, self._spool, self._size)
        self._spool.close()

    def discard(self) -> None:
        self._spool.close()
