"""Running an epoch on a runtime: in time, and not at all once the job is cancelled."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from headrace.common import options
from headrace.common.errors import CheckpointFailedError, InfrastructureError, JobCancelledError
from headrace.common.logs import get_logger, with_fields

if TYPE_CHECKING:
    from headrace.jobmanager.epochs.planner import EpochPlan
    from headrace.jobmanager.runtime import Runtime
    from headrace.runtime.task.messages import TaskReport

logger = get_logger(__name__)

_LOOK_SECONDS: Final = 0.05


class EpochRun:
    """Runs one epoch.

    A runtime may be told to give up when the query has not really begun, which it does not notice: so it is told again
    and again until it returns.

    Args:
        runtime: where.
        timeout_seconds: an epoch that takes longer is given up.
        cancelled: set when the job is cancelled.
    """

    def __init__(self, runtime: Runtime, timeout_seconds: float, cancelled: threading.Event) -> None:
        self._runtime = runtime
        self._timeout_seconds = timeout_seconds
        self._cancelled = cancelled
        self._over = threading.Event()
        self._is_late = False

    def run(self, planned: EpochPlan) -> list[TaskReport]:
        """The reports of the epoch's tasks.

        Raises:
            JobCancelledError: when the job was cancelled before, or meanwhile.
            CheckpointFailedError: when it took too long.
            InfrastructureError: when it failed.
            OSError: when it failed.
        """
        epoch = planned.context.epoch
        if self._cancelled.is_set():
            raise JobCancelledError(f"epoch {epoch} was not begun")
        watchdog = threading.Thread(target=with_fields(self._watch), name=f"headrace-watchdog-{epoch}", daemon=True)
        watchdog.start()
        try:
            reports = self._runtime.run_epoch(planned.context)
        except InfrastructureError as error:
            if self._is_late:
                raise self._too_late(planned) from error
            raise
        finally:
            self._over.set()
            watchdog.join()  # what it still has to say must not hit the next epoch
        if self._cancelled.is_set():
            raise JobCancelledError(f"epoch {epoch} was given up")
        return reports

    def _watch(self) -> None:
        end = time.monotonic() + self._timeout_seconds
        while not self._over.wait(min(_LOOK_SECONDS, max(0.0, end - time.monotonic()) or _LOOK_SECONDS)):
            self._is_late = time.monotonic() >= end
            if self._is_late or self._cancelled.is_set():
                try:
                    self._runtime.cancel()
                except Exception:
                    logger.warning("interrupting an epoch failed, it is tried again", exc_info=True)

    def _too_late(self, planned: EpochPlan) -> CheckpointFailedError:
        return CheckpointFailedError(
            f"epoch {planned.context.epoch} ({planned.records} records) has not ended within "
            f"{options.CHECKPOINT_TIMEOUT.key} ({self._timeout_seconds:g} s): raise it, or make epochs smaller, "
            f"with {options.EPOCH_FIRST_RECORDS.key} and {options.EPOCH_MAX_RECORDS.key}"
        )
