"""What a runtime has to offer, and running an epoch on it: in time, and not at all once the job is cancelled."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from headrace.common import options
from headrace.common.errors import InfrastructureError, JobCancelledError
from headrace.common.logs import get_logger, with_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from headrace.jobmanager.epoch_planner import EpochPlan
    from headrace.runtime.task.messages import EpochContext, JobBlob, TaskReport

T = TypeVar("T")
R = TypeVar("R")

logger = get_logger(__name__)

_LOOK_SECONDS: Final = 0.05


class Runtime(Protocol):
    """Runs the tasks of an epoch somewhere, in this process or as a Spark query, and nothing more."""

    def start(self, blob: JobBlob) -> None:
        """Get ready for a job.

        Raises:
            CheckpointStorageError: when a task cannot write where the state is kept.
        """

    def run_epoch(self, context: EpochContext) -> list[TaskReport]:
        """Run every task of every stage once, each stage after the one before.

        Returns:
            The report of each task.

        Raises:
            InfrastructureError: on a fault that is not the program's; it is planned anew and run again.
            OSError: likewise.
        """

    def run_background(self, work: Callable[[T], R], items: Sequence[T]) -> Future[list[R]]:
        """Begin to do something on the runtime's tasks beside the epochs.

        Args:
            work: what to do with an item, in a task; may be done twice.
            items: what to do it with, each in a task of its own; they and the results travel as pickles.

        Returns:
            The results, in the order of the items, or the first error that the work has raised; an
            ``InfrastructureError`` when the tasks themselves failed.
        """

    def cancel(self) -> None:
        """Give up the epoch that runs, from another thread; ``run_epoch`` raises."""

    def close(self) -> None:
        """The job is over."""


def run_in_tasks(runtime: Runtime, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Do something on the runtime's tasks beside the epochs, and wait for it.

    Raises:
        OSError: when the tasks themselves failed; a commit is tried again then where it is.
    """
    try:
        return runtime.run_background(work, items).result()
    except InfrastructureError as error:
        raise OSError(str(error)) from error


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
            InfrastructureError: when it failed or took too long.
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

    def _too_late(self, planned: EpochPlan) -> InfrastructureError:
        return InfrastructureError(
            f"epoch {planned.context.epoch} ({planned.records} records) has not ended within "
            f"{options.CHECKPOINT_TIMEOUT.key} ({self._timeout_seconds:g} s): raise it, or make epochs smaller, "
            f"with {options.EPOCH_FIRST_RECORDS.key} and {options.EPOCH_MAX_RECORDS.key}"
        )
