"""The gate in front of the checkpoint of an epoch: what violates expectations is not published by itself."""

import threading
from collections.abc import Callable
from typing import Final

from headrace.common.errors import JobExecutionError
from headrace.jobmanager.events import EpochHeld, EpochReleased, JobEvent

_LOOK_SECONDS: Final = 0.2
"""The interval at which a job whose epoch is held looks whether it is cancelled, or taken over."""


class EpochGate:
    """Holds back an epoch with records that violate expectations, until somebody releases it or ends the job.

    The epoch has run, and its state is written, but no manifest names it: nothing of it is visible, and if the process
    dies, the epoch is run again and held again. Its input waits where it is; further input is not read.

    Args:
        publish: is told of held epochs.
        stop: set when the job is to stop; then the epoch is dropped.
        meanwhile: is called again and again while an epoch is held; raises what ends the wait.
    """

    def __init__(
        self, publish: Callable[[JobEvent], None], stop: threading.Event, meanwhile: Callable[[], None]
    ) -> None:
        self._publish = publish
        self._stop = stop
        self._meanwhile = meanwhile
        self._lock = threading.Lock()
        self._held: EpochHeld | None = None
        self._released = threading.Event()

    def release(self) -> int:
        """Let the epoch that is held be published; from any thread.

        Returns:
            Its number.

        Raises:
            JobExecutionError: when none is held.
        """
        with self._lock:
            if self._held is None or self._released.is_set():
                raise JobExecutionError("no epoch of the job is held")
            self._released.set()
            return self._held.epoch

    def lets_pass(self, held: EpochHeld) -> bool:
        """Wait until an epoch is released.

        Returns:
            False when the job stops, so that it is not to be published.
        """
        with self._lock:
            self._held = held
            self._released.clear()
        try:
            self._publish(held)
            while not (self._released.wait(_LOOK_SECONDS) or self._stop.is_set()):
                self._meanwhile()
            passes = self._released.is_set()
        finally:
            with self._lock:
                self._held = None
        self._publish(EpochReleased(held.epoch, passes))
        return passes
