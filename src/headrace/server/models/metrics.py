"""Metrics, each a name and a number as text, and what several of them come to."""

from headrace.server.wire import model, wire


@model
class MetricInfo:
    """A metric: its name, and its value where that was asked for."""

    id: str
    value: str | None = wire("value", omits_none=True)


@model
class AggregatedMetric:
    """What the values of one metric come to, in several jobs or subtasks; what was not asked for is left out."""

    id: str
    min: float | None = wire("min", omits_none=True)
    max: float | None = wire("max", omits_none=True)
    avg: float | None = wire("avg", omits_none=True)
    sum: float | None = wire("sum", omits_none=True)
    skew: float | None = wire("skew", omits_none=True)
