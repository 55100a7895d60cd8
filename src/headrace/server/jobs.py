"""The jobs of a process that are served, while they run and for a while after their end."""

import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Protocol

from headrace.common.call_site import of_function_at_work, of_stack
from headrace.common.completable_future import CompletableFuture
from headrace.common.configuration import Configuration
from headrace.common.job_status import JobStatus
from headrace.jobmanager.status import JobSnapshot
from headrace.lineage.drawing import lineage_report
from headrace.plan.job_plan import JobPlan
from headrace.plan.plan_document import is_described
from headrace.reporters.sampler import JobSampler, driver_place
from headrace.savepoint.metadata import SavepointFormat
from headrace.server.errors import RestError, check_id, conflict, not_found
from headrace.server.job_metrics import JobMetrics
from headrace.server.topics import JobTopics, TopicsOfJob

_FRESH_SECONDS: Final = 0.5

_ENDED_JOBS_KEPT: Final = 50
"""The largest number of ended jobs that are still shown: a program may run one after another."""

_LONG_SECONDS: Final = 10.0
"""The time of an epoch after which a status has the lines of the program that are at work."""

_MOST_LINES: Final = 4


LOGS: Final = ("log", "stdout")
"""The files of a process: what it has logged, and what it has printed."""

MOST_LOG_BYTES: Final = 32 << 20
"""The size of the end of a log that is kept on a storage, and served."""


@dataclass(frozen=True, slots=True)
class JobLog:
    """The end of a log.

    Attributes:
        text: what it says.
        position: where it ends; a request for what comes later names it.
    """

    text: str
    position: str


class JobControl(Protocol):
    """The status of a job and the commands that it takes, from any thread; it carries them out between two epochs."""

    def snapshot(self) -> JobSnapshot:
        """All that is known of this run of the job at this moment."""

    def cancel(self) -> CompletableFuture[None]:
        """Give up the epoch that runs and end the job."""

    def stop(self, *, drain: bool = False) -> CompletableFuture[None]:
        """End the job at the end of the epoch that runs."""

    def rescale(self, parallelism: int) -> CompletableFuture[None]:
        """Have the job go on at another parallelism."""

    def release_epoch(self) -> int:
        """Publish the epoch that is held back, which others do not wait for; gives its number."""

    def trigger_checkpoint(self) -> CompletableFuture[int]:
        """Complete an epoch at once; gives its number."""

    def trigger_savepoint(
        self, savepoint_directory: str | None = None, format_type: SavepointFormat = "canonical"
    ) -> CompletableFuture[str]:
        """Take a savepoint; gives its place."""

    def stop_with_savepoint(
        self,
        advance_to_end_of_event_time: bool,
        savepoint_directory: str | None = None,
        format_type: SavepointFormat = "canonical",
    ) -> CompletableFuture[str]:
        """Take a savepoint and end the job with it; gives its place."""


