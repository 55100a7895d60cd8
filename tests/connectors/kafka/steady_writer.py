"""Somebody who goes on writing to a topic of Kafka, whatever brokers do."""

from __future__ import annotations

import threading

from confluent_kafka import Producer

from tests.connectors.kafka.topics import Topic

_MOST_WAITING = 50_000
"""While a broker is away no more are written: librdkafka takes twice as many."""


class SteadyWriter:
    """Writes numbers to all partitions of a topic, until it is stopped, each once.

    Args:
        topic: the topic.
        partitions: how many it has; a number goes to the partition that is left of it when it is divided by that.
        together: how many numbers are written at a time.

    Attributes:
        acknowledged: the messages that brokers have.
        failed: why others were given up.
    """

    def __init__(self, topic: Topic, partitions: int, together: int = 20) -> None:
        self._topic = topic
        self._partitions = partitions
        self._together = together
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.acknowledged: list[str] = []
        self.failed: list[object] = []

    def __enter__(self) -> SteadyWriter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _write(self) -> None:
        own = {"enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 200_000}
        producer = Producer({**self._topic.client, **own})
        number = 0
        while not self._ends.wait(0.01):
            for _ in range(self._together if len(producer) < _MOST_WAITING else 0):
                partition = number % self._partitions
                producer.produce(self._topic.name, str(number).encode(), partition=partition, callback=self._told)
                number += 1
            producer.poll(0)
        assert producer.flush(200) == 0

    def _told(self, error: object, message: object) -> None:
        if error is None:
            self.acknowledged.append(message.value().decode())
        else:
            self.failed.append(error)
