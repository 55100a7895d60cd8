"""Topics of a Kafka, with what tests do to those of the embedded log."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any, ClassVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from headrace.common import ByteArraySchema
from headrace.connectors.partitions import OffsetResetStrategy
from headrace.datastream.connectors.kafka import KafkaSource, KafkaSourceBuilder
from tests.connectors.partitions.driver import OpenTransaction, TopicDriver, message

_PATIENCE = 90.0
_NOT_YET = (KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)


class Topic(TopicDriver):
    """A topic of a Kafka; see :class:`TopicDriver`.

    Args:
        servers: where the Kafka is.
        login: what clients are told beside that.
    """

    compacted: ClassVar[Mapping[str, str]] = {
        **TopicDriver.compacted,
        "segment_ms": "1",
        "min_cleanable_dirty_ratio": "0.01",
    }

    def __init__(
        self,
        servers: str,
        partitions: int = 1,
        prefix: str = "t",
        login: Mapping[str, str] | None = None,
        **config: str,
    ) -> None:
        self.servers = servers
        self._login = login
        self.client = {"bootstrap.servers": servers, "log_level": 2, **(login or {})}
        self.admin = AdminClient(self.client)
        super().__init__(partitions, prefix, **config)

    def another(self, partitions: int = 1, prefix: str = "t", **config: str) -> Topic:
        return Topic(self.servers, partitions, prefix, self._login, **config)

    def make(self, partitions: int = 1, **config: str) -> None:
        names = {name.replace("_", "."): value for name, value in config.items()}
        # As many replicas as the cluster has by default
        made = self.admin.create_topics([NewTopic(self.name, partitions, config=names)], request_timeout=_PATIENCE)
        made[self.name].result()
        self._await(partitions)

    def delete(self) -> None:
        self.admin.delete_topics([self.name], request_timeout=_PATIENCE)[self.name].result()
        self._await(0)

    def grow(self, partitions: int) -> None:
        self.admin.create_partitions([NewPartitions(self.name, partitions)])[self.name].result(_PATIENCE)
        self._await(partitions)

    def _await(self, partitions: int) -> None:
        """Brokers hear of it a little later than who has asked for it."""
        found = -1
        while found != partitions:
            topics = self.admin.list_topics(timeout=_PATIENCE).topics
            found = len(topics[self.name].partitions) if self.name in topics else 0
        self._producer = Producer({**self.client, "linger.ms": 0, "message.max.bytes": 10_000_000})

    def put(self, values: Iterable[Any], partition: int = 0, **more: Any) -> None:
        for value in values:
            self._producer.produce(self.name, message(value), partition=partition, **more)
        assert self._producer.flush(_PATIENCE) == 0

    def transaction(self) -> OpenTransaction:
        return _KafkaTransaction(self)

    def delete_before(self, offset: int) -> None:
        for future in self.admin.delete_records([TopicPartition(self.name, 0, offset)]).values():
            future.result(_PATIENCE)

    def compact(self) -> None:
        time.sleep(0.01)  # longer than segment.ms: the next message rolls the segment, which is not cleaned else
        self.put(["rolls"], key=b"last")
        # The cleaner may have come before, and have left nothing to do
        deadline = time.monotonic() + _PATIENCE
        while len(keys := self._keys()) > len(set(keys)):
            assert time.monotonic() < deadline, keys
            time.sleep(0.05)

    def _keys(self) -> list[Any]:
        """The keys of all messages but the last, which is in the segment that is not cleaned."""
        consumer = Consumer({**self.client, "group.id": "keys", "enable.partition.eof": True})
        consumer.assign([TopicPartition(self.name, 0, 0)])
        found: list[Any] = []
        while (polled := consumer.poll(_PATIENCE)) is not None and polled.error() is None:
            found.append(polled.key())
        consumer.close()
        return found[:-1]

    def commit_offset(self, group: str, offset: int, metadata: str = "") -> None:
        with self._asking(group) as consumer:
            while True:  # the group's coordinator may be new, and refuse for a moment
                try:
                    consumer.commit(offsets=[TopicPartition(self.name, 0, offset, metadata)], asynchronous=False)
                except KafkaException as refusal:
                    if refusal.args[0].code() not in _NOT_YET:
                        raise
                    time.sleep(0.1)
                else:
                    return

    def committed(self, group: str) -> dict[int, int]:
        with self._asking(group) as consumer:
            partitions = len(self.admin.list_topics(self.name, timeout=_PATIENCE).topics[self.name].partitions)
            found = consumer.committed([TopicPartition(self.name, each) for each in range(partitions)], _PATIENCE)
        assert all(each.error is None for each in found)
        return {each.partition: each.offset for each in found if each.offset >= 0}

    def _asking(self, group: str) -> closing[Consumer]:
        """A client of a group that does not join it; an admin client's requests may end the process."""
        return closing(Consumer({**self.client, "group.id": group, "enable.auto.commit": False}))

    def messages(self) -> list[Message]:
        """All committed messages, partition by partition."""
        settings = {"bootstrap.servers": self.servers, "group.id": "test", "enable.partition.eof": True}
        found: list[Message] = []
        with closing(Consumer({**settings, "fetch.wait.max.ms": 10})) as consumer:
            for partition in sorted(consumer.list_topics(self.name, timeout=30).topics[self.name].partitions):
                consumer.assign([TopicPartition(self.name, partition, 0)])
                while (read := _polled(consumer)) is not None:
                    found.append(read)
        return found

    def delete_group(self, group: str) -> None:
        self.admin.delete_consumer_groups([group])[group].result(_PATIENCE)

    def builder(self) -> KafkaSourceBuilder[bytes]:
        made: KafkaSourceBuilder[bytes] = KafkaSource.builder()
        made.set_bootstrap_servers(self.servers).set_value_only_deserializer(ByteArraySchema())
        return made.set_properties(self._login or {})

    def configure(
        self, builder: KafkaSourceBuilder[bytes], group: str | None, discovery_millis: int, reset: OffsetResetStrategy
    ) -> None:
        builder.set_property("partition.discovery.interval.ms", str(discovery_millis))
        builder.set_property("auto.offset.reset", reset.name.lower())
        if group is not None:
            builder.set_group_id(group)


class _KafkaTransaction(OpenTransaction):
    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._producer = Producer({**topic.client, "transactional.id": uuid.uuid4().hex, "linger.ms": 0})
        self._producer.init_transactions(_PATIENCE)
        self._producer.begin_transaction()

    def put(self, values: Iterable[Any]) -> None:
        for value in values:
            self._producer.produce(self._topic.name, message(value), partition=0)
        assert self._producer.flush(_PATIENCE) == 0  # what is not sent yet would just be forgotten

    def commit(self) -> None:
        self._producer.commit_transaction(_PATIENCE)

    def abort(self) -> None:
        self._producer.abort_transaction(_PATIENCE)


def _polled(consumer: Consumer) -> Message | None:
    """The next message, None at the end of the partition."""
    message = consumer.poll(30)
    assert message is not None
    error = message.error()
    if error is None:
        return message
    assert error.code() == KafkaError._PARTITION_EOF, error.str()
    return None
