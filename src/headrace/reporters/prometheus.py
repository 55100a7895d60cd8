"""Metrics for Prometheus, under the names and labels that Flink's reporter gives them.

They are scraped from an endpoint, or pushed to a push gateway.
"""

from __future__ import annotations

import contextlib
import errno
import re
import secrets
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import WSGIApplication

from headrace.common.config_options import ConfigOption, boolean, port_range, text_mapping
from headrace.common.errors import ConfigurationError
from headrace.common.logs import get_logger
from headrace.metrics.registry import Summary
from headrace.metrics.samples import MeterReading, MetricSample
from headrace.metrics.scopes import MetricScope
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


_AT_A_TIME: Final = 4
_WAITING: Final = 64
_SECONDS: Final = 10.0
"""After so long a connection is cut, whatever it is at."""

_LOOK_SECONDS: Final = 0.1


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        logger.debug(format, *args)


class _Server(WSGIServer):
    """Handles connections in a few threads; those that come while too many wait are closed at once."""

    request_queue_size = _WAITING

    def __init__(self, address: tuple[str, int], family: socket.AddressFamily) -> None:
        self.address_family = family
        self._pool = ThreadPoolExecutor(_AT_A_TIME, "headrace-metrics")
        self._room = threading.BoundedSemaphore(_AT_A_TIME + _WAITING)
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Bind, without asking a name server what the address is called."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            self._pool.submit(self._handle, request, client_address)
        else:
            self.shutdown_request(request)

    def _handle(self, request: socket.socket, client_address: Any) -> None:
        cut = threading.Timer(_SECONDS, _cut, (request,))
        cut.daemon = True
        cut.start()
        try:
            self.finish_request(request, client_address)
        except Exception:
            self.handle_error(request, client_address)
        finally:
            cut.cancel()
            self.shutdown_request(request)
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do nothing: a client that has gone is no error."""
        logger.debug("a request of %s failed", client_address, exc_info=sys.exc_info())

    def server_close(self) -> None:
        super().server_close()
        self._pool.shutdown(wait=False, cancel_futures=True)


def _cut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has gone meanwhile
        connection.shutdown(socket.SHUT_RDWR)


class ScrapeEndpoint:
    """Serves an application at the first port that is free.

    Args:
        host: the address.
        ports: the ports.
        application: what answers.

    Attributes:
        port: the port that it got.

    Raises:
        OSError: when none is free, or the address is not one of this machine.
    """

    def __init__(self, host: str, ports: Sequence[int], application: WSGIApplication) -> None:
        self._server = _bound(host, ports)
        self.port = self._server.server_port
        self._server.set_app(application)
        serve = self._server.serve_forever
        self._thread = threading.Thread(target=serve, args=(_LOOK_SECONDS,), name="headrace-metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _bound(host: str, ports: Sequence[int]) -> _Server:
    for port in ports:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        try:
            return _Server((str(address[0]), int(address[1])), family)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    tried = f"{ports[0]}" if len(ports) == 1 else f"{ports[0]} to {ports[-1]}"
    raise OSError(f"port {tried} is taken, by another job perhaps: give a range, {ports[0]}-{ports[0] + 10} say")


HOST_URL: Final = ConfigOption("hostUrl", str, "", "The URL of the push gateway: `http://pushgateway:9091`.")
JOB_NAME: Final = ConfigOption("jobName", str, "", "The label `job` of the group that metrics are pushed to.")
RANDOM_SUFFIX: Final = ConfigOption(
    "randomJobNameSuffix", boolean, True, "Whether random letters follow that name, so that no two runs share a group."
)
DELETES: Final = ConfigOption("deleteOnShutdown", boolean, True, "Whether the group is deleted when the job has ended.")
GROUPING: Final[ConfigOption[Mapping[str, str]]] = ConfigOption(
    "groupingKey", text_mapping("k1=v1;k2=v2"), {}, "More labels of the group: `k1=v1;k2=v2`."
)

_PUSH_SECONDS: Final = 10.0


class PushGatewayReporter(MetricReporter):
    """Puts the metrics of a job into a group of a push gateway, which it replaces each time."""

    required_options = (HOST_URL,)
    optional_options = (JOB_NAME, RANDOM_SUFFIX, DELETES, GROUPING, FILTERS_LABELS)

    def __init__(self, name: str) -> None:
        super().__init__(name)
        check_client()

    def open(self, context: ReporterContext) -> None:
        from prometheus_client import CollectorRegistry

        options = context.options
        self._url, self._deletes = options.get(HOST_URL), options.get(DELETES)
        self._job = options.get(JOB_NAME) + (secrets.token_hex(16) if options.get(RANDOM_SUFFIX) else "")
        if not self._job:
            raise ConfigurationError(f"{JOB_NAME.key} is empty and {RANDOM_SUFFIX.key} false, so the group has no name")
        grouping = options.get(GROUPING)
        self._grouping = dict(grouping)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(JobCollector(context, filters_labels=options.get(FILTERS_LABELS)))

    def report(self, samples: Sequence[MetricSample]) -> None:
        from prometheus_client import push_to_gateway

        push_to_gateway(self._url, self._job, self._registry, self._grouping, _PUSH_SECONDS)

    def close(self) -> None:
        from prometheus_client import delete_from_gateway

        if self._deletes:
            delete_from_gateway(self._url, self._job, self._grouping, _PUSH_SECONDS)
