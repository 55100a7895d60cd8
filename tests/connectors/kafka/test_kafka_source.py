"""``KafkaSource`` against a real broker: what a Kafka has and an embedded log has not.

What both have is in ``tests/connectors/partitions``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka")

from headrace.broker import KafkaCluster
from headrace.common import SimpleStringSchema
from headrace.common.errors import InfrastructureError
from headrace.connectors.messages import MessageDeserializationSchema
from headrace.storage.folder import Folder, posix_folder
from tests.connectors.kafka.topics import Topic
from tests.connectors.partitions.driver import enumerator, read_rest, texts

pytestmark = pytest.mark.integration


@pytest.fixture
def topic(kafka: KafkaCluster) -> Topic:
    return Topic(kafka.bootstrap_servers)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return posix_folder(tmp_path)


def test_what_kafka_alone_knows_about_a_message(topic: Topic, folder: Folder) -> None:
    topic.put(["tea"])
    schema = MessageDeserializationSchema(SimpleStringSchema(), metadata=["timestamp-type", "leader-epoch"])
    source = topic.reading().set_deserializer(schema).build()
    (rows,) = read_rest(source, enumerator(source, folder), {}).values()
    assert [tuple(row.values()) for row in rows] == [("tea", "CreateTime", 0)]


def test_everything_is_read_where_that_is_asked_for(topic: Topic, folder: Folder) -> None:
    topic.put_in_transaction(range(5), commit=True)
    topic.put_in_transaction(range(5, 10), commit=False)
    source = topic.reading().set_property("isolation.level", "read_uncommitted").build()
    (seen,) = read_rest(source, enumerator(source, folder), {}).values()
    assert seen == texts(range(10))


def test_an_open_transaction_holds_back_what_is_behind_it(topic: Topic, folder: Folder) -> None:
    source = topic.reading().build()
    planner, positions = enumerator(source, folder), dict[str, int]()
    topic.put(["before"])
    transaction = topic.transaction()
    transaction.put(["within"])
    topic.put(["behind"])
    assert list(read_rest(source, planner, positions).values()) == [[b"before"]]
    transaction.abort()
    found: dict[str, list[bytes]] = {}
    while not found:  # the mark that ends it is written a little later
        found = read_rest(source, planner, positions)
    assert list(found.values()) == [[b"behind"]]


def test_a_message_that_is_larger_than_what_is_fetched_at_once(topic: Topic, folder: Folder) -> None:
    large = topic.another(max_message_bytes="4000000")
    messages = [b"1", b"x" * 1_500_000, b"2", b"y" * 900_000, b"3"]
    large.put(messages)
    small = {
        "max.partition.fetch.bytes": "1000",
        "fetch.max.bytes": "1000000",
        "queued.max.messages.kbytes": "1",
    }
    source = large.reading().set_properties(small).build()
    for budgets in ([10**9], [1]):
        (found,) = read_rest(source, enumerator(source, folder), {}, budgets=budgets).values()
        assert found == messages


@pytest.mark.slow
def test_a_broker_that_is_not_there(folder: Folder, topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.connectors.kafka.partitioned_log._REQUEST_SECONDS", 1)
    source = topic.reading().set_bootstrap_servers("127.0.0.1:1").build()
    with pytest.raises(InfrastructureError, match=r"topics cannot be listed, at 127\.0\.0\.1:1"):
        enumerator(source, folder).discover(0)
