"""Topics that are deleted, and made again under the same name, while producers and consumers are at work."""

from __future__ import annotations

import pytest

from headrace.common.errors import UnknownTopicError
from headrace.common.messages import TopicPartition
from headrace.log import producer as sender_module
from headrace.log.consumer import Consumer
from headrace.log.log import Log
from headrace.log.producer import Producer

NEVER_MS = 1_000_000


@pytest.fixture(autouse=True)
def _topics(log: Log) -> None:
    log.create_topic("one", 2)
    log.create_topic("other")


def send(log: Log, name: str, count: int) -> None:
    with Producer(log) as producer:
        for number in range(count):
            producer.send("one", b"%s%d" % (name.encode(), number), partition=0)


def made_again(log: Log, count: int) -> None:
    """The topic anew, with more records than it had."""
    other = Log(log.folder)
    other.delete_topic("one")
    other.create_topic("one", 2)
    send(other, "new", count)


def values(consumer: Consumer) -> list[bytes | None]:
    return [record.value for record in consumer.poll()]


def test_a_group_begins_anew(log: Log) -> None:
    send(log, "old", 3)
    with Consumer(log, "readers", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["one", "other"])
        assert len(values(consumer)) == 3
        consumer.commit()
    other = TopicPartition("other", 0)
    assert set(log.committed("readers")) == {TopicPartition("one", 0), TopicPartition("one", 1), other}
    made_again(log, 5)
    assert set(log.committed("readers")) == {other}
    with Consumer(log, "readers", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["one"])
        assert len(values(consumer)) == 5


@pytest.mark.parametrize("group", [None, "readers"])
@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_a_consumer_that_is_at_it_reads_the_new_one_from_its_beginning(log: Log, group: str | None, reset: str) -> None:
    consumer = Consumer(log, group, auto_offset_reset=reset)
    consumer.subscribe(["one"])
    consumer.poll()
    send(log, "old", 3)
    assert consumer.poll(max_records=2)[0].value == b"old0"  # and one more is fetched
    made_again(log, 5)
    assert values(consumer) == [b"new%d" % number for number in range(5)]
    consumer.close()
    if group is not None:
        assert log.committed(group)[TopicPartition("one", 0)] == 5


def test_so_does_one_whose_partitions_were_assigned(log: Log) -> None:
    consumer = Consumer(log, auto_offset_reset="none")
    consumer.assign([TopicPartition("one", 0)])
    consumer.seek_to_beginning()
    send(log, "old", 3)
    assert len(values(consumer)) == 3
    Log(log.folder).delete_topic("one")
    with pytest.raises(UnknownTopicError, match="no topic 'one'"):
        consumer.poll()
    log.create_topic("one")
    send(log, "new", 5)
    assert values(consumer) == [b"new%d" % number for number in range(5)]


@pytest.mark.parametrize("is_made_again", [False, True])
def test_positions_in_the_old_one_are_not_committed_for_the_new_one(log: Log, is_made_again: bool) -> None:
    send(log, "old", 3)
    consumer = Consumer(log, "readers", auto_offset_reset="earliest")
    consumer.subscribe(["one"])
    assert len(values(consumer)) == 3
    if is_made_again:
        made_again(log, 5)
        consumer.commit({TopicPartition("one", 0): 3})
    else:
        log.delete_topic("one")
        consumer.commit({TopicPartition("one", 0): 3})
        log.create_topic("one")
    assert log.committed("readers") == {}


def test_records_of_a_topic_that_is_gone_are_told_and_the_others_written(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Producer(log, linger_ms=NEVER_MS) as producer:
        lost, kept = producer.send("one", b"a"), producer.send("other", b"b")
        Log(log.folder).delete_topic("one")
        log.journal.refresh()
        with pytest.raises(UnknownTopicError, match="no topic 'one'"):
            producer.flush()
        assert kept.result().offset == 0
        with pytest.raises(UnknownTopicError, match="no topic 'one'"):
            lost.result()
        producer.flush()
        log.create_topic("one")

        lost, kept = producer.send("one", b"c", partition=0), producer.send("other", b"d")

        def publish(*arguments: object) -> object:
            monkeypatch.undo()
            Log(log.folder).delete_topic("one")
            return sender_module.publish(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(sender_module, "publish", publish)
        with pytest.raises(UnknownTopicError, match="no topic 'one'"):
            producer.flush()  # written already
        assert kept.result().offset == 1
        with pytest.raises(UnknownTopicError):
            lost.result()
    assert log.topics() == {"other": 1}


def test_a_transaction_with_such_records_can_only_be_aborted(log: Log) -> None:
    with Producer(log, "id", linger_ms=NEVER_MS) as producer:
        producer.begin_transaction()
        producer.send("one", b"a")
        producer.send("other", b"b")
        Log(log.folder).delete_topic("one")
        log.journal.refresh()
        for _ in range(2):
            with pytest.raises(UnknownTopicError, match="no topic 'one'"):
                producer.commit_transaction()
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send("other", b"c")
        producer.commit_transaction()
    assert log.read("other").read_all().column("value").to_pylist() == [b"c"]
