"""The process: its overview, what dashboards have to know, configuration, threads; and probes."""

import os
import platform
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from types import FrameType
from typing import Any, Final, NoReturn

import headrace
from headrace.common.configuration import masked
from headrace.common.job_status import JobStatus
from headrace.jobmanager.status import JobSnapshot
from headrace.reporters.sampler import driver_place
from headrace.server.errors import not_found
from headrace.server.models import cluster as models
from headrace.server.requests import RestRequest
from headrace.server.wire import parts_of

FLINK_VERSION: Final = "2.3.0"
"""The version of Flink whose API this is; its clients look at it."""

_REVISION: Final = f"headrace {headrace.__version__}"


def overview(request: RestRequest) -> models.ClusterOverview:
    """Return how many slots and jobs there are."""
    jobs = _snapshots(request)
    statuses = Counter(job.status for job in jobs)
    ended = sum(number for status, number in statuses.items() if status.is_terminal_state())
    slots = _slots(jobs)
    return models.ClusterOverview(
        taskmanagers=1,
        taskmanagers_blocked=0,
        slots_total=slots,
        slots_available=0,
        slots_free_and_blocked=0,
        jobs_running=len(jobs) - ended,
        jobs_finished=statuses[JobStatus.FINISHED] + statuses[JobStatus.SUSPENDED],
        jobs_cancelled=statuses[JobStatus.CANCELED],
        jobs_failed=statuses[JobStatus.FAILED],
        flink_version=FLINK_VERSION,
        flink_commit=_REVISION,
    )


def dashboard_configuration(request: RestRequest) -> models.DashboardConfiguration:
    """Return what a dashboard asks for first."""
    local = time.localtime()
    return models.DashboardConfiguration(
        refresh_interval=request.service.refresh_millis,
        timezone_name=local.tm_zone,
        timezone_offset=local.tm_gmtoff * 1000,
        flink_version=FLINK_VERSION,
        flink_revision=_REVISION,
        features=models.DashboardFeatures(
            web_submit=request.service.takes_programs,
            web_cancel=not request.service.is_history,
            web_rescale=False,
            web_history=request.service.is_history,
        ),
    )


def configuration(request: RestRequest) -> list[models.ConfigurationEntry]:
    """Return the configuration of the last job; secrets are masked."""
    jobs = request.service.jobs.all()
    given = masked(jobs[-1].configuration.to_dict()) if jobs else {}
    return [models.ConfigurationEntry(key, value) for key, value in given.items()]


def configuration_of_job(request: RestRequest) -> list[models.ConfigurationEntry]:
    """Return the configuration of a job; secrets are masked."""
    given = masked(request.job().configuration.to_dict())
    return [models.ConfigurationEntry(key, value) for key, value in given.items()]


def configuration_of_application(request: RestRequest) -> list[models.ConfigurationEntry]:
    """Return the configuration of the job of an application; secrets are masked."""
    job = request.service.jobs.get(request.parameters["applicationid"])
    return [models.ConfigurationEntry(key, value) for key, value in masked(job.configuration.to_dict()).items()]


def environment(request: RestRequest) -> models.Environment:
    """Return the interpreter, and where it finds modules; its arguments may have secrets in them, and are left out."""
    version = f"{platform.python_implementation()} {platform.python_version()}"
    return models.Environment(models.InterpreterInfo(version, platform.machine(), ()), list(sys.path))


def environment_of_job(request: RestRequest) -> models.Environment:
    """Return the interpreter of a job's process."""
    request.job()
    return environment(request)


def logs(request: RestRequest) -> models.LogList:
    """Return the files of the log: none, as the process logs to its standard error."""
    return models.LogList(())


def log(request: RestRequest) -> NoReturn:
    """Refuse to return a file of the log, of which there is none."""
    raise not_found("the process logs to its standard error, and knows no file of that")


