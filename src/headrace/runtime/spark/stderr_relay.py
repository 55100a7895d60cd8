"""What Java writes to a terminal goes through this process, which may draw there."""

from __future__ import annotations

import atexit
import subprocess
import sys
import threading
from typing import IO, Final

_SECONDS: Final = 1.0


def destination() -> int | None:
    """Where a Java is to write its errors: a pipe to here when they end on a terminal, else where this process does."""
    is_terminal = getattr(sys.stderr, "isatty", bool)()  # programs put streams of their own there, or nothing
    return subprocess.PIPE if is_terminal else None


class StderrRelay:
    """Passes the lines of a stream on to what is the standard error when they come.

    That is the terminal, or what prints above a panel while one is drawn there. Java, and the Python workers below it,
    would write into the panel.

    Args:
        stream: what to read, to its end.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="headrace-java-stderr", daemon=True)
        self._thread.start()
        # A thread that writes while the interpreter ends would crash it
        atexit.register(self.close)

    def join(self) -> None:
        """Wait for the end of the stream, a moment at most: others may have it open for longer."""
        self._thread.join(_SECONDS)

    def close(self) -> None:
        """Pass nothing on any more; the stream is still read, so that whoever writes to it need not wait."""
        atexit.unregister(self.close)
        with self._lock:
            self._is_over = True

    def _run(self) -> None:
        for line in iter(self._stream.readline, b""):
            with self._lock:
                if not self._is_over:
                    sys.stderr.write(line.decode(errors="replace"))
                    sys.stderr.flush()
