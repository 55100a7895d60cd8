"""Lost answers, and processes that stand still while others go on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.common.errors import LogError
from headrace.common.messages import TopicPartition
from headrace.log.commits import commit_name
from headrace.log.journal import Journal
from headrace.log.log import Log
from headrace.log.producer import Producer
from tests.log.faulty_logs import LARGE, contents, new_folder, others_go_on, process, producer_of
from tests.log.memory_folder import MemoryFolder

pytestmark = pytest.mark.usefixtures("snapshots_often")


# --- lost answers ----------------------------------------------------------------------------------------------------


def in_doubt(folder: MemoryFolder, *, is_done: bool) -> Producer:
    """A producer that does not know whether its transaction was committed."""
    producer = producer_of(folder, "id")
    producer.begin_transaction()
    producer.send("all", b"v", partition=0)
    producer.flush()
    folder.faults.arm(0, is_done=is_done, kills=False)
    with pytest.raises(OSError, match="no space left"):
        producer.commit_transaction()
    return producer


def test_a_transaction_in_doubt_that_was_committed_cannot_be_aborted() -> None:
    folder = new_folder()
    producer = in_doubt(folder, is_done=True)
    with process(producer):
        with pytest.raises(LogError, match="was committed, though the answer was lost"):
            producer.abort_transaction()
        producer.commit_transaction()
    assert contents(folder) == [[b"v"], []]


def test_offsets_in_doubt_that_were_committed_cannot_be_taken_back() -> None:
    folder = new_folder()
    producer = producer_of(folder, "id")
    producer.begin_transaction()
    producer.send_offsets_to_transaction({TopicPartition("all", 0): 3}, "readers")
    folder.faults.arm(0, is_done=True, kills=False)
    with process(producer):
        with pytest.raises(OSError, match="no space left"):
            producer.commit_transaction()
        with pytest.raises(LogError, match="was committed, though the answer was lost"):
            producer.abort_transaction()
        producer.commit_transaction()
    assert Log(folder.again()).committed("readers")[TopicPartition("all", 0)] == 3


def test_a_transaction_in_doubt_that_was_aborted_does_not_come_late() -> None:
    folder = new_folder()
    requests: list[tuple[int, bytes]] = []
    create = Journal.create_commit

    def noting(journal: Journal, number: int, content: bytes) -> bool:
        requests.append((number, content))
        return create(journal, number, content)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "create_commit", noting)
        producer = in_doubt(folder, is_done=False)
    late = requests[-1]
    with process(producer):
        producer.abort_transaction()
    assert late[0] == producer._journal.state().version
    Log(folder.again()).journal.create_commit(*late)  # the store gets to it at last
    assert contents(folder) == [[], []]
    others_go_on(folder)
    assert contents(folder) == [[], []]


# --- processes that stand still --------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [b"v", LARGE], ids=["inline", "file"])
def test_a_producer_that_stood_still_does_not_write_into_the_past(value: bytes) -> None:
    folder = new_folder()
    paused = MemoryFolder(folder.files, path=folder.path)
    producer = producer_of(paused)
    with process(producer):
        producer.send("all", b"first", partition=0)
        producer.flush()
        stale = commit_name(producer._journal.state().version + 1)
        producer.send("all", value, partition=0)
        paused.faults.pause_at(0 if value == b"v" else 1, lambda: others_go_on(folder))
        producer.flush()
    assert paused.faults.injected == 1
    assert f"memory/commits/{stale}" in folder.files  # it was free, but did not count
    assert contents(folder) == [[b"first", value], []]
    Log(folder).maintain(fully=True)
    others_go_on(folder)
    assert f"memory/commits/{stale}" not in folder.files


@pytest.mark.parametrize("value", [b"v", LARGE], ids=["inline", "file"])
def test_a_producer_that_stood_still_while_others_cleaned_up(
    value: bytes, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commit record has no name yet, and is removed with what dead processes have left."""
    log.create_topic("all")
    link, unnamed = os.link, list[Path]()

    def stand_still(source: Path, target: Path) -> None:
        if not unnamed:
            unnamed.append(source)
            for _ in range(12):
                with Producer(Log(log.folder)) as other:
                    other.send("all", b"other")
            Log(log.folder).maintain(fully=True)
            assert not source.exists()
        link(source, target)

    with Producer(Log(log.folder)) as producer:
        producer.send("all", value)
        monkeypatch.setattr(os, "link", stand_still)
        producer.flush()
    assert len(unnamed) == 1
    assert log.read("all").read_all().column("value").to_pylist() == [*[b"other"] * 12, value]


def test_a_reader_that_stood_still_does_not_read_what_was_written_into_the_past() -> None:
    folder = new_folder()
    reader = Log(folder.again())
    reader.journal.refresh()
    producer = producer_of(MemoryFolder(folder.files, path=folder.path))
    with process(producer):
        producer.send("all", b"v", partition=0)
        producer.flush()
        stale = commit_name(reader.journal.state().version + 1)
        lost = folder.files[f"memory/commits/{stale}"]
        producer.send("all", b"w", partition=0)
        producer.flush()
    others_go_on(folder)
    assert f"memory/commits/{stale}" not in folder.files
    folder.files[f"memory/commits/{stale}"] = lost  # of somebody who died before he found out
    assert reader.end_offsets([TopicPartition("all", 0)]) == {TopicPartition("all", 0): 2}
    assert reader.journal.state().version == Log(folder.again()).journal.refresh()


def test_a_reader_that_stood_still_finds_out_where_nothing_follows() -> None:
    folder = new_folder()
    reader = Log(folder.again())
    reader.journal.refresh()
    others_go_on(folder)
    assert not reader.journal.read_commits(reader.journal.state().version + 1, 1)
    assert reader.end_offsets([TopicPartition("latest", 0)]) == {TopicPartition("latest", 0): 30}
