"""The datasets of jobs, and the origins of the columns that they write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headrace.cli.main import app
from headrace.common import Encoder, SimpleStringSchema
from headrace.connectors.datasets import LineageDataset, file_dataset
from headrace.connectors.sink import Sink
from headrace.connectors.source import Source
from headrace.datastream.connectors import NumberSequenceSource
from headrace.datastream.connectors.base import MessageSerializationSchema
from headrace.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from headrace.datastream.connectors.hybrid_source import HybridSource
from headrace.datastream.connectors.kafka import KafkaSink, KafkaSource
from headrace.datastream.connectors.log import LogSink, LogSource

LINES = StreamFormat.text_line_format()


def files(path: str) -> Source[Any]:
    return FileSource.for_record_stream_format(LINES, path).build()


def kafka(servers: str, pattern: str | None = None) -> Source[Any]:
    builder = KafkaSource.builder().set_bootstrap_servers(servers).set_value_only_deserializer(SimpleStringSchema())
    return (builder.set_topic_pattern(pattern) if pattern else builder.set_topics("a", "b")).build()


TEXTS = MessageSerializationSchema("orders", SimpleStringSchema())


@pytest.mark.parametrize(
    ("connector", "expected"),
    [
        (files("/data/orders"), [("file", "/data/orders")]),
        (files("s3a://bucket/orders/*.txt"), [("s3://bucket", "orders/*.txt")]),
        (kafka("one:9092, two:9092"), [("kafka://one:9092", "a"), ("kafka://one:9092", "b")]),
        (kafka("one:9092", "orders-.*"), [("kafka://one:9092", "orders-.*")]),
        (NumberSequenceSource(1, 2), []),
        (HybridSource.builder(files("/old")).add_source(files("/new")).build(), [("file", "/old"), ("file", "/new")]),
        (
            LogSource.builder()
            .set_log("/shop.log")
            .set_topics("a")
            .set_value_only_deserializer(SimpleStringSchema())
            .build(),
            [("file", "/shop.log/a")],
        ),
        (FileSink.for_row_format("hdfs://name/out", Encoder.simple_string_encoder()).build(), [("hdfs://name", "out")]),
        (
            KafkaSink.builder().set_bootstrap_servers("one:9092").set_record_serializer(TEXTS).build(),
            [("kafka://one:9092", "orders")],
        ),
        (LogSink.builder().set_log("/shop.log").set_record_serializer(TEXTS).build(), [("file", "/shop.log/orders")]),
    ],
    ids=repr,
)
def test_datasets_have_the_names_of_openlineage(
    connector: Source[Any] | Sink[Any], expected: list[tuple[str, str]]
) -> None:
    assert [(each.namespace, each.name) for each in connector.datasets] == expected


@pytest.mark.parametrize(
    ("location", "namespace", "name"),
    [
        ("s3://bucket", "s3://bucket", "/"),
        ("s3://bucket/a#1/part-?.csv", "s3://bucket", "a#1/part-?.csv"),
        ("hdfs:///a", "hdfs://", "a"),
        ("file:/a", "file", "/a"),
        ("file:///a", "file", "/a"),
        ("a: b", "file", "a: b"),
        ("s3://key:secret@bucket/a?secret_key=secret", "s3://bucket", "a"),
        ("sftp://token@host:22/a", "sftp://host:22", "a"),
        ("abfs://container@account.dfs.core.windows.net/a", "abfss://container@account.dfs.core.windows.net", "a"),
    ],
)
def test_names_of_files_leave_out_who_reads_them(location: str, namespace: str, name: str) -> None:
    assert file_dataset(location) == LineageDataset(namespace, name)


HEAD = """
from headrace.common import Encoder, Types, WatermarkStrategy
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.aggregates import count, sum
from headrace.datastream.connectors.file_system import FileSink, FileSource
from headrace.datastream.formats.json import JsonLinesFormat
from headrace.datastream.window import TumblingEventTimeWindows
from headrace.expressions import col

