"""An older copy of the log's folder in its place, and files of another log or another time among its own."""

from __future__ import annotations

import pytest

from headrace.common.errors import LogCorruptedError, LogError
from headrace.common.messages import TopicPartition
from headrace.log.commits import commit_name
from headrace.log.consumer import Consumer
from headrace.log.journal import make_log
from headrace.log.log import Log
from headrace.log.producer import Producer
from headrace.log.records import ConsumerRecord
from headrace.log.transactions import publish
from tests.log.memory_folder import MemoryFolder

ONE = TopicPartition("one", 0)


def new_log() -> tuple[MemoryFolder, Log]:
    folder = MemoryFolder()
    make_log(folder)
    log = Log(folder)
    log.create_topic("one")
    return folder, log


def send(log: Log, *values: bytes) -> None:
    with Producer(log) as producer:
        for value in values:
            producer.send("one", value)
            producer.flush()


def commit_offset(log: Log, offset: int) -> str:
    """Have a group come to an offset; the path of the commit."""
    consumer = Consumer(log, "readers")
    consumer.assign([ONE])
    consumer.seek(ONE, offset)
    consumer.commit()
    return f"memory/commits/{commit_name(log.journal.state().version)}"


def test_two_commits_that_have_changed_places_are_told() -> None:
    folder, log = new_log()
    send(log, b"a", b"b", b"c")
    first, second = commit_offset(log, 1), commit_offset(log, 2)
    folder.files[first], folder.files[second] = folder.files[second], folder.files[first]
    with pytest.raises(LogCorruptedError, match="does not follow on the commit before it"):
        Log(folder.again()).committed("readers")


def test_a_commit_of_another_log_is_told() -> None:
    (folder, log), (other_folder, other) = new_log(), new_log()
    for each in (log, other):
        send(each, b"a")
    last = f"memory/commits/{commit_name(log.journal.state().version)}"
    folder.files[last] = other_folder.files[last]
    with pytest.raises(LogCorruptedError, match=f"{commit_name(2)} does not follow"):
        Log(folder.again()).topics()


def test_a_snapshot_under_the_name_of_another_is_told() -> None:
    folder, log = new_log()
    log.journal.write_snapshot()
    send(log, b"a")
    log.journal.write_snapshot()
    old, new = sorted(path for path in folder.files if path.endswith(".snapshot"))
    folder.files[new] = folder.files[old]
    with pytest.raises(LogCorruptedError, match="is the snapshot of version 1, under another's name"):
        Log(folder.again()).topics()


def test_a_process_is_told_once_that_the_log_was_put_back() -> None:
    folder, log = new_log()
    send(log, b"a")
    copy = dict(folder.files)
    send(log, b"b", b"c")
    folder.files.clear()
    folder.files.update(copy)
    producer = Producer(log, linger_ms=1_000_000)
    producer.send("one", b"d")
    producer.send("one", b"x" * 100_000)  # into a file
    with pytest.raises(LogCorruptedError, match="an older copy of the log has taken its place"):
        producer.flush()
    for path in [path for path in folder.files if "/records/" in path]:
        del folder.files[path]
    producer.close()
    assert log.end_offsets([ONE]) == {ONE: 3}  # a, d and the large one: the others are lost, as it has said
    assert [(record.value or b"")[:1] for record in polled(folder)] == [b"a", b"d", b"x"]


def test_a_process_that_looks_when_others_have_gone_on_from_the_copy_is_told() -> None:
    folder, log = new_log()
    copy = dict(folder.files)
    send(log, b"a", b"b")
    folder.files.clear()
    folder.files.update(copy)
    send(Log(folder.again()), b"x", b"y", b"z")
    with pytest.raises(LogCorruptedError, match="does not follow on the commit before it"):
        log.end_offsets([ONE])
    assert log.end_offsets([ONE]) == {ONE: 3}


def test_what_was_written_is_not_committed_into_an_older_copy() -> None:
    folder, log = new_log()
    copy = dict(folder.files)
    send(log, b"a", b"b")
    with Producer(log, "id") as producer:
        producer.begin_transaction()
        producer.send("one", b"c")
        producer.flush()
        staged = producer._staged
        folder.files.clear()
        folder.files.update(copy)
        with pytest.raises(LogError, match="were written at version 4 of the log, which is at version 1"):
            publish(Log(folder.again()).journal, producer._next_author(), staged)
        with pytest.raises(LogCorruptedError, match="older copy"):
            producer.commit_transaction()
        producer.abort_transaction()
    assert Log(folder.again()).end_offsets([ONE]) == {ONE: 0}


def polled(folder: MemoryFolder) -> list[ConsumerRecord]:
    consumer = Consumer(Log(folder.again()), auto_offset_reset="earliest")
    consumer.assign([ONE])
    return consumer.poll()
