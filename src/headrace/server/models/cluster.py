"""The process as a whole: what Flink calls the cluster."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from headrace.server.wire import model, wire


@model
class Empty:
    """An empty answer."""


@model
class ErrorResponse:
    """The reason why there is no answer."""

    errors: Sequence[str]


@model
class ClusterOverview:
    """The number of slots and jobs."""

    taskmanagers: int
    taskmanagers_blocked: int = wire("taskmanagers-blocked")
    slots_total: int = wire("slots-total")
    slots_available: int = wire("slots-available")
    slots_free_and_blocked: int = wire("slots-free-and-blocked")
    jobs_running: int = wire("jobs-running")
    jobs_finished: int = wire("jobs-finished")
    jobs_cancelled: int = wire("jobs-cancelled")
    jobs_failed: int = wire("jobs-failed")
    flink_version: str = wire("flink-version")
    flink_commit: str = wire("flink-commit")


@model
class DashboardFeatures:
    """The features of a dashboard."""

    web_submit: bool = wire("web-submit")
    web_cancel: bool = wire("web-cancel")
    web_rescale: bool = wire("web-rescale")
    web_history: bool = wire("web-history")


@model
class DashboardConfiguration:
    """The configuration that a dashboard reads first."""

    refresh_interval: int = wire("refresh-interval")
    timezone_name: str = wire("timezone-name")
    timezone_offset: int = wire("timezone-offset")
    flink_version: str = wire("flink-version")
    flink_revision: str = wire("flink-revision")
    features: DashboardFeatures


@model
class ConfigurationEntry:
    """A key and its value; secrets are masked."""

    key: str
    value: str


@model
class Health:
    """The answer to a probe."""

    status: str


@model
class Startup:
    """The reason why the job of a process has not begun; empty for none."""

    waits_for: str = wire("waits-for")


@model
class InterpreterInfo:
    """The interpreter, where Flink has its virtual machine."""

    version: str
    arch: str
    options: Sequence[str]


@model
class Environment:
    """The environment of the process; the class path is the one that modules are imported from."""

    jvm: InterpreterInfo
    classpath: Sequence[str]


@model
class LogFile:
    """A log of a process, by the name under which it is served."""

    name: str
    size: int
    mtime: int


@model
class LogList:
    """The files of a log; none where a process logs to its standard error alone."""

    logs: Sequence[LogFile]


LOG_POSITION: Final = "X-Log-Position"
"""The header of an answer with a log that says where it ends: `?after=` with that requests what comes later."""


class TextFile(NamedTuple):
    """The content of a file, which is the answer as it is.

    Attributes:
        text: the content.
        position: where it ends in what is still written; empty for a file that is given as a whole each time.
    """

    text: str
    position: str = ""


@model
class ThreadInfo:
    """The stack of a thread."""

    thread_name: str = wire("threadName")
    text: str = wire("stringifiedThreadInfo")


@model
class ThreadDump:
    """The stacks of all threads."""

    thread_infos: Sequence[ThreadInfo] = wire("threadInfos")


@model
class ResourceProfile:
    """The resources of a machine that something needs; only the cores are known."""

    cpu_cores: float = wire("cpuCores")
    task_heap: int = wire("taskHeapMemory")
    task_off_heap: int = wire("taskOffHeapMemory")
    managed: int = wire("managedMemory")
    network: int = wire("networkMemory")
    extended: Mapping[str, float] = wire("extendedResources")


@model
class Hardware:
    """A machine."""

    cpu_cores: int = wire("cpuCores")
    physical_memory: int = wire("physicalMemory")
    free_memory: int = wire("freeMemory")
    managed_memory: int = wire("managedMemory")


@model
class SlotInfo:
    """The slots of a job at a task manager."""

    job_id: str = wire("jobId")
    resource: ResourceProfile
    assigned_tasks: int = wire("assignedTasks")


@model
class TaskManager:
    """The process of the jobs, which runs their tasks itself or has Spark run them."""

    id: str
    path: str
    data_port: int = wire("dataPort")
    jmx_port: int = wire("jmxPort")
    heartbeat: int = wire("timeSinceLastHeartbeat")
    slots: int = wire("slotsNumber")
    free_slots: int = wire("freeSlots")
    assigned_tasks: int = wire("assignedTasks")
    total: ResourceProfile = wire("totalResource")
    free: ResourceProfile = wire("freeResource")
    hardware: Hardware
    memory: Mapping[str, int] = wire("memoryConfiguration")


@model
class TaskManagers:
    """The answer of ``/taskmanagers``."""

    taskmanagers: Sequence[TaskManager]


@model
class TaskManagerDetails(TaskManager):
    """A task manager, and what jobs have of it."""

    allocated: Sequence[SlotInfo] = wire("allocatedSlots")
    metrics: Mapping[str, Any]
