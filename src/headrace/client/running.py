"""The jobs that a process runs now, and the defaults of all jobs that it submits.

The first signal stops every job where it can continue, at the end of its epoch; the second one abandons the epochs. A
command that runs the program of a user adds settings, a listener and a server, or only captures its graph.
"""

from __future__ import annotations

import atexit
import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Final, TypeAlias

from headrace.common import server_options as options
from headrace.common.completable_future import CompletableFuture
from headrace.common.errors import JobCancelledError, OutputClosedError
from headrace.common.job_execution_result import JobExecutionResult
from headrace.common.logs import get_logger

if TYPE_CHECKING:
    from headrace.client.job_client import JobClient
    from headrace.common.configuration import Configuration
    from headrace.graph.stream_graph import StreamGraph
    from headrace.jobmanager.status import JobListener
    from headrace.plan.job_plan import JobPlan
    from headrace.runtime.spark.session_start import EarlyJava


logger = get_logger(__name__)

TERMINATED: Final = 128 + signal.SIGTERM
"""The exit status that a shell returns for a program that ended by SIGTERM."""

PIPE_CLOSED: Final = 128 + signal.SIGPIPE
"""The exit status that a shell returns for a program that wrote to a pipe without a reader, such as ``head`` leaves."""

_LOOK_SECONDS: Final = 0.2

_PARTING_SECONDS: Final = 10.0
"""The time that a process that ends gives its jobs; they are given up, and another Ctrl-C ends the waiting."""


_lock = threading.Lock()
_running: set[JobClient] = set()
_schedules: set[Callable[[], None]] = set()


def register(client: JobClient) -> None:
    """A job begins."""
    with _lock:
        _running.add(client)
    atexit.unregister(_give_up_all)
    atexit.register(_give_up_all)  # before what was registered for sessions and terminals


def unregister(client: JobClient) -> None:
    """A job has ended."""
    with _lock:
        _running.discard(client)


def register_schedule(end: Callable[[], None]) -> None:
    """A schedule begins to start jobs.

    Args:
        end: has it start no further one; it does not wait for one that runs.
    """
    with _lock:
        _schedules.add(end)


def unregister_schedule(end: Callable[[], None]) -> None:
    """A schedule starts no jobs any more."""
    with _lock:
        _schedules.discard(end)


def jobs() -> list[JobClient]:
    """The jobs that run now."""
    with _lock:
        return list(_running)


def _end_schedules() -> None:
    """Before jobs are ended: a schedule would start the next ones."""
    with _lock:
        ends = list(_schedules)
    for end in ends:
        end()


def stop_all() -> None:
    """Ask every job to stop at the end of its epoch, and have schedules start no more jobs."""
    _end_schedules()
    for client in jobs():
        client.interrupt()


def cancel_all() -> None:
    """Give up the epochs that run."""
    for client in jobs():
        client.cancel()


def _give_up_all() -> None:
    """The process ends: abandon the jobs that still run, as Python aborts while a thread of theirs is busy."""
    deadline = time.monotonic() + _PARTING_SECONDS
    for thread in [client.abandon() for client in jobs()]:
        thread.join(max(deadline - time.monotonic(), 0))


def end_all(signals: int, again: str, say: Callable[[str], None]) -> bool:
    """Handle a signal; the first one ends schedules as well, also where no job runs.

    Args:
        signals: how many of them there were, with this one.
        again: how the next one is sent, for the user.
        say: called with what happens, before it happens.

    Returns:
        False when nothing is left to do for it: no job runs, or their epochs are being given up already.
    """
    _end_schedules()
    if signals > len(_STEPS) or not jobs():
        return False
    step, what = _STEPS[signals - 1]
    say(what.format(again=again))
    step()
    return True


_STEPS: Final = (
    (stop_all, "stopping at the end of the running epoch; {again} to give it up"),
    (cancel_all, "giving up the running epoch; it will be run again when the job goes on"),
)


def result_of(client: JobClient) -> JobExecutionResult:
    """Wait for a job in a program, and give its result.

    Ctrl-C cancels the job. The program ends by ``SystemExit`` when the reader of what the job prints has gone.

    Raises:
        SystemExit: with the code of a program that ended by SIGPIPE; and as :func:`_result_of`.
        JobExecutionError: when the job failed.
    """
    try:
        return _result_of(client.get_job_execution_result())
    except KeyboardInterrupt:
        client.cancel()  # in a notebook the process lives on, and the client is lost
        raise
    except OutputClosedError:
        raise SystemExit(PIPE_CLOSED) from None


