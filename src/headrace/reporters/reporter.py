"""``MetricReporter`` and ``TraceReporter``: what shows metrics or spans somewhere; headrace's own, and plugins.

A distribution adds one as an entry point of the groups ``headrace.metric_reporters`` and ``headrace.trace_reporters``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.common.configuration import Configuration
from headrace.common.plugins import Plugin, PluginGroup
from headrace.metrics.samples import MetricSample
from headrace.metrics.scopes import MetricScope
from headrace.reporters.spans import Span


def _as_it_is(text: str) -> str:
    return text


@dataclass(frozen=True, slots=True)
class ReporterContext:
    """The job as a reporter sees it.

    Attributes:
        name: the reporter's name in the configuration.
        job_name: the job's name.
        job_id: the job's id.
        options: the reporter's own options, checked.
        delimiter: stands between the parts of the names of metrics.
        samples: gives the present metrics of the job that the reporter is to have; from any thread.
        excluded: labels that are left out.
        additional: labels that all metrics have besides.
    """

    name: str
    job_name: str
    job_id: str
    options: Configuration
    delimiter: str
    samples: Callable[[], Sequence[MetricSample]]
    excluded: Collection[str] = ()
    additional: Mapping[str, str] = field(default_factory=dict)

    def labels(self, scope: MetricScope) -> dict[str, str]:
        """The labels of metrics, for reports that have some."""
        kept = {name: value for name, value in scope.variables.items() if name not in self.excluded}
        return {**kept, **self.additional}

    def identifier(self, sample: MetricSample, written: Callable[[str], str] = _as_it_is) -> str:
        """The whole name of a metric, for reports without labels.

        Args:
            sample: the metric.
            written: makes each part one that the report can have.
        """
        return self.delimiter.join(map(written, (*sample.scope.components, sample.name)))


class MetricReporter(Plugin):
    """Shows the metrics of one run of a job somewhere.

    All methods are called by one thread, which is the reporter's own. What they raise is logged, and the job goes on.
    """

    noun = "metric reporter"

    @abstractmethod
    def open(self, context: ReporterContext) -> None:
        """The job begins."""

    def report(self, samples: Sequence[MetricSample]) -> None:
        """Called at intervals, and once more when the job has ended."""

    def close(self) -> None:
        """The job has ended."""


@dataclass(frozen=True, slots=True)
class TraceContext:
    """The job as a reporter of spans sees it.

    Attributes:
        name: the reporter's name in the configuration.
        job_name: the job's name.
        job_id: the job's id.
        options: the reporter's own options, checked.
        additional: attributes that all spans have besides.
    """

    name: str
    job_name: str
    job_id: str
    options: Configuration
    additional: Mapping[str, str] = field(default_factory=dict)


class TraceReporter(Plugin):
    """Shows the spans of one run of a job somewhere.

    All methods are called by one thread, as those of :class:`MetricReporter`.
    """

    noun = "trace reporter"

    @abstractmethod
    def open(self, context: TraceContext) -> None:
        """The job begins."""

    @abstractmethod
    def report(self, spans: Sequence[Span]) -> None:
        """Called at intervals, where there are new spans. Those of a call that raises come again with later ones."""

    def close(self) -> None:
        """The job has ended."""


METRIC_REPORTERS: Final = PluginGroup(
    "headrace.metric_reporters",
    MetricReporter,
    {
        "log": "headrace.reporters.log:LogReporter",
        "opentelemetry": "headrace.reporters.opentelemetry:OpenTelemetryReporter",
        "prometheus": "headrace.reporters.prometheus:PrometheusReporter",
        "prometheus-pushgateway": "headrace.reporters.prometheus:PushGatewayReporter",
        "statsd": "headrace.reporters.statsd:StatsDReporter",
    },
    {
        "datadog": "Datadog's agent takes what `statsd` sends, and what `opentelemetry` does",
        "graphite": "statsd_exporter, or Graphite's own StatsD, takes what `statsd` sends",
        "influxdb": "Telegraf takes what `statsd` sends, and scrapes what `prometheus` serves",
        "jmx": "there is no JVM to look into; use `prometheus`",
    },
)
"""All reporters of metrics that are there."""

TRACE_REPORTERS: Final = PluginGroup(
    "headrace.trace_reporters",
    TraceReporter,
    {
        "log": "headrace.reporters.log:LogTraceReporter",
        "opentelemetry": "headrace.reporters.opentelemetry:OpenTelemetryTraceReporter",
    },
)
"""All reporters of spans."""

FLINK_FACTORIES: Final[Mapping[str, str]] = {
    "org.apache.flink.metrics.datadog.DatadogHttpReporterFactory": "datadog",
    "org.apache.flink.metrics.graphite.GraphiteReporterFactory": "graphite",
    "org.apache.flink.metrics.influxdb.InfluxdbReporterFactory": "influxdb",
    "org.apache.flink.metrics.jmx.JMXReporterFactory": "jmx",
    "org.apache.flink.metrics.otel.OpenTelemetryMetricReporterFactory": "opentelemetry",
    "org.apache.flink.metrics.prometheus.PrometheusReporterFactory": "prometheus",
    "org.apache.flink.metrics.prometheus.PrometheusPushGatewayReporterFactory": "prometheus-pushgateway",
    "org.apache.flink.metrics.slf4j.Slf4jReporterFactory": "log",
    "org.apache.flink.metrics.statsd.StatsDReporterFactory": "statsd",
}
"""The names of the reporters of metrics that Flink has, by their factories."""

FLINK_TRACE_FACTORIES: Final[Mapping[str, str]] = {
    "org.apache.flink.traces.otel.OpenTelemetryTraceReporterFactory": "opentelemetry",
    "org.apache.flink.traces.slf4j.Slf4jTraceReporterFactory": "log",
}
"""Likewise those of spans."""
