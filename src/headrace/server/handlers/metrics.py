"""Metrics of jobs, vertices and subtasks: their names, or the values of the requested ones."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from headrace.metrics.samples import MetricValue
from headrace.server.errors import bad_request
from headrace.server.job_metrics import operator_scope, shown
from headrace.server.models.jobs import AggregatedMetric, MetricInfo
from headrace.server.requests import RestRequest
from headrace.server.vertices import JobVertex, subtask_of, vertex_of


def _skew(values: list[float]) -> float:
    """Return how uneven values are, in percent: 0 where all are the same."""
    mean = sum(values) / len(values)
    return 0.0 if not mean else sum(abs(value - mean) for value in values) / len(values) / mean * 100


_AGGREGATIONS: Final[Mapping[str, Callable[[list[float]], float]]] = {
    "min": min,
    "max": max,
    "avg": lambda values: sum(values) / len(values),
    "sum": sum,
    "skew": _skew,
}


def job_metrics(request: RestRequest) -> list[MetricInfo]:
    """Metrics of a job as a whole."""
    return _metric_infos(request, request.job().measured().of_job())


def driver_metrics(request: RestRequest) -> list[MetricInfo]:
    """Metrics of the process that jobs run in."""
    running = [job.measured().of_driver().get("numRunningJobs") for job in request.service.jobs.all()]
    return _metric_infos(request, {"numRunningJobs": sum(each for each in running if isinstance(each, int))})


def all_jobs_metrics(request: RestRequest) -> list[AggregatedMetric | MetricInfo]:
    """The metrics of jobs, aggregated over all of them, or over those that are named."""
    chosen = set(request.names("jobs"))
    jobs = [job for job in request.service.jobs.all() if not chosen or job.snapshot().job_id in chosen]
    return _aggregated(request, [job.measured().of_job() for job in jobs])


def vertex_metrics(request: RestRequest) -> list[MetricInfo]:
    """Metrics of a vertex, with the number of the subtask before their names."""
    by_subtask = _of_vertex(request, _vertex(request))
    named = {f"{subtask}.{name}": value for subtask, found in by_subtask.items() for name, value in found.items()}
    return _metric_infos(request, named)


def subtask_metrics(request: RestRequest) -> list[MetricInfo]:
    """Metrics of one subtask."""
    vertex = _vertex(request)
    return _metric_infos(
        request, _of_vertex(request, vertex).get(subtask_of(vertex, request.parameters["subtaskindex"]), {})
    )


def all_subtasks_metrics(request: RestRequest) -> list[AggregatedMetric | MetricInfo]:
    """The metrics of subtasks, aggregated over all of them, or over those that are named."""
    by_subtask = _of_vertex(request, _vertex(request))
    chosen = _subtasks(request.names("subtasks"))
    return _aggregated(request, [found for number, found in by_subtask.items() if not chosen or number in chosen])


def no_metrics(request: RestRequest) -> list[MetricInfo]:
    """Metrics of virtual machines of Java and of coordinators: there are none."""
    return []


def watermarks(request: RestRequest) -> list[MetricInfo]:
    """The watermark that each subtask has reached."""
    found = _of_vertex(request, _vertex(request))
    name = "currentInputWatermark"
    return [MetricInfo(f"{subtask}.{name}", shown(each[name])) for subtask, each in found.items() if name in each]


def _vertex(request: RestRequest) -> JobVertex:
    return vertex_of(request.job().plan(), request.parameters["vertexid"])


def _of_vertex(request: RestRequest, vertex: JobVertex) -> dict[int, dict[str, MetricValue]]:
    """By subtask; under their names, and, as Flink has those of operators, with that of the operator before them."""
    scope = operator_scope(vertex.planned.node.name)
    return {
        subtask: {**found, **{f"{scope}.{name}": value for name, value in found.items()}}
        for subtask, found in sorted(request.job().measured().of_operator(vertex.planned.uid).items())
    }


def _metric_infos(request: RestRequest, found: Mapping[str, MetricValue]) -> list[MetricInfo]:
    wanted = request.names("get")
    if not wanted:
        return [MetricInfo(name, None) for name in found]
    return [MetricInfo(name, shown(found[name])) for name in wanted if name in found]


def _aggregated(
    request: RestRequest, found: Iterable[Mapping[str, MetricValue]]
) -> list[AggregatedMetric | MetricInfo]:
    values: defaultdict[str, list[float]] = defaultdict(list)
    for each in found:
        for name, value in each.items():
            if isinstance(value, int | float):
                values[name].append(value)
    wanted = request.names("get")
    if not wanted:
        return [MetricInfo(name, None) for name in values]
    chosen = request.names("agg") or ["min", "max", "avg", "sum"]
    unknown = [name for name in chosen if name not in _AGGREGATIONS]
    if unknown:
        raise bad_request(f"agg: some of {', '.join(_AGGREGATIONS)}, not {unknown[0]!r}")
    return [_come_to(name, values[name], chosen) for name in wanted if name in values]


def _come_to(name: str, values: list[float], chosen: list[str]) -> AggregatedMetric:
    aggregated = {each: float(_AGGREGATIONS[each](values)) if each in chosen else None for each in _AGGREGATIONS}
    return AggregatedMetric(id=name, **aggregated)


def _subtasks(names: list[str]) -> set[int]:
    """Numbers of subtasks, and ranges of them, ``0,3-5``."""
    found: set[int] = set()
    for name in names:
        first, _, last = name.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal()) or len(name) > 12:
            raise bad_request(f"subtasks: numbers and ranges of them, such as 0,3-5, not {name!r}")
        found.update(range(int(first), min(int(last or first), int(first) + 100_000) + 1))
    return found
