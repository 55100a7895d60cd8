"""``KafkaSink`` against a real broker: what arrives, where, and what is told when it does not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

pytest.importorskip("confluent_kafka")

from headrace.common import SerializationSchema, SimpleStringSchema, Types, WatermarkStrategy
from headrace.common.batch import Batch
from headrace.common.configuration import Configuration
from headrace.common.constants import NO_TIMESTAMP
from headrace.common.errors import ConfigurationError, InfrastructureError, JobExecutionError
from headrace.connectors.messages import MessageSerializationSchema
from headrace.connectors.ranges import NumberSequenceSource
from headrace.connectors.sink import CommitterContext, SinkWriter, WriterContext, WriterEpoch
from headrace.datastream import OutputTag, StreamExecutionEnvironment
from headrace.datastream.connectors.kafka import (
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSinkBuilder,
    KafkaTopicSelector,
)
from headrace.log.accumulator import DefaultPartitioner
from tests.connectors.kafka.topics import Topic

if TYPE_CHECKING:
    from headrace.broker import KafkaCluster

pytestmark = pytest.mark.integration

NOW = 1_700_000_000_000
TEXTS = SimpleStringSchema()


class FirstWord(SerializationSchema):
    """Refuses texts without a word; one that begins with a dash has no key."""

    def serialize(self, element: Any) -> Any:
        word = element.split()[0]
        return None if word.startswith("-") else word.encode()


@pytest.fixture
def topic(kafka: KafkaCluster) -> Topic:
    return Topic(kafka.bootstrap_servers, partitions=3)


def sink_to(topic: Topic, schema: MessageSerializationSchema | None = None) -> KafkaSinkBuilder:
    """The beginning of a sink of texts."""
    schema = MessageSerializationSchema(topic.name, TEXTS, FirstWord()) if schema is None else schema
    builder = KafkaSink.builder().set_bootstrap_servers(topic.servers).set_record_serializer(schema)
    return builder.set_property("linger.ms", "0")


def writer_of(builder: KafkaSinkBuilder) -> SinkWriter:
    writer = builder.build().create_writer(WriterContext("job", "sink", 0, 0, 1, Types.STRING()))
    writer.begin_epoch(WriterEpoch(1, NOW))
    return writer


def batch_of(texts: list[str], timestamps: list[int] | None = None) -> Batch:
    times = [NO_TIMESTAMP] * len(texts) if timestamps is None else timestamps
    return Batch.of_rows(Types.STRING(), texts, times, [0] * len(texts))


def texts_in(topic: Topic) -> list[str]:
    return sorted(value.decode() for message in topic.messages() if (value := message.value()) is not None)


def environment(tmp_path: Path) -> StreamExecutionEnvironment:
    settings = {"headrace.runtime": "local", "execution.checkpointing.dir": str(tmp_path / "checkpoints")}
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))


def test_keys_decide_the_partition_as_those_of_java_do_and_order_is_kept(topic: Topic) -> None:
    texts = [f"card-{number % 7} {number}" for number in range(200)]
    writer = writer_of(sink_to(topic))
    writer.write(batch_of(texts[:90]))
    writer.write(batch_of(texts[90:]))
    assert list(writer.prepare_commit()) == []
    found = topic.messages()
    assert sorted(message.value() for message in found) == sorted(text.encode() for text in texts)
    numbers: dict[bytes, list[int]] = {}
    for message in found:
        assert message.value().split()[0] == message.key()
        numbers.setdefault(message.key(), []).append(int(message.value().split()[1]))
    assert all(each == sorted(each) for each in numbers.values())
    keys = pa.array([message.key() for message in found], pa.binary())
    assert DefaultPartitioner(0).partition(keys, 3).tolist() == [message.partition() for message in found]


def test_timestamps_and_messages_without_a_key(topic: Topic) -> None:
    writer = writer_of(sink_to(topic))
    writer.write(batch_of(["-a", "-b", "-c", "-d", "-é"], [NO_TIMESTAMP, -5, 0, 1, NOW - 10]))
    writer.prepare_commit()
    found = {message.value().decode(): (message.key(), message.timestamp()[1]) for message in topic.messages()}
    of_epoch = (None, NOW)
    assert found == {"-a": of_epoch, "-b": of_epoch, "-c": of_epoch, "-d": (None, 1), "-é": (None, NOW - 10)}


def test_a_selector_says_where_each_message_goes(topic: Topic, kafka: KafkaCluster) -> None:
    other = Topic(kafka.bootstrap_servers)
    names = {"x": topic.name, "y": other.name}

    class ByName(KafkaTopicSelector):
        def apply(self, data: Any) -> str:
            return names[data[0]]

    selecting = KafkaRecordSerializationSchema.builder().set_topic_selector(ByName())
    writer = writer_of(sink_to(topic, selecting.set_value_serialization_schema(TEXTS).build()))
    writer.write(batch_of(["x1", "y1", "x2", "y2"]))
    writer.prepare_commit()
    assert (texts_in(topic), texts_in(other)) == (["x1", "x2"], ["y1", "y2"])


def test_more_messages_than_the_queue_holds(topic: Topic) -> None:
    writer = writer_of(sink_to(topic).set_property("queue.buffering.max.messages", "10"))
    texts = [f"k {number:04}" for number in range(500)]
    writer.write(batch_of(texts))
    writer.prepare_commit()
    assert texts_in(topic) == texts


def test_what_a_topic_does_not_take_fails_the_epoch(kafka: KafkaCluster) -> None:
    small = Topic(kafka.bootstrap_servers, max_message_bytes="1000")
    writer = writer_of(sink_to(small))
    writer.write(batch_of(["k small", "k " + "x" * 5_000]))
    said = rf"topic {small.name} at .* \(MSG_SIZE_TOO_LARGE\); have it be smaller"
    with pytest.raises(ConfigurationError, match=said):
        writer.prepare_commit()
    writer.abort()
    writer.close()
    with pytest.raises(ValueError, match="would have 2000003 bytes, and 1000000 is the most"):
        writer_of(sink_to(small)).write(batch_of(["k " + "x" * 2_000_000]))


def test_a_compacted_topic_asks_for_keys(kafka: KafkaCluster) -> None:
    compacted = Topic(kafka.bootstrap_servers, cleanup_policy="compact")
    writer = writer_of(sink_to(compacted))
    writer.write(batch_of(["-no-key"]))
    with pytest.raises(ConfigurationError, match=r"INVALID_RECORD.*compacted requires keys"):
        writer.prepare_commit()


def test_a_broker_that_does_not_acknowledge_is_a_passing_fault(topic: Topic) -> None:
    writer = writer_of(sink_to(topic).set_property("delivery.timeout.ms", "1").set_property("linger.ms", "0"))

    def write() -> None:
        for _ in range(50):  # whether a message has waited for too long is looked at now and then
            writer.write(batch_of([f"k {number}" for number in range(20_000)]))
            writer.prepare_commit()

    with pytest.raises(InfrastructureError, match=r"does not take a message: .* \(_MSG_TIMED_OUT\)"):
        write()


def test_a_cluster_that_is_not_there_is_noticed_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.connectors.kafka.partitioned_log._REQUEST_SECONDS", 0.2)
    schema = MessageSerializationSchema("t", TEXTS)
    sink = KafkaSink.builder().set_bootstrap_servers("127.0.0.1:9").set_record_serializer(schema).build()
    with pytest.raises(InfrastructureError, match=r"127\.0\.0\.1:9"):
        sink.check_output(CommitterContext("job", "sink", Types.STRING()))


def test_a_job_writes_everything_and_keeps_what_it_cannot_write(topic: Topic, tmp_path: Path) -> None:
    env = environment(tmp_path)
    bad = OutputTag("bad")
    numbers = env.from_source(NumberSequenceSource(0, 499), WatermarkStrategy.no_watermarks(), "numbers")
    texts = numbers.map(lambda number: f"k{number % 5} {number}" if number % 100 else "", Types.STRING())
    sunk = texts.sink_to(sink_to(topic).set_dead_letter(bad).build())
    rejected = sunk.get_side_output(bad).execute_and_collect()
    assert [letter.reason for letter in rejected] == ["IndexError: list index out of range"] * 5
    assert texts_in(topic) == sorted(f"k{number % 5} {number}" for number in range(500) if number % 100)


def test_without_dead_letters_a_bad_record_fails_the_job(topic: Topic, tmp_path: Path) -> None:
    env = environment(tmp_path)
    env.from_collection(["a 1", " "], Types.STRING()).sink_to(sink_to(topic).build())
    with pytest.raises(JobExecutionError, match="IndexError"):
        env.execute()
