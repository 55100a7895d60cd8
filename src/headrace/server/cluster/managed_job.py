"""One run of a program as the dispatcher that leads sees to it: it has a process, waits for the next, or has ended."""

import random
import signal
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from headrace.common.configuration import Configuration
from headrace.common.errors import HeadraceError, InfrastructureError, JobCancelledError, JobExecutionError
from headrace.common.job_execution_result import JobFailure
from headrace.common.job_status import JobStatus
from headrace.common.logs import get_logger
from headrace.jobmanager.failover import NextDelay
from headrace.jobmanager.settings import restart_strategy
from headrace.jobmanager.status import JobEnd, JobSnapshot, StatusChange
from headrace.server.archives import of_document, read_archive, to_document, write_archive
from headrace.server.client import RestClient, RestClientError
from headrace.server.cluster.processes import (
    LOG,
    OUTPUT,
    JobProcessHandle,
    JobTask,
    copy_program,
    remove_folder,
    work_folder,
)
from headrace.server.cluster.records import PROGRAM, AttemptEnd, RunRecord, Submission, millis
from headrace.server.cluster.remote_control import RemoteControl
from headrace.server.jobs import ServedJob
from headrace.storage.folder import Folder
from headrace.time.clock import SystemClock

logger = get_logger(__name__)

_LOOK_SECONDS: Final = 1.0
"""How often a process is asked how its job fares."""

_CLAIM_SECONDS: Final = 5.0
"""So long a process that another dispatcher may just have started has to say that it runs."""

_AWAY_SECONDS: Final = 30.0
"""So long a process on another machine has to end, when its storage tells it that another one takes its place."""

_CANCEL_SECONDS: Final = 20.0
"""A process that was told to give its job up, and is still there after this time, is killed."""

_MOST_LOG_BYTES: Final = 32 << 20
"""The size of the end of a log that is kept on the storage."""

_MOST_TOLD_BYTES: Final = 2_000

_INTERRUPTED: Final = (128 + signal.SIGTERM, 128 + signal.SIGINT)
"""The exit codes of programs that were stopped, and can go on."""


class ProcessDiedError(InfrastructureError):
    """The process of a job has ended, and nobody has told it to."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all jobs of a dispatcher have in common.

    Attributes:
        location: the location of the cluster's storage.
        storage_options: how it is reached.
        archives: where the archives of jobs are.
        workers: do what takes a while.
        generation: gives the one under which the dispatcher leads.
    """

    location: str
    storage_options: Mapping[str, str]
    archives: Folder
    workers: Executor
    generation: Callable[[], int]


