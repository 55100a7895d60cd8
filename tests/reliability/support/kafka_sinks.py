"""Small jobs that write to Kafka exactly once, what their readers see, and places where something may happen."""

from __future__ import annotations

import importlib
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from headrace.common import SerializationSchema
from headrace.connectors.messages import MessageSerializationSchema
from headrace.connectors.sink import DeliveryGuarantee
from headrace.datastream.connectors.kafka import KafkaSink, KafkaSinkBuilder
from tests.reliability.support.small_jobs import KEYS, SmallJob, expected

_NOTHING: Final[Mapping[str, str]] = {}
_PASSING: Final = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT)
_KAFKA: Final = "headrace.connectors.kafka."

STEPS: Final = {
    "staged": "writer.TransactionalWriter.prepare_commit",
    "commit": "transactions.KafkaCommitter.commit",
    "init": "transactions.Publisher._fence_others",
    "read": "transactions.Publisher._read_marker",
    "begin": "transactions.Publisher._begin",
    "mark": "transactions.Publisher._mark",
    "end": "transactions.Publisher._commit",
    "recover": "transactions.KafkaCommitter.recover",
    "claim": "transactions.KafkaCommitter._claim",
}
"""The steps of the protocol, and the functions that do them."""

OFTEN: Final = ("staged", "commit", "begin", "mark", "end")
"""The steps that every epoch has."""


IN_TASKS: Final = ("init", "read", "begin", "mark", "end")
"""The steps of a publisher, which may be in a task."""


class Text(SerializationSchema):
    def serialize(self, element: Any) -> bytes:
        return f"{element.number} {element.seen}".encode()


class Key(SerializationSchema):
    def serialize(self, element: Any) -> bytes:
        return str(element.number % KEYS).encode()


@dataclass(frozen=True)
class Place:
    """A moment in the life of a driver.

    Attributes:
        step: which step, of :data:`STEPS`.
        count: the how-manieth call of it.
        after: whether it is behind the step, or before it.
    """

    step: str
    count: int
    after: bool

    @staticmethod
    def any_of(chance: random.Random, steps: Sequence[str], most: int) -> Place:
        """Some place; steps that every epoch has come up to ``most`` times."""
        step = chance.choice(steps)
        return Place(step, chance.randint(1, most) if step in OFTEN else 1, chance.random() < 0.5)

    @property
    def arguments(self) -> list[object]:
        """As a program is told of it."""
        return [self.step, self.count, self.after]

    def act(self, action: Callable[[], None], put: Callable[[Any, str, Any], None] = setattr) -> None:
        """Have something done there, once.

        Args:
            action: what to do.
            put: changes an attribute of a class.
        """
        module, owner, name = STEPS[self.step].split(".")
        changed = getattr(importlib.import_module(_KAFKA + module), owner)
        original, calls = getattr(changed, name), itertools.count(1)

        def acting(*args: Any) -> Any:
            is_now = next(calls) == self.count
            if is_now and not self.after:
                action()
            done = original(*args)
            if is_now and self.after:
                action()
            return done

        put(changed, name, acting)


def kafka_sink(servers: str, topic: str, properties: Mapping[str, str] = _NOTHING) -> KafkaSinkBuilder:
    """A sink that writes to a topic exactly once."""
    builder = KafkaSink.builder().set_bootstrap_servers(servers).set_properties(properties)
    builder.set_record_serializer(MessageSerializationSchema(topic, Text(), Key()))
    return builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)


def kafka_job(
    folder: Path,
    servers: str,
    topic: str,
    settings: Mapping[str, str] = _NOTHING,
    properties: Mapping[str, str] = _NOTHING,
) -> SmallJob:
    """A job that numbers the records of each key, and writes them to a topic."""
    return SmallJob(folder, kafka_sink(servers, topic, properties).build(), dict(settings))


def committed(servers: str, topic: str) -> list[Message]:
    """What readers of committed messages see, partition by partition; no transaction may be open.

    Brokers write the end of a transaction into partitions after they have told the producer that it is committed, so
    readers may come to the end of a partition a moment too early.
    """
    settings = {"bootstrap.servers": servers, "group.id": "test", "enable.partition.eof": True, "fetch.wait.max.ms": 10}
    settings["auto.offset.reset"] = "error"  # what is not there any more is not passed over
    consumer = Consumer({**settings, "isolation.level": "read_committed"})
    everything = Consumer({**settings, "isolation.level": "read_uncommitted"})
    found: list[Message] = []
    for partition in sorted(consumer.list_topics(topic, timeout=30).topics[topic].partitions):
        _, end = everything.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
        consumer.assign([TopicPartition(topic, partition, 0)])
        position = -1
        while position < end:
            message = consumer.poll(60)
            assert message is not None
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                position = message.offset()
            else:
                assert error.retriable() or error.code() in _PASSING, error
    consumer.close()
    everything.close()
    return found


def check(servers: str, topic: str) -> None:
    """Each record is there once, those of a key in order."""
    found = committed(servers, topic)
    order: dict[bytes, list[int]] = {}
    records = []
    for message in found:
        number, seen = map(int, message.value().split())
        records.append((number, seen))
        order.setdefault(message.key(), []).append(seen)
    assert sorted(records) == expected()
    assert all(seen == sorted(seen) for seen in order.values())


def staged_files(folder: Path) -> list[Path]:
    """What waits to be published, or was left."""
    return list(folder.glob("checkpoints/sinks/*/*"))
