"""Consumer groups: each partition has one reader, and none of its records is passed over, whoever comes and goes."""

from __future__ import annotations

import contextlib
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.errors import CommitFailedError, InvalidProgramError, LogError, OffsetOutOfRangeError
from headrace.common.messages import TopicPartition
from headrace.log.consumer import Consumer
from headrace.log.groups import Group, GroupMetadata, assign
from headrace.log.journal import make_log
from headrace.log.log import Log
from headrace.log.producer import Producer
from tests.draws import draws
from tests.log.memory_folder import MemoryFolder


class Seconds:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def log() -> Log:
    folder = MemoryFolder()
    make_log(folder)
    return Log(folder)


def member(log: Log, seconds: Seconds, *topics: str, reset: str = "earliest", auto_commit: bool = True) -> Consumer:
    """A member of a group, in a process of its own."""
    consumer = Consumer(
        Log(log.folder),
        "readers",
        auto_offset_reset=reset,
        enable_auto_commit=auto_commit,
        session_timeout_ms=30_000,
        clock=seconds,
    )
    consumer.subscribe(topics or ("numbers",))
    return consumer


def send(log: Log, *numbers: int, topic: str = "numbers") -> None:
    """Send numbers, each to the partition that is its remainder."""
    partitions = log.topics()[topic]
    with Producer(log) as producer:
        for number in numbers:
            producer.send(topic, b"%d" % number, partition=number % partitions)


def numbers(consumer: Consumer) -> list[int]:
    return sorted(int(record.value or b"") for record in consumer.poll())


def settle(*members: Consumer) -> list[int]:
    """Let members poll until nothing moves any more; what they have read."""
    return sorted(number for _ in range(4) for each in members for number in numbers(each))


def test_members_share_partitions(log: Log, seconds: Seconds) -> None:
    log.create_topic("numbers", 4)
    send(log, *range(8))
    first = member(log, seconds)
    assert numbers(first) == list(range(8))
    second = member(log, seconds)
    assert settle(first, second) == []
    assert sorted(map(len, (first.assignment(), second.assignment()))) == [2, 2]
    assert not set(first.assignment()) & set(second.assignment())
    send(log, *range(8, 16))
    assert sorted(numbers(first) + numbers(second)) == list(range(8, 16))
    first.close()
    send(log, *range(16, 20))
    assert settle(second) == list(range(16, 20))


def test_a_partition_that_stays_is_read_on(log: Log, seconds: Seconds) -> None:
    log.create_topic("numbers", 2)
    gone = list[TopicPartition]()
    first = Consumer(Log(log.folder), "readers", auto_offset_reset="earliest", clock=seconds)
    first.subscribe(["numbers"], on_revoke=gone.extend)
    first.poll()
    second = member(log, seconds)
    send(log, 0, 1)
    assert second.poll() == []  # nobody has given up anything yet
    assert len(numbers(first)) == 1
    assert len(gone) == 1
    assert first.assignment() == [each for each in log.partitions_of("numbers") if each not in gone]
    assert len(numbers(second)) == 1


def test_others_go_on_after_one_that_is_dead(log: Log, seconds: Seconds) -> None:
    log.create_topic("numbers", 2)
    zombie, other = member(log, seconds), member(log, seconds)
    settle(zombie, other)
    send(log, 0, 1)
    unfinished = numbers(zombie)
    seconds.now += 11
    assert len(numbers(other)) == 1
    seconds.now += 11
    assert numbers(other) == []
    seconds.now += 30
    assert numbers(other) == unfinished
    with pytest.raises(CommitFailedError, match=r"given numbers-. to others since generation 3, as member .* session"):
        zombie.commit()
    lost = list[TopicPartition]()
    zombie.subscribe(["numbers"], on_revoke=lost.extend)
    assert settle(zombie, other) == []
    assert len(zombie.assignment()) == len(other.assignment()) == 1


def test_a_paused_one_that_comes_back_reads_nothing_that_is_not_its_own(log: Log, seconds: Seconds) -> None:
    log.create_topic("numbers", 1)
    paused = member(log, seconds)
    send(log, 1, 2, 3)
    assert [record.value for record in paused.poll(max_records=1)] == [b"1"]
    other = member(log, seconds)
    settle(other)
    seconds.now += 31
    assert numbers(other) == [1, 2, 3]
    assert paused.poll() == []
    assert paused.assignment() == []


# --- members that were away ------------------------------------------------------------------------------------------

PLACE = TopicPartition("numbers", 0)


