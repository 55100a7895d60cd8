"""The table of routes: each path of the REST API, and its handler."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, NamedTuple, get_type_hints

from headrace.server.handlers import (
    checkpoints,
    cluster,
    jobs,
    metrics,
    operations,
    programs,
    task_managers,
    vertices,
)
from headrace.server.handlers.programs import JarRunRequest
from headrace.server.models import operations as of_operations
from headrace.server.requests import RestRequest

Handler = Callable[[RestRequest], Any]


@dataclass(frozen=True, slots=True)
class RestRoute:
    """One path and method.

    Attributes:
        method: ``GET``, ``POST``, ``PATCH``, ``PUT`` or ``DELETE``.
        path: the path below ``/v1``, and without that as well; ``:name`` stands for a part of any name.
        handler: answers it; its docstring says with what.
        status: the status of the answer.
        query: what may follow the path.
        body: the model of the body; None where it has none.
        is_open: whether it needs no token: probes have none.
        is_drained: whether the body may be large, and is thrown away: clients that send programs read no answer before.
        is_upload: whether there is a file in the body, where programs are taken; else it is thrown away.
        blocks: whether it may wait for a storage or a process, so that it needs a thread.
        is_shared: whether its answer is of nothing but what is known of jobs, so that all clients may get the same.
        is_long: whether its answer may have many megabytes, so that few are on their way at the same time.
    """

    method: str
    path: str
    handler: Handler
    status: HTTPStatus = HTTPStatus.OK
    query: tuple[str, ...] = ()
    body: Any = None
    is_open: bool = False
    is_drained: bool = False
    is_upload: bool = False
    blocks: bool = False
    is_shared: bool = False
    is_long: bool = False

    @property
    def changes(self) -> bool:
        """True if it changes something: then a page of another site may not ask for it."""
        return self.method != "GET" or self.path.endswith("/yarn-cancel")

    def parameters(self, path: tuple[str, ...]) -> dict[str, str] | None:
        """The parts of a path that have a name; None when it is another path."""
        parts = self.path.strip("/").split("/")
        if len(parts) != len(path) or any(not p.startswith(":") and p != q for p, q in zip(parts, path, strict=True)):
            return None
        return {part[1:]: given for part, given in zip(parts, path, strict=True) if part.startswith(":")}

    @property
    def about(self) -> str:
        """The description of the route, in a sentence."""
        return (self.handler.__doc__ or "").split("\n", maxsplit=1)[0]

    @property
    def answer(self) -> Any:
        """The model of the answer."""
        return get_type_hints(self.handler)["return"]


class _Get(NamedTuple):
    """A path that changes nothing."""

    path: str
    handler: Handler
    query: tuple[str, ...] = ()


_JOB: Final = "/jobs/:jobid"
_VERTEX: Final = f"{_JOB}/vertices/:vertexid"
_CHECKPOINTS: Final = f"{_JOB}/checkpoints"
_TASK_MANAGER: Final = "/taskmanagers/:taskmanagerid"
_OF_METRICS: Final = ("get", "agg")
_OF_RUNS: Final = ("entry-class", "program-args", "parallelism", "savepointPath", "allowNonRestoredState")

_GETS: Final = (
    _Get("/config", cluster.dashboard_configuration),
    _Get("/overview", cluster.overview),
    _Get("/jobs", jobs.job_ids),
    _Get("/jobs/overview", jobs.jobs_overview),
    _Get("/jobs/metrics", metrics.all_jobs_metrics, (*_OF_METRICS, "jobs")),
    _Get(_JOB, jobs.job_details),
    _Get(f"{_JOB}/status", jobs.job_status),
    _Get(f"{_JOB}/archive", jobs.job_archive),
    _Get(f"{_JOB}/plan", jobs.job_plan),
    _Get(f"{_JOB}/config", jobs.job_configuration),
    _Get(f"{_JOB}/execution-result", jobs.execution_result),
    _Get(f"{_JOB}/accumulators", vertices.job_accumulators),
    _Get(f"{_JOB}/exceptions", jobs.exceptions, ("maxExceptions", "failureLabelFilter")),
    _Get(f"{_JOB}/metrics", metrics.job_metrics, ("get",)),
    _Get(f"{_JOB}/resource-requirements", operations.requirements),
    _Get(f"{_JOB}/jobmanager/config", cluster.configuration_of_job),
    _Get(f"{_JOB}/jobmanager/environment", cluster.environment_of_job),
    _Get(f"{_JOB}/rescaling/:triggerid", operations.rescaling_status),
    _Get(f"{_JOB}/savepoints/:triggerid", operations.savepoint_status),
    _Get(_CHECKPOINTS, checkpoints.checkpoints),
    _Get(f"{_CHECKPOINTS}/config", checkpoints.checkpoint_configuration),
    _Get(f"{_CHECKPOINTS}/details/:checkpointid", checkpoints.checkpoint_details),
    _Get(f"{_CHECKPOINTS}/details/:checkpointid/subtasks/:vertexid", checkpoints.checkpoint_of_vertex),
    _Get(f"{_CHECKPOINTS}/:triggerid", operations.checkpoint_status),
    _Get(f"{_JOB}/held-epoch", operations.held_epoch),
    _Get(_VERTEX, vertices.vertex),
    _Get(f"{_VERTEX}/accumulators", vertices.accumulators),
    _Get(f"{_VERTEX}/backpressure", vertices.back_pressure),
    _Get(f"{_VERTEX}/metrics", metrics.vertex_metrics, ("get",)),
    _Get(f"{_VERTEX}/subtasktimes", vertices.subtask_times),
    _Get(f"{_VERTEX}/taskmanagers", vertices.task_managers),
    _Get(f"{_VERTEX}/watermarks", metrics.watermarks),
    _Get(f"{_VERTEX}/subtasks/accumulators", vertices.subtask_accumulators),
    _Get(f"{_VERTEX}/subtasks/metrics", metrics.all_subtasks_metrics, (*_OF_METRICS, "subtasks")),
    _Get(f"{_VERTEX}/subtasks/:subtaskindex", vertices.subtask),
    _Get(f"{_VERTEX}/subtasks/:subtaskindex/metrics", metrics.subtask_metrics, ("get",)),
    _Get(f"{_VERTEX}/subtasks/:subtaskindex/attempts/:attempt", vertices.subtask),
    _Get(f"{_VERTEX}/flamegraph", vertices.flame_graph, ("type", "subtaskindex")),
    _Get(f"{_VERTEX}/jm-operator-metrics", metrics.no_metrics, ("get",)),
    _Get("/applications/overview", jobs.applications),
    _Get("/applications/:applicationid", jobs.application),
    _Get("/applications/:applicationid/exceptions", jobs.application_exceptions),
    _Get("/applications/:applicationid/jobmanager/config", cluster.configuration_of_application),
    _Get("/jobmanager/config", cluster.configuration),
    _Get("/jobmanager/environment", cluster.environment),
    _Get("/jobmanager/logs", cluster.logs),
    _Get("/jobmanager/log", cluster.log),
    _Get("/jobmanager/logs/:filename", cluster.log),
    _Get("/jobmanager/stdout", cluster.log),
    _Get("/jobmanager/metrics", metrics.driver_metrics, ("get",)),
    _Get("/jobmanager/thread-dump", cluster.thread_dump),
    _Get("/jobmanager/startup", cluster.startup),
    _Get("/taskmanagers", task_managers.task_managers),
    _Get("/taskmanagers/metrics", metrics.no_metrics, (*_OF_METRICS, "taskmanagers")),
    _Get(f"{_TASK_MANAGER}/metrics", metrics.no_metrics, ("get",)),
    _Get(_TASK_MANAGER, task_managers.task_manager),
    _Get(f"{_TASK_MANAGER}/thread-dump", task_managers.threads),
    _Get("/savepoint-disposal/:triggerid", operations.disposal_status),
)

_DONE: Final = (
    RestRoute("PATCH", _JOB, operations.cancel, HTTPStatus.ACCEPTED, ("mode",), blocks=True),
    RestRoute("GET", f"{_JOB}/yarn-cancel", operations.cancel, HTTPStatus.ACCEPTED, blocks=True),
    RestRoute(
        "POST", "/applications/:applicationid/cancel", operations.cancel_application, HTTPStatus.ACCEPTED, blocks=True
    ),
    RestRoute(
        "POST",
        f"{_JOB}/savepoints",
        operations.trigger_savepoint,
        HTTPStatus.ACCEPTED,
        body=of_operations.SavepointTriggerRequest,
        blocks=True,
    ),
    RestRoute(
        "POST",
        f"{_JOB}/stop",
        operations.stop_with_savepoint,
        HTTPStatus.ACCEPTED,
        body=of_operations.StopRequest,
        blocks=True,
    ),
    RestRoute(
        "POST",
        _CHECKPOINTS,
        operations.trigger_checkpoint,
        HTTPStatus.ACCEPTED,
        body=of_operations.CheckpointTriggerRequest,
        blocks=True,
    ),
    RestRoute("PATCH", f"{_JOB}/rescaling", operations.rescale, query=("parallelism",), blocks=True),
    RestRoute(
        "PUT", f"{_JOB}/resource-requirements", operations.require, body=of_operations.ResourceRequirements, blocks=True
    ),
    RestRoute("POST", f"{_JOB}/held-epoch/release", operations.release_epoch, blocks=True),
    RestRoute("POST", "/savepoint-disposal", operations.trigger_disposal, body=of_operations.SavepointDisposalRequest),
    RestRoute("POST", "/jobs", programs.submit_graph, HTTPStatus.ACCEPTED, is_drained=True),
    RestRoute("GET", "/jars", programs.programs, blocks=True),
    RestRoute("POST", "/jars/upload", programs.upload, is_drained=True, is_upload=True, blocks=True),
    RestRoute("DELETE", "/jars/:jarid", programs.delete, blocks=True),
    RestRoute("POST", "/jars/:jarid/run", programs.run, query=_OF_RUNS, body=JarRunRequest, blocks=True),
    RestRoute("GET", "/jars/:jarid/plan", programs.plan, query=_OF_RUNS, blocks=True),
    RestRoute("POST", "/jars/:jarid/plan", programs.plan_by_post, query=_OF_RUNS, body=JarRunRequest, blocks=True),
)

_LOGS: Final = (
    RestRoute("GET", f"{_JOB}/logs/:filename", jobs.job_log, query=("after",), blocks=True, is_long=True),
    RestRoute("GET", f"{_TASK_MANAGER}/logs", task_managers.logs, blocks=True),
    RestRoute("GET", f"{_TASK_MANAGER}/logs/:filename", task_managers.log, blocks=True, is_long=True),
    RestRoute("GET", f"{_TASK_MANAGER}/log", task_managers.log, blocks=True, is_long=True),
    RestRoute("GET", f"{_TASK_MANAGER}/stdout", task_managers.stdout, blocks=True, is_long=True),
)

_DATASETS: Final = (
    RestRoute("GET", f"{_JOB}/lineage", jobs.job_lineage),
    RestRoute("GET", f"{_JOB}/topics", jobs.job_topics, blocks=True),
)

_PROBES: Final = (
    RestRoute("GET", "/healthz", cluster.health, is_open=True),
    RestRoute("GET", "/readyz", cluster.readiness, is_open=True),
)


_OF_JOBS: Final = frozenset(module.__name__ for module in (checkpoints, jobs, metrics, vertices))
"""The modules whose handlers look at nothing but what is known of jobs."""


def _is_of_jobs(handler: Handler) -> bool:
    return handler is cluster.overview or handler.__module__ in _OF_JOBS


def _routes() -> Iterator[RestRoute]:
    yield from _DONE
    for path, handler, query in _GETS:
        yield RestRoute("GET", path, handler, query=query, is_shared=_is_of_jobs(handler))
    yield from _LOGS
    yield from _DATASETS
    yield from _PROBES


ROUTES: Final = tuple(_routes())
"""All of them; of paths with names those come first that leave less open."""
