"""Retention, compaction and merging change files and never what may be read; and nothing is left behind."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.common.errors import LogCorruptedError, OffsetOutOfRangeError, ProducerFencedError
from headrace.common.messages import TopicPartition
from headrace.log import commits as commits_module
from headrace.log import journal as journal_module
from headrace.log import maintenance
from headrace.log.commits import Author
from headrace.log.journal import make_log
from headrace.log.log import Log
from headrace.log.producer import Producer
from headrace.log.records import normalised
from headrace.log.transactions import StagedRecordsError, publish, stage
from tests.log.memory_folder import MemoryFolder

ONE = TopicPartition("one", 0)
DAY = 86_400_000


class Clock:
    def __init__(self) -> None:
        self.now = 100 * DAY

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def folder() -> MemoryFolder:
    found = MemoryFolder()
    make_log(found)
    return found


@pytest.fixture
def log(folder: MemoryFolder, clock: Clock) -> Log:
    return Log(folder, clock)


def send(log: Log, *records: tuple[str | None, str | None], at: int | None = None) -> None:
    """Append records of keys and values in one commit."""
    with Producer(log) as producer:
        for key, value in records:
            encoded = (value and value.encode(), key and key.encode())
            producer.send("one", *encoded, timestamp=at)


def read(log: Log) -> list[tuple[int, str | None, str | None]]:
    """All records of a partition, as another process reads them."""
    other = Log(log.folder)
    start = other.beginning_offsets([ONE])[ONE]
    found = []
    while start < other.end_offsets([ONE])[ONE]:
        batches, start = other.fetch(ONE, start)
        found += [row for batch in batches for row in batch.to_pylist()]
    return [
        (row["offset"], row["key"] and row["key"].decode(), row["value"] and row["value"].decode()) for row in found
    ]


def segments(log: Log) -> int:
    log.journal.refresh()
    return len(log.journal.state().partition(ONE).segments)


def test_small_segments_are_merged(log: Log) -> None:
    log.create_topic("one")
    expected = []
    for number in range(20):
        send(log, (None, f"{number}a"), (None, f"{number}b"))
        expected += [(2 * number, None, f"{number}a"), (2 * number + 1, None, f"{number}b")]
    assert segments(log) == 20
    assert log.maintain().merged == 20
    assert (segments(log), read(log)) == (1, expected)
    send(log, (None, "more"))
    assert log.maintain().merged == 0
    assert log.maintain(fully=True).merged == 2
    assert (segments(log), read(log)) == (1, [*expected, (40, None, "more")])


def test_a_record_is_rewritten_as_often_as_the_log_doubles(log: Log) -> None:
    log.create_topic("one", config={"compression.type": "none"})
    rewritten = 0
    for _ in range(200):
        with Producer(log) as producer:
            producer.append("one", pa.table({"value": [b"x" * 10_000]}))
        before = segments(log)
        log.maintain()
        rewritten += 0 if segments(log) == before else before
    assert segments(log) < 60
    assert rewritten < 200 * 4
    assert [offset for offset, _, _ in read(log)] == list(range(200))


def test_large_merges_are_cut(log: Log) -> None:
    log.create_topic("one")
    for _ in range(20):
        with Producer(log) as producer:
            producer.append("one", pa.table({"value": [b"x"] * 20_000}))
    log.maintain()
    assert segments(log) == 4
    assert log.read("one").read_all().column("offset").to_pylist() == list(range(400_000))


def test_records_go_by_time(log: Log, clock: Clock) -> None:
    log.create_topic("one", config={"retention.ms": "2 days"})
    for day in range(5):
        send(log, (None, f"{day}"), at=clock.now - (4 - day) * DAY)
    assert log.maintain().deleted == 2
    assert read(log) == [(2, None, "2"), (3, None, "3"), (4, None, "4")]
    with pytest.raises(OffsetOutOfRangeError, match="offsets 2 to 5, not 0"):
        log.fetch(ONE, 0)
    clock.now += 10 * DAY
    assert log.maintain().deleted == 3
    assert read(log) == []
    send(log, (None, "5"))
    assert read(log) == [(5, None, "5")]


def test_records_go_by_size(log: Log) -> None:
    log.create_topic("one", config={"retention.bytes": 250_000, "compression.type": "none"})
    for _ in range(5):
        send(log, (None, "x" * 100_000))
    assert log.maintain().deleted == 2
    assert [offset for offset, _, _ in read(log)] == [2, 3, 4]
    assert len(log.journal.chunk_names()) == 3


def test_compaction_leaves_the_latest_of_each_key(log: Log, clock: Clock) -> None:
    log.create_topic("one", config={"cleanup.policy": "compact", "delete.retention.ms": "1 day"})
    send(log, ("a", "1"), ("b", "1"), ("a", "2"))
    send(log, ("c", "1"), ("b", None))
    done = log.maintain(fully=True)
    assert (done.superseded, read(log)) == (2, [(2, "a", "2"), (3, "c", "1"), (4, "b", None)])
    send(log, ("c", "2"))
    assert log.maintain(fully=True).superseded == 1
    assert read(log) == [(2, "a", "2"), (4, "b", None), (5, "c", "2")]
    clock.now += 2 * DAY
    assert log.maintain(fully=True).superseded == 1
    assert read(log) == [(2, "a", "2"), (5, "c", "2")]
    assert log.maintain(fully=True).superseded == 0


def test_a_large_partition_is_compacted_piece_by_piece(log: Log, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "_AT_ONCE_BYTES", 200)
    monkeypatch.setattr(maintenance, "_GROUPED_ROWS", 10)
    log.create_topic("one", config={"cleanup.policy": "compact"})
    records = [(f"k{number % 7}", None if number % 11 == 0 else f"{number}") for number in range(100)]
    for start in range(0, 100, 4):
        send(log, *records[start : start + 4], at=clock.now + DAY)  # ahead of the clock, which keeps nothing back
    expected = {key: (number, key, value) for number, (key, value) in enumerate(records)}
    done = log.maintain(fully=True)
    assert done.superseded == 93
    assert read(log) == sorted(expected.values())
    assert segments(log) > 1
    clock.now += 3 * DAY
    log.maintain(fully=True)
    assert read(log) == sorted(record for record in expected.values() if record[2] is not None)


def test_a_deletion_goes_in_time_however_often_is_compacted(log: Log, clock: Clock) -> None:
    log.create_topic("one", config={"cleanup.policy": "compact", "delete.retention.ms": "1 day"})
    send(log, ("a", None))
    for hour in range(30):
        send(log, ("b", f"{hour}"))
        log.maintain(fully=True)
        assert ((0, "a", None) in read(log)) == (hour < 24)
        clock.now += DAY // 24
    assert [row[1:] for row in read(log)] == [("b", "29")]


def test_compaction_waits_for_what_is_new(log: Log, clock: Clock) -> None:
    log.create_topic("one", config={"cleanup.policy": "compact", "min.compaction.lag.ms": "1 h"})
    send(log, ("a", "1"))
    send(log, ("a", "2"))
    assert log.maintain(fully=True).superseded == 0
    clock.now += DAY
    send(log, ("a", "3"))
    assert log.maintain(fully=True).superseded == 1
    assert read(log) == [(1, "a", "2"), (2, "a", "3")]


def test_all_of_a_partition_may_be_superseded(log: Log, clock: Clock) -> None:
    log.create_topic("one", config={"cleanup.policy": "compact", "delete.retention.ms": "0 ms"})
    send(log, ("a", None))
    log.maintain(fully=True)
    log.maintain(fully=True)
    assert (segments(log), read(log)) == (0, [])
    send(log, ("a", "1"))
    assert read(log) == [(1, "a", "1")]


def test_who_reads_meanwhile_finds_the_records_elsewhere(log: Log) -> None:
    log.create_topic("one", config={"compression.type": "none"})
    for number in range(3):
        send(log, (None, "x" * 100_000 + f"{number}"))
    reader = Log(log.folder)
    reader.journal.refresh()
    log.maintain(fully=True)
    assert len(log.journal.chunk_names()) == 1
    (batch,) = reader.fetch(ONE, 1, 2)[0]
    assert batch.column("value")[0].as_py().endswith(b"1")


def test_two_at_once_do_it_once(log: Log, folder: MemoryFolder, clock: Clock) -> None:
    log.create_topic("one")
    for number in range(3):
        send(log, (None, f"{number}"))
    other = Log(folder, clock)
    other.journal.refresh()
    begun = other.journal.chunks.write

    def first_the_other(name: str, content: pa.Buffer) -> None:
        begun(name, content)
        assert log.maintain(fully=True).merged == 3

    other.journal.chunks.write = first_the_other  # type: ignore[method-assign]
    assert other.maintain(fully=True).merged == 0
    assert len(log.journal.chunk_names()) == 1
    assert read(log) == [(number, None, f"{number}") for number in range(3)]


def test_a_missing_file_is_told(log: Log, folder: MemoryFolder) -> None:
    log.create_topic("one", config={"compression.type": "none"})
    send(log, (None, "x" * 100_000))
    send(log, (None, "y"))
    (name,) = log.journal.chunk_names()
    del folder.files[f"memory/records/{name}"]
    with pytest.raises(LogCorruptedError, match="a file of one-0 is missing, and nothing has taken its place"):
        log.fetch(ONE, 0)
    with pytest.raises(LogCorruptedError, match=name):
        log.maintain(fully=True)


# --- what is left behind ---------------------------------------------------------------------------------------------


@pytest.fixture
def _snapshots_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits_module, "SNAPSHOT_INTERVAL", 4)
    monkeypatch.setattr(journal_module, "SNAPSHOT_INTERVAL", 4)


@pytest.mark.slow
@pytest.mark.usefixtures("_snapshots_often")
def test_a_long_life_leaves_few_files(log: Log, folder: MemoryFolder) -> None:
    log.create_topic("one", config={"cleanup.policy": "compact"})
    for number in range(300):
        send(log, (f"{number % 3}", f"{number}"))
    assert len(folder.files) < 40
    assert [row[2] for row in read(log)][-3:] == ["297", "298", "299"]
    assert len(log.journal.snapshot_versions()) == 2


@pytest.mark.usefixtures("_snapshots_often")
def test_a_clock_that_is_ahead_removes_nothing_of_a_transaction(log: Log, clock: Clock) -> None:
    log.create_topic("one", config={"compression.type": "none"})
    slow = Producer(log, "slow")
    slow.begin_transaction()
    slow.send("one", b"x" * 100_000)
    slow.flush()
    clock.now += 8 * DAY
    for _ in range(8):
        send(log, (None, "y"))
    log.maintain(fully=True)
    slow.commit_transaction()
    assert [(row[2] or "")[:1] for row in read(log)] == ["y"] * 8 + ["x"]


@pytest.mark.usefixtures("_snapshots_often")
def test_files_of_a_producer_that_was_fenced_are_removed_at_once(log: Log) -> None:
    log.create_topic("one", config={"compression.type": "none"})
    dead = Producer(log, "dead")
    dead.begin_transaction()
    dead.send("one", b"x" * 100_000)
    dead.flush()
    (lost,) = log.journal.chunk_names()
    log.maintain(fully=True)
    assert log.journal.chunk_names() == [lost]
    with Producer(log, "dead") as next_one:
        next_one.init_transactions()
        log.maintain(fully=True)
        assert log.journal.chunk_names() == []
    with pytest.raises(ProducerFencedError):
        dead.commit_transaction()
    assert read(log) == []


@pytest.mark.usefixtures("_snapshots_often")
def test_files_that_a_transaction_could_not_remove_go_with_its_next_commit(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.create_topic("one", config={"compression.type": "none"})
    with Producer(log, "payments") as producer:
        producer.begin_transaction()
        producer.send("one", b"x" * 100_000)
        producer.flush()
        with monkeypatch.context() as patch:
            patch.setattr(log.journal.chunks, "remove_all", lambda _: [])
            producer.abort_transaction()
        (left,) = log.journal.chunk_names()
        producer.begin_transaction()
        producer.send("one", b"y" * 100_000)
        producer.flush()
        log.maintain(fully=True)
        assert left in log.journal.chunk_names()
        producer.commit_transaction()
        log.maintain(fully=True)
        assert left not in log.journal.chunk_names()
    assert [(row[2] or "")[:1] for row in read(log)] == ["y"]


@pytest.mark.usefixtures("_snapshots_often")
def test_files_of_writers_that_still_have_the_records_go_after_a_week(log: Log, clock: Clock) -> None:
    log.create_topic("one", config={"compression.type": "none"})
    batch = normalised(pa.record_batch({"value": ["x" * 100_000]}), 0)
    staged = stage(log.journal, [(ONE, batch)])
    (lost,) = log.journal.chunk_names()
    for _ in range(8):
        send(log, (None, "y"))
    log.maintain()
    assert lost in log.journal.chunk_names()
    clock.now += 8 * DAY
    log.maintain()
    assert lost not in log.journal.chunk_names()
    with pytest.raises(StagedRecordsError, match=r"written before version .* has been removed"):
        publish(log.journal, Author("~somebody", 0, 1), staged)
    assert {row[2] for row in read(log)} == {"y"}


@pytest.mark.usefixtures("_snapshots_often")
def test_the_producers_that_have_committed_last_are_remembered_and_transactional_ids_always(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits_module, "_REMEMBERED_PRODUCERS", 5)
    log.create_topic("one")
    with Producer(log, "kept") as producer:
        producer.init_transactions()
    busy = Author("~busy", 0, 1)
    for number in range(14):
        publish(log.journal, busy if number % 3 == 0 else Author(f"~{number}", 0, 1), [])
        busy = Author("~busy", 0, busy.sequence + 1)
    for state in (log.journal.state(), Log(log.folder).journal.state()):
        assert state.version == 16
        assert list(state.producers) == ["kept", "~8", "~10", "~11", "~busy", "~13"]
        assert state.producers["kept"].epoch == 0


@pytest.mark.usefixtures("_snapshots_often")
def test_a_clock_that_is_ahead_has_no_commit_done_twice(log: Log, clock: Clock) -> None:
    log.create_topic("one")
    staged = stage(log.journal, [(ONE, normalised(pa.record_batch({"value": ["once"]}), 0))])
    author = Author("~in doubt", 0, 1)
    publish(log.journal, author, staged)
    clock.now += 400 * DAY
    for _ in range(8):
        send(log, (None, "of another"))
    clock.now -= 400 * DAY
    publish(log.journal, author, staged)
    assert [row[2] for row in read(log)] == ["once"] + ["of another"] * 8