class ServedJob:
    """One job.

    Args:
        control: the job.
        configuration: what it was submitted with; there may be secrets in it.
        place: where it runs, ``host`` and ``tm_id``; in this process when left out.
        lineage: what others tell of its lineage; None where they tell nothing, or it runs here.

    Attributes:
        control: the job.
        configuration: what it was submitted with.
        place: where it runs.
    """

    def __init__(
        self,
        control: JobControl,
        configuration: Configuration,
        place: Mapping[str, str] | None = None,
        lineage: Mapping[str, Any] | None = None,
    ) -> None:
        self.control = control
        self.describe(configuration, driver_place() if place is None else place, lineage)
        self._lineage_of: JobPlan | None = None
        self._topics = TopicsOfJob(configuration)
        self._known: tuple[JobSnapshot, float, JobMetrics] | None = None

    def describe(
        self, configuration: Configuration, place: Mapping[str, str], lineage: Mapping[str, Any] | None = None
    ) -> None:
        """Tell how and where it runs, and what is known of its lineage."""
        self.configuration = configuration
        self.place = place
        self._lineage = lineage
        self._sampler = JobSampler(configuration, place)

    def log(self, name: str, after: str = "", most: int = MOST_LOG_BYTES) -> JobLog | None:
        """The end of one of the logs of its process; None where it has no such file.

        Args:
            name: one of ``LOGS``.
            after: where an earlier answer ended, if only what came later is wanted.
            most: the number of bytes that it may have.
        """
        return None

    def log_size(self, name: str) -> int | None:
        """The bytes of one of the logs of its process; None where it has no such file."""
        return None

    def lineage(self) -> Mapping[str, Any] | None:
        """Its datasets and their flow, as a document; None while they are not known."""
        plan = self.snapshot().plan
        if plan is not None and plan is not self._lineage_of and not is_described(plan):
            self._lineage, self._lineage_of = lineage_report(plan), plan
        return self._lineage

    def topics(self) -> JobTopics:
        """The topics that it reads and writes; none where it does not run."""
        job = self.snapshot()
        if job.plan is None or job.status.is_terminal_state():
            return JobTopics(())
        return self._topics.report(job.plan)

    def at_work(self) -> tuple[str, ...]:
        """The lines of the program that are at work, where an epoch takes long and runs in this process."""
        return lines_at_work(self.snapshot(), time.time_ns() // 1_000_000)

    def waits_for(self) -> str:
        """The reason why it has not begun; empty when it has begun."""
        return self.snapshot().waits_for

    def record_cancel(self) -> None:
        """Record that it is about to be canceled, so that this is known even if the process dies."""

    def measured(self) -> JobMetrics:
        """All that it measures at this moment, or has half a second ago."""
        job, known = self.snapshot(), self._known
        if known is None or known[0] is not job or time.monotonic() - known[1] > _FRESH_SECONDS:
            measures = JobMetrics(self._sampler.samples(job, time.time_ns() // 1_000_000))
            self._known = known = (job, time.monotonic(), measures)
        return known[2]

    def snapshot(self) -> JobSnapshot:
        """All that is known of it at this moment."""
        return self.control.snapshot()

    def plan(self) -> JobPlan:
        """Its plan.

        Raises:
            RestError: when it has not begun yet.
        """
        plan = self.snapshot().plan
        if plan is None:
            raise conflict(f"job {self.snapshot().name!r} has not begun yet: it is being restored")
        return plan


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


class ServedJobs:
    """The jobs of this process; from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: list[ServedJob] = []

    def add(self, job: ServedJob) -> None:
        """Serve a job from now on; of those that have ended the oldest is forgotten where there are many."""
        with self._lock:
            ended = [each for each in self._jobs if each.snapshot().status.is_terminal_state()]
            forgotten = ended[: max(0, len(ended) - _ENDED_JOBS_KEPT + 1)]
            self._jobs = [*(each for each in self._jobs if each not in forgotten), job]

    def all(self) -> list[ServedJob]:
        """The jobs whose id is known, in the order of their start; of several runs of a job the last one."""
        found: dict[str, ServedJob] = {}
        for job in list(self._jobs):
            snapshot = job.snapshot()
            if snapshot.job_id:
                found.pop(snapshot.job_id, None)
                found[snapshot.job_id] = job
        return list(found.values())

    def check_ready(self) -> None:
        """See that a job runs.

        Raises:
            RestError: when none does.
        """
        statuses = sorted({job.snapshot().status.name for job in self.all()})
        if JobStatus.RUNNING.name not in statuses:
            listed = ", ".join(statuses) or "there is none yet"
            raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, f"no job runs: {listed}")

    def waits_for(self) -> str:
        """The reason why the last job has not begun, or the program has no job yet; empty for none."""
        if self._jobs:
            return self._jobs[-1].waits_for()
        site = of_stack(sys._current_frames().get(threading.main_thread().ident or 0))
        where = "" if site is None else f": it is at {site}"
        return f"its program has not come to execute() yet{where}"

    def storage_options(self) -> dict[str, str]:
        """Return how the last job reaches storages."""
        return self._jobs[-1].configuration.storage_options() if self._jobs else {}

    def get(self, job_id: str) -> ServedJob:
        """A job by its id.

        Raises:
            RestError: when there is none.
        """
        check_id("jobid", job_id)
        for job in reversed(self._jobs):
            if job.snapshot().job_id == job_id:
                return job
        raise not_found(f"Job {job_id} not found")
