"""Producers, transactions, maintenance, kills and errors in any order, against a model."""

from __future__ import annotations

import contextlib
from itertools import count

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from headrace.common.errors import LogError
from headrace.log.consumer import Consumer
from headrace.log.log import Log
from headrace.log.producer import Producer
from tests.log.faulty_logs import LARGE, contents, new_folder, process, producer_of
from tests.log.memory_folder import KilledError, MemoryFolder

pytestmark = pytest.mark.usefixtures("snapshots_often")


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
        self.add(which, records, is_large=is_large)

    def add(self, which: str | None, records: int, *, is_large: bool = False) -> None:
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
        if not self.sent[which]:
            self.add(which, 1)
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


@pytest.mark.parametrize("examples", [20, pytest.param(400, marks=pytest.mark.slow)])
def test_whatever_happens_acknowledged_records_are_there_once(examples: int) -> None:
    is_quick = examples < 100
    run_state_machine_as_test(
        LogMachine,
        settings=settings(deadline=None, max_examples=examples, stateful_step_count=25, derandomize=is_quick),
    )
    assert LogMachine.injected > examples // 4
