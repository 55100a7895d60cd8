"""Metrics for Prometheus, under the names and labels that Flink's reporter gives them: an endpoint that is scraped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from headrace.common.config_options import ConfigOption, boolean, port_range
from headrace.common.errors import ConfigurationError
from headrace.common.logs import get_logger
from headrace.metrics.registry import Summary
from headrace.metrics.samples import MeterReading, MetricSample
from headrace.metrics.scopes import MetricScope
from headrace.reporters.endpoint import ScrapeEndpoint
from headrace.reporters.reporter import MetricReporter, ReporterContext

if TYPE_CHECKING:
    from prometheus_client.core import Metric

logger = get_logger(__name__)

PORT: Final = ConfigOption[tuple[int, ...]](
    "port", port_range, (9249,), "The port of the endpoint, or a range of which the first free one is taken."
)
HOST: Final = ConfigOption("host", str, "0.0.0.0", "The address of the endpoint; all of the machine's when not set.")
FILTERS_LABELS: Final = ConfigOption(
    "filterLabelValueCharacters",
    boolean,
    True,
    "Whether `_` stands for all but letters, digits, `:` and `_` in the values of labels, as in their names.",
)

_PREFIX: Final = "flink"
_FOREIGN: Final = re.compile(r"[^a-zA-Z0-9:_]")


def check_client() -> None:
    """Find out whether Prometheus's client library is there.

    Raises:
        ConfigurationError: when it is not.
    """
    try:
        import prometheus_client  # noqa: F401
    except ImportError:
        raise ConfigurationError("prometheus_client is not there: run pip install 'headrace[prometheus]'") from None


class JobCollector:
    """Gives the metrics of a job to Prometheus's client library.

    Args:
        context: the reporter's.
        filters_labels: whether the values of labels lose what their names cannot have.
    """

    def __init__(self, context: ReporterContext, *, filters_labels: bool) -> None:
        self._context = context
        self._filters_labels = filters_labels
        self._labels: WeakKeyDictionary[MetricScope, dict[str, str]] = WeakKeyDictionary()

    def collect(self) -> Iterator[Metric]:
        """The present metrics, by name."""
        from prometheus_client.core import Metric

        found: dict[str, Metric] = {}
        for sample in self._context.samples():
            kind = "summary" if isinstance(sample.value, Summary) else "gauge"
            name = self._name(sample)
            metric = found.get(name)
            if metric is None:
                metric = found[name] = Metric(name, sample.description or self._help(sample), kind)
            self._add(metric, sample)
        yield from found.values()

    def _add(self, metric: Metric, sample: MetricSample) -> None:
        labels, value = self._labels_of(sample.scope), sample.value
        match value:
            case Summary():
                metric.add_sample(f"{metric.name}_count", labels, value.count)
                metric.add_sample(f"{metric.name}_sum", labels, value.total)
                metric.add_sample(metric.name, {**labels, "quantile": "0"}, value.least)
                metric.add_sample(metric.name, {**labels, "quantile": "1"}, value.greatest)
            case MeterReading():
                metric.add_sample(metric.name, labels, value.rate)
            case str():
                metric.add_sample(metric.name, labels, 0)  # as in Flink
            case _:
                metric.add_sample(metric.name, labels, value)

    def _labels_of(self, scope: MetricScope) -> dict[str, str]:
        labels = self._labels.get(scope)
        if labels is None:
            written = _filtered if self._filters_labels else str
            labels = {_filtered(name): written(value) for name, value in self._context.labels(scope).items()}
            self._labels[scope] = labels
        return labels

    def _name(self, sample: MetricSample) -> str:
        return "_".join((_PREFIX, *map(_filtered, (*sample.scope.logical, sample.name))))

    def _help(self, sample: MetricSample) -> str:
        return f"{sample.name} (scope: {'_'.join(map(_filtered, sample.scope.logical))})"


def _filtered(text: str) -> str:
    return _FOREIGN.sub("_", text)


class PrometheusReporter(MetricReporter):
    """Serves the metrics of a job at ``http://HOST:PORT/metrics``, and those of its process beside them."""

    optional_options = (PORT, HOST, FILTERS_LABELS)

    def __init__(self, name: str) -> None:
        super().__init__(name)
        check_client()
        self._endpoint: ScrapeEndpoint | None = None

    def open(self, context: ReporterContext) -> None:
        from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, make_wsgi_app

        registry = CollectorRegistry()
        registry.register(JobCollector(context, filters_labels=context.options.get(FILTERS_LABELS)))
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        host, ports = context.options.get(HOST), context.options.get(PORT)
        endpoint = self._endpoint = ScrapeEndpoint(host, ports, make_wsgi_app(registry))
        logger.info("job %r: metrics for Prometheus at http://%s:%d/metrics", context.job_name, host, endpoint.port)

    def close(self) -> None:
        if self._endpoint is not None:
            self._endpoint.close()
