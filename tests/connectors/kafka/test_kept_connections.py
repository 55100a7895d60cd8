"""Connections to Kafka outlast readers and writers in a process; what was done with them before does not matter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("confluent_kafka")

from headrace.common import SimpleStringSchema, Types
from headrace.common.batch import Batch
from headrace.common.constants import NO_TIMESTAMP
from headrace.connectors.kafka.source import KafkaReader, PartitionConsumer
from headrace.connectors.kafka.writer import MessageSender
from headrace.connectors.messages import MessageSerializationSchema
from headrace.connectors.sink import SinkWriter, WriterContext, WriterEpoch
from headrace.connectors.source import KeptClients, ReaderContext
from headrace.datastream.connectors.kafka import KafkaSink, KafkaSource
from tests.connectors.kafka.topics import Topic

if TYPE_CHECKING:
    from headrace.broker import KafkaCluster
    from headrace.connectors.source import SourceReader

pytestmark = pytest.mark.integration


@pytest.fixture
def topic(kafka: KafkaCluster) -> Topic:
    return Topic(kafka.bootstrap_servers)


def reader_of(topic: Topic, clients: KeptClients) -> SourceReader:
    source = KafkaSource.builder().set_bootstrap_servers(topic.servers).set_topics(topic.name)
    reader = source.set_value_only_deserializer(SimpleStringSchema()).build().create_reader()
    reader.open(ReaderContext(clients=clients))
    return reader


def texts(reader: SourceReader, topic: Topic, start: int, end: int) -> list[str]:
    """What a reader gives of a range."""
    batches = [
        Batch(Types.STRING(), each.timestamps, each.timestamps, rows=each.rows, columns=each.columns)
        for each in reader.read([f"{topic.name}-0", start, end])
    ]
    return [text for batch in batches for text in batch.rows]


def consumer_of(reader: SourceReader) -> PartitionConsumer:
    assert isinstance(reader, KafkaReader)
    (consumer,) = reader._consumers.values()
    return consumer


@pytest.mark.parametrize("few", [0, 1_000], ids=["fetches ahead", "rests"])
def test_the_next_reader_of_a_partition_reads_what_it_is_asked_for(
    few: int, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.connectors.kafka.source._FEW_RECORDS", few)
    topic.put([str(number) for number in range(100)])
    clients, consumers = KeptClients(), set()
    for start, end in ((0, 40), (40, 60), (20, 100), (99, 100), (0, 1)):
        reader = reader_of(topic, clients)
        assert texts(reader, topic, start, end) == [str(number) for number in range(start, end)]
        consumers.add(id(consumer_of(reader)))
        reader.close()
    assert len(consumers) == 1
    clients.close()


def test_two_readers_at_once_have_consumers_of_their_own(topic: Topic) -> None:
    topic.put(["a", "b"])
    clients = KeptClients()
    first, second = reader_of(topic, clients), reader_of(topic, clients)
    assert (texts(first, topic, 0, 2), texts(second, topic, 0, 2)) == (["a", "b"], ["a", "b"])
    assert consumer_of(first) is not consumer_of(second)
    for reader in (first, second):
        reader.close()
    clients.close()


def test_a_reader_that_was_left_in_the_middle_leaves_nothing_to_the_next(topic: Topic) -> None:
    topic.put([str(number) for number in range(5_000)])
    clients = KeptClients()
    reader = reader_of(topic, clients)
    next(reader.read([f"{topic.name}-0", 0, 5_000]))
    reader.close()
    reader = reader_of(topic, clients)
    assert texts(reader, topic, 7, 9) == ["7", "8"]
    reader.close()
    clients.close()


def writer_to(topic: Topic, clients: KeptClients) -> SinkWriter:
    values = MessageSerializationSchema(topic.name, SimpleStringSchema())
    builder = KafkaSink.builder().set_bootstrap_servers(topic.servers).set_record_serializer(values)
    writer = builder.build().create_writer(WriterContext("job", "sink", 0, 0, 1, Types.STRING(), clients=clients))
    writer.begin_epoch(WriterEpoch(1, 1_700_000_000_000))
    return writer


def write(writer: SinkWriter, text: str) -> None:
    writer.write(Batch.of_rows(Types.STRING(), [text], [NO_TIMESTAMP], [0]))


def test_a_producer_outlasts_its_writer_unless_messages_are_on_their_way(topic: Topic) -> None:
    clients = KeptClients()
    key = ("sink", (("bootstrap.servers", topic.servers),))
    writer = writer_to(topic, clients)
    write(writer, "a")
    writer.prepare_commit()
    writer.close()
    sender = clients.take(key, MessageSender)
    assert sender is not None
    clients.keep(key, sender)
    writer = writer_to(topic, clients)
    assert clients.take(key, MessageSender) is None  # this writer has it
    write(writer, "b")
    writer.abort()
    writer.close()
    assert clients.take(key, MessageSender) is None
