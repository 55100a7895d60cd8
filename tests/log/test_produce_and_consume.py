"""What a producer adds is what consumers are given: records and columns, in order, once committed."""

from __future__ import annotations

import gc
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.errors import (
    ConfigurationError,
    InvalidProgramError,
    InvalidTypeError,
    LogError,
    OffsetOutOfRangeError,
    TopicExistsError,
    UnknownTopicError,
)
from headrace.common.messages import TopicPartition
from headrace.log import accumulator
from headrace.log import producer as producer_module
from headrace.log.accumulator import ProducerBatch
from headrace.log.consumer import Consumer
from headrace.log.log import Log
from headrace.log.producer import Producer
from headrace.log.records import ConsumerRecord
from tests.draws import draws

ONE = TopicPartition("one", 0)


@pytest.fixture
def topic(log: Log) -> str:
    log.create_topic("one")
    return "one"


def reader(log: Log, *partitions: TopicPartition, reset: str = "earliest") -> Consumer:
    """A consumer that has nothing in common with the producer but the folder."""
    consumer = Consumer(Log(log.folder), auto_offset_reset=reset)
    consumer.assign(partitions)
    return consumer


def values(records: list[ConsumerRecord]) -> list[bytes | None]:
    return [record.value for record in records]


def test_records_come_as_they_were_sent(log: Log, topic: str) -> None:
    headers = (("trace", b"\x00\x01"), ("trace", None), ("ünï", b""))
    with Producer(log) as producer:
        sent = [
            producer.send(topic, b"v", b"k", headers, timestamp=-5),
            producer.send(topic, None, b"k"),
            producer.send(topic, b"", timestamp=7),
        ]
    first, second, third = reader(log, ONE).poll()
    assert first == ConsumerRecord("one", 0, 0, -5, b"k", b"v", headers)
    assert (second.key, second.value, second.headers) == (b"k", None, ())
    assert (third.key, third.value, third.timestamp) == (None, b"", 7)
    assert [each.result().offset for each in sent] == [0, 1, 2]
    assert sent[2].result().timestamp == 7


@settings(deadline=None, max_examples=draws(25))
@given(
    keys=st.lists(st.one_of(st.none(), st.binary(max_size=3)), min_size=1, max_size=30),
    flushes=st.sets(st.integers(0, 29)),
    partitions=st.integers(1, 4),
)
def test_every_delivery_says_where_its_record_is(
    tmp_path_factory: pytest.TempPathFactory, keys: list[bytes | None], flushes: set[int], partitions: int
) -> None:
    log = Log.open(str(tmp_path_factory.mktemp("log")), create=True)
    log.create_topic("t", partitions)
    deliveries = []
    with Producer(log) as producer:
        for number, key in enumerate(keys):
            deliveries.append(producer.send("t", b"%d" % number, key))
            if number in flushes:
                producer.flush()
    consumer = reader(log, *log.partitions_of("t"))
    found = {(record.partition, record.offset): record.value for record in consumer.poll(max_records=100)}
    places = [delivery.result()[1:3] for delivery in deliveries]
    assert [found.pop(place) for place in places] == [b"%d" % number for number in range(len(keys))]
    assert found == {}
    for each in range(partitions):
        assert [offset for partition, offset in sorted(places) if partition == each] == list(
            range(sum(partition == each for partition, _ in places))
        )


def test_columns_in_and_out(log: Log, topic: str) -> None:
    data = pa.table({"key": ["a", None], "value": pa.array([b"1", b"2"], pa.large_binary())})
    with Producer(log) as producer:
        producer.append(topic, data)
        producer.append(topic, data.slice(0, 0))
        producer.send(topic, b"3")
        producer.append(topic, pa.record_batch({"value": ["4"], "timestamp": pa.array([9], pa.timestamp("us", "UTC"))}))
    batch = reader(log, ONE).poll_batch()
    assert batch.column("topic").to_pylist() == ["one"] * 4
    assert batch.column("offset").to_pylist() == [0, 1, 2, 3]
    assert batch.column("key").to_pylist() == [b"a", None, None, None]
    assert batch.column("value").to_pylist() == [b"1", b"2", b"3", b"4"]
    assert batch.column("timestamp").cast(pa.int64())[3].as_py() == 0


