"""Consumer groups: members that come, stand still and go in any order, with transactions and without."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headrace.common.errors import CommitFailedError
from headrace.common.messages import TopicPartition
from headrace.log.consumer import Consumer
from headrace.log.groups import Group, GroupMetadata
from headrace.log.journal import make_log
from headrace.log.log import Log
from headrace.log.producer import Producer
from tests.draws import draws
from tests.log.memory_folder import MemoryFolder
from tests.log.test_groups import Seconds, member, numbers, send


class GroupMachine(RuleBasedStateMachine):
    """Members come, poll, stand still and go; what is read is compared with what was sent."""

    @initialize(partitions=st.integers(1, 4))
    def begin(self, partitions: int) -> None:
        folder = MemoryFolder()
        make_log(folder)
        self.log, self.seconds = Log(folder), Seconds()
        self.log.create_topic("numbers", partitions)
        self.members: list[Consumer] = []
        self.sent = 0
        self.read: list[int] = []

    @rule(count=st.integers(1, 5))
    def send(self, count: int) -> None:
        send(self.log, *range(self.sent, self.sent + count))
        self.sent += count

    @precondition(lambda self: len(self.members) < 4)
    @rule()
    def join(self) -> None:
        self.members.append(member(self.log, self.seconds))

    @precondition(lambda self: self.members)
    @rule(which=st.integers(0, 3), count=st.integers(1, 10))
    def poll(self, which: int, count: int) -> None:
        found = self.members[which % len(self.members)].poll(max_records=count)
        self.read += [int(record.value or b"") for record in found]

    @precondition(lambda self: self.members)
    @rule(which=st.integers(0, 3))
    def close(self, which: int) -> None:
        self.members.pop(which % len(self.members)).close()

    @precondition(lambda self: self.members)
    @rule(which=st.integers(0, 3))
    def kill(self, which: int) -> None:
        self.members.pop(which % len(self.members))

    @rule(seconds=st.sampled_from([4, 11, 31]))
    def wait(self, seconds: int) -> None:
        self.seconds.now += seconds

    @invariant()
    def nobody_owns_what_another_owns(self) -> None:
        group = Log(self.log.folder).journal.state().groups.get("readers", Group())
        owned = [each for one in group.members.values() for each in one.owned]
        assert len(owned) == len(set(owned))

    def teardown(self) -> None:
        if not hasattr(self, "log"):
            return
        last = member(self.log, self.seconds)
        for each in self.members:
            each.close()
        for _ in range(5):
            self.seconds.now += 16
            self.read += numbers(last)
        assert set(self.read) == set(range(self.sent))


class TransactionMachine(GroupMachine):
    """Members write what they read with their offsets in transactions, late or never; it is written once."""

    def teardown(self) -> None:
        if not hasattr(self, "log"):
            return
        for each in self.members:
            each.close()
        self.members = [member(self.log, self.seconds, auto_commit=False)]
        for _ in range(5):
            self.seconds.now += 16
            self.write(0, 1_000)
        assert sorted(map(int, self.log.read("output").read_all().column("value").to_pylist())) == list(
            range(self.sent)
        )

    @initialize(partitions=st.integers(1, 4))
    def begin(self, partitions: int) -> None:
        super().begin(partitions)
        self.log.create_topic("output", 1)
        self.open: list[tuple[list[bytes], dict[TopicPartition, int], GroupMetadata, Consumer]] = []
        self.join()
        self.join()

    @precondition(lambda self: len(self.members) < 4)
    @rule()
    def join(self) -> None:
        self.members.append(member(self.log, self.seconds, auto_commit=False))

    @precondition(lambda self: self.members)
    @rule(which=st.integers(0, 3), count=st.integers(1, 10))
    def poll(self, which: int, count: int) -> None:
        consumer = self.members[which % len(self.members)]
        for each in [each for each in self.open if each[3] is consumer]:
            self.finish(each)
        values = [record.value or b"" for record in consumer.poll(max_records=count)]
        places = {each: consumer.position(each) for each in consumer.assignment()}
        self.open.append((values, places, consumer.group_metadata(), consumer))

    @precondition(lambda self: self.members)
    @rule(which=st.integers(0, 3), count=st.integers(1, 10))
    def write(self, which: int, count: int) -> None:
        self.poll(which, count)
        self.finish(self.open[-1])

    @precondition(lambda self: len(self.members) > 1)
    @rule(away=st.integers(0, 3), count=st.integers(1, 10))
    def take_over(self, away: int, count: int) -> None:
        self.send(count)
        self.poll(away, count)
        for _ in range(2):  # it is seen twice with the same heartbeat
            self.seconds.now += 31
            for which in range(len(self.members)):
                if which != away % len(self.members):
                    self.write(which, count)

    @precondition(lambda self: self.open)
    @rule(which=st.integers(0, 3))
    def write_late(self, which: int) -> None:
        self.finish(self.open[which % len(self.open)])

    def finish(self, each: tuple[list[bytes], dict[TopicPartition, int], GroupMetadata, Consumer]) -> None:
        self.open.remove(each)
        values, places, metadata, consumer = each
        producer = Producer(Log(self.log.folder), metadata.member_id)
        producer.begin_transaction()
        for value in values:
            producer.send("output", value)
        try:
            producer.send_offsets_to_transaction(places, metadata)
            producer.commit_transaction()
        except CommitFailedError:
            for place in consumer.assignment():
                consumer.seek(place, consumer.committed([place])[place] or 0)
        producer.close()


@pytest.mark.slow
@pytest.mark.parametrize("machine", [GroupMachine, TransactionMachine])
def test_nothing_is_passed_over_whatever_members_do(machine: type[GroupMachine]) -> None:
    run_state_machine_as_test(machine, settings=settings(deadline=None, max_examples=draws(20), stateful_step_count=25))
