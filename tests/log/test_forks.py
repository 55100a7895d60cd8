"""What a fork may do with the logs and producers of the process that it comes from."""

from __future__ import annotations

import os
from collections.abc import Callable

import pyarrow as pa
import pytest

from headrace.common.errors import InvalidProgramError
from headrace.common.messages import TopicPartition
from headrace.log.consumer import Consumer
from headrace.log.log import Log
from headrace.log.producer import Delivery, Producer


def in_a_fork(check: Callable[[], bool]) -> bool:
    """What a check comes to in a fork of this process; false where it fails."""
    child = os.fork()
    if not child:
        code = 1
        try:
            code = 0 if check() else 1
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def test_a_log_can_be_used_after_a_fork(log: Log) -> None:
    log.create_topic("one")
    log.alter_topic("one", partitions=2)

    def changes() -> bool:
        log.alter_topic("one", partitions=3)
        return log.topics() == {"one": 3}

    with log.journal.lock:  # as when another thread is just committing
        assert in_a_fork(changes)
    log.alter_topic("one", partitions=4)
    assert Log.open(str(log)).topics() == {"one": 4}


@pytest.mark.parametrize("transactional_id", [None, "transfers"])
def test_a_producer_is_not_used_by_a_fork(log: Log, transactional_id: str | None) -> None:
    log.create_topic("one")
    producer = Producer(log, transactional_id, linger_ms=60_000)
    if transactional_id:
        producer.begin_transaction()
    sent = producer.send("one", b"before")
    with producer._delivering:  # as when its thread is just committing
        assert in_a_fork(lambda: refuses_all(producer, sent))
    producer.send("one", b"after")
    if transactional_id:
        producer.commit_transaction()
    producer.close()
    assert log.read("one").read_all().column("value").to_pylist() == [b"before", b"after"]
    assert sent.result().offset == 0


def test_a_member_of_a_group_is_one_process(log: Log) -> None:
    log.create_topic("one")
    with Producer(log) as producer:
        producer.send("one", b"first")
        producer.send("one", b"second")
    with Consumer(log, "readers", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["one"])
        assert [record.value for record in consumer.poll(max_records=1)] == [b"first"]
        calls = [consumer.poll, consumer.commit, consumer.unsubscribe, lambda: consumer.subscribe(["one"])]
        assert in_a_fork(lambda: all(is_told(call) for call in calls))
        assert in_a_fork(lambda: consumer.close() is None)
        assert [record.value for record in consumer.poll()] == [b"second"]
        assert consumer.assignment() == [TopicPartition("one", 0)]


def test_a_fork_reads_on_without_a_group(log: Log) -> None:
    log.create_topic("one")
    with Producer(log) as producer:
        producer.send("one", b"first")
    consumer = Consumer(log, auto_offset_reset="earliest")
    consumer.subscribe(["one"])
    assert in_a_fork(lambda: [record.value for record in consumer.poll()] == [b"first"])
    assert [record.value for record in consumer.poll()] == [b"first"]


def refuses_all(producer: Producer, sent: Delivery) -> bool:
    """Whether each call says that this is a fork, but for the one that closes the producer."""
    calls: list[Callable[[], object]] = [
        lambda: producer.send("one", b"forked"),
        lambda: producer.append("one", pa.table({"value": ["forked"]})),
        lambda: producer.send_offsets_to_transaction({TopicPartition("one", 0): 1}, "group"),
        *(producer.flush, sent.result, producer.init_transactions, producer.begin_transaction),
        *(producer.commit_transaction, producer.abort_transaction),
    ]
    all_told = all(is_told(call) for call in calls)
    producer.close()
    return all_told


def is_told(call: Callable[[], object]) -> bool:
    """Whether a call says that this process is a fork."""
    try:
        call()
    except InvalidProgramError as error:
        return f"is of process {os.getppid()}, of which this one is a fork" in str(error)
    return False
