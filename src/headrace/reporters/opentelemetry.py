"""Metrics and traces for OpenTelemetry, by OTLP over gRPC or HTTP, under the names that Flink's reporters give them."""

from __future__ import annotations

import importlib
import logging
import secrets
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from headrace import __version__
from headrace.common.config_options import ConfigOption, choice, location, positive_duration, text_mapping
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError
from headrace.metrics.registry import Summary
from headrace.metrics.samples import MeterReading, MetricKind, MetricSample
from headrace.reporters.reporter import MetricReporter, ReporterContext, TraceContext, TraceReporter
from headrace.reporters.spans import Span

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext

ENDPOINT: Final = ConfigOption(
    "exporter.endpoint",
    location,
    "",
    "Where the collector is: `http://collector:4317` for gRPC; for HTTP with the path, "
    "`http://collector:4318/v1/metrics` or `/v1/traces`.",
)
PROTOCOL: Final = ConfigOption("exporter.protocol", choice("gRPC", "HTTP"), "gRPC", "How OTLP travels.")
TIMEOUT: Final = ConfigOption(
    "exporter.timeout", positive_duration, 10_000, "After so long without an answer a report has failed."
)
HEADERS: Final[ConfigOption[Mapping[str, str]]] = ConfigOption(
    "exporter.headers", text_mapping("k1=v1;k2=v2"), {}, "Headers of requests: `k1=v1;k2=v2`. They are never shown."
)
SERVICE_NAME: Final = ConfigOption[str | None](
    "service.name", str, None, "The attribute `service.name` of all that is reported; the job's name when not set."
)
SERVICE_VERSION: Final = ConfigOption[str | None](
    "service.version", str, None, "The attribute `service.version`, likewise; headrace's own when not set."
)

_OPTIONS: Final = (PROTOCOL, TIMEOUT, HEADERS, SERVICE_NAME, SERVICE_VERSION)
_PREFIX: Final = "flink"


def _check_sdk() -> None:
    """Find out whether the SDK is there.

    Raises:
        ConfigurationError: when it is not.
    """
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        raise ConfigurationError("there is no OpenTelemetry here: run pip install 'headrace[opentelemetry]'")


def _exporter(kind: str, options: Configuration) -> Any:
    """The SDK's exporter.

    Args:
        kind: ``metric`` or ``trace``.
        options: the reporter's.
    """
    protocol = "grpc" if options.get(PROTOCOL) == "gRPC" else "http"
    module = importlib.import_module(f"opentelemetry.exporter.otlp.proto.{protocol}.{kind}_exporter")
    make = module.OTLPMetricExporter if kind == "metric" else module.OTLPSpanExporter
    headers = options.get(HEADERS)
    return make(endpoint=options.get(ENDPOINT), headers=dict(headers), timeout=options.get(TIMEOUT) / 1000)


def _resource(options: Configuration, job_name: str) -> Resource:
    from opentelemetry.sdk.resources import Resource

    name, version = options.get(SERVICE_NAME) or job_name, options.get(SERVICE_VERSION) or __version__
    return Resource.create({"service.name": name, "service.version": version})


def _scope() -> InstrumentationScope:
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    return InstrumentationScope("headrace", __version__)


def _exported(export: Callable[[], Any], endpoint: str) -> None:
    """Send something.

    Raises:
        OSError: when it was not taken.
    """
    with _telling_nothing("opentelemetry.exporter") as messages:
        result = export()
    if result.name != "SUCCESS":
        raise OSError(messages[-1] if messages else f"{endpoint} has not taken it")


@contextmanager
def _telling_nothing(logger: str) -> Iterator[list[str]]:
    """Inside, what this thread would log by loggers of a name and below is kept: the caller logs it, once."""
    kept: list[str] = []
    thread = threading.get_ident()

    def is_of_others(record: logging.LogRecord) -> bool:
        if record.thread != thread:
            return True
        kept.append(record.getMessage())
        return False

    names = [name for name in logging.root.manager.loggerDict if name.startswith(logger)]
    loggers = [logging.getLogger(name) for name in names]
    for each in loggers:
        each.addFilter(is_of_others)
    try:
        yield kept
    finally:
        for each in loggers:
            each.removeFilter(is_of_others)