def thread_dump(request: RestRequest) -> models.ThreadDump:
    """Return what all threads of the process are at."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    found = [
        models.ThreadInfo(names.get(ident, str(ident)), f'"{names.get(ident, ident)}" Id={ident}\n{_stack(frame)}\n')
        for ident, frame in sys._current_frames().items()
    ]
    return models.ThreadDump(found)


def _stack(frame: FrameType) -> str:
    return "".join(f"\tat {line.strip()}\n" for line in reversed(traceback.format_stack(frame)))


def task_managers(request: RestRequest) -> models.TaskManagers:
    """Return where tasks run."""
    return models.TaskManagers([_task_manager(_snapshots(request))])


def task_manager(request: RestRequest) -> models.TaskManagerDetails:
    """Return one place where tasks run."""
    jobs = _snapshots(request)
    known = _the_task_manager(request)
    allocated = [
        models.SlotInfo(job.job_id, _profile(1), _tasks(job) // max(1, _slots([job])))
        for job in jobs
        for _ in range(_slots([job]))
    ]
    return models.TaskManagerDetails(**parts_of(known), allocated=allocated, metrics=_NO_METRICS)


def task_manager_logs(request: RestRequest) -> models.LogList:
    """Return the files of its log: none."""
    _the_task_manager(request)
    return models.LogList(())


def task_manager_log(request: RestRequest) -> NoReturn:
    """Refuse to return a file of its log, of which there is none."""
    _the_task_manager(request)
    log(request)


def task_manager_threads(request: RestRequest) -> models.ThreadDump:
    """Return what the threads of the process are at."""
    _the_task_manager(request)
    return thread_dump(request)


def _the_task_manager(request: RestRequest) -> models.TaskManager:
    known = _task_manager(_snapshots(request))
    if request.parameters["taskmanagerid"] != known.id:
        raise not_found(f"Could not find TaskExecutor with id {request.parameters['taskmanagerid']}.")
    return known


def _task_manager(jobs: list[JobSnapshot]) -> models.TaskManager:
    slots, place = _slots(jobs), driver_place()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") if sys.platform == "linux" else 0
    return models.TaskManager(
        id=place["tm_id"],
        path=place["host"],
        data_port=-1,
        jmx_port=-1,
        heartbeat=time.time_ns() // 1_000_000,
        slots=slots,
        free_slots=0,
        assigned_tasks=sum(map(_tasks, jobs)),
        total=_profile(slots),
        free=_profile(0),
        hardware=models.Hardware(os.cpu_count() or 1, memory, free, 0),
        memory=dict.fromkeys(_PARTS_OF_MEMORY, 0),
    )


_PARTS_OF_MEMORY: Final = (
    "frameworkHeap",
    "taskHeap",
    "frameworkOffHeap",
    "taskOffHeap",
    "networkMemory",
    "managedMemory",
    "jvmMetaspace",
    "jvmOverhead",
    "totalFlinkMemory",
    "totalProcessMemory",
)

_NO_METRICS: Final[Mapping[str, Any]] = dict.fromkeys(
    (
        *("heapUsed", "heapCommitted", "heapMax", "nonHeapUsed", "nonHeapCommitted", "nonHeapMax"),
        *("directCount", "directUsed", "directMax", "mappedCount", "mappedUsed", "mappedMax"),
        *("nettyShuffleMemorySegmentsAvailable", "nettyShuffleMemorySegmentsUsed"),
        *("nettyShuffleMemorySegmentsTotal", "nettyShuffleMemoryAvailable", "nettyShuffleMemoryUsed"),
        "nettyShuffleMemoryTotal",
    ),
    0,
) | {"garbageCollectors": []}
"""The metrics of a Java virtual machine, which a job here does not have."""


def _profile(slots: int) -> models.ResourceProfile:
    return models.ResourceProfile(float(slots), 0, 0, 0, 0, {})


def _slots(jobs: list[JobSnapshot]) -> int:
    """Return the largest number of tasks that may run at the same time, of jobs that have not ended."""
    plans = [job.plan for job in jobs if job.plan is not None and not job.status.is_terminal_state()]
    return sum(max(stage.parallelism for stage in plan.stages) for plan in plans)


def _tasks(job: JobSnapshot) -> int:
    if job.plan is None or job.status.is_terminal_state():
        return 0
    return sum(planned.parallelism for planned in job.plan.operators())


def health(request: RestRequest) -> models.Health:
    """Return that the server answers."""
    return models.Health("ok")


def readiness(request: RestRequest) -> models.Health:
    """Return that a job runs, or that the dispatcher leads; an error where none does."""
    request.service.jobs.check_ready()
    return models.Health("ok")


def _snapshots(request: RestRequest) -> list[JobSnapshot]:
    return [job.snapshot() for job in request.service.jobs.all()]