def taken_over(log: Log, seconds: Seconds) -> tuple[Consumer, GroupMetadata, Consumer]:
    """A member that read ten records and stood still, for whom it committed, and another that has committed twenty."""
    log.create_topic("numbers", 1)
    log.create_topic("output", 1)
    send(log, *range(10))
    away = member(log, seconds, auto_commit=False)
    assert numbers(away) == list(range(10))
    metadata = away.group_metadata()
    other = member(log, seconds, auto_commit=False)
    settle(other)
    seconds.now += 31
    send(log, *range(10, 20))
    assert numbers(other) == list(range(20))
    other.commit()
    return away, metadata, other


def transact(log: Log, offset: int, group: GroupMetadata | str) -> None:
    """Write a record together with an offset."""
    with Producer(Log(log.folder), "writer") as producer:
        producer.begin_transaction()
        producer.send("output", b"%d" % offset)
        with contextlib.suppress(CommitFailedError):  # who passes over it is told again
            producer.send_offsets_to_transaction({PLACE: offset}, group)
        producer.commit_transaction()


def committed(log: Log) -> tuple[int, int]:
    """The offset of the group, and how many records were written."""
    return log.committed("readers")[PLACE], log.read("output").read_all().num_rows


@pytest.mark.parametrize("has_left", [False, True], ids=["the other reads on", "the other has left"])
def test_a_member_that_was_away_sets_no_offset_back_by_any_way(log: Log, seconds: Seconds, has_left: bool) -> None:
    away, metadata, other = taken_over(log, seconds)
    if has_left:
        other.close()
    for commit in (
        away.commit,
        lambda: away.commit({PLACE: 10}),
        lambda: transact(log, 10, metadata),
        lambda: transact(log, 10, away.group_metadata()),
        lambda: transact(log, 10, "readers"),
    ):
        with pytest.raises(CommitFailedError, match=r"numbers-0|has members"):
            commit()
    assert committed(log) == (20, 0)
    assert away.poll() == []
    settle(away)
    assert committed(log) == (20, 0)


def test_a_member_that_came_back_commits_nothing_from_before(log: Log, seconds: Seconds) -> None:
    away, before, other = taken_over(log, seconds)
    other.close()
    away.subscribe(["numbers"])
    for commit in (away.commit, lambda: transact(log, 10, before), lambda: transact(log, 10, away.group_metadata())):
        with pytest.raises(CommitFailedError, match=r"given numbers-0 to others since generation 1, as member \w{32} "):
            commit()
    send(log, 20, 21)
    assert numbers(away) == [20, 21]
    with pytest.raises(CommitFailedError, match="since generation 1"):
        transact(log, 10, before)
    transact(log, 22, away.group_metadata())
    assert committed(log) == (22, 1)
    away.commit({PLACE: 21})  # who reads the partition may
    assert committed(log) == (21, 1)


def test_a_transaction_is_fenced_when_it_is_committed(log: Log, seconds: Seconds) -> None:
    log.create_topic("numbers", 1)
    log.create_topic("output", 1)
    send(log, 1, 2)
    away = member(log, seconds, auto_commit=False)
    producer = Producer(log, "writer")
    producer.begin_transaction()
    producer.send("output", b"1")
    assert numbers(away) == [1, 2]
    producer.send_offsets_to_transaction({PLACE: 2}, away.group_metadata())
    other = member(log, seconds)
    settle(other)
    seconds.now += 31
    assert numbers(other) == [1, 2]
    for _ in range(2):
        with pytest.raises(CommitFailedError, match="has given numbers-0 to others since generation 1"):
            producer.commit_transaction()
    producer.abort_transaction()
    assert log.read("output").read_all().num_rows == 0
    producer.begin_transaction()
    producer.send("output", b"2")
    producer.commit_transaction()
    producer.close()
    assert log.read("output").read_all().column("value").to_pylist() == [b"2"]


def test_what_a_member_keeps_it_may_commit_whoever_comes(log: Log, seconds: Seconds) -> None:
    log.create_topic("numbers", 2)
    log.create_topic("output", 1)
    send(log, 0, 1)
    first = member(log, seconds, auto_commit=False)
    assert numbers(first) == [0, 1]
    metadata = first.group_metadata()
    second = member(log, seconds)
    settle(first, second)
    assert first.assignment() == [PLACE]
    transact(log, 1, metadata)  # of a generation before: the partition has been its own all the time
    assert committed(log) == (1, 1)


