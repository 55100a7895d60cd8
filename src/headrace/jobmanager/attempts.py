"""An epoch is run until it succeeds, or until the restart strategy gives it up."""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import TYPE_CHECKING

from headrace.common import options
from headrace.common.errors import HeadraceError, InfrastructureError
from headrace.jobmanager.outcome import raise_reported

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.jobmanager.epoch import EpochPlan
    from headrace.jobmanager.progress import JobListener
    from headrace.jobmanager.restart import Restarts
    from headrace.jobmanager.runtime import Runtime
    from headrace.runtime.task.messages import TaskReport

logger = logging.getLogger(__name__)


class EpochAttempts:
    """Runs epochs, again after a fault of the infrastructure.

    Args:
        runtime: where.
        restarts: how often, and after which delay.
        listener: is told of failures.
        stop: set when the job is to end.
        timeout_seconds: an attempt that takes longer is given up.
        check_owner: raises when another job manager has taken over: the epoch then fails for ever, as its state is
            being deleted, and no manifest would tell.
    """

    def __init__(
        self,
        runtime: Runtime,
        restarts: Restarts,
        listener: JobListener,
        stop: threading.Event,
        timeout_seconds: float,
        check_owner: Callable[[], None],
    ) -> None:
        self._runtime = runtime
        self._restarts = restarts
        self._listener = listener
        self._stop = stop
        self._timeout_seconds = timeout_seconds
        self._check_owner = check_owner

    def run(self, planned: EpochPlan) -> list[TaskReport] | None:
        """Run an epoch.

        Returns:
            The reports of its tasks; None when the job was stopped before a failed epoch was due to be run again: an
            epoch without a manifest never happened.

        Raises:
            InfrastructureError: when it has failed too often.
            OSError: likewise.
            JobSupersededError: when the job is another's now.
            HeadraceError: what a task has reported: it would fail again.
        """
        while True:
            try:
                reports = self._run_in_time(planned)
            except (InfrastructureError, OSError) as error:
                if isinstance(error, HeadraceError) and not isinstance(error, InfrastructureError):
                    raise
                with contextlib.suppress(OSError):  # nobody can tell while the directory cannot be read
                    self._check_owner()
                delay = self._restarts.next_delay()
                if delay is None or self._stop.is_set():
                    raise
                logger.warning("epoch %d failed, it is run again in %.1f s: %s", planned.context.epoch, delay, error)
                self._listener.epoch_failed(planned.context.epoch, error, delay)
                if self._stop.wait(delay):
                    return None
            else:
                raise_reported(reports)
                return reports

    def _run_in_time(self, planned: EpochPlan) -> list[TaskReport]:
        """Run an epoch once; one that takes too long is interrupted, which raises."""
        late = threading.Event()
        watchdog = threading.Timer(self._timeout_seconds, self._give_up, (late,))
        watchdog.daemon = True
        watchdog.start()
        try:
            return self._runtime.run_epoch(planned.context)
        except InfrastructureError as error:
            if not late.is_set():
                raise
            raise InfrastructureError(
                f"epoch {planned.context.epoch} ({planned.records} records) has not ended within "
                f"{options.CHECKPOINT_TIMEOUT.key} ({self._timeout_seconds:g} s): raise it, or make epochs smaller, "
                f"with {options.EPOCH_FIRST_RECORDS.key} and {options.EPOCH_MAX_RECORDS.key}"
            ) from error
        finally:
            watchdog.cancel()

    def _give_up(self, late: threading.Event) -> None:
        late.set()
        self._runtime.cancel()
