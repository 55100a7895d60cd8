"""Headers and partitions that a program gives its messages, in topics of Kafka and of the embedded log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("confluent_kafka")

from headrace.common import SimpleStringSchema, Types
from headrace.common.configuration import Configuration
from headrace.common.errors import InvalidTypeError, JobExecutionError
from headrace.connectors.messages import MessageSerializationSchema
from headrace.connectors.sink import DeliveryGuarantee
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.kafka import (
    HeaderProvider,
    KafkaPartitioner,
    KafkaRecordSerializationSchema,
    KafkaSink,
)
from headrace.datastream.connectors.log import LogSink
from headrace.log import Log
from headrace.log.consumer import Consumer as LogConsumer
from tests.connectors.kafka.topics import Topic

if TYPE_CHECKING:
    from headrace.broker import KafkaCluster

TEXTS = SimpleStringSchema()
WORDS = [f"{number} word" for number in range(40)]


class Number(HeaderProvider):
    def get_headers(self, record: Any) -> Any:
        number = int(record.split()[0])
        return [("n", str(number).encode()), ("n", None)] if number % 2 else None


class Last(KafkaPartitioner):
    """Words with the same last digit stay together, whatever their keys are."""

    def partition(
        self, record: Any, key: bytes | None, value: bytes | None, target_topic: str, partitions: Sequence[int]
    ) -> int:
        assert key == value == record.encode()
        return partitions[int(record.split()[0]) % 10 % len(partitions)]


EXPECTED = sorted((word, int(word.split()[0]) % 10 % 3, Number().get_headers(word) or []) for word in WORDS)


def run(tmp_path: Path, sink: Any) -> None:
    settings = {"headrace.runtime": "local", "execution.checkpointing.dir": str(tmp_path / "checkpoints")}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.set_parallelism(2).from_collection(WORDS, Types.STRING()).sink_to(sink)
    env.execute()


@pytest.mark.sampled(1)
@pytest.mark.integration
@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE])
def test_in_kafka(kafka: KafkaCluster, tmp_path: Path, guarantee: DeliveryGuarantee) -> None:
    topic = Topic(kafka.bootstrap_servers, partitions=3)
    schema = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(topic.name)
        .set_key_serialization_schema(TEXTS)
        .set_value_serialization_schema(TEXTS)
        .set_header_provider(Number())
        .set_partitioner(Last())
        .build()
    )
    builder = KafkaSink.builder().set_bootstrap_servers(topic.servers).set_record_serializer(schema)
    run(tmp_path, builder.set_delivery_guarantee(guarantee).build())
    found = topic.messages()
    assert sorted((each.value().decode(), each.partition(), each.headers() or []) for each in found) == EXPECTED


@pytest.mark.integration
def test_headers_count_for_the_size_of_a_message(kafka: KafkaCluster, tmp_path: Path) -> None:
    topic = Topic(kafka.bootstrap_servers)
    schema = MessageSerializationSchema(topic.name, TEXTS, headers=lambda _: {"large": b"x" * 1_100_000})
    builder = KafkaSink.builder().set_bootstrap_servers(topic.servers).set_record_serializer(schema)
    with pytest.raises(JobExecutionError, match="would have 1100012 bytes, and 1000000 is the most"):
        run(tmp_path, builder.build())


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE])
def test_in_the_log(tmp_path: Path, guarantee: DeliveryGuarantee) -> None:
    log = Log.open(tmp_path / "log", create=True)
    log.create_topic("words", 3)
    schema = MessageSerializationSchema(
        "words", TEXTS, TEXTS, headers=Number().get_headers, partitioner=Last().partition
    )
    builder = LogSink.builder().set_log(tmp_path / "log").set_record_serializer(schema)
    run(tmp_path, builder.set_delivery_guarantee(guarantee).build())
    with LogConsumer(log, auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["words"])
        found: list[Any] = []
        while len(found) < len(WORDS):
            found += consumer.poll(1)
    assert sorted((each.value.decode(), each.partition, list(each.headers)) for each in found) == EXPECTED


@pytest.mark.parametrize("setter", ["set_header_provider", "set_partitioner", "set_topic_selector"])
def test_what_is_neither_of_its_class_nor_a_function(setter: str) -> None:
    with pytest.raises(InvalidTypeError, match=r"takes an? \w+ or a function, not 7"):
        getattr(KafkaRecordSerializationSchema.builder(), setter)(7)