def test_a_consumer_that_is_no_member_commits_with_a_transaction(log: Log, seconds: Seconds) -> None:
    log.create_topic("numbers", 1)
    log.create_topic("output", 1)
    send(log, 0, 1, 2)
    alone = Consumer(log, "readers", clock=seconds)
    alone.assign([PLACE])
    for offset in (2, 1):  # it may set offsets back
        transact(log, offset, alone.group_metadata())
        assert committed(log)[0] == offset
    transact(log, 3, "readers")
    transact(log, 2, "readers")
    assert committed(log) == (2, 4)
    once = member(log, seconds)
    with pytest.raises(CommitFailedError, match=r"has members.*consumer\.group_metadata\(\)"):
        transact(log, 3, alone.group_metadata())
    once.close()
    transact(log, 3, "readers")
    with pytest.raises(CommitFailedError, match="numbers-0 of group 'readers' is at offset 3, and 2 would set it back"):
        transact(log, 2, "readers")
    transact(log, 1, alone.group_metadata())
    assert committed(log) == (1, 6)
    with pytest.raises(InvalidProgramError, match="Consumer\\(log, group_id"):
        Consumer(log).group_metadata()


def test_a_transaction_has_no_offsets_of_a_topic_that_was_made_again(log: Log, seconds: Seconds) -> None:
    log.create_topic("numbers", 1)
    log.create_topic("output", 1)
    send(log, 0, 1, 2)
    consumer = member(log, seconds, auto_commit=False)
    assert numbers(consumer) == [0, 1, 2]
    metadata = consumer.group_metadata()
    log.delete_topic("numbers")
    log.create_topic("numbers", 1)
    transact(log, 3, metadata)
    assert log.committed("readers") == {}


def test_a_clock_that_jumps_costs_a_member_its_partitions_and_no_record(log: Log, seconds: Seconds) -> None:
    log.create_topic("numbers", 2)
    fast = Seconds()
    steady, jumping = member(log, seconds), member(log, fast)
    settle(steady, jumping)
    send(log, *range(6))
    fast.now += 1_000_000
    read = settle(jumping, steady)
    fast.now += 1_000_000
    read += settle(jumping, steady)
    assert set(read) == set(range(6))


def test_offsets_are_remembered(log: Log, seconds: Seconds) -> None:
    log.create_topic("numbers", 1)
    send(log, 1, 2, 3)
    place = TopicPartition("numbers", 0)
    consumer = member(log, seconds, auto_commit=False)
    assert [record.value for record in consumer.poll(max_records=2)] == [b"1", b"2"]
    assert consumer.committed([place]) == {place: None}
    consumer.commit()
    assert [record.value for record in consumer.poll()] == [b"3"]
    consumer.close()
    again = member(log, seconds, auto_commit=False)
    assert numbers(again) == [3]
    again.commit({place: 1})
    again.close()
    assert again.committed([place]) == {place: 1}
    assert numbers(member(log, seconds)) == [2, 3]


def test_what_a_poll_gave_is_committed_by_a_later_one(log: Log, seconds: Seconds) -> None:
    log.create_topic("numbers", 1)
    send(log, 1)
    place = TopicPartition("numbers", 0)
    consumer = member(log, seconds)
    consumer.poll()
    assert consumer.committed([place]) == {place: None}
    seconds.now += 5
    consumer.poll()
    assert consumer.committed([place]) == {place: 1}


def test_the_successor_of_one_that_read_only_what_is_new_misses_nothing(log: Log, seconds: Seconds) -> None:
    log.create_topic("numbers", 1)
    send(log, 1)
    dying = member(log, seconds, reset="latest")
    assert dying.poll() == []
    send(log, 2)
    other = member(log, seconds, reset="latest")
    settle(other)
    seconds.now += 31
    assert numbers(other) == [2]


def test_partitions_that_a_topic_is_given_later(log: Log, seconds: Seconds) -> None:
    alone = Consumer(Log(log.folder), auto_offset_reset="latest", clock=seconds)
    alone.subscribe(["numbers"])
    consumer = member(log, seconds)
    assert consumer.poll() == alone.poll() == []
    log.create_topic("numbers", 1)
    assert consumer.poll() == alone.poll() == []
    log.alter_topic("numbers", partitions=3)
    send(log, *range(6))
    assert settle(consumer) == settle(alone) == list(range(6))
    log.delete_topic("numbers")
    assert consumer.poll() == alone.poll() == []
    assert consumer.assignment() == alone.assignment() == []


def test_assigned_partitions_and_a_group(log: Log, seconds: Seconds) -> None:
    log.create_topic("numbers", 1)
    send(log, 1, 2)
    place = TopicPartition("numbers", 0)
    consumer = Consumer(log, "readers", auto_offset_reset="none", clock=seconds)
    consumer.assign([place])
    with pytest.raises(OffsetOutOfRangeError):
        consumer.poll()
    consumer.commit({place: 1})
    assert numbers(consumer) == [2]
    with pytest.raises(InvalidProgramError, match="Consumer\\(log, group_id"):
        Consumer(log).commit()
    other = member(log, seconds)
    with pytest.raises(InvalidProgramError, match="unsubscribe"):
        other.assign([place])
    with pytest.raises(CommitFailedError, match="'readers' has members"):
        consumer.commit({place: 0})


