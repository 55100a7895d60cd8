"""Which lines of a program are at work in this process: where an epoch is that does not come to its end."""

import sys
import threading
from typing import Final

from headrace.common.call_site import of_function_at_work
from headrace.jobmanager.status import JobSnapshot

_LONG_SECONDS: Final = 10.0
"""The time of an epoch from which on it is told."""

_MOST_LINES: Final = 4


def lines_at_work(job: JobSnapshot, now: int) -> tuple[str, ...]:
    """The lines of the program that threads are in, while an epoch of a job takes long; none before.

    Args:
        job: the job, which runs in this process.
        now: the time, in milliseconds since 1970.
    """
    if job.running is None or job.status.is_terminal_state() or now - job.running.time < _LONG_SECONDS * 1000:
        return ()
    main, found = threading.main_thread().ident, dict[str, None]()
    for thread, frame in sys._current_frames().items():
        site = None if thread == main else of_function_at_work(frame)
        if site is not None:
            found[str(site)] = None
    return tuple(found)[:_MOST_LINES]
