"""What a fork may do with the logs and producers of the process that it comes from."""

from __future__ import annotations

import os
from collections.abc import Callable

import pyarrow as pa
import pytest

from headrace.common.errors import InvalidProgramError
from headrace.common.topic_partition import TopicPartition
from headrace.log.log import Log
from headrace.log.producer import Delivery, Producer


def test_a_log_can_be_used_after_a_fork(log: Log) -> None:
    log.create_topic("one")
    log.alter_topic("one", partitions=2)
    with log.journal.lock:  # as when another thread is just committing
        child = os.fork()
        if not child:
            try:
                log.alter_topic("one", partitions=3)
            finally:
                os._exit(0 if log.topics() == {"one": 3} else 1)
        assert os.waitpid(child, 0)[1] == 0
    log.alter_topic("one", partitions=4)
    assert Log.open(str(log)).topics() == {"one": 4}


@pytest.mark.parametrize("transactional_id", [None, "transfers"])
def test_a_producer_is_not_used_by_a_fork(log: Log, transactional_id: str | None) -> None:
    log.create_topic("one")
    producer = Producer(log, transactional_id, linger_ms=60_000)
    if transactional_id:
        producer.begin_transaction()
    sent = producer.send("one", b"before")
    with producer._sender.delivering:  # as when its thread is just committing
        child = os.fork()
        if not child:
            os._exit(0 if refuses_all(producer, sent) else 1)
        assert os.waitpid(child, 0)[1] == 0
    producer.send("one", b"after")
    if transactional_id:
        producer.commit_transaction()
    producer.close()
    assert log.read("one").read_all().column("value").to_pylist() == [b"before", b"after"]
    assert sent.result().offset == 0


def refuses_all(producer: Producer, sent: Delivery) -> bool:
    """Whether each call says that this is a fork, but for the one that closes the producer."""
    calls: list[Callable[[], object]] = [
        lambda: producer.send("one", b"forked"),
        lambda: producer.append("one", pa.table({"value": ["forked"]})),
        lambda: producer.send_offsets_to_transaction({TopicPartition("one", 0): 1}, "group"),
        *(producer.flush, sent.result, producer.init_transactions, producer.begin_transaction),
        *(producer.commit_transaction, producer.abort_transaction),
    ]
    told = 0
    for call in calls:
        try:
            call()
        except InvalidProgramError as error:
            told += f"is of process {os.getppid()}, of which this one is a fork" in str(error)
    producer.close()
    return told == len(calls)