def test_columns_of_other_types_are_refused(log: Log, topic: str) -> None:
    with Producer(log) as producer:
        with pytest.raises(InvalidTypeError, match="column value of records of a log is int64"):
            producer.append(topic, pa.table({"value": [1]}))
        with pytest.raises(InvalidTypeError, match="these have key, payload"):
            producer.append(topic, pa.table({"key": ["a"], "payload": ["b"]}))
        with pytest.raises(InvalidTypeError, match="not None and 'text'"):
            producer.send(topic, "text")  # type: ignore[arg-type]


def test_a_topic_that_is_compacted_needs_keys(log: Log) -> None:
    log.create_topic("latest", config={"cleanup.policy": "compact"})
    with Producer(log) as producer:
        with pytest.raises(InvalidTypeError, match="'latest' is compacted"):
            producer.send("latest", b"v")
        with pytest.raises(InvalidTypeError, match="every record needs one"):
            producer.append("latest", pa.table({"key": ["a", None], "value": ["1", "2"]}))
        producer.send("latest", None, b"k")
    assert values(reader(log, TopicPartition("latest", 0)).poll()) == [None]


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": 1},
        {"headers": [("name", "text")]},
        {"headers": [(b"name", b"value")]},
        {"headers": ["name"]},
        {"headers": [("half of a pair \ud800", b"value")]},
        {"timestamp": 1.5},
        {"timestamp": 1 << 63},
        {"partition": 1},
        {"partition": -1},
    ],
)
def test_a_record_that_is_refused_leaves_nothing(log: Log, topic: str, wrong: dict[str, Any]) -> None:
    with Producer(log) as producer:
        producer.send(topic, b"1")
        with pytest.raises((InvalidTypeError, UnknownTopicError)):
            producer.send(topic, b"2", **wrong)
        producer.send(topic, b"3", headers=[("a", b"b")])
    found = reader(log, ONE).poll()
    assert [(record.value, record.headers) for record in found] == [(b"1", ()), (b"3", (("a", b"b"),))]


def test_a_record_that_is_too_large_is_refused(log: Log, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_module, "_MAX_RECORD_BYTES", 1_000)
    with Producer(log) as producer:
        for large in ({"value": b"x" * 1_000}, {"value": b"v", "key": b"x" * 1_000}):
            with pytest.raises(InvalidTypeError, match="is too large for a log"):
                producer.send(topic, **large)
        producer.send(topic, b"1")
    assert values(reader(log, ONE).poll()) == [b"1"]


def test_a_sender_that_waits_makes_few_batches(log: Log, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accumulator, "_BATCH_BYTES", 10_000)
    monkeypatch.setattr(producer_module, "GROWTH_BYTES", 1_000)
    made: list[ProducerBatch] = []

    def batch(*arguments: Any, **more: Any) -> ProducerBatch:
        made.append(ProducerBatch(*arguments, **more))
        return made[-1]

    monkeypatch.setattr(producer_module, "ProducerBatch", batch)
    with Producer(log) as producer:
        for number in range(2_000):
            producer.send(topic, b"%d" % number)
    assert len(made) <= 2_000 * 256 // 10_000
    assert values(reader(log, ONE).poll(max_records=2_000)) == [b"%d" % number for number in range(2_000)]


