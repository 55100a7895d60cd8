"""The dispatcher: while it leads it sees to the jobs of its cluster, and takes programs in; else it stands by."""

import secrets
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from headrace.checkpoint.directory import Generations, has_begun
from headrace.common import options, server_options
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, HeadraceError
from headrace.common.logs import get_logger
from headrace.jobmanager.settings import restart_strategy
from headrace.plan.job_plan import JobPlan
from headrace.server.cluster.leadership import Leadership
from headrace.server.cluster.managed_job import ManagedJob, Surroundings
from headrace.server.cluster.processes import JobTask, planned, remove_folder, work_folder
from headrace.server.cluster.programs import Programs
from headrace.server.cluster.records import PROGRAM, RunRecord, RunRecords, Submission, millis
from headrace.server.errors import RestError, check_id, conflict, not_found
from headrace.server.jobs import ServedJob, ServedJobs
from headrace.storage.locations import open_storage

logger = get_logger(__name__)

_STEP_SECONDS: Final = 0.1

_SYNC_SECONDS: Final = 2.0
"""The interval of looks for new jobs: another dispatcher may have taken one in, before it has stood by."""

_THREAD_SECONDS: Final = 30.0
"""A thread that is to end has this time: it may be waiting for the storage."""

_WORKERS: Final = 8

_WATCHED_SECONDS: Final = 15.0
"""The time after a request for which the dispatcher counts as watched."""


@dataclass(frozen=True, slots=True)
class WantedRun:
    """A request to run a program.

    Attributes:
        program: the id of the program.
        arguments: its arguments.
        settings: the settings that it is given, which win over those of the cluster.
        entry: the script in an archive; empty for the usual one.
        job_id: the id that the job gets; None for any. A second request with the same one gets the same job.
    """

    program: str
    arguments: tuple[str, ...] = ()
    settings: Mapping[str, str] | None = None
    entry: str = ""
    job_id: str | None = None