def test_a_group_is_deleted_when_nobody_is_in_it(log: Log, seconds: Seconds) -> None:
    log.create_topic("numbers", 1)
    send(log, 1)
    consumer = member(log, seconds)
    consumer.poll()
    with pytest.raises(LogError, match="'readers' has 1 members"):
        log.delete_group("readers")
    consumer.close()
    assert log.committed("readers") != {}
    log.delete_group("readers")
    assert (log.groups(), log.committed("readers")) == ({}, {})
    with pytest.raises(LogError, match="has no group 'readers'; there is none at all"):
        log.delete_group("readers")


def test_who_was_taken_for_dead_can_be_closed(log: Log, seconds: Seconds) -> None:
    log.create_topic("numbers", 1)
    send(log, 1)
    slow, other = member(log, seconds), member(log, seconds)
    assert numbers(slow) == [1]
    other.poll()
    seconds.now += 31
    assert numbers(other) == [1]
    slow.close()
    assert log.groups()["readers"].members.keys() == {other.group_metadata().member_id}


def test_a_member_that_stands_still_between_giving_up_and_handing_over(log: Log, seconds: Seconds) -> None:
    """As by SIGSTOP: others take it for dead meanwhile, and what it does when it goes on has no effect."""
    log.create_topic("numbers", 2)
    send(log, 0, 1, 2, 3)
    first = member(log, seconds)
    assert numbers(first) == [0, 1, 2, 3]
    second = member(log, seconds)
    taken: list[int] = []
    revoked: list[list[TopicPartition]] = []

    def stand_still(partitions: list[TopicPartition]) -> None:
        revoked.append(partitions)
        if len(revoked) == 1:
            for _ in range(2):  # it is seen twice with the same heartbeat
                seconds.now += 31
                taken.extend(numbers(second))

    first.subscribe(["numbers"], on_revoke=stand_still)
    send(log, 4, 5)
    assert numbers(first) == []
    assert len(revoked[0]) == 1
    assert sorted(taken) == [0, 1, 2, 3, 4, 5]  # it had not committed anything
    assert first.assignment() == []
    assert len(second.assignment()) == 2
    second.commit()
    send(log, 6, 7)
    seen = [*numbers(first), *numbers(second), *numbers(first), *numbers(second), *numbers(first)]
    assert sorted(seen) == [6, 7]
    assert len(first.assignment()) == len(second.assignment()) == 1


def test_records_one_by_one_count_as_they_are_given(log: Log, seconds: Seconds) -> None:
    log.create_topic("numbers", 1)
    send(log, 0, 1, 2, 3)
    place = TopicPartition("numbers", 0)
    with Consumer(Log(log.folder), "readers", auto_offset_reset="earliest", consumer_timeout_ms=0) as consumer:
        consumer.subscribe(["numbers"])
        assert [next(consumer).offset for _ in range(2)] == [0, 1]
        consumer.commit()
        assert (consumer.position(place), log.committed("readers")[place]) == (2, 2)
        consumer.seek(place, 1)
        assert [record.offset for record in consumer] == [1, 2, 3]
        send(log, 4)
        consumer.seek(place, 2)
        assert next(consumer).offset == 2
        assert numbers(consumer) == [3, 4]
        assert list(consumer) == []


@settings(deadline=None, max_examples=draws(20))
@given(
    members=st.dictionaries(st.sampled_from("abcdef"), st.sets(st.sampled_from(["x", "y", "z"]), min_size=1)),
    more=st.dictionaries(st.sampled_from("defghi"), st.sets(st.sampled_from(["x", "y", "z"]), min_size=1), max_size=2),
    partitions=st.dictionaries(st.sampled_from(["x", "y", "z"]), st.integers(1, 8)),
)
def test_assignments_are_even_and_move_little(
    members: dict[str, set[str]], more: dict[str, set[str]], partitions: dict[str, int]
) -> None:
    group = Group()
    for member_id, topics in members.items():
        group = group.joined(member_id, topics, partitions)
    for member_id in list(group.members) * 3:
        group = group.released(member_id)
    for found in (group, group.left(more, partitions)):
        owned = Counter(each for one in found.members.values() for each in one.owned)
        topics = {topic for one in found.members.values() for topic in one.topics}
        assert set(owned.values()) <= {1}
        assert sum(owned.values()) == sum(partitions.get(topic, 0) for topic in topics) or found is not group
        assert found.is_assigned(partitions)
    for one in group.members.values():
        assert one.owned == one.target
        for each in one.target:  # nobody who could have it has two fewer
            others = [other for other in group.members.values() if each.topic in other.topics]
            assert len(one.target) - min(len(other.target) for other in others) <= 1
    assert assign(group.members, partitions) == {member_id: one.target for member_id, one in group.members.items()}
