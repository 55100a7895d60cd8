"""Events of OpenLineage: what they tell, and what becomes of a service that does not take them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openlineage.client import OpenLineageClient
from referencing import Registry, Resource

from headrace.common import Configuration, Encoder, Types, WatermarkStrategy
from headrace.common.errors import ConfigurationError, JobExecutionError
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSink, FileSource
from headrace.datastream.formats.json import JsonLinesFormat
from headrace.expressions import col
from headrace.lineage.openlineage import _nested
from tests.waiting import PATIENCE

SCHEMAS = [json.loads(path.read_text()) for path in (Path(__file__).parent / "schemas").glob("*.json")]
REGISTRY: Registry[Any] = Registry().with_resources((each["$id"], Resource.from_contents(each)) for each in SCHEMAS)
EVENT = Draft202012Validator(
    {"$ref": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"}, registry=REGISTRY
)
ORDER = Types.ROW_NAMED(["user", "amount"], [str, float])


def run(tmp_path: Path, change: Callable[[Any], Any] = lambda orders: orders, **settings: str) -> list[dict[str, Any]]:
    """Run a job that copies amounts; gives the events that it has sent, by the order of their sending."""
    (tmp_path / "in").mkdir(exist_ok=True)
    (tmp_path / "in" / "orders.jsonl").write_text('{"user": "ada", "amount": 2.5}\n')
    events = tmp_path / "events.json"
    options = {
        "headrace.runtime": "local",
        "restart-strategy.type": "none",
        "openlineage.transport.type": "file",
        "openlineage.transport.log_file_path": str(events),
        "openlineage.transport.append": "true",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options | settings))
    source = FileSource.for_record_stream_format(JsonLinesFormat(ORDER), str(tmp_path / "in")).build()
    orders = env.from_source(source, WatermarkStrategy.no_watermarks(), "orders").uid("orders")
    doubled = change(orders).select("user", (col("amount") * 2).alias("double"))
    doubled.sink_to(FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build()).uid("out")
    client = env.execute_async("shop")
    with contextlib.suppress(JobExecutionError):
        client.get_job_execution_result().result(timeout=PATIENCE)
    return [json.loads(line) for line in events.read_text().splitlines()] if events.exists() else []


def test_a_job_that_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.lineage.openlineage._millis", lambda: 4_000_000_000_000)  # hours after the start
    events = run(tmp_path, **{"openlineage.job.namespace": "tests"})
    assert [event["eventType"] for event in events] == ["START", "RUNNING", "COMPLETE"]
    for event in events:
        EVENT.validate(event)
        assert event["job"]["namespace"], event["job"]["name"] == ("tests", "shop")
        assert event["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
        assert [each["name"] for each in event["inputs"]] == [str(tmp_path / "in")]
    assert len({event["run"]["runId"] for event in events}) == 1
    (output,) = events[-1]["outputs"]
    assert output["name"] == str(tmp_path / "out")
    assert [(each["name"], each["type"]) for each in output["facets"]["schema"]["fields"]] == [
        ("user", "String"),
        ("double", "Double"),
    ]
    fields = output["facets"]["columnLineage"]["fields"]
    (origin,) = fields["double"]["inputFields"]
    assert (origin["name"], origin["field"]) == (str(tmp_path / "in"), "amount")
    assert origin["transformations"][0]["subtype"] == "TRANSFORMATION"
    assert fields["user"]["inputFields"][0]["transformations"][0]["subtype"] == "IDENTITY"


def test_a_job_that_fails(tmp_path: Path) -> None:
    events = run(tmp_path, lambda orders: orders.expect("large", col("amount") > 100, "fail"))
    assert [event["eventType"] for event in events] == ["START", "FAIL"]
    EVENT.validate(events[-1])
    assert "the expectation 'large' is violated" in events[-1]["run"]["facets"]["errorMessage"]["message"]


def test_a_service_that_is_away_hinders_no_job(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    away = {
        "openlineage.transport.type": "http",
        "openlineage.transport.url": "http://127.0.0.1:9",
        "openlineage.transport.retry.total": "0",
    }
    assert run(tmp_path, **away) == []
    assert any(path.is_file() for path in (tmp_path / "out").rglob("*"))
    assert "the job cannot be reported to OpenLineage" in caplog.text


def test_a_transport_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="the client of OpenLineage refuses its configuration"):
        run(tmp_path, **{"openlineage.transport.type": "pigeon"})


def test_nothing_is_told_without_a_transport(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"headrace.runtime": "local"}))
    env.from_collection([1]).print()
    env.execute()
    assert not (tmp_path / "events.json").exists()


def test_the_client_is_told_numbers_and_its_authentication() -> None:
    transport = {"type": "http", "url": "http://marquez:5000", "timeout": "2.5", "verify": "false"}
    keys = {**transport, "auth.type": "api_key", "auth.apiKey": "secret", "compression": "gzip"}
    configuration = Configuration.from_dict({f"openlineage.transport.{key}": value for key, value in keys.items()})
    configuration.validate()
    known = OpenLineageClient(config=_nested(configuration)).transport.config
    assert (known.timeout, known.verify, known.auth.api_key) == (2.5, False, "secret")
    assert "secret" not in repr(configuration)