def _result_of(job: CompletableFuture[JobExecutionResult]) -> JobExecutionResult:
    """Wait for a job in a program without the command line around it; meanwhile SIGTERM ends the jobs that run.

    Then, when all have ended, the program ends. A program with a handler of its own for SIGTERM keeps it.

    Raises:
        SystemExit: after SIGTERM, when all jobs have ended.
        JobExecutionError: when the job failed.
    """
    is_ours = (
        threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )
    if not is_ours:
        return job.result()
    received: list[int] = []

    def terminate(number: int, _frame: FrameType | None) -> None:
        received.append(number)  # no more: what a handler interrupts may hold the locks that stopping takes

    signal.signal(signal.SIGTERM, terminate)
    try:
        _wait(job, received)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if not received:
        return job.result()
    error = job.exception()
    if isinstance(error, JobCancelledError):
        logger.warning("the job ended by SIGTERM: %s", error)
    elif error is not None:
        logger.error("the job failed while it was being stopped by SIGTERM", exc_info=error)
    raise SystemExit(TERMINATED)


def _wait(job: CompletableFuture[JobExecutionResult], received: list[int]) -> None:
    """Until the job has ended, after a signal until all have, do what signals ask for.

    Nothing wakes the main thread when another one gets them.
    """
    answered = 0
    while not job.done() or (received and jobs()):
        if job.done():
            time.sleep(_LOOK_SECONDS)
        with contextlib.suppress(TimeoutError):
            job.exception(_LOOK_SECONDS)
        while answered < len(received):
            answered += 1
            end_all(answered, "send SIGTERM again", lambda text: logger.warning("SIGTERM: %s", text))


class GraphCaptured(BaseException):
    """Raised by ``execute()`` in a program that is run to see its graph; no ``except Exception`` stops it."""


CapturedGraph: TypeAlias = "tuple[StreamGraph, JobPlan]"
"""A job that would have run."""


@dataclass(frozen=True, slots=True)
class SubmissionDefaults:
    """The defaults of every environment that a program makes.

    Attributes:
        settings: configuration that wins over the program's own: the command line is nearer to the user than the code.
        listener: is called with the events of jobs.
        captured: where graphs go instead of being run.
        early_java: a Java that starts meanwhile.
        submitted: the jobs that were submitted, by their names.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    listener: JobListener | None = None
    captured: list[CapturedGraph] | None = None
    early_java: EarlyJava | None = None
    submitted: list[str] = field(default_factory=list)


_of_context: ContextVar[SubmissionDefaults | None] = ContextVar("headrace_submission_defaults", default=None)

_of_process: list[SubmissionDefaults] = [SubmissionDefaults()]
"""The defaults for threads that have entered none themselves: those that the program of the process starts."""


def current_defaults() -> SubmissionDefaults:
    """The defaults that this thread has now."""
    return _of_context.get() or _of_process[-1]


def is_served(configuration: Configuration) -> bool:
    """Return whether jobs with a configuration are to be served."""
    return configuration.get(options.REST_PORT) is not None or configuration.get(options.REST_BIND_PORT) is not None


@contextmanager
def submission_defaults(
    settings: Mapping[str, str],
    listener: JobListener | None = None,
    early_java: EarlyJava | None = None,
    *,
    whole_process: bool = False,
) -> Iterator[SubmissionDefaults]:
    """Inside, every job of this thread is submitted with these settings and this listener.

    Args:
        settings: configuration; it wins over the program's own, as Flink's ``-D`` does.
        listener: is called with the events of jobs.
        early_java: for the first Spark session that is started; ended with the others if it is not wanted.
        whole_process: whether the process runs just this one program, so that they hold for all of its threads.
    """
    defaults = SubmissionDefaults(dict(settings), listener, early_java=early_java)
    try:
        with _in_force(defaults, whole_process=whole_process):
            yield defaults
    finally:
        if early_java is not None:
            early_java.discard()


@contextmanager
def capture_graphs(settings: Mapping[str, str] | None = None) -> Iterator[list[CapturedGraph]]:
    """Inside, ``execute()`` puts the job into the list and raises :class:`GraphCaptured` instead of running it."""
    captured: list[CapturedGraph] = []
    with _in_force(SubmissionDefaults(dict(settings or {}), None, captured), whole_process=True):
        yield captured


@contextmanager
def _in_force(defaults: SubmissionDefaults, *, whole_process: bool) -> Iterator[None]:
    token = _of_context.set(defaults)
    if whole_process:
        _of_process.append(defaults)
    try:
        yield
    finally:
        _of_context.reset(token)
        if whole_process:
            _of_process.pop()
