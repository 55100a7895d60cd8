"""Payments from one topic of Kafka to another by a bare loop around confluent-kafka: the limit of what Python can do.

Each of some processes has its share of the partitions. It consumes messages, and produces what came; with the option
``codec`` it reads each as JSON and writes it again. Nothing is kept, and nothing is exactly once.

Options: ``kafka`` (bootstrap servers), ``topic``, ``records`` (how many it has), ``codec`` (``json`` or ``bytes``) and
``processes``.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import orjson
from confluent_kafka import Producer

from benchmarks.brokers import PARTITIONS, Broker, consumer_of, send_when_there_is_room
from benchmarks.outcome import Assignment, Epoch, Outcome
from benchmarks.payments import output_totals

if TYPE_CHECKING:
    from collections.abc import Mapping
    from multiprocessing.synchronize import Barrier

_FETCH_RECORDS = 500
_FETCH_SECONDS = 0.1
_WARM_UP = 1_000


def run(assignment: Assignment) -> Outcome:
    """Copy the topic, and take the time from when all processes are connected."""
    options = assignment.options
    broker = Broker.of(options)
    results = broker.new_topic("results")
    count = options["processes"]
    spawned = multiprocessing.get_context("spawn")
    ready = spawned.Barrier(count + 1)
    processes = [spawned.Process(target=copy, args=(options, results, share, ready)) for share in range(count)]
    for process in processes:
        process.start()
    ready.wait()
    started = time.monotonic()
    for process in processes:
        process.join()
    epoch = Epoch(options["records"] - count * _WARM_UP, time.monotonic() - started)
    return Outcome((epoch,), output_totals(broker, results), {"codec": options["codec"]})


def copy(options: Mapping[str, Any], results: str, share: int, ready: Barrier) -> None:
    """Copy a share of the partitions; the first messages connect it with the brokers, and are not timed."""
    partitions = range(share, PARTITIONS, options["processes"])
    consumer = consumer_of(options["kafka"], options["topic"], partitions)
    producer = Producer({"bootstrap.servers": options["kafka"], "enable.idempotence": True, "linger.ms": 5})
    produce, codec = producer.produce, _codec(options["codec"])
    left = options["records"] * len(partitions) // PARTITIONS

    def copy_some(count: int) -> int:
        messages = consumer.consume(count, _FETCH_SECONDS)
        for message in messages:
            value = codec(message.value())
            try:
                produce(results, value)
            except BufferError:
                send_when_there_is_room(producer, results, value)
        producer.poll(0)
        return len(messages)

    warm_up = _WARM_UP
    while warm_up:
        warm_up -= copy_some(warm_up)
    producer.flush()
    left -= _WARM_UP
    ready.wait()
    while left:
        left -= copy_some(min(left, _FETCH_RECORDS))
    producer.flush()


def _codec(name: str) -> Callable[[bytes], bytes]:
    return bytes if name == "bytes" else lambda value: orjson.dumps(orjson.loads(value))
