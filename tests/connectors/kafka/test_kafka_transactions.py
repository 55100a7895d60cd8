"""``KafkaSink`` with ``EXACTLY_ONCE`` against a real broker: readers of committed messages see each record once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("confluent_kafka")

from headrace.common import SimpleStringSchema
from headrace.common.errors import CheckpointError, CommitRefusedError, ConfigurationError, InvalidProgramError
from headrace.connectors.kafka import transactions, writer
from headrace.connectors.kafka.transactions import Publisher
from headrace.connectors.messages import MessageSerializationSchema
from headrace.connectors.sink import DeliveryGuarantee, as_json
from headrace.storage.folder import posix_folder
from tests.connectors.kafka.topics import Topic
from tests.connectors.kafka.transactional_sink import NOW, ByHand, crash_at, job, texts, to
from tests.reliability.support.kafka_sinks import Key, Text, check, committed, staged_files
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from headrace.broker import KafkaCluster

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("in_files")]


def test_what_an_epoch_has_written_becomes_visible_after_its_checkpoint(topic: Topic, by_hand: ByHand) -> None:
    committer = by_hand.committer()
    staged = by_hand.written(1, ["a", "b"])
    assert by_hand.folder.names()
    assert texts(topic) == []
    for _ in range(2):
        committer.commit(1, staged, NOW)
        assert texts(topic) == ["a", "b"]
    assert by_hand.folder.names() == []
    committer.commit(2, by_hand.written(2, ["c"]), NOW)
    committer.close()
    assert texts(topic) == ["a", "b", "c"]
    assert {message.timestamp()[1] for message in committed(topic.servers, topic.name)} == {NOW}


def test_few_messages_wait_in_the_manifest(topic: Topic, by_hand: ByHand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_IN_MANIFEST_BYTES", 1_000)
    committer = by_hand.committer()
    staged = list(map(as_json, by_hand.written(1, ["a", "é"])))
    assert (by_hand.folder.names(), texts(topic)) == ([], [])
    for _ in range(2):
        committer.commit(1, staged, NOW)
        assert texts(topic) == ["a", "é"]
    assert by_hand.folder.names() == []
    committer.commit(2, by_hand.written(2, ["b" * 1_000]), NOW)
    committer.close()
    assert texts(topic) == ["a", "b" * 1_000, "é"]


def test_only_so_much_of_an_epoch_is_in_the_manifest_over_all_subtasks(
    by_hand: ByHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_IN_MANIFEST_BYTES", 131_072)
    for parallelism, files in ((1, 0), (2, 1)):
        by_hand.parallelism = parallelism
        by_hand.written(1, ["a" * 100_000])
        assert len(by_hand.folder.names()) == files


def test_the_same_records_are_staged_in_the_same_file(by_hand: ByHand) -> None:
    by_hand.folder.make()
    assert by_hand.written(3, ["a", "é"]) == by_hand.written(3, ["a", "é"])
    assert len(by_hand.folder.names()) == 1
    assert by_hand.written(3, []) == []


PLACES = [("init", True), ("mark", True), ("end", True)]
MORE_PLACES = [("init", False), ("begin", True), ("mark", False)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("step", "after"), [*PLACES, *(pytest.param(*place, marks=pytest.mark.slow) for place in MORE_PLACES)]
)
def test_a_driver_that_dies_while_it_publishes(
    step: str, after: bool, topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it was publishing is still open when the next one begins."""
    with monkeypatch.context() as patch:
        died = crash_at(patch, step, 2 if step == "init" else 4, after=after)  # two of them set the first markers
        job(tmp_path, topic).crash()
        assert died == [step]
    job(tmp_path, topic).run()
    check(topic.servers, topic.name)
    assert staged_files(tmp_path) == []