class Dispatcher(ServedJobs):
    """One of the dispatchers of a cluster; from any thread.

    Args:
        configuration: that of the cluster: where its storage is, and what all of its jobs have.
        address: where it is served.

    Attributes:
        programs: the programs that were uploaded.

    Raises:
        ConfigurationError: when the storage is not given, or cannot be used.
    """

    def __init__(self, configuration: Configuration, address: str) -> None:
        super().__init__()
        location = configuration.get(server_options.CLUSTER_DIR)
        if location is None:
            raise ConfigurationError(
                f"{server_options.CLUSTER_DIR.key} has to say where programs, jobs and logs are kept"
            )
        self._configuration = configuration
        self._storage = open_storage(location, options=configuration.storage_options())
        self._storage.make()
        self.programs = Programs(self._storage)
        self._records = RunRecords(self._storage)
        self._leadership = Leadership(
            self._storage.folder("leader"), address, configuration.get(server_options.CLUSTER_LEASE) / 1000
        )
        archives = configuration.get(server_options.ARCHIVE_DIR) or f"{self._storage}/archives"
        self._defaults = {**_of_jobs(configuration), server_options.ARCHIVE_DIR.key: archives}
        self._around = Surroundings(
            location=str(self._storage),
            storage_options=configuration.storage_options(),
            archives=open_storage(archives, options=configuration.storage_options()),
            workers=ThreadPoolExecutor(_WORKERS, thread_name_prefix="headrace-dispatcher-worker"),
            generation=lambda: self._leadership.generation or 0,
            is_watched=lambda: time.monotonic() - self._requested_at < _WATCHED_SECONDS,
        )
        self._requested_at = time.monotonic()
        self._runs: dict[str, ManagedJob] = {}
        self._leads = False
        self._stops = threading.Event()
        self._leaves = threading.Event()
        self._synced_at = 0.0
        self._knows_jobs = False
        self._failed = ""
        self._lock = threading.Lock()
        self._leading = threading.Thread(target=self._lead, name="headrace-leadership", daemon=True)
        self._managing = threading.Thread(target=self._manage, name="headrace-dispatcher", daemon=True)

    # --- its life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to lead, or to stand by."""
        self._leading.start()
        self._managing.start()

    @property
    def takes_programs(self) -> bool:
        """True if programs can be uploaded."""
        return self._configuration.get(server_options.WEB_SUBMIT)

    @property
    def leads(self) -> bool:
        """True while it leads, and knows the jobs of the cluster."""
        return self._leads and self._knows_jobs

    def abandon(self) -> None:
        """Lead no more, and leave the processes of jobs to another dispatcher."""
        self._stops.set()
        self._managing.join(_THREAD_SECONDS)
        self._leaves.set()
        self._leading.join(_THREAD_SECONDS)
        self._leads = False
        self._leadership.leave()
        self._around.workers.shutdown(wait=False, cancel_futures=True)

    def stop(self) -> None:
        """Stop all jobs at the end of their epochs, and lead no more; the next dispatcher goes on with them."""
        self._stops.set()
        self._managing.join(_THREAD_SECONDS)
        running = [job for job in self._runs.values() if job.is_running] if self._leads else []
        for job in running:
            job.terminate()
        until = time.monotonic() + self._configuration.get(server_options.CLUSTER_STOP_TIMEOUT) / 1000
        while any(job.is_running for job in running) and time.monotonic() < until:
            time.sleep(_STEP_SECONDS)
        for job in running:
            if job.is_running:
                logger.warning("job %s has not stopped in time: its process is killed", job.record.name)
                job.kill()
            job.put_away()
        self.abandon()

    def _lead(self) -> None:
        pause = self._configuration.get(server_options.CLUSTER_LEASE) / 1000 / 16
        while not self._leaves.is_set():
            try:
                self._leads = self._leadership.look()
            except (OSError, HeadraceError) as error:
                self._complain(f"the storage of the cluster cannot be used: {error}")
            self._leaves.wait(pause)

    def _manage(self) -> None:
        while not self._stops.is_set():
            if self._leads:
                self._step()
            elif self._knows_jobs:
                self._knows_jobs, self._runs, self._synced_at = False, {}, 0.0
            self._stops.wait(_STEP_SECONDS)

    def _step(self) -> None:
        try:
            if time.monotonic() - self._synced_at >= _SYNC_SECONDS:
                self._sync()
                self._forget()
                self._synced_at, self._knows_jobs = time.monotonic(), True
        except (OSError, HeadraceError) as error:
            self._complain(f"the jobs of the cluster cannot be listed: {error}")
        for job in list(self._runs.values()):
            try:
                job.step()
            except (OSError, HeadraceError) as error:
                self._complain(f"job {job.record.name}: {error}")

    def _complain(self, what: str) -> None:
        if what != self._failed:
            self._failed = what
            logger.warning("%s", what)

    def _sync(self) -> None:
        for name in self._records.names():
            try:
                self._sync_run(name)
            except (OSError, HeadraceError) as error:
                self._complain(f"job {name}: {error}")

    def _forget(self) -> None:
        """Remove the oldest of the jobs that have ended, where there are too many; their archives stay."""
        ended = sorted((job for job in self._runs.values() if job.end is not None), key=lambda job: job.submission.time)
        most = self._configuration.get(server_options.JOBSTORE_CAPACITY)
        for job in ended[: max(0, len(ended) - most)]:
            job.record.remove()
            with self._lock:
                self._runs = {name: each for name, each in self._runs.items() if each is not job}

    def _sync_run(self, name: str) -> None:
        known = self._runs.get(name)
        if known is None:
            record = self._records.get(name)
            submission = record.submission()
            if submission is not None:
                self._add(record, submission)
        elif known.end is None:
            known.sync()

    def _add(self, record: RunRecord, submission: Submission) -> ManagedJob:
        with self._lock:
            if record.name not in self._runs:
                self._runs = {**self._runs, record.name: ManagedJob(record, submission, self._around)}
            return self._runs[record.name]

    # --- jobs --------------------------------------------------------------------------------------------------------

    def check_leads(self) -> None:
        """See that this dispatcher leads.

        Raises:
            RestError: when another one does, with its address.
        """
        if not self.leads:
            leader = None if self._leads else self._leadership.leader
            where = (
                "no dispatcher leads yet: try again" if leader is None else f"the one that leads is at {leader.address}"
            )
            raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, f"this dispatcher stands by; {where}")

    def check_ready(self) -> None:
        self.check_leads()

    def all(self) -> list[ServedJob]:
        """All jobs, in the order in which they were submitted; of several runs of a job the last one."""
        self.check_leads()
        self._requested_at = time.monotonic()
        runs = sorted(self._runs.values(), key=lambda job: (job.submission.time, job.record.name))
        return list({job.submission.job_id: job for job in runs}.values())

    def get(self, job_id: str) -> ServedJob:
        """A job by its id.

        Raises:
            RestError: when there is none.
        """
        check_id("jobid", job_id)
        found = next((job for job in self.all() if isinstance(job, ManagedJob) and job.record.job_id == job_id), None)
        if found is None:
            raise not_found(f"Job {job_id} not found")
        return found

    def storage_options(self) -> dict[str, str]:
        """Return how storages are reached."""
        return self._configuration.storage_options()

    # --- programs ----------------------------------------------------------------------------------------------------

    def run(self, wanted: WantedRun) -> str:
        """Have a program run.

        Returns:
            The id of its job, which is recorded: whatever becomes of this dispatcher, it will run.

        Raises:
            RestError: when there is no such program, or its job runs already.
            ConfigurationError: when a setting cannot be right.
        """
        self.check_leads()
        program = self.programs.get(wanted.program)
        if wanted.job_id is not None:
            check_id("jobId", wanted.job_id)
            if any(run.submission() is not None for run in self._records.of_job(wanted.job_id)):
                return wanted.job_id
        job_id, settings = self._settings(wanted)
        _check(Configuration.from_dict(settings))
        self._refuse_second(job_id)
        record = self._records.next_of(job_id)
        self.programs.copy(program, record.folder.folder(PROGRAM))
        submission = Submission(job_id, program.name, wanted.arguments, settings, wanted.entry, millis())
        if not record.submit(submission):
            raise conflict(f"Job {job_id} has just been submitted by another client: try again")
        self._add(record, submission)
        return job_id

    def plan(self, wanted: WantedRun) -> JobPlan:
        """The plan of the job that a program would run.

        Raises:
            RestError: when there is no such program.
            HeadraceError: when it comes to no job.
        """
        program = self.programs.get(wanted.program)
        settings = {**self._defaults, **(wanted.settings or {})}
        folder = work_folder("plan")
        try:
            path = folder / program.name
            with path.open("xb") as file:
                file.writelines(self.programs.blocks(program))
            return planned(folder, JobTask("", {}, "", 0, str(path), wanted.entry, wanted.arguments, settings))
        finally:
            remove_folder(folder)

    def _refuse_second(self, job_id: str) -> None:
        for run in self._records.of_job(job_id):
            if run.submission() is not None and run.end() is None:
                raise conflict(
                    f"Job {job_id} runs already in that checkpoint directory: stop it first, or give another "
                    f"{options.CHECKPOINT_DIR.key}"
                )

    def _settings(self, wanted: WantedRun) -> tuple[str, dict[str, str]]:
        """The id of the job that is wanted, and its settings: known by its checkpoint directory, it has one."""
        given = wanted.settings or {}
        foreign = sorted(key for key in given if key.startswith(_OWN))
        if foreign:
            raise ConfigurationError(f"{foreign[0]} is a setting of the dispatcher, which serves the job: leave it out")
        settings = {**self._defaults, **given}
        directory = settings.get(options.CHECKPOINT_DIR.key)
        job_id = wanted.job_id or secrets.token_hex(16)
        if directory is None:
            settings[options.CHECKPOINT_DIR.key] = f"{self._storage}/checkpoints/{job_id}"
        else:
            folder = open_storage(directory, options=Configuration.from_dict(settings).storage_options())
            settings[options.CHECKPOINT_DIR.key] = str(folder)
            if has_begun(folder):
                job_id = Generations(folder.folder("generations")).job_id() or job_id
        return job_id, {**settings, server_options.FIXED_JOB_ID.key: job_id}


def _check(configuration: Configuration) -> None:
    """See that a job can be run with a configuration.

    Raises:
        ConfigurationError: when it cannot.
    """
    configuration.validate()
    restart_strategy(configuration)
    if configuration.to_dict().get(_DEPLOY_MODE, "client") != "client":
        raise ConfigurationError(
            f"{_DEPLOY_MODE}={configuration.to_dict()[_DEPLOY_MODE]}: the driver of a job is a process of the "
            "dispatcher's machine, which Spark calls client mode; only executors are elsewhere. Leave it out"
        )


_DEPLOY_MODE: Final = "spark.submit.deployMode"

_OWN: Final = (
    "rest.",
    "security.ssl.",
    "high-availability.",
    "historyserver.",
    "web.",
    "headrace.cluster.",
    "jobstore.",
)


def _of_jobs(configuration: Configuration) -> dict[str, str]:
    """The settings of a cluster that its jobs have, unless their submission says otherwise."""
    given = configuration.to_dict()
    return {key: value for key, value in given.items() if not key.startswith(_OWN)}
