"""Tables in topics: keys, metadata, startup modes, changes and upserts, on the embedded log and on Kafka."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from headrace.broker import KafkaCluster
from headrace.common.errors import ConfigurationError, HeadraceError, InvalidTypeError
from headrace.log import Consumer
from headrace.table import TableEnvironment
from headrace.table.logical.errors import TableDefinitionError
from tests.connectors.kafka.topics import Topic
from tests.table.connectors.session import rows, run, session

ENDS = "'scan.bounded.mode' = 'latest-offset'"


def with_log(path: Path, columns: str, options: str, connector: str = "log", partitions: int = 1) -> str:
    where = f"'connector' = '{connector}', 'path' = '{path}/shop.log', 'auto-create.partitions' = '{partitions}'"
    return f"CREATE TABLE t ({columns}) WITH ({where}, {ENDS}, 'topic' = 'orders', {options})"


def messages(path: Path) -> list[tuple[Any, Any]]:
    consumer = Consumer(f"{path}/shop.log", auto_offset_reset="earliest")
    consumer.subscribe(["orders"])
    return [(record.key, record.value) for record in consumer.poll(1)]


def changes(tables: TableEnvironment, query: str) -> list[str]:
    with tables.execute_sql(query).collect() as found:
        return [f"{row.get_row_kind()}{tuple(row)}" for row in found]


@pytest.mark.parametrize("fmt", ["json", "csv", "avro"])
def test_rows_come_back_from_topics(tmp_path: Path, fmt: str) -> None:
    tables = session(with_log(tmp_path, "id BIGINT, price DECIMAL(8, 2), bought TIMESTAMP(3)", f"'format' = '{fmt}'"))
    run(tables, "INSERT INTO t VALUES (1, CAST(2.50 AS DECIMAL(8, 2)), TIMESTAMP '2024-02-29 12:00:00')")
    assert [row[:2] for row in rows(tables, "SELECT * FROM t")] == [(1, Decimal("2.50"))]


def test_columns_are_in_key_and_value(tmp_path: Path) -> None:
    options = "'key.format'='json', 'key.fields'='k_card', 'key.fields-prefix'='k_', 'value.format'='json', "
    options += "'value.fields-include'='EXCEPT_KEY'"
    tables = session(with_log(tmp_path, "id BIGINT, k_card STRING", options))
    run(tables, "INSERT INTO t VALUES (1, 'a')")
    assert messages(tmp_path) == [(b'{"card":"a"}', b'{"id":1}')]
    assert rows(tables, "SELECT * FROM t") == [(1, "a")]


def test_metadata_is_read_and_written(tmp_path: Path) -> None:
    columns = "sent TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', id INT, `offset` BIGINT METADATA VIRTUAL, "
    columns += "h MAP<STRING, BYTES> METADATA FROM 'headers', topic STRING METADATA VIRTUAL"
    tables = session(with_log(tmp_path, columns, "'format'='json'"))
    run(tables, "INSERT INTO t VALUES (TO_TIMESTAMP_LTZ(1700000000123, 3), 7, MAP['a', ENCODE('x', 'UTF-8')])")
    (row,) = rows(tables, "SELECT * FROM t")
    assert (row[0].timestamp(), row[1:]) == (1700000000.123, (7, 0, {"a": b"x"}, "orders"))


MESSAGES = {
    "debezium-json": (
        '{"before":null,"after":{"id":1},"op":"c","ts_ms":1700000000123,"source":{"db":"shop","table":"t","ts_ms":5}}',
        ("value.ingestion-timestamp", "value.source.table", "value.source.properties"),
        (1700000000.123, "t", {"db": "shop", "table": "t", "ts_ms": "5"}),
    ),
    "canal-json": (
        '{"data":[{"id":1}],"type":"INSERT","ts":1700000000123,"database":"shop","pkNames":["id"]}',
        ("value.ingestion-timestamp", "value.database", "value.pk-names"),
        (1700000000.123, "shop", ["id"]),
    ),
    "maxwell-json": (
        '{"data":{"id":1},"type":"insert","ts":1700000000,"database":"shop","primary_key_columns":["id"]}',
        ("value.ingestion-timestamp", "value.database", "value.primary-key-columns"),
        (1700000000, "shop", ["id"]),
    ),
}


@pytest.mark.parametrize("fmt", MESSAGES)
def test_metadata_of_formats_is_read(tmp_path: Path, fmt: str) -> None:
    message, keys, found = MESSAGES[fmt]
    kinds = ("TIMESTAMP_LTZ(3)", "STRING", "MAP<STRING, STRING>" if fmt == "debezium-json" else "ARRAY<STRING>")
    columns = ", ".join(
        f"m{at} {kind} METADATA FROM '{key}'" for at, (kind, key) in enumerate(zip(kinds, keys, strict=True))
    )
    written = with_log(tmp_path, "message STRING", "'format'='raw'").replace("TABLE t", "TABLE w")
    columns = f"`offset` BIGINT METADATA VIRTUAL, {columns}, id INT"
    tables = session(written, with_log(tmp_path, columns.replace("',", "' VIRTUAL,"), f"'format'='{fmt}'"))
    run(tables, f"INSERT INTO w VALUES ('{message}')")
    ((offset, time, *others, id_),) = rows(tables, "SELECT * FROM t")
    assert (offset, time.timestamp(), *others, id_) == (0, *found, 1)
    tables.execute_sql("CREATE TABLE u (x TIMESTAMP_LTZ(3) METADATA FROM 'value.ingestion-time') LIKE t")
    with pytest.raises(TableDefinitionError, match=r"reads no metadata 'value\.ingestion-time': did you mean"):
        rows(tables, "SELECT * FROM u")


def by_id(row: Any, key: bytes | None, value: bytes, topic: str, partitions: range) -> int:
    """The partition of a row."""
    assert (key, topic) == (None, "orders")
    return partitions[row[0] % len(partitions)]


@pytest.mark.parametrize(
    ("partitioner", "partitions"), [("fixed", {0, 1}), (f"{__name__}.by_id", {0, 1, 2}), ("round-robin", None)]
)
def test_partitions_that_rows_are_written_into(tmp_path: Path, partitioner: str, partitions: set[int] | None) -> None:
    options = f"'format'='json', 'sink.partitioner'='{partitioner}', 'sink.parallelism'='2'"
    tables = session(
        with_log(tmp_path, "id INT, p INT METADATA FROM 'partition' VIRTUAL", options, partitions=3),
        "CREATE TABLE g (id INT) WITH ('connector'='datagen', 'fields.id.kind'='sequence', 'fields.id.start'='0', "
        "'fields.id.end'='99')",
    )
    run(tables, "INSERT INTO t SELECT id FROM g")
    found = rows(tables, "SELECT id, p FROM t")
    assert sorted(id_ for id_, _ in found) == list(range(100))
    if partitions is not None:
        assert {partition for _, partition in found} == partitions


def test_changes_keep_their_order_whatever_the_parallelism(tmp_path: Path) -> None:
    options = "'sink.parallelism'='2', 'connector'='print'"
    tables = session(
        f"CREATE TABLE keyless (id INT, n BIGINT) WITH ({options})",
        f"CREATE TABLE t (id INT, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ({options})",
        "CREATE TABLE g (id INT) WITH ('connector'='datagen', 'number-of-rows'='10')",
    )
    query = "SELECT id, COUNT(*) FROM g GROUP BY id"
    run(tables, f"INSERT INTO t {query}")
    with pytest.raises(HeadraceError, match=r"has 'sink\.parallelism', and rows of it are updated or deleted"):
        tables.execute_sql(f"INSERT INTO keyless {query}")


@pytest.mark.parametrize(
    ("mode", "found"),
    [
        ("'scan.startup.mode'='specific-offsets', 'scan.startup.specific-offsets'='partition:0,offset:2'", [3]),
        ("'scan.startup.mode'='timestamp', 'scan.startup.timestamp-millis'='2000'", [2, 3]),
        ("'scan.startup.mode'='latest-offset'", []),
        ("'scan.startup.mode'='earliest-offset'", [1, 2, 3]),
    ],
)
def test_reading_starts_where_it_is_told(tmp_path: Path, mode: str, found: list[int]) -> None:
    tables = session(
        with_log(tmp_path, "id INT, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'", f"'format'='json', {mode}")
    )
    run(tables, "INSERT INTO t SELECT x, TO_TIMESTAMP_LTZ(x * 1000, 3) FROM (VALUES (1), (2), (3)) AS v(x)")
    assert [row[0] for row in rows(tables, "SELECT id FROM t")] == found


@pytest.mark.parametrize("fmt", ["debezium-json", "canal-json", "maxwell-json", "ogg-json"])
def test_changes_are_written_and_read(tmp_path: Path, fmt: str) -> None:
    tables = session(with_log(tmp_path, "card STRING, n BIGINT", f"'format' = '{fmt}'"))
    run(tables, "INSERT INTO t SELECT x, COUNT(*) FROM (VALUES ('a'), ('a')) AS v(x) GROUP BY x")
    assert changes(tables, "SELECT * FROM t") == ["+I('a', 1)", "-D('a', 1)", "+I('a', 2)"]


def test_upserts_replace_and_delete(tmp_path: Path) -> None:
    columns = "n BIGINT, card STRING, PRIMARY KEY (card) NOT ENFORCED"
    tables = session(with_log(tmp_path, columns, "'key.format'='raw', 'value.format'='json'", "upsert-log"))
    numbers = "(SELECT CAST(x AS STRING), y FROM (VALUES ('a', 1), ('b', 9), ('a', 2), ('a', 7)) AS v(x, y)) AS w(x, y)"
    run(tables, f"INSERT INTO t SELECT SUM(y), x FROM {numbers} GROUP BY x HAVING SUM(y) < 10")
    assert messages(tmp_path)[-1] == (b"a", None)
    assert changes(tables, "SELECT * FROM t")[-1] == "-D(3, 'a')"
    assert rows(tables, "SELECT card, n FROM t WHERE card = 'b'") == [("b", 9)]


@pytest.mark.parametrize(
    ("columns", "options", "error", "said"),
    [
        (
            "a INT",
            "'format'='json', 'scan.startup.mode'='earliest'",
            ConfigurationError,
            "expected one of earliest-off",
        ),
        ("a INT", "'format'='json', 'scan.startup.mode'='timestamp'", ConfigurationError, "needs 'scan.startup.timest"),
        ("a INT", "'format'='json', 'key.fields'='a'", ConfigurationError, "needs both 'key.format' and 'key.fields'"),
        ("a INT", "'format'='json', 'key.format'='json', 'key.fields'='b'", ConfigurationError, "names 'b'"),
        ("a INT", "'format'='parquet'", HeadraceError, "'parquet' is one of files"),
        ("a INT", "'group.id'='x'", ConfigurationError, "one of 'format' and 'value.format'"),
        ("a INT, b INT METADATA FROM 'ofset'", "'format'='json'", TableDefinitionError, "did you mean offset"),
        ("a INT, b INT", "'format'='raw'", InvalidTypeError, "'raw' is one column"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, columns: str, options: str, error: type[Exception], said: str) -> None:
    tables = session(with_log(tmp_path, columns, options))
    with pytest.raises(error, match=said):
        rows(tables, "SELECT * FROM t")


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ("a INT", "'key.format'='json', 'value.format'='json'", "needs a PRIMARY KEY"),
        ("a INT, PRIMARY KEY (a) NOT ENFORCED", "'value.format'='json'", "needs 'key.format'"),
        ("a INT, PRIMARY KEY (a) NOT ENFORCED", "'key.format'='json', 'value.format'='canal-json'", "use 'json'"),
    ],
)
def test_upserts_need_keys(tmp_path: Path, columns: str, options: str, said: str) -> None:
    tables = session(with_log(tmp_path, columns, options, "upsert-log"))
    with pytest.raises(ConfigurationError, match=said):
        rows(tables, "SELECT * FROM t")


def test_kafka_needs_servers() -> None:
    tables = session("CREATE TABLE t (a INT) WITH ('connector'='kafka', 'topic'='a', 'format'='json')")
    with pytest.raises(ConfigurationError, match=r"needs 'properties\.bootstrap\.servers'"):
        rows(tables, "SELECT * FROM t")


@pytest.mark.integration
def test_upserts_on_kafka(kafka: KafkaCluster) -> None:
    topic = Topic(kafka.bootstrap_servers)
    where = f"'topic' = '{topic.name}', 'properties.bootstrap.servers' = '{kafka.bootstrap_servers}', {ENDS}"
    tables = session(
        "CREATE TABLE t (card STRING, n BIGINT, at_offset BIGINT METADATA FROM 'offset' VIRTUAL, PRIMARY KEY (card) "
        f"NOT ENFORCED) WITH ('connector'='upsert-kafka', 'key.format'='raw', 'value.format'='json', {where})"
    )
    numbers = "(SELECT CAST(x AS STRING) FROM (VALUES ('a'), ('b'), ('a')) AS v(x)) AS w(x)"
    run(tables, f"INSERT INTO t SELECT x, COUNT(*) FROM {numbers} GROUP BY x")
    assert changes(tables, "SELECT card, n FROM t")[-1] == "+U('a', 2)"