ORDER = Types.ROW_NAMED(["at", "user", "amount"], [int, str, float])
env = StreamExecutionEnvironment.get_execution_environment()
source = FileSource.for_record_stream_format(JsonLinesFormat(ORDER), "/data/orders").build()
times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda order, _: order.at)
orders = env.from_source(source, times, "orders").uid("orders")


def write(stream, path):
    stream.sink_to(FileSink.for_row_format(path, Encoder.simple_string_encoder()).build()).uid(path)
"""


def lineage(tmp_path: Path, program: str, *options: str) -> str:
    script = tmp_path / "job.py"
    script.write_text(program)
    result = CliRunner().invoke(app, ["lineage", *options, str(script)])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_expressions_and_aggregates_say_where_columns_come_from(tmp_path: Path) -> None:
    program = f"""{HEAD}
doubled = orders.filter(col("amount") > 0).select("user", (col("amount") * 2).alias("double"), "at")
windows = doubled.key_by("user").window(TumblingEventTimeWindows.of(60_000))
write(windows.aggregate(count(), sum("double").alias("total")), "/out/sums")
write(orders.map(lambda order: order, output_type=ORDER), "/out/copies")
write(orders.union(orders.select("at", "user", (col("amount") + col("at")).alias("amount"))), "/out/both")
env.execute("shop")
"""
    assert lineage(tmp_path, program) == (
        "shop: 1 source, 3 sinks\n"
        "reads file /data/orders: at Long, user String, amount Double\n"
        "writes file /out/copies, from file /data/orders\n"
        "  at Long <- ?\n"
        "  user String <- ?\n"
        "  amount Double <- ?\n"
        "writes file /out/both, from file /data/orders\n"
        "  at Long <- /data/orders.at\n"
        "  user String <- /data/orders.user\n"
        "  amount Double <- /data/orders.amount (computed), /data/orders.amount, /data/orders.at (computed)\n"
        "writes file /out/sums, from file /data/orders\n"
        "  user String <- /data/orders.user\n"
        "  window_start Long <- -\n"
        "  window_end Long <- -\n"
        "  count Long <- -\n"
        "  total Double <- /data/orders.amount (computed)\n"
    )


def test_what_is_folded_is_computed(tmp_path: Path) -> None:
    program = f"""{HEAD}
users = orders.key_by("user")
write(users.sum("amount"), "/out/sums")
write(users.min_by("amount"), "/out/lowest")
write(users.reduce(lambda first, second: first), "/out/folded")
env.execute("shop")
"""
    amounts = [line for line in lineage(tmp_path, program).splitlines() if line.startswith("  amount")]
    known = "  amount Double <- /data/orders.amount"
    assert sorted(amounts) == sorted([f"{known} (computed)", known, "  amount Double <- ?"])


def test_dead_letters_of_expectations_are_records_of_their_input(tmp_path: Path) -> None:
    program = f"""{HEAD}
from headrace.datastream import OutputTag
bad = OutputTag("bad")
write(orders.expect("positive", col("amount") > 0, bad).get_side_output(bad), "/out/bad")
env.execute("shop")
"""
    assert "  amount Double <- /data/orders.amount\n" in lineage(tmp_path, program)


SQL = """
from headrace.table import EnvironmentSettings, TableEnvironment

tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
place = "WITH ('connector' = 'filesystem', 'path' = '/data/{}', 'format' = 'csv')"
tables.execute_sql("CREATE TABLE orders (id BIGINT, `user` STRING, amount DOUBLE, ts TIMESTAMP(3), "
                   "WATERMARK FOR ts AS ts) " + place.format("orders"))
