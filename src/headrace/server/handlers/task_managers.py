"""Task managers: the process of each job, with its logs."""

import os
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

from headrace.reporters.sampler import driver_place
from headrace.server.errors import not_found
from headrace.server.handlers.cluster import thread_dump
from headrace.server.jobs import LOGS, ServedJob
from headrace.server.models import cluster as models
from headrace.server.requests import RestRequest
from headrace.server.vertices import slots_of, tasks_of
from headrace.server.wire import parts_of


def task_managers(request: RestRequest) -> models.TaskManagers:
    """Return where tasks run."""
    return models.TaskManagers([_task_manager(jobs) for jobs in _places(request, with_ended=False).values()])


def task_manager(request: RestRequest) -> models.TaskManagerDetails:
    """Return one place where tasks run."""
    served = _jobs_there(request)
    jobs = [job.snapshot() for job in served]
    allocated = [
        models.SlotInfo(job.job_id, _profile(1), tasks_of(job) // max(1, slots_of([job])))
        for job in jobs
        for _ in range(slots_of([job]))
    ]
    return models.TaskManagerDetails(**parts_of(_task_manager(served)), allocated=allocated, metrics=_NO_METRICS)


def logs(request: RestRequest) -> models.LogList:
    """Return the files of its log: of the job of a dispatcher; other processes log to their standard error alone."""
    files = [
        models.LogFile(name, size, 0)
        for job in _jobs_there(request)[-1:]
        for name in LOGS
        if (size := job.log_size(name)) is not None
    ]
    return models.LogList(files)


def log(request: RestRequest) -> models.TextFile:
    """Return the end of its log: of the job of a dispatcher; other processes log to their standard error alone."""
    return _file(request, request.parameters.get("filename", "log"))


def stdout(request: RestRequest) -> models.TextFile:
    """Return the end of what it has printed, likewise."""
    return _file(request, "stdout")


def _file(request: RestRequest, name: str) -> models.TextFile:
    served = _jobs_there(request)
    found = served[-1].log(name) if served and name in LOGS else None
    if found is None:
        raise not_found("the process logs to its standard error, and knows no such file")
    return models.TextFile(found.text, found.position)


def threads(request: RestRequest) -> models.ThreadDump:
    """Return what the threads of the process are at; those of the job of a dispatcher are not known."""
    _jobs_there(request)
    if request.parameters["taskmanagerid"] != driver_place()["tm_id"]:
        raise not_found("the threads of another process are not known here: ask it by py-spy, say")
    return thread_dump(request)


def _jobs_there(request: RestRequest) -> list[ServedJob]:
    """The jobs of the process that the path names.

    Raises:
        RestError: when there is no such process.
    """
    found = _places(request, with_ended=True).get(request.parameters["taskmanagerid"])
    if found is None:
        raise not_found(f"Could not find TaskExecutor with id {request.parameters['taskmanagerid']}.")
    return found


def _places(request: RestRequest, *, with_ended: bool) -> dict[str, list[ServedJob]]:
    """The jobs by the processes that they run in: this one, or those of a dispatcher."""
    serves_itself = request.service.dispatcher is None and not request.service.is_history
    found: dict[str, list[ServedJob]] = {driver_place()["tm_id"]: []} if serves_itself else {}
    for job in request.service.jobs.all():
        if serves_itself or with_ended or not job.snapshot().status.is_terminal_state():
            found.setdefault(job.place["tm_id"], []).append(job)
    return found


def _task_manager(served: list[ServedJob]) -> models.TaskManager:
    jobs = [job.snapshot() for job in served]
    slots, place = slots_of(jobs), served[-1].place if served else driver_place()
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
        assigned_tasks=sum(map(tasks_of, jobs)),
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
