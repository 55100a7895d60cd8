"""SIGTERM for a program that waits for its job without the command line around it."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from typing import TYPE_CHECKING, Final

from headrace.client.job_client import JobClient
from headrace.common.errors import JobCancelledError

if TYPE_CHECKING:
    from types import FrameType

    from headrace.common.job_execution_result import JobExecutionResult

logger = logging.getLogger(__name__)

TERMINATED: Final = 128 + signal.SIGTERM
"""What a shell gives for a program that ended by SIGTERM."""

_LOOK_SECONDS: Final = 0.2
_WAYS: Final = (
    (JobClient.stop, "stopping at the end of the running epoch; send SIGTERM again to give it up"),
    (JobClient.cancel, "giving up the running epoch; it will be run again when the job goes on"),
)


def result_of(client: JobClient) -> JobExecutionResult:
    """Wait for a job; meanwhile SIGTERM stops it at the end of its epoch, and a second one cancels it.

    Then the program ends. Who has a handler of its own for SIGTERM keeps it.

    Raises:
        SystemExit: after SIGTERM, when the job has ended.
        JobExecutionError: when the job failed.
    """
    is_ours = (
        threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )
    if not is_ours:
        return client.get_job_execution_result().result()
    received: list[int] = []

    def terminate(number: int, _frame: FrameType | None) -> None:
        received.append(number)  # no more: what a handler interrupts may hold the locks that stopping takes

    signal.signal(signal.SIGTERM, terminate)
    try:
        _wait(client, received)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    result = client.get_job_execution_result()
    if not received:
        return result.result()
    error = result.exception()
    if isinstance(error, JobCancelledError):
        logger.warning("the job ended by SIGTERM: %s", error)
    elif error is not None:
        logger.error("the job failed while it was being stopped by SIGTERM", exc_info=error)
    raise SystemExit(TERMINATED)


def _wait(client: JobClient, received: list[int]) -> None:
    """Until the job has ended, do what signals ask for; nothing wakes the main thread when another one gets them."""
    result = client.get_job_execution_result()
    asked = 0
    while not result.done():
        with contextlib.suppress(TimeoutError):
            result.exception(_LOOK_SECONDS)
        for way, said in _WAYS[asked : len(received)]:
            logger.warning("SIGTERM: %s", said)
            way(client)
            asked += 1
