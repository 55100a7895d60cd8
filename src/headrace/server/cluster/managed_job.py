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

from headrace.checkpoint.directory import has_begun
from headrace.checkpoint.failure_history import FailureHistory
from headrace.common import options, scheduler_options, wording
from headrace.common.configuration import Configuration
from headrace.common.errors import HeadraceError, InfrastructureError, JobCancelledError, JobExecutionError
from headrace.common.job_execution_result import JobFailure
from headrace.common.job_status import JobStatus
from headrace.common.logs import get_logger
from headrace.common.masking import without_secrets
from headrace.jobmanager.events import JobEnd
from headrace.jobmanager.failover import NextDelay
from headrace.jobmanager.settings import restart_strategy
from headrace.jobmanager.status import JobSnapshot, StatusChange
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
from headrace.server.jobs import MOST_LOG_BYTES, JobLog, ServedJob
from headrace.server.rotated_log import LogPart
from headrace.server.topics import JobTopics, read_topics
from headrace.storage.folder import Folder
from headrace.storage.locations import open_storage

logger = get_logger(__name__)

_LOOK_SECONDS: Final = 1.0
_SELDOM_SECONDS: Final = 5.0
"""The intervals at which the status of a process is requested, while the dispatcher is watched and while it is not."""

_CLAIM_SECONDS: Final = 5.0
"""The time in which a process that another dispatcher may just have started has to report that it runs."""

_AWAY_SECONDS: Final = 30.0
"""The time in which a process on another machine has to end when another one takes its place."""

_CANCEL_SECONDS: Final = 20.0
"""A process that was to cancel its job, and is still there after this time, is killed."""

_MOST_LOG_BYTES: Final = 2_000

_LONGEST_POSITION: Final = 18
"""The number of digits of the largest position in a log."""

_INTERRUPTED: Final = (128 + signal.SIGTERM, 128 + signal.SIGINT)
"""The exit codes of programs that were stopped, and can go on."""


class ProcessDiedError(InfrastructureError):
    """The process of a job has ended without a command to do so."""


@dataclass(frozen=True, slots=True)
class _BegunAttempt:
    """An attempt whose process is not started yet.

    Attributes:
        others: attempts whose processes are on other machines, and are to end first.
        until: when they are waited for no longer.
    """

    others: tuple[int, ...]
    until: float


