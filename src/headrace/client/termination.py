"""SIGTERM for a program that waits for its job without the command line around it."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import FrameType

    from headrace.client.job_client import JobClient
    from headrace.common.job_execution_result import JobExecutionResult

logger = logging.getLogger(__name__)

TERMINATED: Final = 128 + signal.SIGTERM
"""What a shell gives for a program that ended by SIGTERM."""

_LOOK_SECONDS: Final = 0.2


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
        received.append(number)
        if len(received) == 1:
            client.stop()
        else:
            client.cancel()

    signal.signal(signal.SIGTERM, terminate)
    try:
        return _result(client, received)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _result(client: JobClient, received: list[int]) -> JobExecutionResult:
    result = client.get_job_execution_result()
    # Python runs handlers in the main thread only, and nothing wakes that when the system gives the signal to another.
    while not result.done():
        with contextlib.suppress(TimeoutError):
            result.exception(_LOOK_SECONDS)
    if received:
        error = result.exception()
        if error is not None:
            logger.warning("the job ended by SIGTERM: %s", error)
        raise SystemExit(TERMINATED)
    return result.result()
