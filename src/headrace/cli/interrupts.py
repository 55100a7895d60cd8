"""Ctrl-C: the first one stops jobs where they can go on, the second one gives up their epochs."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self

from headrace.client import running

_STOPPING = "stopping at the end of the running epoch; press Ctrl-C again to give it up"
_CANCELLING = "giving up the running epoch; it will be run again when the job goes on"


class InterruptGuard:
    """Turns SIGINT into an orderly stop while it is entered; to be used in the main thread.

    A program that has no job running when Ctrl-C is pressed gets its ``KeyboardInterrupt``, and so does one that is
    pressed for the third time.

    Args:
        say: tells the user.

    Attributes:
        presses: how often Ctrl-C was pressed.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self.presses = 0
        self._say = say
        self._before: object = None

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._pressed)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What was not set from Python cannot be set again from Python
        before = signal.SIG_DFL if self._before is None else self._before
        signal.signal(signal.SIGINT, before)  # type: ignore[arg-type]

    def job_started(self) -> None:
        """A program that goes on to its next job after Ctrl-C is stopped there as well."""
        if self.presses:
            running.stop_all()

    def _pressed(self, _number: int, _frame: FrameType | None) -> None:
        self.presses += 1
        if self.presses == 1 and running.stop_all():
            self._say(_STOPPING)
        elif self.presses == 2 and running.cancel_all():
            self._say(_CANCELLING)
        else:
            raise KeyboardInterrupt
