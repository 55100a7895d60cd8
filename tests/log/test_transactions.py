"""Transactions: all of one is visible or nothing, and who has been taken over is fenced."""

from __future__ import annotations

import pytest

from headrace.common.errors import InvalidProgramError, LogError, ProducerFencedError
from headrace.common.messages import TopicPartition
from headrace.log import producer as sender_module
from headrace.log.consumer import Consumer
from headrace.log.log import Log
from headrace.log.producer import Producer

PLACES = [TopicPartition("left", 0), TopicPartition("right", 1)]


@pytest.fixture(autouse=True)
def _topics(log: Log) -> None:
    log.create_topic("left")
    log.create_topic("right", 2)


@pytest.fixture
def consumer(log: Log) -> Consumer:
    found = Consumer(Log(log.folder), auto_offset_reset="earliest")
    found.assign(PLACES)
    return found


def send_both(producer: Producer, value: bytes) -> None:
    for place in PLACES:
        producer.send(place.topic, value, partition=place.partition)


def test_a_transaction_is_visible_when_it_is_committed(log: Log, consumer: Consumer) -> None:
    with Producer(log, "payments") as producer:
        producer.begin_transaction()
        send_both(producer, b"1")
        producer.flush()
        send_both(producer, b"x" * 100_000)
        producer.flush()
        assert consumer.poll() == []
        producer.send_offsets_to_transaction({TopicPartition("in", 0): 17}, "readers")
        assert log.committed("readers") == {}
        producer.commit_transaction()
        assert [record[:3] for record in consumer.poll()] == [
            (*each, at) for each in (("left", 0), ("right", 1)) for at in (0, 1)
        ]
        assert log.committed("readers")[TopicPartition("in", 0)] == 17


def test_nothing_is_left_of_one_that_is_aborted(log: Log, consumer: Consumer) -> None:
    with Producer(log, "payments") as producer:
        producer.begin_transaction()
        send_both(producer, b"x" * 100_000)
        producer.flush()
        lost = producer.send("left", b"y")
        producer.send_offsets_to_transaction({PLACES[0]: 17}, "readers")
        producer.abort_transaction()
        with pytest.raises(LogError, match="has not been committed"):
            lost.result()
        assert log.journal.chunk_names() == []
        producer.begin_transaction()
        send_both(producer, b"z")
        producer.commit_transaction()
    assert [(record.value, record.offset) for record in consumer.poll()] == [(b"z", 0)] * 2
    assert log.committed("readers") == {}


def test_the_second_with_an_id_fences_the_first(log: Log, consumer: Consumer) -> None:
    zombie = Producer(Log(log.folder), "payments")
    zombie.begin_transaction()
    send_both(zombie, b"old")
    with Producer(log, "payments") as producer:
        producer.begin_transaction()
        send_both(producer, b"new")
        producer.commit_transaction()
    with pytest.raises(ProducerFencedError, match=r"'payments' of epoch 0 is fenced.*epoch 1"):
        zombie.commit_transaction()
    with pytest.raises(ProducerFencedError):
        zombie.commit_transaction()
    assert [record.value for record in consumer.poll()] == [b"new"] * 2


def test_nothing_is_sent_in_a_transaction_that_may_be_committed(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    with Producer(log, "payments") as producer:
        producer.begin_transaction()
        send_both(producer, b"1")

        def lost(*_: object) -> None:
            raise OSError("the answer was lost")

        with monkeypatch.context() as patch:
            patch.setattr(sender_module, "publish", lost)
            with pytest.raises(OSError, match="was lost"):
                producer.commit_transaction()
        with pytest.raises(InvalidProgramError, match="may have been committed: call commit_transaction"):
            send_both(producer, b"2")
        producer.commit_transaction()
    assert log.read("left").read_all().column("value").to_pylist() == [b"1"]


def test_an_empty_transaction_writes_nothing(log: Log) -> None:
    with Producer(log, "payments") as producer:
        producer.init_transactions()
        before = log.journal.refresh()
        producer.begin_transaction()
        producer.commit_transaction()
        assert log.journal.refresh() == before


def test_what_needs_a_transaction(log: Log) -> None:
    plain = Producer(log)
    with pytest.raises(InvalidProgramError, match="need a transactional id"):
        plain.begin_transaction()
    with Producer(log, "payments") as producer:
        with pytest.raises(InvalidProgramError, match="sends within transactions"):
            producer.send("left", b"v")
        with pytest.raises(InvalidProgramError, match="there is no transaction"):
            producer.commit_transaction()
        producer.begin_transaction()
        with pytest.raises(InvalidProgramError, match="a transaction already"):
            producer.begin_transaction()
    with pytest.raises(InvalidProgramError, match="no transactional id"):
        Producer(log, "")
