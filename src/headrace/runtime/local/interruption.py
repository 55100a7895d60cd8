"""Taking a thread out of user code that does not return."""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, TypeVar

from headrace.operators.user_code import GivenUp

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_raise_in_thread = ctypes.pythonapi.PyThreadState_SetAsyncExc
_raise_in_thread.argtypes = (ctypes.c_ulong, ctypes.py_object)


class Interruption:
    """Has Python raise :class:`GivenUp` in a thread, wherever it is in Python code, but only within :meth:`run`.

    Code that is not Python's (a sleep, a system call) is not interrupted before it returns.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._asked = False

    def run(self, work: Callable[[], T]) -> T:
        """Do something in this thread that may be interrupted.

        Raises:
            GivenUp: when it was.
        """
        # Not a context manager: interrupted in the midst of its __enter__ it would never be left.
        try:
            with self._lock:
                self._thread = threading.get_ident()
            return work()
        finally:
            self._leave()

    def interrupt(self) -> None:
        """Interrupt what :meth:`run` does, if it does anything; from another thread."""
        with self._lock:
            if self._thread is not None and self._thread != threading.get_ident():
                self._asked = True
                _raise_in_thread(self._thread, GivenUp)

    def _leave(self) -> None:
        """From here on nothing is raised: not what was asked for a moment ago either."""
        while True:
            try:
                with self._lock:
                    self._thread = None
                if self._asked:
                    self._asked = False
                    _swallow_interrupt()
                return
            except GivenUp:  # in the midst of leaving: leave again
                continue


def _swallow_interrupt() -> None:
    """Take what may still wait to be raised in this thread.

    Taking it back (``PyThreadState_SetAsyncExc`` with NULL) would leave the interpreter's flag for it set, in Python
    3.11 and 3.12 for as long as the process lives: every call looks at it then, and under a tracer never ends. So it is
    replaced by one of its kind, which is raised and caught.
    """
    try:
        _raise_in_thread(threading.get_ident(), GivenUp)
        while True:
            pass
    except GivenUp:
        return
