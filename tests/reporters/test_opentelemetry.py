"""What a collector of OpenTelemetry gets, by HTTP and by gRPC: metrics, and spans of epochs and restarts."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import (
    MetricsServiceServicer,
    add_MetricsServiceServicer_to_server,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from headrace.common import Types
from headrace.connectors.driver_sink import CollectSink
from headrace.datastream import MapFunction
from tests.reporters.jobs import build, environment, running
from tests.reporters.servers import HttpServer, http_server
from tests.waiting import wait_for

OPERATOR = "flink.taskmanager.job.task.operator"


def settings(kind: str, endpoint: str, protocol: str, **more: str) -> dict[str, str]:
    given = {
        "factory.class": "opentelemetry",
        "interval": "50 ms",
        "exporter.endpoint": endpoint,
        "exporter.protocol": protocol,
        "exporter.timeout": "2 s",
        **more,
    }
    return {f"{kind}.reporter.otel.{key}": value for key, value in given.items()}


def metrics_of(body: bytes) -> dict[str, Metric]:
    request = ExportMetricsServiceRequest.FromString(body)
    (resource,) = request.resource_metrics
    attributes = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert (attributes["service.name"], attributes["service.version"]) == ("numbers and more", "7")
    return {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}


def labels_of(point: Any) -> dict[str, str]:
    return {each.key: each.value.string_value for each in point.attributes}


def test_metrics_by_http() -> None:
    with http_server() as server:
        more = {"service.version": "7", "exporter.headers": "authorization=Bearer t0ken"}
        with running(settings("metrics", f"{server.url}/v1/metrics", "HTTP", **more)):
            found = wait_for(
                lambda: [each for each in list(server.requests) if b"operator.numRecordsIn" in each.body and each]
            )
    assert {(each.method, each.path) for each in found} == {("POST", "/v1/metrics")}
    assert found[-1].headers["authorization"] == "Bearer t0ken"
    metrics = metrics_of(found[-1].body)
    counter = metrics[f"{OPERATOR}.numRecordsIn"].sum
    assert counter.is_monotonic
    assert counter.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    by_subtask = {labels_of(each)["subtask_index"] for each in counter.data_points}
    assert by_subtask == {"0", "1"}
    assert metrics["flink.jobmanager.job.uptime"].gauge.data_points[0].as_int > 0
    assert {f"{OPERATOR}.rate.rate", f"{OPERATOR}.rate.count"} <= metrics.keys()
    assert not metrics[f"{OPERATOR}.seen"].sum.is_monotonic, "functions may count down"
    sizes = metrics[f"{OPERATOR}.sizes"].histogram.data_points[0]
    assert (sizes.count, sizes.min) == (sizes.bucket_counts[0], 0)
    (odd,) = {labels_of(each)["parity"] for each in metrics[f"{OPERATOR}.numbers.parity.seen"].sum.data_points}
    assert odd == "odd"


class Collector(MetricsServiceServicer):
    def __init__(self) -> None:
        self.requests: list[ExportMetricsServiceRequest] = []

    def Export(self, request: ExportMetricsServiceRequest, context: Any) -> ExportMetricsServiceResponse:
        self.requests.append(request)
        return ExportMetricsServiceResponse()


@contextmanager
def grpc_server() -> Iterator[tuple[str, Collector]]:
    collector, server = Collector(), grpc.server(ThreadPoolExecutor(2))
    add_MetricsServiceServicer_to_server(collector, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"http://127.0.0.1:{port}", collector
    finally:
        server.stop(None).wait()


def test_metrics_by_grpc() -> None:
    with grpc_server() as (endpoint, collector):
        with running(settings("metrics", endpoint, "gRPC", **{"service.version": "7"})):
            wait_for(lambda: collector.requests)
        assert "flink.jobmanager.job.uptime" in metrics_of(collector.requests[-1].SerializeToString())


def test_a_collector_that_is_away_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with http_server() as server, caplog.at_level(logging.INFO):
        server.status = 400
        with running(settings("metrics", f"{server.url}/v1/metrics", "HTTP")):
            wait_for(lambda: len(server.requests) > 3)
    (told,) = (each for each in caplog.records if each.levelno >= logging.WARNING and "exporter" not in each.name)
    assert "metric reporter 'opentelemetry' (otel) failed, and is tried again: OSError: " in told.getMessage()
    assert not [each for each in caplog.records if each.name.startswith("opentelemetry")]


class FailsOnce(MapFunction):
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def map(self, value: int) -> int:
        if not self.marker.exists():
            self.marker.touch()
            raise ConnectionError("the service was away")
        return value


def spans_of(server: HttpServer) -> list[Span]:
    requests = [ExportTraceServiceRequest.FromString(each.body) for each in list(server.requests)]
    return [
        span
        for request in requests
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def attributes_of(span: Span) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


def test_spans_of_a_job_that_restarts(tmp_path: Path) -> None:
    with http_server() as server:
        restarts = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "10 ms"}
        more = {"scope.variables.additional": "region:eu"}
        env = environment({**restarts, **settings("traces", f"{server.url}/v1/traces", "HTTP", **more)})
        numbers = env.from_collection(list(range(10))).map(FailsOnce(tmp_path / "failed"), Types.LONG())
        numbers.sink_to(CollectSink(lambda _: None))
        env.execute()
        spans = spans_of(server)
    by_name = {span.name: span for span in spans}
    assert {"JobInitialization", "Epoch", "Planning", "Running", "Checkpoint", "Restart", "Job"} <= by_name.keys()
    epoch, whole = by_name["Epoch"], by_name["Job"]
    assert attributes_of(epoch)["records"] == 10
    assert attributes_of(epoch)["region"] == "eu"
    parts = [span for span in spans if span.parent_span_id == epoch.span_id]
    assert {span.trace_id for span in parts} == {epoch.trace_id}
    assert [span.name for span in parts][:3] == ["Planning", "Running", "Checkpoint"]
    assert all(epoch.start_time_unix_nano <= span.start_time_unix_nano for span in parts)
    assert all(span.end_time_unix_nano <= epoch.end_time_unix_nano for span in parts)
    checkpoint = attributes_of(by_name["Checkpoint"])
    assert (checkpoint["checkpointId"], checkpoint["checkpointStatus"]) == (1, "COMPLETED")
    restart = by_name["Restart"]
    assert restart.status.code == Status.STATUS_CODE_ERROR
    assert "the service was away" in restart.status.message
    assert attributes_of(whole)["status"] == "FINISHED"
    assert (
        whole.start_time_unix_nano < epoch.start_time_unix_nano < epoch.end_time_unix_nano <= whole.end_time_unix_nano
    )


def test_spans_in_the_log_wait_for_no_epoch(caplog: pytest.LogCaptureFixture) -> None:
    env = environment({"traces.reporter.log.factory.class": "log"})
    build(env, records=2_000)
    with caplog.at_level(logging.INFO, "headrace.reporters.log"):
        env.execute()
    told = [record.getMessage() for record in caplog.records if record.name == "headrace.reporters.log"]
    assert told[0].startswith("Reported span: JobInitialization ")
    assert told[-1].startswith("Reported span: Job ")
    assert any(each.startswith("Reported span: Epoch ") and ", Checkpoint " in each for each in told)