def test_an_epoch_of_many_messages_is_published_in_tasks(
    topic: Topic, by_hand: ByHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "_IN_DRIVER_MESSAGES", 2)
    asked: list[int] = []

    def run_in_tasks(work: Callable[[Any], Any], items: Any) -> list[Any]:
        asked.append(len(items))
        return [work(item) for item in items]

    by_hand.parallelism = 2
    committer = by_hand.committer(run_in_tasks=run_in_tasks)
    committer.commit(1, by_hand.written(1, ["a"]), NOW)
    for _ in range(2):  # the second time as if nobody knew of the first
        committer.commit(2, by_hand.written(2, ["b", "c"]) + by_hand.written(2, ["d", "e"], subtask=1), NOW)
    committer.commit(3, by_hand.written(3, ["f"]), NOW)
    committer.close()
    assert asked == [2, 2]
    assert texts(topic) == ["a", "b", "c", "d", "e", "f"]


@pytest.mark.slow  # its threads are not steady on a machine that is loaded
def test_a_publisher_that_comes_back_in_the_middle_changes_nothing(
    topic: Topic, by_hand: ByHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    zombie = by_hand.committer()
    staged = by_hand.written(1, ["a", "b"])
    sent, go_on = threading.Event(), threading.Event()
    original = Publisher._mark

    def waiting(self: Publisher, publication: Any) -> None:
        if threading.current_thread().name.startswith("headrace-publisher") and not sent.is_set():
            sent.set()
            assert go_on.wait(PATIENCE)
        original(self, publication)

    monkeypatch.setattr(Publisher, "_mark", waiting)
    told: list[BaseException] = []

    def commit() -> None:
        try:
            zombie.commit(1, staged, NOW)
        except OSError as error:
            told.append(error)

    thread = threading.Thread(target=commit)
    thread.start()
    assert sent.wait(PATIENCE)
    younger = by_hand.committer(1, 1)
    younger.commit(1, staged, NOW)
    go_on.set()
    thread.join(PATIENCE)
    assert [type(error) for error in told] == [OSError]
    assert "fenced" in str(told[0])
    younger.recover(None)
    younger.commit(2, by_hand.written(2, ["c"], generation=1), NOW)
    zombie.commit(1, staged, NOW)  # as it is tried again; this fences the younger one
    with pytest.raises(OSError, match="fenced"):
        younger.commit(3, by_hand.written(3, ["d"], generation=1), NOW)
    younger.commit(3, by_hand.written(3, ["d"], generation=1), NOW)
    assert texts(topic) == ["a", "b", "c", "d"]


def test_of_two_jobs_with_one_prefix_the_older_one_is_stopped(topic: Topic, by_hand: ByHand) -> None:
    by_hand.sink = to(topic).set_transactional_id_prefix(f"p{topic.name}").build()
    older = by_hand.committer()
    older.commit(1, by_hand.written(1, ["a"]), NOW)
    other = ByHand(by_hand.sink, posix_folder(Path(by_hand.folder.locate("other"))), "other job")
    younger = other.committer()
    younger.commit(1, other.written(1, ["b"]), NOW)
    staged = by_hand.written(2, ["c"])
    with pytest.raises(OSError, match="fenced"):
        older.commit(2, staged, NOW)
    with pytest.raises(CommitRefusedError, match=rf"id p{topic.name}-0 .* is used by job other job, sink sink"):
        older.commit(2, staged, NOW)
    with pytest.raises(OSError, match="fenced"):
        younger.commit(2, other.written(2, ["d"]), NOW)
    younger.commit(2, other.written(2, ["d"]), NOW)
    assert texts(topic) == ["a", "b", "d"]


def test_with_another_prefix_and_fewer_tasks_what_is_pending_is_published(topic: Topic, by_hand: ByHand) -> None:
    by_hand.parallelism = 3
    committer = by_hand.committer()
    first = [each for subtask in range(3) for each in by_hand.written(1, [f"a{subtask}"], subtask)]
    committer.commit(1, first, NOW)
    pending = [each for subtask in range(3) for each in by_hand.written(2, [f"b{subtask}"], subtask)]
    by_hand.sink = to(topic).set_transactional_id_prefix(f"q{topic.name}").build()
    by_hand.parallelism = 1
    fewer = by_hand.committer(1, 2)
    fewer.commit(2, pending, NOW)
    fewer.recover(None)
    fewer.commit(3, by_hand.written(3, ["c"], generation=1), NOW)
    assert texts(topic) == ["a0", "a1", "a2", "b0", "b1", "b2", "c"]


def test_a_job_goes_on_with_other_parallelism_and_another_name(topic: Topic, tmp_path: Path) -> None:
    job(tmp_path, topic).run(stop_after=3)
    environment = job(tmp_path, topic).environment()
    environment.set_parallelism(3)
    environment.execute("renamed")
    check(topic.servers, topic.name)


@pytest.mark.parametrize("damage", ["removed", "changed"])
def test_staged_messages_that_are_damaged_stop_the_job(damage: str, topic: Topic, by_hand: ByHand) -> None:
    committer = by_hand.committer()
    staged = by_hand.written(1, ["a" * 100])
    (name,) = by_hand.folder.names()
    path = Path(by_hand.folder.locate(name))
    content = path.read_bytes()
    path.unlink()
    if damage == "changed":
        path.write_bytes(content.replace(b"aa", b"ab"))
    with pytest.raises(CommitRefusedError, match=rf"{name} is {'missing' if damage == 'removed' else 'damaged'}"):
        committer.commit(1, staged, NOW)
    assert texts(topic) == []
    path.write_bytes(content)
    committer.commit(1, staged, NOW)
    assert texts(topic) == ["a" * 100]


def test_what_a_topic_does_not_take_stops_the_job_and_leaves_no_transaction_open(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    small = Topic(kafka.bootstrap_servers, max_message_bytes="1000")
    by_hand = ByHand(to(small).build(), posix_folder(tmp_path / "small"), small.name)
    committer = by_hand.committer()
    staged = by_hand.written(1, ["a", "b" * 5_000])
    with pytest.raises(CommitRefusedError, match=r"MSG_SIZE_TOO_LARGE\); have it be smaller"):
        committer.commit(1, staged, NOW)
    assert texts(small) == []


def test_a_message_that_no_topic_would_take_is_found_before_the_checkpoint(topic: Topic, by_hand: ByHand) -> None:
    with pytest.raises(ValueError, match=r"would have 2000000 bytes, and 1000000 is the most"):
        by_hand.written(1, ["a" * 2_000_000])
    by_hand.sink = to(topic).set_property("max.request.size", "3000000").build()
    assert by_hand.written(1, ["a" * 2_000_000])


def test_what_is_refused_before_anything_is_read(topic: Topic, by_hand: ByHand) -> None:
    selecting = MessageSerializationSchema(lambda record: record, SimpleStringSchema())
    with pytest.raises(InvalidProgramError, match="set_marker_topic"):
        to(topic, selecting).build()
    assert to(topic, selecting).set_marker_topic(topic.name).build()
    by_hand.sink = to(topic).set_property("enable.idempotence", "false").build()
    with pytest.raises(ConfigurationError, match=r"enable\.idempotence"):
        by_hand.committer()
    with pytest.raises(ConfigurationError, match="for the sink itself to decide"):
        to(topic).set_property("transactional.id", "x")
    by_hand.sink = to(topic).set_marker_topic("no/topic").build()
    with pytest.raises(ConfigurationError, match=r"topic no/topic at .*; create it, or correct its name"):
        by_hand.committer()


@pytest.mark.slow
def test_with_another_guarantee_what_is_pending_is_not_lost(
    topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        crash_at(patch, "begin", 4)
        job(tmp_path, topic).crash()
    changed = job(tmp_path, topic)
    schema = MessageSerializationSchema(topic.name, Text(), Key())
    changed.sink = to(topic, schema).set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE).build()
    with pytest.raises(CheckpointError, match="that is not shown yet"):
        changed.run()
    job(tmp_path, topic).run(stop_after=4)
    changed.run()
    check(topic.servers, topic.name)


def test_a_topic_that_is_not_there_is_made_by_brokers_that_do_so(topic: Topic, by_hand: ByHand) -> None:
    name = f"new-{topic.name}"
    by_hand.sink = to(topic, MessageSerializationSchema(name, SimpleStringSchema())).build()
    by_hand.committer().commit(1, by_hand.written(1, ["a"]), NOW)
    assert [message.value() for message in committed(topic.servers, name)] == [b"a"]