class ManagedJob(ServedJob):
    """One run of a program.

    What others ask of it may come from any thread; the rest is done on one thread, that of the dispatcher.

    Args:
        record: its records.
        submission: what was asked for.
        around: what it shares with others.

    Attributes:
        record: its records.
        submission: what was asked for.
        told: its status, as far as is known.
    """

    def __init__(self, record: RunRecord, submission: Submission, around: Surroundings) -> None:
        super().__init__(RemoteControl(self), Configuration.from_dict(dict(submission.settings)))
        self.record = record
        self.submission = submission
        created = (StatusChange(JobStatus.CREATED, submission.time),)
        self.told = JobSnapshot(submission.program, record.name, created, submission.job_id)
        self._around = around
        self._process: JobProcessHandle | None = None
        self._attempt = 0
        self._start_at: float | None = None
        self._claimed_by: float | None = None
        self._looked_at = 0.0
        self._look_lock = threading.Lock()
        self._is_given_up = record.is_cancelled
        self._killed_at: float | None = None
        self._crashes: tuple[JobFailure, ...] = ()
        self._next_delay: NextDelay = restart_strategy(self.configuration).begin(
            SystemClock(0), random.Random(record.name)
        )
        self.end = record.end()
        if self.end is None:
            self._find_process()
        else:
            self._show_end(self.end)

    # --- for others, from any thread ---------------------------------------------------------------------------------

    def client(self) -> RestClient | None:
        """What asks its process; None while there is none that is served."""
        process = self._process
        return None if process is None or process.is_gone else process.client()

    def record_cancel(self) -> None:
        """It is given up, and whoever leads sees to that."""
        self.record.cancel()

    def give_up(self) -> None:
        """Have it given up with the next step."""
        self._is_given_up = True

    @property
    def is_running(self) -> bool:
        """True while it has a process."""
        process = self._process
        return process is not None and not process.is_gone

    def terminate(self) -> None:
        """Have its process stop at the end of the epoch."""
        if self._process is not None:
            self._process.terminate()

    def kill(self) -> None:
        """End its process."""
        if self._process is not None:
            self._process.kill()

    # --- steps -------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """See to it; called again and again while the dispatcher leads.

        Raises:
            OSError: when the storage cannot be read or written; the next step goes on.
        """
        now = time.monotonic()
        if self.end is not None:
            return
        if self._process is not None:
            if self._process.is_gone:
                self._reap(self._process)
            elif self._is_given_up:
                self._have_given_up(self._process, now)
            elif now - self._looked_at >= _LOOK_SECONDS:
                self._looked_at = now
                self._around.workers.submit(self._look, self._process)
        elif self._is_given_up:
            self._finish(AttemptEnd(JobStatus.CANCELED.name, None, "it was cancelled", millis()))
        elif self._claimed_by is not None:
            self._find_process()
        elif self._start_at is not None and now >= self._start_at:
            self._start()

    def _find_process(self) -> None:
        """Find out what earlier dispatchers have come to."""
        attempts = self.record.attempts()
        self._attempt = attempts[-1] if attempts else 0
        end = self.record.end_of(self._attempt) if attempts else None
        started = self.record.process_of(self._attempt) if attempts else None
        if end is not None:
            self._take_end(end)
        elif started is not None and started.process.is_here:
            self._claimed_by = self._start_at = None
            self._process = JobProcessHandle(started)
        elif attempts and started is None and self._may_be_claimed():
            pass
        else:
            self._claimed_by, self._start_at = None, time.monotonic()

    def _may_be_claimed(self) -> bool:
        """Return whether the process of an attempt may yet say that it runs."""
        now = time.monotonic()
        if self._claimed_by is None:
            self._claimed_by = now + _CLAIM_SECONDS
        return now < self._claimed_by

    def _start(self) -> None:
        """Begin the next attempt, and start its process once those of earlier ones are gone."""
        attempts = self.record.attempts()
        number = max(attempts, default=0) + 1
        if number != self._attempt + 1 or not self.record.begin_attempt(number, self._around.generation()):
            self._find_process()  # another dispatcher was faster
            return
        self._attempt = number
        try:
            self._end_others(attempts)
            self._process = self._started(number)
        except (HeadraceError, OSError) as error:
            self._take_end(AttemptEnd("", None, f"its process cannot be started: {error}", millis()))
        else:
            self._start_at = None
            logger.info("job %s: attempt %d runs in process %d", self.record.name, number, self._process.process.pid)

    def _end_others(self, attempts: list[int]) -> None:
        """End processes of earlier attempts that have said that they run just before this one was begun.

        On other machines they end by themselves, as their storage tells them of a later attempt; a machine that is away
        for so long that nobody waits for it any more writes nothing, since the job has another generation.
        """
        until = time.monotonic() + _AWAY_SECONDS
        for number in attempts:
            started = None if self.record.end_of(number) is not None else self.record.process_of(number)
            if started is None:
                continue
            if started.process.is_here:
                JobProcessHandle(started).kill()
            else:
                while self.record.end_of(number) is None and time.monotonic() < until:
                    time.sleep(_LOOK_SECONDS)

    def _started(self, number: int) -> JobProcessHandle:
        folder = work_folder(f"{self.record.job_id[:8]}-{number}")
        try:
            place = folder / PROGRAM
            place.mkdir()
            program = copy_program(self.record.folder.folder(PROGRAM), self.submission.program, place)
            task = JobTask(
                storage=self._around.location,
                storage_options=self._around.storage_options,
                run=self.record.name,
                attempt=number,
                program=str(program),
                entry=self.submission.entry,
                arguments=self.submission.arguments,
                settings=self.submission.settings,
            )
            return JobProcessHandle.start(folder, task)
        except BaseException:
            remove_folder(folder)
            raise

    # --- ends --------------------------------------------------------------------------------------------------------

    def _reap(self, process: JobProcessHandle) -> None:
        """Its process is gone: find out why."""
        process.kill_group()
        end = self.record.end_of(self._attempt)
        if end is None and self.record.is_superseded(self._attempt):
            self._process = None
            self._find_process()
            return
        if end is None:
            told = process.tail(LOG, _MOST_TOLD_BYTES).strip()
            end = AttemptEnd(
                "", process.code, _how(process.code) + (f"; its log ends:\n{told}" if told else ""), millis()
            )
            self.record.end_attempt(self._attempt, end)
        self._keep_logs(process)
        self._process = None
        self._take_end(end)
        process.remove_folder()

    def _take_end(self, end: AttemptEnd) -> None:
        """An attempt has ended: for good, or the job is run again."""
        self._claimed_by = None
        if self._is_given_up:
            self._finish(replace(end, status=end.status or JobStatus.CANCELED.name))
        elif end.code in _INTERRUPTED:
            self._start_at = time.monotonic()
        elif end.status or (end.code is not None and 0 <= end.code < 128):
            status = end.status or (JobStatus.FINISHED if end.code == 0 else JobStatus.FAILED).name
            self._finish(replace(end, status=status))
        else:
            self._crashed(end)

    def _crashed(self, end: AttemptEnd) -> None:
        delay = self._next_delay()
        epoch = 0 if self.told.latest is None else self.told.latest.epoch
        failure = JobFailure(
            number=len(self.told.failures) + 1,
            time=end.time,
            epoch=epoch,
            error=ProcessDiedError.__name__,
            message=end.message,
            restarts=len(self._crashes),
            restart_in=delay,
        )
        self._crashes = (*self._crashes, failure)
        if delay is None:
            self._finish(replace(end, status=JobStatus.FAILED.name))
            return
        logger.warning("job %s: %s; it is started again in %.1f s", self.record.name, end.message, delay)
        self._start_at = time.monotonic() + delay
        changed = (*self.told.history, StatusChange(JobStatus.RESTARTING, millis()))
        self.told = replace(self.told, history=changed, failures=(*self.told.failures, failure))

    def _finish(self, end: AttemptEnd) -> None:
        """It has ended for good."""
        self.record.finish(end)
        self._start_at = None
        self._show_end(end)
        self.end = end
        logger.info("job %s: %s", self.record.name, end.status)

    def _show_end(self, end: AttemptEnd) -> None:
        """Show it as its archive does; where it has come to none, as far as it is known."""
        status = JobStatus[end.status]
        try:
            told = read_archive(self._around.archives, self.submission.job_id)
        except FileNotFoundError:
            told = None
        if (
            told is not None
            and told.snapshot.status is status
            and told.snapshot.history[0].time >= self.submission.time
        ):
            self.told = told.snapshot
            self.describe(told.configuration, told.place)
            return
        self.told = _ended(self.told, status, end, self._crashes)
        write_archive(self._around.archives, to_document(self.told, self.configuration))

    def _have_given_up(self, process: JobProcessHandle, now: float) -> None:
        if self._killed_at is None:
            self._killed_at = now + _CANCEL_SECONDS
            self._around.workers.submit(self._cancel, process)
        elif now >= self._killed_at:
            logger.warning("job %s was cancelled and has not ended: its process is killed", self.record.name)
            process.kill()

    def _cancel(self, process: JobProcessHandle) -> None:
        client = process.client()
        try:
            if client is not None:
                client.ask("PATCH", ("jobs", self.submission.job_id), {"mode": "cancel"})
                return
        except RestClientError as error:
            logger.info("job %s cannot be cancelled by its server: %s", self.record.name, error)
        process.terminate()
        process.terminate()

    # --- what is told ------------------------------------------------------------------------------------------------

    def _look(self, process: JobProcessHandle) -> None:
        """Ask its process how it fares; on a thread of its own, since it may not answer."""
        if not self._look_lock.acquire(blocking=False):
            return
        try:
            client = process.client()
            if client is None:
                return
            told = of_document(client.get("jobs", self.submission.job_id, "archive"))
        except (RestClientError, HeadraceError) as error:
            logger.debug("job %s does not tell how it fares: %s", self.record.name, error)
        else:
            if self._process is process:
                self.told = replace(told.snapshot, restarts=told.snapshot.restarts + len(self._crashes))
                self.describe(told.configuration, told.place)
        finally:
            self._look_lock.release()

    def _keep_logs(self, process: JobProcessHandle) -> None:
        logs = self.record.folder.folder("logs")
        try:
            logs.make()
            for name in (OUTPUT, LOG):
                content = process.tail(name, _MOST_LOG_BYTES).encode(errors="replace")
                logs.write(f"{self._attempt:06}.{name}", [content])
        except OSError as error:
            logger.warning("job %s: its logs cannot be kept: %s", self.record.name, error)

    def log(self, name: str) -> str:
        """One of its logs: of the attempt that runs, or of the last one.

        Args:
            name: ``log`` or ``stdout``.

        Raises:
            OSError: when it cannot be read.
        """
        process = self._process
        if process is not None and Path(process.folder, name).exists():
            return process.tail(name, _MOST_LOG_BYTES)
        try:
            return self.record.folder.folder("logs").read(f"{self._attempt:06}.{name}").decode(errors="replace")
        except FileNotFoundError:
            return ""


def _how(code: int | None) -> str:
    """How a process has ended."""
    if code is None:
        return "its process is gone"
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process has ended with exit code {code}"


def _ended(job: JobSnapshot, status: JobStatus, end: AttemptEnd, crashes: tuple[JobFailure, ...]) -> JobSnapshot:
    """A job whose process has not told of its end."""
    error: Exception | None = None
    if status is JobStatus.CANCELED:
        error = JobCancelledError(end.message or "it was cancelled")
    elif status is JobStatus.FAILED:
        error = JobExecutionError(end.message)
    failures = job.failures
    if error is not None and status is JobStatus.FAILED and not crashes:
        known = JobFailure(len(failures) + 1, end.time, 0, type(error).__name__, end.message)
        failures = (*failures, known)
    epoch = None if job.latest is None else job.latest.epoch
    over = JobEnd(epoch, status is JobStatus.FINISHED, error)
    return replace(job, history=(*job.history, StatusChange(status, end.time)), failures=failures, end=over)