def test_what_does_not_fit_into_one_batch_is_appended_all_the_same(
    log: Log, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table has more than 2 GiB of values where it cannot be put together to one batch."""
    monkeypatch.setattr(producer_module, "batches_of", lambda table: table.to_batches())
    monkeypatch.setattr(accumulator, "_JOINED_BYTES", 0)
    table = pa.concat_tables([pa.table({"value": ["1", "2"]}), pa.table({"value": ["3"]})])
    with Producer(log) as producer:
        producer.append(topic, table)
    assert values(reader(log, ONE).poll()) == [b"1", b"2", b"3"]
    assert len(log.journal.state().partition(ONE).segments) == 2


def test_a_large_append_becomes_several_segments(log: Log, topic: str) -> None:
    with Producer(log) as producer:
        producer.append(topic, pa.table({"value": [b"%06d" % number for number in range(300_000)]}))
    assert len(log.journal.state().partition(ONE).segments) == 3
    consumer = reader(log, ONE)
    seen = []
    while batch := consumer.poll_batch(max_records=70_000):
        if not batch.num_rows:
            break
        seen += batch.column("value").to_pylist()
    assert seen == [b"%06d" % number for number in range(300_000)]


def test_what_is_more_than_a_batch_can_hold_comes_with_the_next_poll(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.log.fetcher._POLL_BYTES", 2_000)
    log.create_topic("three", 3)
    with Producer(log) as producer:
        for partition in range(3):
            producer.append("three", pa.table({"value": [b"%d" % partition * 1_500]}), partition)
    consumer = reader(log, *log.partitions_of("three"))
    polled = [consumer.poll_batch().column("partition").to_pylist() for _ in range(3)]
    assert polled == [[0, 1], [2], []]


@pytest.mark.parametrize("collects", [True, False])
def test_reading_leaves_the_garbage_collector_as_it_was(log: Log, topic: str, collects: bool) -> None:
    with Producer(log) as producer:
        producer.send(topic, b"v")
    before = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        assert values(reader(log, ONE).poll()) == [b"v"]
        assert gc.isenabled() == collects
    finally:
        (gc.enable if before else gc.disable)()


def test_partitions_take_turns(log: Log) -> None:
    log.create_topic("three", 3)
    with Producer(log) as producer:
        for number in range(9):
            producer.send("three", b"%d" % number, partition=number % 3)
    consumer = reader(log, *log.partitions_of("three"))
    polls = [{record.partition for record in consumer.poll(max_records=3)} for _ in range(3)]
    assert polls == [{0}, {1}, {2}]


def test_records_that_linger_are_committed_by_themselves(log: Log, topic: str) -> None:
    with Producer(log, linger_ms=1) as producer:
        delivery = producer.send(topic, b"v")
        assert values(reader(log, ONE).poll(timeout=10)) == [b"v"]
        assert delivery.done() or delivery.result()


def test_poll_waits_for_the_first_record(log: Log, topic: str) -> None:
    consumer = reader(log, ONE)
    before = time.monotonic()
    assert consumer.poll(timeout=0.05) == []
    assert time.monotonic() - before >= 0.05


def test_positions(log: Log, topic: str) -> None:
    with Producer(log) as producer:
        for number in range(5):
            producer.send(topic, b"%d" % number, timestamp=number * 10)
    consumer = reader(log, ONE, reset="latest")
    assert consumer.position(ONE) == 5
    assert consumer.poll() == []
    consumer.seek(ONE, 3)
    assert consumer.lag() == {ONE: 2}
    assert values(consumer.poll()) == [b"3", b"4"]
    consumer.seek_to_beginning()
    assert values(consumer.poll(max_records=1)) == [b"0"]
    assert consumer.position(ONE) == 1
    consumer.pause([ONE])
    assert consumer.poll() == []
    consumer.resume([ONE])
    assert values(consumer.poll(max_records=1)) == [b"1"]
    consumer.seek_to_end()
    assert consumer.poll() == []
    assert consumer.offsets_for_times({ONE: 11}) == {ONE: 2}
    assert consumer.offsets_for_times({ONE: -1}) == {ONE: 0}
    assert consumer.offsets_for_times({ONE: 41}) == {ONE: None}


def test_an_offset_that_there_is_not(log: Log, topic: str) -> None:
    strict = reader(log, ONE, reset="none")
    with pytest.raises(OffsetOutOfRangeError, match="one-0 has no position"):
        strict.poll()
    strict.seek(ONE, 7)
    with pytest.raises(OffsetOutOfRangeError, match="one-0 has offsets 0 to 0, not 7"):
        strict.poll()
    lenient = reader(log, ONE)
    lenient.seek(ONE, 7)
    assert lenient.poll() == []
    assert lenient.position(ONE) == 0


def test_topics(log: Log, tmp_path: Path) -> None:
    log.create_topic("a", 2, {"retention.ms": "7 days", "cleanup.policy": "compact"})
    with pytest.raises(TopicExistsError, match="topic 'a' already"):
        Log(log.folder).create_topic("a")
    with pytest.raises(ConfigurationError, match=r"'retention.hours'.*retention.ms"):
        log.create_topic("b", config={"retention.hours": 1})
    with pytest.raises(ConfigurationError, match="cannot be the name of a topic"):
        log.create_topic("a/b")
    with pytest.raises(ConfigurationError, match="1 to 10000 partitions, not 0"):
        log.create_topic("b", 0)
    log.alter_topic("a", {"retention.ms": -1}, partitions=3)
    assert log.topics() == Log(log.folder).topics() == {"a": 3}
    config = log.journal.state().topic("a").config
    assert (config.retention_ms, config.cleanup_policy) == (-1, "compact")
    with pytest.raises(LogError, match="cannot have fewer"):
        log.alter_topic("a", partitions=1)
    log.delete_topic("a")
    with pytest.raises(UnknownTopicError, match="no topic 'a'; there is none at all"):
        log.delete_topic("a")


def test_what_is_of_another_type_is_refused(log: Log, topic: str) -> None:
    wrong: Any = "2"
    with pytest.raises(InvalidTypeError, match="the number of partitions of a topic takes an int, not '2'"):
        log.create_topic("b", wrong)
    consumer = Consumer(log, auto_offset_reset="earliest")
    with pytest.raises(InvalidTypeError, match=r"subscribe\(\['one'\]\)"):
        consumer.subscribe("one")
    wrong = [("one", 0)]
    with pytest.raises(InvalidTypeError, match=r"assign\(\) takes a TopicPartition, not \('one', 0\)"):
        consumer.assign(wrong)
    wrong = [b"v"]
    with (
        Producer(log) as producer,
        pytest.raises(InvalidTypeError, match="a pyarrow Table or RecordBatch, not a list"),
    ):
        producer.append(topic, wrong)


def test_a_topic_or_partition_that_there_is_not(log: Log, topic: str) -> None:
    with Producer(log) as producer:
        with pytest.raises(UnknownTopicError, match="there is one"):
            producer.send("two", b"v")
        with pytest.raises(UnknownTopicError, match="no partition 1: it has 1"):
            producer.send(topic, b"v", partition=1)
        with pytest.raises(UnknownTopicError, match="no partition 4"):
            producer.append(topic, pa.table({"value": ["v"]}), partition=4)
    with pytest.raises(UnknownTopicError):
        reader(log, TopicPartition("two", 0))


def test_threads_share_a_log(log: Log) -> None:
    def work(number: int) -> None:
        log.create_topic(f"topic-{number}")
        with Producer(log) as producer:
            for value in range(5):
                producer.send(f"topic-{number}", b"%d" % value)
                producer.flush()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(8)))
    assert Log(log.folder).topics() == {f"topic-{number}": 1 for number in range(8)}
    found = reader(log, *(TopicPartition(f"topic-{number}", 0) for number in range(8))).poll()
    assert Counter(values(found)) == {b"%d" % value: 8 for value in range(5)}


def test_a_folder_that_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="is no log: `headrace log create`"):
        Log.open(str(tmp_path / "nothing"))
    (tmp_path / "file").write_text("something else")
    with pytest.raises(ConfigurationError, match="not empty"):
        Log.open(str(tmp_path), create=True)


def test_what_somebody_has_begun_to_make_becomes_a_log(tmp_path: Path) -> None:
    """Who was killed while he made it, or is at it at the same time."""
    for name in ("commits", "records"):
        (tmp_path / "log" / name).mkdir(parents=True)
    Log.open(str(tmp_path / "log"), create=True).create_topic("one")
    (tmp_path / "log" / "headrace-log").unlink()
    with pytest.raises(ConfigurationError, match="not empty"):
        Log.open(str(tmp_path / "log"), create=True)


def test_settings_that_cannot_be(log: Log, topic: str) -> None:
    with pytest.raises(ConfigurationError, match="linger_ms is -1; expected 0"):
        Producer(log, linger_ms=-1)
    with pytest.raises(ConfigurationError, match="auto_offset_reset is 'first'; expected one of earliest"):
        Consumer(log, auto_offset_reset="first")
    with pytest.raises(ConfigurationError, match="session_timeout_ms is 0; expected 1"):
        Consumer(log, session_timeout_ms=0)
    with pytest.raises(ConfigurationError, match="consumer_timeout_ms is -1; expected 0"):
        Consumer(log, consumer_timeout_ms=-1)


def test_who_has_subscribed_to_nothing_is_told(log: Log, topic: str) -> None:
    consumer = Consumer(log)
    for poll in (consumer.poll, consumer.poll_batch, lambda: next(consumer)):
        with pytest.raises(InvalidProgramError, match=r"nothing to poll: subscribe\(\) to topics, or assign"):
            poll()
    consumer.subscribe([topic])
    assert consumer.poll() == []
    consumer.unsubscribe()
    with pytest.raises(InvalidProgramError, match="nothing to poll"):
        consumer.poll()


def test_threads_share_a_producer(log: Log, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are taken at any moment: no record is lost, none comes twice, and each delivery knows its own."""
    monkeypatch.setattr(accumulator, "_BATCH_BYTES", 5_000)
    monkeypatch.setattr(producer_module, "GROWTH_BYTES", 1_000)
    with Producer(log, linger_ms=0) as producer:

        def work(number: int) -> list[tuple[bytes, int]]:
            sent = [(b"%d:%d" % (number, each), producer.send(topic, b"%d:%d" % (number, each))) for each in range(600)]
            return [(value, delivery.result().offset) for value, delivery in sent]

        with ThreadPoolExecutor(4) as threads:
            places = [dict(each) for each in threads.map(work, range(4))]
    found = [record.value for record in reader(log, ONE).poll(max_records=10_000)]
    assert len(found) == 2_400
    for mine in places:
        assert [found[offset] for offset in mine.values()] == list(mine)
        assert sorted(mine.values()) == list(mine.values())


def test_a_record_that_comes_too_late_for_its_batch_is_in_the_next(log: Log, topic: str) -> None:
    with Producer(log, linger_ms=1_000_000) as producer:
        producer.send(topic, b"1")
        details = producer._details

        def flushing(*arguments: Any) -> Any:
            producer._details = details  # type: ignore[method-assign]
            producer.flush()
            return details(*arguments)

        producer._details = flushing  # type: ignore[method-assign]
        late = producer.send(topic, b"2", partition=0)
        producer.flush()
        assert late.result().offset == 1
    assert values(reader(log, ONE).poll()) == [b"1", b"2"]


def test_what_was_closed_is_of_no_use(log: Log, topic: str) -> None:
    producer = Producer(log)
    producer.close()
    producer.close()
    with pytest.raises(InvalidProgramError, match="closed"):
        producer.send(topic, b"v")
    consumer = reader(log, ONE)
    consumer.close()
    with pytest.raises(InvalidProgramError, match="closed"):
        consumer.poll()
