"""Topics of Kafka and of the embedded log, as the benchmarks use them: filled, read back, and as ends of a job."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from confluent_kafka import Consumer as KafkaConsumer
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as KafkaProducer
from confluent_kafka import TopicPartition as Assigned
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.datastream.connectors.base import DeliveryGuarantee, MessageSerializationSchema
from headrace.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaSink,
    KafkaSource,
    KafkaTopicPartition,
)
from headrace.datastream.connectors.log import LogSink, LogSource, OffsetsInitializer
from headrace.log import Consumer, Log, Producer, TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Message

    from headrace.common.serialization import DeserializationSchema
    from headrace.connectors.sink import Sink
    from headrace.connectors.source import Source

PARTITIONS = 4
_FETCH_RECORDS = 500
_POLL_SECONDS = 0.05
_ANSWER_SECONDS = 30
_ANY = -1
_ONCE = {"enable.idempotence": True}  # else what is sent again after a time-out is there twice
_EXACTLY_ONCE = DeliveryGuarantee.EXACTLY_ONCE


class Broker(ABC):
    """Where topics are, each with :data:`PARTITIONS` partitions."""

    @staticmethod
    def of(options: Mapping[str, Any]) -> Broker:
        """The one that a program is told of: ``kafka``, its bootstrap servers, or ``log``, a folder."""
        return Kafka(options["kafka"]) if "kafka" in options else EmbeddedLog(options["log"])

    @property
    @abstractmethod
    def options(self) -> dict[str, str]:
        """What :meth:`of` has to be given."""

    @abstractmethod
    def create_topic(self, name: str) -> None:
        """Make an empty topic."""

    @abstractmethod
    def send(self, topic: str, values: Iterable[tuple[bytes, int]], linger_millis: int) -> None:
        """Send values, each with its partition, as they come; they may wait so long for others."""

    @abstractmethod
    def tail(self, topic: str) -> Iterator[list[bytes]]:
        """The committed values of a topic from its beginning, as they become visible; never ends."""

    @abstractmethod
    def values(self, topic: str) -> pa.Array:
        """All committed values of a topic, which nobody writes any more."""

    @abstractmethod
    def source(self, topic: str, schema: DeserializationSchema, records: int) -> Source:
        """Reads the first records of a topic, as many of each partition; they may have yet to come."""

    @abstractmethod
    def sink(self, schema: MessageSerializationSchema, guarantee: DeliveryGuarantee = _EXACTLY_ONCE) -> Sink:
        """Writes a topic."""

    def new_topic(self, prefix: str) -> str:
        """Make a topic with a name of its own."""
        name = f"{prefix}-{uuid.uuid4().hex[:8]}"
        self.create_topic(name)
        return name


class Kafka(Broker):
    """A cluster.

    Args:
        servers: where it is reached.
    """

    def __init__(self, servers: str) -> None:
        self.servers = servers

    @property
    def options(self) -> dict[str, str]:
        return {"kafka": self.servers}

    def create_topic(self, name: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.servers})
        admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(_ANSWER_SECONDS)

    def send(self, topic: str, values: Iterable[tuple[bytes, int]], linger_millis: int) -> None:
        producer = KafkaProducer({"bootstrap.servers": self.servers, "linger.ms": linger_millis, **_ONCE})
        for value, partition in values:
            try:
                producer.produce(topic, value, partition=partition)
            except BufferError:
                send_when_there_is_room(producer, topic, value, partition)
        producer.flush()

    def tail(self, topic: str) -> Iterator[list[bytes]]:
        consumer = consumer_of(self.servers, topic, range(PARTITIONS))
        while True:
            first = consumer.consume(1, _POLL_SECONDS)  # with more, it would wait for all of them
            yield [_checked(message).value() for message in (*first, *consumer.consume(_FETCH_RECORDS, 0))]

    def values(self, topic: str) -> pa.Array:
        consumer = consumer_of(self.servers, topic, range(PARTITIONS), **{"enable.partition.eof": True})
        parts, ended = [pa.array([], pa.binary())], 0
        while ended < PARTITIONS:
            messages = consumer.consume(_FETCH_RECORDS, _POLL_SECONDS)
            values = [message.value() for message in messages if message.error() is None]
            ended += sum(_is_end(message) for message in messages)
            parts.append(pa.array(values, pa.binary()))
        consumer.close()
        return pa.concat_arrays(parts)

    def source(self, topic: str, schema: DeserializationSchema, records: int) -> Source:
        ends = {KafkaTopicPartition(topic, number): records // PARTITIONS for number in range(PARTITIONS)}
        return (
            KafkaSource.builder()
            .set_bootstrap_servers(self.servers)
            .set_topics(topic)
            .set_starting_offsets(KafkaOffsetsInitializer.earliest())
            .set_bounded(KafkaOffsetsInitializer.offsets(ends))
            .set_value_only_deserializer(schema)
            .build()
        )

    def sink(self, schema: MessageSerializationSchema, guarantee: DeliveryGuarantee = _EXACTLY_ONCE) -> Sink:
        builder = KafkaSink.builder().set_bootstrap_servers(self.servers).set_record_serializer(schema)
        return builder.set_delivery_guarantee(guarantee).build()


class EmbeddedLog(Broker):
    """A log in a folder, made where there is none.

    Args:
        folder: the folder.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._log = Log.open(folder, create=True)

    @property
    def options(self) -> dict[str, str]:
        return {"log": self._folder}

    def create_topic(self, name: str) -> None:
        self._log.create_topic(name, PARTITIONS)

    def send(self, topic: str, values: Iterable[tuple[bytes, int]], linger_millis: int) -> None:
        with Producer(self._log, linger_ms=linger_millis) as producer:
            for value, partition in values:
                producer.send(topic, value, partition=partition)

    def tail(self, topic: str) -> Iterator[list[bytes]]:
        consumer = Consumer(self._folder, auto_offset_reset="earliest")
        consumer.subscribe([topic])
        while True:
            yield consumer.poll_batch(_POLL_SECONDS).column("value").to_pylist()

    def values(self, topic: str) -> pa.Array:
        return self._log.read(topic).read_all().column("value").combine_chunks()

    def source(self, topic: str, schema: DeserializationSchema, records: int) -> Source:
        ends = {TopicPartition(topic, number): records // PARTITIONS for number in range(PARTITIONS)}
        builder = LogSource.builder().set_log(self._folder).set_topics(topic)
        return builder.set_bounded(OffsetsInitializer.offsets(ends)).set_value_only_deserializer(schema).build()

    def sink(self, schema: MessageSerializationSchema, guarantee: DeliveryGuarantee = _EXACTLY_ONCE) -> Sink:
        builder = LogSink.builder().set_log(self._folder).set_record_serializer(schema)
        return builder.set_delivery_guarantee(guarantee).build()


def consumer_of(servers: str, topic: str, partitions: Iterable[int], **settings: Any) -> KafkaConsumer:
    """Reads partitions of a topic of Kafka from their beginning, only what is committed."""
    consumer = KafkaConsumer(
        {
            "bootstrap.servers": servers,
            "group.id": "benchmarks",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.queue.backoff.ms": 10,
            **settings,
        }
    )
    consumer.assign([Assigned(topic, partition, 0) for partition in partitions])
    return consumer


def send_when_there_is_room(producer: KafkaProducer, topic: str, value: bytes, partition: int = _ANY) -> None:
    """Send a message as soon as those before leave room for it."""
    while True:
        producer.poll(_POLL_SECONDS)
        with suppress(BufferError):
            producer.produce(topic, value, partition=partition)
            return


def _checked(message: Message) -> Message:
    if message.error() is not None:
        raise KafkaException(message.error())
    return message


def _is_end(message: Message) -> bool:
    """Whether it tells of the end of a partition.

    Raises:
        KafkaException: when it tells of a fault.
    """
    error = message.error()
    if error is None:
        return False
    if error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return True
