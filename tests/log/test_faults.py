"""Kills between every two steps, errors, lost answers, processes that stand still, and damaged files."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from itertools import count

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from headrace.common.errors import LogCorruptedError, LogError
from headrace.log import journal as journal_module
from headrace.log import staging
from headrace.log import state as state_module
from headrace.log.commits import commit_name
from headrace.log.consumer import Consumer
from headrace.log.log import Log
from headrace.log.producer import Producer
from headrace.log.records import TopicPartition
from headrace.log.store import LogStore
from tests.log.memory_folder import KilledError, MemoryFolder

NEVER_MS = 10_000_000
LARGE = random.Random(1).randbytes(4_000)
"""What does not fit into a commit record here, however it is compressed."""


@pytest.fixture(autouse=True)
def _snapshots_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "SNAPSHOT_INTERVAL", 4)
    monkeypatch.setattr(state_module, "SNAPSHOT_INTERVAL", 4)
    monkeypatch.setattr(staging, "_INLINE_BYTES", 3_000)


def new_folder() -> MemoryFolder:
    """A log with two topics, one of them compacted."""
    folder = MemoryFolder()
    LogStore(folder).make()
    log = Log(folder)
    log.create_topic("all", 2)
    log.create_topic("latest", config={"cleanup.policy": "compact"})
    return folder


def contents(folder: MemoryFolder, topic: str = "all") -> list[list[bytes | None]]:
    """The values of each partition, as a new process reads them."""
    log = Log(folder.again())
    found = []
    for partition in log.partitions_of(topic):
        consumer = Consumer(log, auto_offset_reset="earliest")
        consumer.assign([partition])
        records = consumer.poll(max_records=1_000_000)
        assert [record.offset for record in records] == sorted({record.offset for record in records})
        found.append([record.value for record in records])
    return found


def producer_of(folder: MemoryFolder, transactional_id: str | None = None) -> Producer:
    """A producer in a process of its own, whose faults are those of the folder that is given."""
    return Producer(Log(folder), transactional_id, linger_ms=NEVER_MS)


@contextlib.contextmanager
def process(*producers: Producer) -> Iterator[None]:
    """The life of a process: when it is over, killed or not, nothing of it runs any more."""
    try:
        yield
    finally:
        for producer in producers:
            with producer._waits:
                producer._closed = True
                producer._waits.notify_all()


# --- kills -----------------------------------------------------------------------------------------------------------


def small_appends(folder: MemoryFolder, done: Callable[[bytes], None]) -> None:
    producer = producer_of(folder)
    with process(producer):
        for number in range(6):
            for partition in (0, 1):
                producer.send("all", b"%d" % number, partition=partition)
            producer.flush()
            done(b"%d" % number)


def transactions(folder: MemoryFolder, done: Callable[[bytes], None]) -> None:
    producer = producer_of(folder, "id")
    with process(producer):
        for number in range(4):
            producer.begin_transaction()
            for partition in (0, 1):
                producer.send("all", LARGE + b"%d" % number, partition=partition)
                producer.flush()
            if number == 1:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
                done(LARGE + b"%d" % number)


def maintenance(folder: MemoryFolder, done: Callable[[bytes], None]) -> None:
    small_appends(folder, done)
    log = Log(folder)
    log.alter_topic("all", {"retention.bytes": 1 << 30})
    log.maintain(fully=True)
    log.maintain(fully=True)


def group(folder: MemoryFolder, done: Callable[[bytes], None]) -> None:
    small_appends(folder, done)
    first = Consumer(Log(folder), "readers", auto_offset_reset="earliest")
    first.subscribe(["all"])
    first.poll()
    second = Consumer(Log(folder), "readers", auto_offset_reset="earliest")
    second.subscribe(["all"])
    first.poll()
    second.poll()
    first.close()
    second.close()


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("scenario", [small_appends, transactions, maintenance, group])
def test_a_kill_between_any_two_steps(scenario: Callable[..., None], is_done: bool) -> None:
    for at in count():
        folder = new_folder()
        doomed = MemoryFolder(folder.files, path=folder.path)
        doomed.faults.arm(at, is_done=is_done)
        acknowledged: list[bytes] = []
        try:
            scenario(doomed, acknowledged.append)
        except KilledError:
            assert doomed.faults.injected == 1
        else:
            assert doomed.faults.injected == 0
            assert at > 8
            break
        left, right = contents(folder)
        assert left == right
        assert left[: len(acknowledged)] == acknowledged
        assert len(left) <= len(acknowledged) + 1
        producer = producer_of(folder)
        with process(producer):
            producer.send("all", b"more", partition=0)
            producer.flush()
        Log(folder).maintain(fully=True)
        assert contents(folder) == [[*left, b"more"], right]


@pytest.mark.parametrize("is_done", [False, True], ids=["not done", "done"])
@pytest.mark.parametrize("scenario", [small_appends, transactions])
def test_an_error_in_any_step_is_told_and_tried_again(scenario: Callable[..., None], is_done: bool) -> None:
    for at in count():
        folder = new_folder()
        failing = MemoryFolder(folder.files, path=folder.path)
        failing.faults.arm(at, is_done=is_done, kills=False)
        expected: list[bytes] = []
        retried = retrying(scenario, failing, expected.append)
        assert contents(folder) == [expected, expected]
        if not failing.faults.injected:
            break
        assert retried <= 1


def retrying(scenario: Callable[..., None], folder: MemoryFolder, done: Callable[[bytes], None]) -> int:
    """Run a scenario in which each step of a producer that fails is tried again; how many were."""
    tried = 0

    def twice(method: Callable[[Producer], None]) -> Callable[[Producer], None]:
        def call(producer: Producer) -> None:
            nonlocal tried
            try:
                method(producer)
            except OSError:
                tried += 1
                method(producer)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("flush", "init_transactions", "commit_transaction", "abort_transaction"):
            patch.setattr(Producer, name, twice(getattr(Producer, name)))
        scenario(folder, done)
    return tried


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


def test_a_transaction_in_doubt_that_was_aborted_does_not_come_late() -> None:
    folder = new_folder()
    requests: list[tuple[int, bytes]] = []
    create = LogStore.create_commit

    def noting(store: LogStore, number: int, content: bytes) -> bool:
        requests.append((number, content))
        return create(store, number, content)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogStore, "create_commit", noting)
        producer = in_doubt(folder, is_done=False)
    late = requests[-1]
    with process(producer):
        producer.abort_transaction()
    assert late[0] == producer._journal.state().version
    LogStore(folder.again()).create_commit(*late)  # the store gets to it at last
    assert contents(folder) == [[], []]
    others_go_on(folder)
    assert contents(folder) == [[], []]


# --- processes that stand still --------------------------------------------------------------------------------------


def others_go_on(folder: MemoryFolder, commits: int = 30) -> None:
    """What happens meanwhile: so much that records of commits are removed, and their numbers free again."""
    other = producer_of(folder.again())
    with process(other):
        for _ in range(commits):
            other.send("latest", b"v", b"k")
            other.flush()
    for _ in range(3):
        Log(folder.again()).maintain(fully=True)


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
    assert not reader.journal.store.read_commits(reader.journal.state().version + 1, 1)
    assert reader.end_offsets([TopicPartition("latest", 0)]) == {TopicPartition("latest", 0): 30}


# --- damaged files ---------------------------------------------------------------------------------------------------


def test_a_damaged_file_is_told_and_never_read_wrongly() -> None:
    folder = new_folder()
    producer = producer_of(folder)
    with process(producer):
        for number in range(9):
            producer.send(
                "all", (LARGE if number % 4 == 2 else b"v") + b"%d" % number, b"key", [("h", b"x")], 0, number
            )
            producer.flush()
    whole = contents(folder)
    noise = random.Random(7)
    told = 0
    for path in sorted(folder.files):
        content = folder.files[path]
        for at in {0, 9, 20, len(content) - 1, *(noise.randrange(len(content)) for _ in range(25))}:
            damaged = bytearray(content)
            damaged[at] ^= 1 << noise.randrange(8)
            told += is_told(folder, path, bytes(damaged), whole)
        told += is_told(folder, path, content[: len(content) // 2], whole)
        folder.files[path] = content
    assert told > 100
    assert contents(folder) == whole


def is_told(folder: MemoryFolder, path: str, content: bytes, whole: list[list[bytes | None]]) -> bool:
    folder.files[path] = content
    try:
        found = contents(folder)
    except LogError as error:
        if path not in str(error):
            raise
        return True
    assert found == whole
    return False


def test_a_missing_commit_is_told() -> None:
    folder = new_folder()
    others_go_on(folder, 1)
    version = Log(folder.again()).journal.refresh()
    producer = producer_of(folder.again())
    with process(producer):
        for _ in range(3):
            producer.send("all", b"v")
            producer.flush()
    newest = Log(folder.again()).journal.store.snapshot_versions()[-1]
    del folder.files[f"memory/commits/{commit_name(max(version, newest) + 1)}"]
    with pytest.raises(LogCorruptedError, match="is missing, and there are later commits"):
        Log(folder.again()).topics()


# --- all of it -------------------------------------------------------------------------------------------------------


class LogMachine(RuleBasedStateMachine):
    """Producers, transactions, maintenance, kills and errors against lists."""

    injected = 0
    """Of all runs."""

    @initialize()
    def begin(self) -> None:
        self.folder = new_folder()
        self.all: list[list[bytes]] = [[], []]
        self.latest: dict[bytes, bytes | None] = {}
        self.producers: dict[str | None, Producer] = {}
        self.sent: dict[str | None, list[tuple[int, bytes]]] = {}
        self.numbers = count()

    def producer(self, which: str | None) -> Producer:
        if which not in self.producers:
            folder = MemoryFolder(self.folder.files, path=self.folder.path)
            self.producers[which] = producer_of(folder, which)
            self.sent[which] = []
        return self.producers[which]

    @rule(which=st.sampled_from([None, "one", "two"]), records=st.integers(1, 4), is_large=st.booleans())
    def send(self, which: str | None, records: int, is_large: bool) -> None:
        producer = self.producer(which)
        if which is not None and not producer._in_transaction:
            producer.begin_transaction()
        for _ in range(records):
            number = next(self.numbers)
            value = b"%d" % number + (LARGE if is_large else b"")
            producer.send("all", value, partition=number % 2)
            producer.send("latest", None if number % 5 == 0 else b"%d" % number, b"%d" % (number % 3))
            self.sent[which].append((number, value))

    @rule(
        which=st.sampled_from([None, "one", "two"]),
        fault=st.sampled_from(["none", "kill", "error"]),
        after=st.integers(0, 1),
        is_done=st.booleans(),
    )
    def commit(self, which: str | None, fault: str, after: int, is_done: bool) -> None:
        producer = self.producer(which)
        if which is not None and not producer._in_transaction:
            return
        faults = producer._journal.folder.faults  # type: ignore[attr-defined]
        if fault != "none":
            faults.arm(after, is_done=is_done, kills=fault == "kill")
        finish = producer.flush if which is None else producer.commit_transaction
        injected = faults.injected
        try:
            finish()
        except OSError:
            finish()
            self.take(which)
        except KilledError:
            del self.producers[which]
            self.resolve(which)
            with process(producer):
                pass
        else:
            self.take(which)
        LogMachine.injected += faults.injected - injected
        faults.at = None

    @rule(which=st.sampled_from(["one", "two"]))
    def abort(self, which: str) -> None:
        if which in self.producers and self.producers[which]._in_transaction:
            self.producers[which].abort_transaction()
            self.sent[which] = []

    @rule(which=st.sampled_from(["one", "two"]))
    def take_over(self, which: str) -> None:
        """Another process begins with the same transactional id; the first one is fenced."""
        if which not in self.producers:
            return
        zombie = self.producers.pop(which)
        self.producer(which).init_transactions()
        with process(zombie):
            if zombie._in_transaction:
                zombie.send("all", b"fenced", partition=0)
                with pytest.raises(LogError, match="is fenced"):
                    zombie.commit_transaction()

    @rule(fully=st.booleans(), fault=st.sampled_from(["none", "kill", "error"]), after=st.integers(0, 6))
    def maintain(self, fully: bool, fault: str, after: int) -> None:
        folder = MemoryFolder(self.folder.files, path=self.folder.path)
        if fault != "none":
            folder.faults.arm(after, is_done=bool(after % 2), kills=fault == "kill")
        with contextlib.suppress(KilledError, OSError):
            Log(folder).maintain(fully=fully)
        LogMachine.injected += folder.faults.injected

    def take(self, which: str | None) -> None:
        for number, value in self.sent[which]:
            self.all[number % 2].append(value)
            self.latest[b"%d" % (number % 3)] = None if number % 5 == 0 else b"%d" % number
        self.sent[which] = []

    def resolve(self, which: str | None) -> None:
        """After a kill: all of it is there, or nothing."""
        before = [list(values) for values in self.all]
        if contents(self.folder) != before:
            self.take(which)
        self.sent[which] = []

    @invariant()
    def all_is_there_once(self) -> None:
        assert contents(self.folder) == self.all
        log = Log(self.folder.again())
        consumer = Consumer(log, auto_offset_reset="earliest")
        consumer.assign(log.partitions_of("latest"))
        found = {record.key: record.value for record in consumer.poll(max_records=1_000_000)}
        assert {key: value for key, value in found.items() if value} == {k: v for k, v in self.latest.items() if v}

    def teardown(self) -> None:
        if hasattr(self, "producers"):
            with process(*self.producers.values()):
                pass


@pytest.mark.parametrize("examples", [12, pytest.param(400, marks=pytest.mark.slow)])
def test_whatever_happens_acknowledged_records_are_there_once(examples: int) -> None:
    is_quick = examples < 100
    run_state_machine_as_test(
        LogMachine,
        settings=settings(deadline=None, max_examples=examples, stateful_step_count=25, derandomize=is_quick),
    )
    assert LogMachine.injected > examples // 4
