"""Maintenance goes on beside those who commit: one round at a time, and what goes wrong is told."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from headrace.common.messages import TopicPartition
from headrace.log import maintenance
from headrace.log.consumer import Consumer
from headrace.log.journal import Journal, MaintenanceClaim
from headrace.log.log import MAINTENANCE, BackgroundRounds, Log
from headrace.log.producer import Producer
from headrace.log.records import ConsumerRecord
from tests.log.memory_folder import MemoryFolder

ONE = TopicPartition("one", 0)


def test_of_one_name_there_is_one_round_at_a_time_and_the_next_follows() -> None:
    rounds, begun, goes_on, done = BackgroundRounds(), threading.Event(), threading.Event(), list[str]()

    def first() -> None:
        begun.set()
        goes_on.wait()
        done.append("first")

    rounds.request("log", first)
    begun.wait()
    rounds.request("log", lambda: done.append("second"))
    rounds.request("log", lambda: done.append("third"))
    rounds.request("other", lambda: done.append("other"))
    rounds.wait("other")
    assert done == ["other"]
    goes_on.set()
    rounds.wait("log")
    assert done == ["other", "first", "third"]
    assert not [each for each in threading.enumerate() if each.name.startswith("headrace-rounds")]


def test_a_round_that_fails_is_told_and_the_next_one_is_done(caplog: pytest.LogCaptureFixture) -> None:
    rounds, done = BackgroundRounds(), list[str]()
    with caplog.at_level(logging.ERROR, logger="headrace"):
        rounds.request("orders.log", lambda: done.append(str(1 // 0)))
        rounds.wait("orders.log")
    assert "orders.log: what is done in the background has failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text
    rounds.request("orders.log", lambda: done.append("next"))
    rounds.wait("orders.log")
    assert done == ["next"]


@pytest.mark.usefixtures("snapshots_often")
def test_a_log_is_maintained_beside_its_producers(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set[str]()
    maintain = maintenance.maintain

    def noting(journal: Journal) -> maintenance.Maintained:
        threads.add(threading.current_thread().name)
        return maintain(journal)

    monkeypatch.setattr(maintenance, "maintain", noting)
    log.create_topic("one")
    with Producer(log) as producer:
        for number in range(40):
            producer.send("one", b"%d" % number)
            producer.flush()
    MAINTENANCE.wait(str(log))
    assert threads == {f"headrace-rounds {log}"}
    assert len(log.journal.snapshot_versions()) == 2
    assert len(log.journal.state().partition(ONE).segments) < 30
    (batch,) = Log.open(str(log)).fetch(ONE, 0)[0]
    assert batch.column("value").to_pylist() == [b"%d" % number for number in range(40)]


@pytest.mark.usefixtures("snapshots_often")
def test_who_reads_beside_producers_and_maintenance_misses_nothing(log: Log) -> None:
    log.create_topic("one", config={"compression.type": "none"})

    def produce(which: int) -> None:
        with Producer(log) as producer:
            for number in range(30):
                producer.send("one", b"%d" % number + b" " * (4_000 * (number % 3)), b"%d" % which)
                producer.flush()

    threads = [threading.Thread(target=produce, args=(which,)) for which in range(2)]
    for thread in threads:
        thread.start()
    consumer, found = Consumer(str(log), auto_offset_reset="earliest"), list[ConsumerRecord]()
    consumer.assign([ONE])
    while len(found) < 60:
        found += consumer.poll(timeout=1.0)
    for thread in threads:
        thread.join()
    MAINTENANCE.wait(str(log))
    assert [record.offset for record in found] == list(range(60))
    for which in (b"0", b"1"):
        assert [int(record.value or b"") for record in found if record.key == which] == list(range(30))
    assert log.read("one").read_all().column("value").to_pylist() == [record.value for record in found]


@pytest.mark.usefixtures("snapshots_often")
def test_maintenance_that_fails_is_a_warning(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    log.create_topic("one", config={"cleanup.policy": "compact", "compression.type": "none"})
    with Producer(log) as producer, caplog.at_level(logging.WARNING, logger="headrace"):
        for _ in range(4):
            producer.send("one", b"x" * 4_000, b"k")
            producer.flush()
            for file in Path(log.folder.locate("records")).iterdir():
                file.write_bytes(b"damaged")
        MAINTENANCE.wait(str(log))
    assert f"{log}: maintenance failed" in caplog.text
    assert "is cut short" in caplog.text


def test_of_two_processes_one_does_the_maintenance() -> None:
    folder = MemoryFolder()
    one, other = MaintenanceClaim(folder), MaintenanceClaim(folder.again())
    with one.held(256) as is_first:
        with other.held(512) as is_second:
            assert (is_first, is_second) == (True, False)
        one.renew(2_000)
        with other.held(2_560) as is_second:
            assert not is_second
    with other.held(2_816) as is_second:
        assert is_second
    assert folder.files == {}


@pytest.mark.parametrize("content", [b"somebody 256", b"", b"\xff damaged"])
def test_the_claim_of_a_process_that_died_is_nobodys(content: bytes) -> None:
    folder = MemoryFolder(files={"memory/maintenance": content})
    if content.startswith(b"somebody"):
        with MaintenanceClaim(folder.again()).held(2_303) as is_mine:
            assert not is_mine
    with MaintenanceClaim(folder.again()).held(2_304) as is_mine:
        assert is_mine
    assert folder.files == {}
    folder.files["memory/maintenance"] = b"of-a-log-that-was-put-back 5000"
    with MaintenanceClaim(folder.again()).held(256) as is_mine:
        assert is_mine


def test_who_could_not_give_up_a_claim_has_it_the_next_time() -> None:
    folder = MemoryFolder()
    claim = MaintenanceClaim(folder)
    folder.faults.arm(1, kills=False)
    with pytest.raises(OSError, match="no space left"), claim.held(256):
        pass
    with claim.held(512) as is_mine:
        assert is_mine
    assert folder.files == {}
