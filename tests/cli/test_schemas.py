"""``headrace schemas``: what a registry has, and whether a job fits it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headrace.cli.main import app
from tests.formats.registry_server import Registry, serving

pytest.importorskip("confluent_kafka")


def order(**more: object) -> str:
    fields = [{"name": "id", "type": "long"}, *({"name": name, **about} for name, about in more.items())]  # type: ignore[dict-item]
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving(Registry()) as registry:
        yield registry


def schemas(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["schemas", *arguments], env={"COLUMNS": "200"})


PROGRAM = """
from headrace.common import WatermarkStrategy
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink, KafkaSource
from headrace.datastream.formats.avro import AvroSchema
from headrace.datastream.formats.schema_registry import (
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
)

env = StreamExecutionEnvironment.get_execution_environment()
schema = AvroSchema({schema!r})
reader = ConfluentRegistryAvroDeserializationSchema({url!r}, schema)
source = KafkaSource.builder().set_bootstrap_servers("localhost:9092").set_topics("orders").set_group_id("g")
source = source.set_value_only_deserializer(reader).build()
orders = env.from_source(source, WatermarkStrategy.no_watermarks(), "orders")
writer = ConfluentRegistryAvroSerializationSchema({url!r}, "copies-value", schema)
values = KafkaRecordSerializationSchema.builder().set_topic("copies").set_value_serialization_schema(writer).build()
orders.sink_to(KafkaSink.builder().set_bootstrap_servers("localhost:9092").set_record_serializer(values).build())
env.execute("copy")
"""


def checked(registry: Registry, tmp_path: Path, schema: str) -> Result:
    (tmp_path / "job.py").write_text(PROGRAM.format(schema=schema, url=registry.url))
    return schemas("check", str(tmp_path / "job.py"))


def test_the_subjects_of_a_registry(registry: Registry) -> None:
    registry.register("orders-value", order())
    registry.register("orders-value", order(note={"type": "string", "default": ""}))
    listed = schemas("list", "--registry", registry.url)
    assert [line.split() for line in listed.output.splitlines() if "orders" in line] == [
        ["orders-value", "AVRO", "1,", "2", "BACKWARD"]
    ]
    assert schemas("show", "orders-value", "--registry", registry.url, "--version", "1").output.strip() == order()
    assert "note" in schemas("show", "orders-value", "--registry", registry.url).output
    missing = schemas("show", "nothing", "--registry", registry.url)
    assert missing.exit_code != 0


def test_a_job_that_fits(registry: Registry, tmp_path: Path) -> None:
    registry.register("orders-value", order(note={"type": "string"}))  # the reader leaves it out
    registry.register("copies-value", order())
    result = checked(registry, tmp_path, order())
    assert result.exit_code == 0, result.output
    assert result.output.count("fits") == 2


def test_subjects_that_are_new(registry: Registry, tmp_path: Path) -> None:
    result = checked(registry, tmp_path, order())
    assert result.exit_code == 0, result.output
    assert result.output.count("the subject is new") == 2


def test_a_job_that_does_not_fit(registry: Registry, tmp_path: Path) -> None:
    registry.register("orders-value", order())
    registry.register("copies-value", order())
    result = checked(registry, tmp_path, order(amount={"type": "double"}))  # of which no one has written a value
    assert result.exit_code == 1
    assert result.output.count("amount") == 2


def test_sources_behind_others_are_checked(registry: Registry, tmp_path: Path) -> None:
    registry.register("orders-value", order())
    hybrid = PROGRAM.replace(
        "source = source.set_value_only_deserializer(reader).build()",
        "source = source.set_value_only_deserializer(reader).set_bounded(KafkaOffsetsInitializer.latest()).build()\n"
        "source = HybridSource.builder(source).add_source(source).build()",
    )
    imports = "from headrace.datastream.connectors.hybrid_source import HybridSource\n"
    imports += "from headrace.datastream.connectors.kafka import KafkaOffsetsInitializer\n"
    (tmp_path / "job.py").write_text(imports + hybrid.format(schema=order(), url=registry.url))
    result = schemas("check", str(tmp_path / "job.py"))
    assert result.output.count("orders-value") == 2, result.output


def test_a_job_without_a_registry(tmp_path: Path) -> None:
    program = "from headrace.datastream import StreamExecutionEnvironment as S\ne = S.get_execution_environment()\n"
    (tmp_path / "job.py").write_text(f"{program}e.from_collection([1]).print()\ne.execute()\n")
    result = schemas("check", str(tmp_path / "job.py"))
    assert (result.exit_code, "no source and no sink" in result.output) == (0, True)