class _ReplayedClock:
    """The system's clock, or a time in the past while crashes of that time are counted.

    Attributes:
        at: the time in the past.
    """

    def __init__(self) -> None:
        self.at: int | None = None

    def now(self) -> int:
        return millis() if self.at is None else self.at


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The settings and services that all jobs of a dispatcher share.

    Attributes:
        location: the location of the cluster's storage.
        storage_options: how it is reached.
        archives: where the archives of jobs are.
        workers: do what takes a while.
        generation: gives the one under which the dispatcher leads.
        is_watched: returns whether there was a request of late.
    """

    location: str
    storage_options: Mapping[str, str]
    archives: Folder
    workers: Executor
    generation: Callable[[], int]
    is_watched: Callable[[], bool]


class ManagedJob(ServedJob):
    """One run of a program.

    What others ask of it may come from any thread; the rest is done on one thread, that of the dispatcher.

    Args:
        record: its records.
        submission: the request to run it.
        around: what it shares with others.

    Attributes:
        record: its records.
        submission: the request to run it.
        last_snapshot: its status, as far as is known.
    """

    def __init__(self, record: RunRecord, submission: Submission, around: Surroundings) -> None:
        super().__init__(RemoteControl(self), Configuration.from_dict(dict(submission.settings)))
        self.record = record
        self.submission = submission
        created = (StatusChange(JobStatus.CREATED, submission.time),)
        self.last_snapshot = JobSnapshot(submission.program, record.name, created, submission.job_id)
        self._around = around
        self._process: JobProcessHandle | None = None
        self._attempt = 0
        self._start_at: float | None = None
        self._begun: _BegunAttempt | None = None
        self._claimed_by: float | None = None
        self._looked_at = 0.0
        self._look_lock = threading.Lock()
        self._at_work: tuple[str, ...] = ()
        self._waits_for = ""
        self._is_given_up = record.is_cancelled
        self._killed_at: float | None = None
        self._crashes = 0
        self._clock = _ReplayedClock()
        self._next_delay: NextDelay = restart_strategy(self.configuration).begin(
            self._clock, random.Random(record.name)
        )
        self.end = record.end()
        if self.end is not None:
            self._show_end(self.end)
            return
        self._replay()
        self._find_process()

    # --- for others, from any thread ---------------------------------------------------------------------------------

    def client(self) -> RestClient | None:
        """The client of its process; None while there is none that is served."""
        process = self._process
        return None if process is None or process.is_gone else process.client()

    def record_cancel(self) -> None:
        """Record that it is cancelled, which the leading dispatcher then does."""
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

    def put_away(self) -> None:
        """The dispatcher ends, and so has its process: keep what it has left on this machine."""
        process = self._process
        if process is not None and process.is_gone:
            process.kill_session()
            self._keep_logs(process)
            process.remove_folder()

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
            elif now - self._looked_at >= (_LOOK_SECONDS if self._around.is_watched() else _SELDOM_SECONDS):
                self._looked_at = now
                self._around.workers.submit(self._look, self._process)
        elif self._is_given_up:
            self._finish(AttemptEnd(JobStatus.CANCELED.name, None, "it was cancelled", millis()))
        elif self._claimed_by is not None:
            self._find_process()
        elif self._start_at is not None and now >= self._start_at:
            self._start(now)

    def sync(self) -> None:
        """Look whether another dispatcher was to cancel it, or has seen its end."""
        if self.record.is_cancelled:
            self.give_up()
        end = self.record.end()
        if end is not None:
            self.kill()
            self.put_away()
            self._process = None
            self._show_end(end)
            self.end = end

    def _replay(self) -> None:
        """Have earlier crashes count, which another dispatcher may have seen."""
        for number in self.record.attempts()[:-1]:
            end = self.record.end_of(number)
            if end is not None and _is_crash(end):
                self._clock.at = end.time
                self._crashes += 1
                self._next_delay()
        self._clock.at = None

    def _find_process(self) -> None:
        """Find out what earlier dispatchers have come to."""
        attempts = self.record.attempts()
        self._attempt = attempts[-1] if attempts else 0
        end = self.record.end_of(self._attempt) if attempts else None
        started = self.record.process_of(self._attempt) if attempts else None
        if started is not None and started.process.is_here and (end is None or Path(started.folder).is_dir()):
            self._claimed_by = self._start_at = None
            self._process = JobProcessHandle(started)
        elif end is not None:
            self._take_end(end)
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

    def _start(self, now: float) -> None:
        """Begin the next attempt, and start its process once those of earlier ones are gone."""
        begun = self._begun or self._begin(now)
        if begun is None:
            self._find_process()  # another dispatcher was faster
            return
        self._begun = begun
        if now < begun.until and any(self.record.end_of(number) is None for number in begun.others):
            return
        self._begun = self._start_at = None
        self._waits_for = ""
        try:
            self._process = self._started(self._attempt)
        except (HeadraceError, OSError) as error:
            end = AttemptEnd("", None, f"its process cannot be started: {error}", millis())
            self.record.end_attempt(self._attempt, end)
            self._take_end(end)
        else:
            logger.info(
                "job %s: attempt %d runs in process %d", self.record.name, self._attempt, self._process.process.pid
            )

    def _begin(self, now: float) -> "_BegunAttempt | None":
        """Begin the next attempt; None where another dispatcher has.

        Processes of earlier ones that have said that they run just before are ended. On other machines they end by
        themselves, as their storage shows a later attempt; a machine that is away for so long that no dispatcher waits
        for it any more writes nothing, since the job has another generation.
        """
        attempts = self.record.attempts()
        number = max(attempts, default=0) + 1
        if number != self._attempt + 1 or not self.record.begin_attempt(number, self._around.generation()):
            return None
        self._attempt = number
        others = []
        for earlier in attempts:
            started = None if self.record.end_of(earlier) is not None else self.record.process_of(earlier)
            if started is not None and started.process.is_here:
                JobProcessHandle(started).kill()
            elif started is not None:
                others.append(earlier)
        return _BegunAttempt(tuple(others), now + _AWAY_SECONDS)

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
        process.kill_session()
        end = self.record.end_of(self._attempt)
        if end is None and self.record.is_superseded(self._attempt):
            self._process = None
            self._find_process()
            return
        if end is None:
            end = AttemptEnd("", process.code, "", millis())
            self.record.end_attempt(self._attempt, end)
        if end.code != 0 and not end.message:
            log = process.log(LOG).tail(_MOST_LOG_BYTES)
            log_end = "" if log is None else without_secrets(log.text.strip())
            end = replace(end, message=_how(end.code) + (f"; its log ends:\n{log_end}" if log_end else ""))
        self._keep_logs(process)
        process.remove_folder()
        self._process = None
        self._take_end(end)

    def _take_end(self, end: AttemptEnd) -> None:
        """An attempt has ended: for good, or the job is run again."""
        self._claimed_by = None
        if self._is_given_up:
            has_ended = end.status in (JobStatus.FINISHED.name, JobStatus.FAILED.name)
            self._finish(end if has_ended else replace(end, status=JobStatus.CANCELED.name))
        elif end.code in _INTERRUPTED:
            self._start_at = time.monotonic()
        elif not _is_crash(end):
            status = end.status or (JobStatus.FINISHED if end.code == 0 else JobStatus.FAILED).name
            self._finish(replace(end, status=status))
        else:
            self._crashed(end)

    def _crashed(self, end: AttemptEnd) -> None:
        delay = self._next_delay()
        self._record_crash(end, delay)
        self._crashes += 1
        if delay is None:
            self._finish(replace(end, status=JobStatus.FAILED.name))
            return
        logger.warning("job %s: %s; it is started again in %.1f s", self.record.name, end.message, delay)
        self._start_at = time.monotonic() + delay
        changed = (*self.last_snapshot.history, StatusChange(JobStatus.RESTARTING, millis()))
        self.last_snapshot = replace(self.last_snapshot, history=changed)

    def _record_crash(self, end: AttemptEnd, delay: float | None) -> None:
        """Have the crash among the failures of the job, where it has a checkpoint directory already."""
        failure = JobFailure(
            number=len(self.last_snapshot.failures) + 1,
            time=end.time,
            epoch=0 if self.last_snapshot.latest is None else self.last_snapshot.latest.epoch,
            error=ProcessDiedError.__name__,
            message=end.message,
            restarts=self._crashes,
            restart_in=delay,
        )
        directory = self.configuration.get(options.CHECKPOINT_DIR)
        try:
            if directory is not None and has_begun(folder := open_storage(directory, options=self._storage_options())):
                history = FailureHistory(folder, self.configuration.get(scheduler_options.EXCEPTION_HISTORY_SIZE))
                failure = history.add(failure)
        except (OSError, HeadraceError) as error:
            logger.warning("job %s: a crash cannot be kept in its history: %s", self.record.name, error)
        self.last_snapshot = replace(self.last_snapshot, failures=(*self.last_snapshot.failures, failure))

    def _storage_options(self) -> dict[str, str]:
        return Configuration.from_dict(dict(self.submission.settings)).storage_options()

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
            report = read_archive(self._around.archives, self.submission.job_id)
        except FileNotFoundError:
            report = None
        if (
            report is not None
            and report.snapshot.status is status
            and report.snapshot.history[0].time >= self.submission.time
        ):
            self.last_snapshot = report.snapshot
            self.describe(report.configuration, report.place, report.lineage)
            return
        self.last_snapshot = _ended(self.last_snapshot, status, end)
        write_archive(self._around.archives, to_document(self.last_snapshot, self.configuration, self.lineage()))

    def _have_given_up(self, process: JobProcessHandle, now: float) -> None:
        if self._killed_at is None:
            self._killed_at = now + _CANCEL_SECONDS
            self.last_snapshot = replace(
                self.last_snapshot, history=(*self.last_snapshot.history, StatusChange(JobStatus.CANCELLING, millis()))
            )
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

    # --- its status --------------------------------------------------------------------------------------------------

    def _look(self, process: JobProcessHandle) -> None:
        """Ask its process how it fares; on a thread of its own, since it may not answer."""
        client = process.client()
        if client is None or not self._look_lock.acquire(blocking=False):
            return
        try:
            report = of_document(client.get("jobs", self.submission.job_id, "archive"))
        except (RestClientError, HeadraceError) as error:
            logger.debug("job %s does not tell how it fares: %s", self.record.name, error)
            self._waits_for = _startup_of(client)
        else:
            if self._process is process:
                self.last_snapshot = replace(report.snapshot, restarts=report.snapshot.restarts + self._crashes)
                self.describe(report.configuration, report.place, report.lineage)
                self._at_work, self._waits_for = report.at_work, report.waits_for
        finally:
            self._look_lock.release()

    def _keep_logs(self, process: JobProcessHandle) -> None:
        logs = self.record.folder.folder("logs")
        try:
            logs.make()
            for name in (OUTPUT, LOG):
                kept = process.log(name).tail(MOST_LOG_BYTES)
                if kept is not None:
                    logs.write(f"{self._kept_name(name)}.begin", [str(kept.begin).encode()])
                    logs.write(self._kept_name(name), [kept.text.encode(errors="replace")])
        except OSError as error:
            logger.warning("job %s: its logs cannot be kept: %s", self.record.name, error)

    def at_work(self) -> tuple[str, ...]:
        return self._at_work if self.last_snapshot.running is not None else ()

    def waits_for(self) -> str:
        process, begun, start_at = self._process, self._begun, self._start_at
        if self.end is not None:
            return ""
        if process is not None:
            is_new = process.client() is None or self.last_snapshot.status is JobStatus.CREATED
            return self._waits_for or ("its process starts" if is_new else "")
        if begun is not None:
            return "its process on another machine has to end before"
        if start_at is None:
            return "a process that another dispatcher may have started has to say that it runs"
        return f"its process is started in {wording.span(max(0.0, start_at - time.monotonic()))}"

    def topics(self) -> JobTopics:
        client = self.client()
        if client is None:
            return JobTopics(())
        return read_topics(client.get("jobs", self.submission.job_id, "topics"))

    def log(self, name: str, after: str = "", most: int = MOST_LOG_BYTES) -> JobLog | None:
        attempt, process = self._attempt, self._process
        number, _, position = after.partition("-")
        is_position = position.isdecimal() and len(position) <= _LONGEST_POSITION
        known = int(position) if number == str(attempt) and is_position else None
        found = None if process is None else process.log(name).tail(most, known)
        if found is None:
            found = self._kept_log(name, known, most)
        return None if found is None else JobLog(found.text, f"{attempt}-{found.end}")

    def log_size(self, name: str) -> int | None:
        process = self._process
        size = None if process is None else process.log(name).size()
        return self.record.folder.folder("logs").size(self._kept_name(name)) if size is None else size

    def _kept_log(self, name: str, after: int | None, most: int) -> LogPart | None:
        """The part of a log of the last process that the storage keeps."""
        logs, file = self.record.folder.folder("logs"), self._kept_name(name)
        try:
            kept = logs.read(file)
        except FileNotFoundError:
            return None
        begin = int(logs.read(f"{file}.begin")) if logs.size(f"{file}.begin") else 0
        if after is not None and begin <= after <= begin + len(kept):
            begin, kept = after, kept[after - begin :]
        elif len(kept) > most:
            lines = kept[-most:].partition(b"\n")[2]
            begin, kept = begin + len(kept) - len(lines), lines
        return LogPart(kept.decode(errors="replace"), begin, begin + len(kept))

    def _kept_name(self, name: str) -> str:
        return f"{self._attempt:06}.{name}"


def _startup_of(client: RestClient) -> str:
    """The reason why a process does not report on its job yet."""
    try:
        return str(client.get("jobmanager", "startup")["waits-for"])
    except RestClientError:
        return "its process does not answer"


def _is_crash(end: AttemptEnd) -> bool:
    """Return whether an attempt has ended for no reason of the program's, so that another may come further."""
    return not end.status and (end.code is None or not 0 <= end.code < 128)


def _how(code: int | None) -> str:
    """Return how a process has ended."""
    if code is None:
        return "its process is gone"
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process has ended with exit code {code}"


def _ended(job: JobSnapshot, status: JobStatus, end: AttemptEnd) -> JobSnapshot:
    """A job whose process has not recorded its end."""
    error: Exception | None = None
    if status is JobStatus.CANCELED:
        error = JobCancelledError(end.message or "it was cancelled")
    elif status is JobStatus.FAILED:
        error = JobExecutionError(end.message)
    failures = job.failures
    if status is JobStatus.FAILED and error is not None and (not failures or failures[-1].message != end.message):
        known = JobFailure(len(failures) + 1, end.time, 0, type(error).__name__, end.message)
        failures = (*failures, known)
    epoch = None if job.latest is None else job.latest.epoch
    over = JobEnd(epoch, status is JobStatus.FINISHED, error)
    return replace(job, history=(*job.history, StatusChange(status, end.time)), failures=failures, end=over)
