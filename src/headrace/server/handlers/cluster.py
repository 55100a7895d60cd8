"""The process: its overview, what dashboards have to know, configuration, threads; and probes."""

import platform
import sys
import threading
import time
import traceback
from collections import Counter
from types import FrameType
from typing import Final

import headrace
from headrace.common.configuration import masked
from headrace.common.job_status import JobStatus
from headrace.server.errors import not_found
from headrace.server.models import cluster as models
from headrace.server.requests import RestRequest
from headrace.server.vertices import slots_of

FLINK_VERSION: Final = "2.3.0"
"""The version of Flink whose API this is; its clients look at it."""

_REVISION: Final = f"headrace {headrace.__version__}"


def overview(request: RestRequest) -> models.ClusterOverview:
    """Return how many slots and jobs there are."""
    served = request.service.jobs.all()
    jobs = [job.snapshot() for job in served]
    statuses = Counter(job.status for job in jobs)
    ended = sum(number for status, number in statuses.items() if status.is_terminal_state())
    slots = slots_of(jobs)
    return models.ClusterOverview(
        taskmanagers=len({job.place["tm_id"] for job in served if not job.snapshot().status.is_terminal_state()}),
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
    """Return what a dashboard requests first."""
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
    """Return the files of the log: that of a dispatcher; other processes log to their standard error alone."""
    kept = request.service.log
    return models.LogList(() if kept is None else (models.LogFile(_LOG, len(kept.text()), 0),))


def log(request: RestRequest) -> models.TextFile:
    """Return the end of the log of a dispatcher; other processes log to their standard error alone."""
    kept = request.service.log
    if kept is None or request.parameters.get("filename", _LOG) != _LOG:
        raise not_found("the process logs to its standard error, and knows no such file")
    return models.TextFile(kept.text())


_LOG: Final = "dispatcher.log"


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


def startup(request: RestRequest) -> models.Startup:
    """Return what a process of a job waits for before that begins: the line that its program is at, or Spark, say."""
    service = request.service
    if service.dispatcher is not None or service.is_history:
        raise not_found("it is no process of a job: the archive of a job says what that waits for")
    return models.Startup(service.jobs.waits_for())


def health(request: RestRequest) -> models.Health:
    """Return that the server answers."""
    return models.Health("ok")


def readiness(request: RestRequest) -> models.Health:
    """Return that a job runs, or that the dispatcher leads; an error where none does."""
    request.service.jobs.check_ready()
    return models.Health("ok")