tables.execute_sql("CREATE TABLE users (name STRING, country STRING) " + place.format("users"))
tables.execute_sql("CREATE TABLE found (a STRING, b DOUBLE, c TIMESTAMP(3)) " + place.format("found"))
"""


MINUTE = "ts, INTERVAL '1' MINUTE"
TUMBLED = "TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"
LAST = "PARTITION BY `user` ORDER BY ts"
MATCH = "MEASURES SUM(A.amount) AS b, B.ts AS c PATTERN (A+ B) DEFINE A AS A.id > 3, B AS B.amount < 1"


@pytest.mark.parametrize(
    ("query", "a", "b", "c"),
    [
        ("SELECT `user`, amount, ts FROM orders WHERE id > 3", "orders.user", "orders.amount", "orders.ts"),
        (
            "SELECT UPPER(`user`), amount + id, CAST(NULL AS TIMESTAMP(3)) FROM orders",
            "orders.user (computed)",
            "orders.amount (computed), orders.id (computed)",
            "-",
        ),
        (
            f"SELECT `user`, SUM(amount), window_start FROM {TUMBLED} GROUP BY `user`, window_start, window_end",
            "orders.user",
            "orders.amount (computed)",
            "orders.ts (computed)",
        ),
        (
            f"SELECT `user`, SUM(amount), TUMBLE_START({MINUTE}) FROM orders GROUP BY `user`, TUMBLE({MINUTE})",
            "orders.user",
            "orders.amount (computed)",
            "orders.ts (computed)",
        ),
        (
            "SELECT country, amount, CAST(ts AS TIMESTAMP(3)) FROM orders JOIN users ON `user` = name",
            "users.country",
            "orders.amount",
            "orders.ts (computed)",
        ),
        (
            "SELECT `user`, SUM(amount) OVER (PARTITION BY `user` ORDER BY ts), ts FROM orders",
            "orders.user",
            "orders.amount (computed)",
            "orders.ts",
        ),
        (
            "SELECT `user`, amount, ts FROM orders UNION ALL SELECT name, 1.0, CAST(NULL AS TIMESTAMP(3)) FROM users",
            "orders.user, users.name",
            "orders.amount",
            "orders.ts",
        ),
        (
            f"SELECT `user`, amount, ts FROM (SELECT *, ROW_NUMBER() OVER ({LAST}) AS n FROM orders) WHERE n = 1",
            "orders.user",
            "orders.amount",
            "orders.ts",
        ),
        (
            "SELECT part, amount, ts FROM orders CROSS JOIN UNNEST(SPLIT(`user`, '-')) AS parts(part)",
            "orders.user (computed)",
            "orders.amount",
            "orders.ts",
        ),
        (
            f"SELECT `user`, b, c FROM orders MATCH_RECOGNIZE ({LAST} {MATCH})",
            "orders.user",
            "orders.amount (computed)",
            "orders.ts (computed)",
        ),
    ],
)
def test_plans_of_sql_say_where_columns_come_from(tmp_path: Path, query: str, a: str, b: str, c: str) -> None:
    program = f'{SQL}\ntables.execute_sql("""INSERT INTO found {query}""")'
    shown = lineage(tmp_path, program).replace("/data/", "")
    origins = [line.partition(" <- ")[2] for line in shown.splitlines() if " <- " in line]
    assert origins == [a, b, c]


def test_documents_and_diagrams(tmp_path: Path) -> None:
    doubled = 'write(orders.select((col("amount") * 2).alias("double")), "/out")'
    program = f'{HEAD}\n{doubled}\norders.print()\nenv.execute("shop")'
    document = json.loads(lineage(tmp_path, program, "--format", "json"))
    assert document["job"] == "shop"
    assert document["sources"][0]["datasets"] == [{"namespace": "file", "name": "/data/orders"}]
    (sink,) = (each for each in document["sinks"] if each["datasets"])
    assert sink["inputs"] == ["orders"]
    origin = {"namespace": "file", "name": "/data/orders", "field": "amount", "is_same": False}
    assert sink["fields"] == [{"name": "double", "type": "Double", "origins": [origin]}]
    assert lineage(tmp_path, program, "--format", "mermaid").startswith('flowchart LR\n    n0[("file /data/orders")]\n')


def test_there_is_no_lineage_of_a_program_without_a_job(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("print('nothing')")
    assert CliRunner().invoke(app, ["lineage", str(tmp_path / "job.py")]).exit_code == 1