class OpenTelemetryReporter(MetricReporter):
    """Sends the metrics of a job to a collector; counters as totals, so that a report that fails loses nothing."""

    required_options = (ENDPOINT,)
    optional_options = _OPTIONS

    def __init__(self, name: str) -> None:
        super().__init__(name)
        _check_sdk()

    def open(self, context: ReporterContext) -> None:
        self._context = context
        self._resource = _resource(context.options, context.job_name)
        self._exporter = _exporter("metric", context.options)
        self._begun = time.time_ns()

    def report(self, samples: Sequence[MetricSample]) -> None:
        from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics

        metrics = list(_Points(self._context, self._begun, time.time_ns()).metrics(samples))
        scopes = [ScopeMetrics(_scope(), metrics, "")]
        data = MetricsData([ResourceMetrics(self._resource, scopes, "")])
        options = self._context.options
        _exported(partial(self._exporter.export, data, options.get(TIMEOUT)), options.get(ENDPOINT))

    def close(self) -> None:
        self._exporter.shutdown()


class _Points:
    """Makes the SDK's metrics of samples.

    Args:
        context: the reporter's.
        begun: the start of counters and distributions, in nanoseconds since 1970.
        now: when the samples were taken, likewise.
    """

    def __init__(self, context: ReporterContext, begun: int, now: int) -> None:
        self._context = context
        self._begun = begun
        self._now = now

    def metrics(self, samples: Sequence[MetricSample]) -> Iterator[Metric]:
        """One for each name; a meter has two, ``.count`` and ``.rate``."""
        from opentelemetry.sdk.metrics.export import AggregationTemporality, Gauge, Histogram, Metric, Sum

        gauges, sums, histograms = (defaultdict[str, list[Any]](list) for _ in range(3))
        described: dict[str, str] = {}
        for sample in samples:
            name, labels = ".".join((_PREFIX, *sample.scope.logical, sample.name)), self._context.labels(sample.scope)
            described[name] = sample.description
            match sample.value:
                case str():
                    continue
                case MeterReading(count, rate):
                    sums[f"{name}.count"].append(self._number(labels, count))
                    gauges[f"{name}.rate"].append(self._number(labels, rate))
                case Summary():
                    histograms[name].append(self._histogram(labels, sample.value))
                case number if sample.kind is MetricKind.COUNTER:
                    sums[name].append(self._number(labels, number))
                case number:
                    gauges[name].append(self._number(labels, number))
        cumulative = AggregationTemporality.CUMULATIVE
        for name, points in gauges.items():
            yield Metric(name, described.get(name, ""), "", Gauge(points))
        for name, points in sums.items():  # functions may count down
            is_own = bool(described.get(name))
            yield Metric(name, described.get(name, ""), "", Sum(points, cumulative, is_own))
        for name, points in histograms.items():
            yield Metric(name, described.get(name, ""), "", Histogram(points, cumulative))

    def _number(self, labels: Mapping[str, str], value: float) -> Any:
        from opentelemetry.sdk.metrics.export import NumberDataPoint

        return NumberDataPoint(labels, self._begun, self._now, value)

    def _histogram(self, labels: Mapping[str, str], value: Summary) -> Any:
        """A distribution: one bucket for all."""
        from opentelemetry.sdk.metrics.export import HistogramDataPoint

        count, total = value.count, value.total
        return HistogramDataPoint(
            labels, self._begun, self._now, count, total, [count], [], value.least, value.greatest
        )


class OpenTelemetryTraceReporter(TraceReporter):
    """Sends the spans of a job to a collector, each with its parts as a trace of its own."""

    required_options = (ENDPOINT,)
    optional_options = _OPTIONS

    def __init__(self, name: str) -> None:
        super().__init__(name)
        _check_sdk()

    def open(self, context: TraceContext) -> None:
        self._context = context
        self._resource = _resource(context.options, context.job_name)
        self._exporter = _exporter("trace", context.options)

    def report(self, spans: Sequence[Span]) -> None:
        made = [each for span in spans for each in self._spans(span, secrets.randbits(128), None)]
        _exported(partial(self._exporter.export, made), self._context.options.get(ENDPOINT))

    def close(self) -> None:
        self._exporter.shutdown()

    def _spans(self, span: Span, trace: int, parent: SpanContext | None) -> Iterator[ReadableSpan]:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

        own = SpanContext(trace, secrets.randbits(64), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
        yield ReadableSpan(
            span.name,
            own,
            parent,
            self._resource,
            {**span.attributes, **self._context.additional},
            kind=SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.OK),
            start_time=span.start,
            end_time=span.end,
            instrumentation_scope=_scope(),
        )
        for child in span.children:
            yield from self._spans(child, trace, own)
