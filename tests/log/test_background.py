"""Maintenance goes on beside those who commit: one round at a time, and what goes wrong is told."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path

import pytest

from headrace.common.topic_partition import TopicPartition
from headrace.log import maintenance
from headrace.log.background import MAINTENANCE, BackgroundRounds
from headrace.log.journal import Journal
from headrace.log.log import Log
from headrace.log.maintenance_claim import MaintenanceClaim
from headrace.log.producer import Producer
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
    assert len(log.journal.store.snapshot_versions()) == 2
    assert len(log.journal.state().partition(ONE).segments) < 30
    (batch,) = Log.open(str(log)).fetch(ONE, 0).batches
    assert batch.column("value").to_pylist() == [b"%d" % number for number in range(40)]


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


def test_of_two_processes_one_does_the_maintenance() -> None:
    folder = MemoryFolder()
    one, other = MaintenanceClaim(folder), MaintenanceClaim(folder.again())
    with one.held() as is_first:
        with other.held() as is_second:
            assert (is_first, is_second) == (True, False)
        with other.held() as is_second:
            assert not is_second
    with other.held() as is_second:
        assert is_second
    assert folder.files == {}


def test_the_claim_of_a_process_that_died_is_nobodys() -> None:
    folder, now = MemoryFolder(), [1_000.0]
    dead = MaintenanceClaim(folder, lambda: now[0])
    other = MaintenanceClaim(folder.again(), lambda: now[0])
    with dead.held():
        for waited, beats, expected in ((0, False, False), (299, False, False), (1, True, False), (300, False, True)):
            now[0] += waited
            if beats:
                dead.renew()
            with other.held() as is_its_own:
                assert is_its_own is expected
    assert folder.files == {}
