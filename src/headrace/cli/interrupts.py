"""Ctrl-C and SIGTERM: the first one stops jobs where they can go on, the second one gives up their epochs."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

from headrace.client import running

_AGAIN = {signal.SIGINT: "press Ctrl-C again", signal.SIGTERM: "send SIGTERM again"}


class InterruptGuard:
    """Turns SIGINT and SIGTERM into an orderly stop while it is entered; to be used in the main thread.

    A program that has no job running then gets its ``KeyboardInterrupt``, or a ``SystemExit`` for SIGTERM, and so does
    one in the third time.

    Python runs signal handlers in the main thread, which waits for the job meanwhile, and when the system hands the
    signal to another thread nothing wakes it. So the handler is not relied on: a thread of the guard's own reads the
    signals from the wake-up descriptor, which is written to whoever gets them.

    Args:
        say: tells the user; called in the guard's thread.

    Attributes:
        presses: how often Ctrl-C was pressed, or SIGTERM sent.
        exit_code: what a shell gives for a program that ended by the signal that came last.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self.presses = 0
        self.exit_code = 0
        self._say = say
        self._raises = threading.Event()
        self._own_signals = 0
        self._thread = threading.Thread(target=self._watch, name="headrace-signals", daemon=True)

    def __enter__(self) -> Self:
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._handlers_before: dict[int, Any] = {
            number: signal.signal(number, self._in_main_thread) for number in _AGAIN
        }
        self._descriptor_before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(self._descriptor_before)
        for number, handler in self._handlers_before.items():
            # None: it was not set from Python, and cannot be set again from Python
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._writer.close()
        self._thread.join()
        self._reader.close()

    def job_started(self) -> None:
        """A program that goes on to its next job after Ctrl-C is stopped there as well."""
        if self.presses:
            running.stop_all()

    def _watch(self) -> None:
        while received := self._reader.recv(1):
            number = received[0]
            if number not in _AGAIN:
                continue
            if self._own_signals:
                self._own_signals -= 1
            else:
                self._pressed(number)

    def _pressed(self, number: int) -> None:
        self.presses += 1
        self.exit_code = 128 + number
        if not running.end_all(self.presses, _AGAIN[signal.Signals(number)], self._say):
            self._own_signals += 1
            self._raises.set()
            signal.pthread_kill(threading.main_thread().ident or 0, number)

    def _in_main_thread(self, number: int, _frame: FrameType | None) -> None:
        if self._raises.is_set():
            self._raises.clear()
            if number == signal.SIGTERM:
                raise SystemExit(128 + number)
            raise KeyboardInterrupt
