"""What interrupts user code from outside: an epoch that is cancelled, and Ctrl-C.

Such an interruption is no failure of that code: it passes through it and ends the epoch. Everything else that user code
raises is a failure, a ``KeyboardInterrupt`` of its own included. So the two have to be told apart in every process:

- The local runtime runs in the user's process. It raises :class:`EpochCancelledError`, which nobody else raises; and
  there Python raises ``KeyboardInterrupt`` for Ctrl-C, in the main thread only.
- A Spark worker is not the user's process, and Spark kills it: there Python raises nothing for Ctrl-C.
"""

from __future__ import annotations

import ctypes
import signal
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_raise_in_thread = ctypes.pythonapi.PyThreadState_SetAsyncExc
_raise_in_thread.argtypes = (ctypes.c_ulong, ctypes.py_object)


class EpochCancelledError(BaseException):
    """Raised in the midst of user code, from another thread, when its epoch is cancelled; it passes through."""


def is_interruption(error: BaseException) -> bool:
    """Whether an exception came into user code from outside, so that it is not a failure of that code.

    A ``KeyboardInterrupt`` may only where Python would raise one for Ctrl-C: in the main thread, under a handler of
    Python's. Nothing throws a ``GeneratorExit`` into user code: tasks are suspended between its calls only.
    """
    if isinstance(error, KeyboardInterrupt):
        handler = signal.getsignal(signal.SIGINT)
        return threading.current_thread() is threading.main_thread() and callable(handler)
    return isinstance(error, EpochCancelledError)


def let_ctrl_c_end_the_process() -> None:
    """Have SIGINT end this process, so that every ``KeyboardInterrupt`` in it is one that user code has raised.

    For processes that PySpark starts: it has Python raise ``KeyboardInterrupt`` there.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_DFL)


class InterruptibleRun:
    """Work that another thread can interrupt.

    Python raises :class:`EpochCancelledError` in it, wherever it is in Python code, but only within :meth:`run`. Code
    that is not Python's (a sleep, a system call) is not interrupted before it returns.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._asked = False

    def run(self, work: Callable[[], T]) -> T:
        """Do something in this thread that may be interrupted.

        Raises:
            EpochCancelledError: when it was.
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
                _raise_in_thread(self._thread, EpochCancelledError)

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
            except EpochCancelledError:  # in the midst of leaving: leave again
                continue


def _swallow_interrupt() -> None:
    """Take what may still wait to be raised in this thread.

    Taking it back (``PyThreadState_SetAsyncExc`` with NULL) would leave the interpreter's flag for it set, in Python
    3.11 and 3.12 for as long as the process lives: every call looks at it then, and under a tracer never ends. So it is
    replaced by one of its kind, which is raised and caught.
    """
    try:
        _raise_in_thread(threading.get_ident(), EpochCancelledError)
        while True:
            pass
    except EpochCancelledError:
        return
