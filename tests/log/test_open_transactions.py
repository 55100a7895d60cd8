"""What waits for its commit is listed, and can be abandoned; nobody commits it after that."""

from __future__ import annotations

import pytest

from headrace.common.errors import LogError, ProducerFencedError
from headrace.log.log import Log
from headrace.log.producer import Producer
from headrace.log.transactions import abandon, open_transactions

LARGE = b"x" * 100_000


@pytest.fixture
def waiting(log: Log) -> Producer:
    """A producer whose transaction has two files."""
    log.create_topic("out", config={"compression.type": "none"})
    producer = Producer(log, "slow")
    producer.begin_transaction()
    for _ in range(2):
        producer.send("out", LARGE)
        producer.flush()
    return producer


def send(log: Log) -> None:
    with Producer(log, "quick") as producer:
        producer.begin_transaction()
        producer.send("out", LARGE)
        producer.commit_transaction()


def test_what_waits_is_listed_with_its_age_and_size(log: Log, waiting: Producer) -> None:
    send(log)
    (found,) = open_transactions(Log.open(str(log)).journal)
    assert (found.producer, found.sequence, found.outlasts_producer) == ("slow", 1, False)
    assert sorted(found.files) == sorted(set(log.journal.chunk_names()) - log.journal.state().files())
    assert 200_000 < found.size < 210_000
    assert found.since is not None
    assert found.since <= log.journal.clock()
    waiting.commit_transaction()
    assert open_transactions(log.journal) == []


@pytest.mark.usefixtures("snapshots_often")
def test_how_long_it_waits_is_known_when_the_commit_before_is_gone(log: Log, waiting: Producer) -> None:
    for number in range(12):
        log.alter_topic("out", {"retention.bytes": (1 << 30) + number})
    log.maintain(fully=True)
    assert log.journal.read_commits(2, 1) == []
    (found,) = open_transactions(log.journal)
    assert found.since is None  # it was written before the first version whose time was noted
    waiting.abort_transaction()


def test_what_was_abandoned_cannot_be_committed(log: Log, waiting: Producer) -> None:
    other = Log.open(str(log))
    assert abandon(other.journal, "slow") == 2
    assert log.journal.chunk_names() == []
    with pytest.raises(ProducerFencedError):
        waiting.commit_transaction()
    with pytest.raises(LogError, match="nothing waits for a commit of 'slow'"):
        abandon(log.journal, "slow")
    with Producer(log, "slow") as next_one:
        next_one.begin_transaction()
        next_one.send("out", b"of the next")
        next_one.commit_transaction()
    assert log.read("out").read_all().column("value").to_pylist() == [b"of the next"]


def test_a_commit_that_comes_first_is_not_undone(log: Log, waiting: Producer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes between the look at what waits and the commit that abandons it."""
    other = Log.open(str(log))
    commit = other.journal.commit

    def later(*arguments: object) -> object:
        waiting.commit_transaction()
        return commit(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(other.journal, "commit", later)
    assert abandon(other.journal, "slow") == 0
    assert log.read("out").read_all().num_rows == 2
