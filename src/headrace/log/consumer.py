"""``Consumer``: reads records of a log, alone or as a member of a group, from its partitions in turn."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

import pyarrow as pa

from headrace.common.errors import (
    CommitFailedError,
    ConfigurationError,
    InvalidProgramError,
    InvalidTypeError,
    expect,
)
from headrace.common.messages import TopicPartition
from headrace.log.commits import Commit, LogState
from headrace.log.fetcher import Fetcher, PartitionState
from headrace.log.groups import Group, GroupMetadata
from headrace.log.log import Log
from headrace.log.membership import Membership, may_commit
from headrace.log.records import POLLED, ConsumerRecord, to_records, with_partition

_ITERATED: Final = 500
"""The records that are fetched at once where they are taken one by one."""

_RESETS: Final = ("earliest", "latest", "none")

PartitionsCallback = Callable[[list[TopicPartition]], None]


def _ignore(partitions: list[TopicPartition]) -> None:
    """Do nothing, as the callback of a program that gives none."""


class Consumer:
    """Reads records of a log; only what was committed. One thread at a time may use it.

    Consumers of one group share partitions, and the group remembers how far they have come. A member has to poll at
    least once in the session timeout; otherwise others take over. A fork is no member: it makes a consumer of its own.

    Args:
        log: the log, or its location.
        group_id: the group.
        auto_offset_reset: where to begin in a partition without a position, or whose position was deleted:
            ``earliest``, ``latest``, or ``none`` for an error.
        enable_auto_commit: whether :meth:`poll` commits now and then what the polls before it have given, as do
            :meth:`close` and giving up a partition.
        auto_commit_interval_ms: how often at most, in milliseconds.
        session_timeout_ms: after how long without a poll a member is taken for dead, in milliseconds.
        consumer_timeout_ms: after how long without a record ``for record in consumer`` ends, in milliseconds; never,
            if it is None.
        clock: seconds that pass, from whenever on.

    Raises:
        ConfigurationError: when one of these cannot be.

    Examples:
        >>> from headrace.log import Consumer, Log, Producer
        >>> log = Log.open("clicks.log", create=True)
        >>> log.create_topic("clicks")
        >>> with Producer(log) as producer:
        ...     for page in [b"/", b"/cart", b"/pay"]:
        ...         _ = producer.send("clicks", page)
        >>> with Consumer(log, "counters", auto_offset_reset="earliest") as consumer:
        ...     consumer.subscribe(["clicks"])
        ...     for record in consumer.poll(timeout=1.0, max_records=2):
        ...         print(record.offset, record.value)
        0 b'/'
        1 b'/cart'

        The group goes on where it was, here in columns:

        >>> with Consumer(log, "counters") as consumer:
        ...     consumer.subscribe(["clicks"])
        ...     consumer.poll_batch().column("value").to_pylist()
        [b'/pay']

        Records one by one, as they come; here until there are none for a while:

        >>> again = Consumer(log, auto_offset_reset="earliest", consumer_timeout_ms=0)
        >>> again.subscribe(["clicks"])
        >>> [record.value for record in again]
        [b'/', b'/cart', b'/pay']
    """

    def __init__(  # noqa: PLR0913 - settings of Kafka's consumers
        self,
        log: Log | str,
        group_id: str | None = None,
        *,
        auto_offset_reset: str = "latest",
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: int = 5_000,
        session_timeout_ms: int = 45_000,
        consumer_timeout_ms: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        _check_at_least(0, auto_commit_interval_ms=auto_commit_interval_ms, consumer_timeout_ms=consumer_timeout_ms)
        _check_at_least(1, session_timeout_ms=session_timeout_ms)
        if auto_offset_reset not in _RESETS:
            raise ConfigurationError(
                f"auto_offset_reset is {auto_offset_reset!r}; expected one of {', '.join(_RESETS)}"
            )
        self._log = Log.open(log)
        self._group = group_id
        self._reset = auto_offset_reset
        self._auto_commit = auto_commit_interval_ms / 1000 if enable_auto_commit and group_id is not None else None
        self._commit_due = clock() + (self._auto_commit or 0)
        self._session_timeout = session_timeout_ms / 1000
        self._clock = clock
        self._iteration_timeout = float("inf") if consumer_timeout_ms is None else consumer_timeout_ms / 1000
        self._iterated: Iterator[ConsumerRecord] | None = None
        self._closed = False
        self._process = os.getpid()
        self._topics: tuple[str, ...] = ()
        self._on_assign: PartitionsCallback = _ignore
        self._on_revoke: PartitionsCallback = _ignore
        self._membership: Membership | None = None
        self._fetcher = Fetcher(self._log, group_id, auto_offset_reset)

    # --- which partitions --------------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str],
        on_assign: PartitionsCallback | None = None,
        on_revoke: PartitionsCallback | None = None,
    ) -> None:
        """Read topics: those of their partitions that the group leaves to this member, all of them without a group.

        Partitions come and go while :meth:`poll` is at work. Those that a topic is given later are read from their
        beginning.

        Args:
            topics: their names; a topic need not be there yet.
            on_assign: is called with partitions that have come.
            on_revoke: is called with partitions that go, before others have them; also with those that are lost
                already, of which offsets cannot be committed any more.

        Raises:
            InvalidTypeError: when it is one name, in place of several.
        """
        self._check_open()
        if isinstance(topics, str):  # its letters would be topics that are not there yet
            raise InvalidTypeError(f"subscribe() takes several topics: subscribe([{topics!r}])")
        self._on_assign, self._on_revoke = on_assign or _ignore, on_revoke or _ignore
        if not self._topics:
            self._fetcher.partitions.clear()
        self._topics = tuple(topics)
        if self._group is not None:
            if self._membership is None:
                self._membership = Membership(self._log.journal, self._group, self._session_timeout, self._clock)
            self._membership.subscribe(self._topics)

    def unsubscribe(self) -> None:
        """Read nothing any more, and leave the group."""
        self._check_process()
        self._commit_by_itself()
        self._lose(list(self._fetcher.partitions), notifies=bool(self._topics))
        self._topics = ()
        membership, self._membership = self._membership, None
        if membership is not None:
            membership.leave()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, and no others; no group decides on them.

        Raises:
            UnknownTopicError: when there is no such partition.
            InvalidProgramError: when topics are subscribed to.
        """
        self._check_open()
        if self._topics:
            raise InvalidProgramError(
                "the consumer has subscribed to topics: unsubscribe() before partitions are assigned"
            )
        wanted = list(partitions)
        for each in wanted:
            expect(each, TopicPartition, "assign()")
        self._log.end_offsets(wanted)
        self._fetcher.partitions = {each: self._fetcher.partitions.get(each, PartitionState()) for each in wanted}
        self._fetcher.remember_topics()

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""
        return list(self._fetcher.partitions)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Give no records of these partitions for now."""
        for each in self._checked(partitions):
            self._fetcher.partitions[each].paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Give records of these partitions again."""
        for each in self._checked(partitions):
            self._fetcher.partitions[each].paused = False

    # --- positions ---------------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on reading a partition at an offset."""
        self._checked([partition])
        if offset < 0:
            raise InvalidProgramError(f"{offset} is no offset: they begin at 0")
        self._fetcher.partitions[partition].position = offset

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Go on at the first record of partitions, of all that are read if none is named."""
        for partition, offset in self._log.beginning_offsets(self._named(partitions)).items():
            self.seek(partition, offset)

    def seek_to_end(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Go on behind the last record of partitions, of all that are read if none is named."""
        for partition, offset in self._log.end_offsets(self._named(partitions)).items():
            self.seek(partition, offset)

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record to be given of a partition.

        Raises:
            OffsetOutOfRangeError: when there is none, and it was said to be an error.
        """
        self._checked([partition])
        return self._fetcher.position(partition)

    def offsets_for_times(self, timestamps: dict[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """For each partition the offset of its first record with a timestamp or a later one; None without such."""
        return {partition: self._log.offset_for_time(partition, at) for partition, at in timestamps.items()}

    def lag(self) -> dict[TopicPartition, int]:
        """The lag of each partition: the offsets from the position to its end."""
        ends = self._log.end_offsets(self._fetcher.partitions)
        return {each: end - self.position(each) for each, end in ends.items()}

    def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Have the group remember how far it has come.

        Args:
            offsets: of the next records to read; the positions, if left out.

        Raises:
            CommitFailedError: when the group has given a partition to others.
            InvalidProgramError: when the consumer is of no group.
        """
        self._check_process()
        self._needed_group()
        if offsets is None:
            self._log.journal.refresh()
            self._fetcher.begin_remade_topics()
            offsets = self._fetcher.positions()
        if not offsets:
            return
        metadata = self.group_metadata()

        def describe(commit: Commit, state: LogState) -> Commit:
            return replace(commit, offsets={metadata.group_id: may_commit(metadata, offsets, state)})

        self._log.journal.change(describe)
        for each, offset in offsets.items():
            if each in self._fetcher.partitions:
                self._fetcher.partitions[each].committed = offset

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Return how far the group has come in partitions; None where nothing was committed.

        Raises:
            InvalidProgramError: when the consumer is of no group.
        """
        found = self._log.committed(self._needed_group())
        return {each: found.get(each) for each in partitions}

    def group_metadata(self) -> GroupMetadata:
        """On whose behalf offsets of this consumer are committed, for :meth:`Producer.send_offsets_to_transaction`.

        It holds for what was polled so far: ask for it before the next poll.

        Raises:
            InvalidProgramError: when the consumer is of no group.
        """
        self._check_process()
        group, membership, created = self._needed_group(), self._membership, dict(self._fetcher.created)
        if membership is None:
            return GroupMetadata(group, created=created)
        return GroupMetadata(group, membership.generation, membership.member_id, created)

    # --- records -----------------------------------------------------------------------------------------------------

    def poll(self, timeout: float = 0.0, max_records: int = 500) -> list[ConsumerRecord]:
        """The next records.

        Args:
            timeout: how long to wait for the first, in seconds.
            max_records: how many at most.

        Raises:
            InvalidProgramError: when nothing was subscribed to or assigned.
            OffsetOutOfRangeError: when a position was deleted, and that was said to be an error.
            LogCorruptedError: when a file is damaged.
            OSError: when a file cannot be read.
        """
        found: list[ConsumerRecord] = []
        for partition, batch in self._poll(timeout, max_records):
            found += to_records(partition, batch)
        return found

    def poll_batch(self, timeout: float = 0.0, max_records: int = 1 << 20) -> pa.RecordBatch:
        """The next records in columns: topic, partition, offset, timestamp, key, value and headers.

        Args and errors as with :meth:`poll`.
        """
        found = [with_partition(partition, batch) for partition, batch in self._poll(timeout, max_records)]
        if not found:
            return pa.RecordBatch.from_pylist([], schema=POLLED)
        return found[0] if len(found) == 1 else pa.concat_batches(found)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumerRecord:
        """The next record, which is waited for; :meth:`position` and :meth:`commit` count those given so far.

        Errors as with :meth:`poll`.
        """
        if self._iterated is None:
            self._iterated = self._one_by_one()
        try:
            return next(self._iterated)
        except BaseException:
            self._iterated = None
            raise

    def close(self) -> None:
        """Commit how far it has come, if it does so by itself, and leave the group; closing it again does nothing.

        Nor is anything done in a fork of the process that made it, which stays a member.

        Raises:
            OSError: when that cannot be committed.
        """
        if not self._closed and not self._is_forked:
            self.unsubscribe()
            self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # --- inside ------------------------------------------------------------------------------------------------------

    def _poll(self, timeout: float, max_records: int) -> list[tuple[TopicPartition, pa.RecordBatch]]:
        self._check_open()
        if not self._topics and not self._fetcher.partitions:
            raise InvalidProgramError("there is nothing to poll: subscribe() to topics, or assign() partitions, first")
        if max_records < 1:
            raise InvalidProgramError(f"at least one record has to be asked for, not {max_records}")
        until = time.monotonic() + timeout
        while True:
            version = self._log.journal.refresh()
            self._fetcher.begin_remade_topics()
            self._keep_up()
            found = self._fetcher.take(max_records)
            left = until - time.monotonic()
            if found or left <= 0:
                return found
            self._log.journal.wait(version, min(left, self._membership.interval) if self._membership else left)

    def _one_by_one(self) -> Iterator[ConsumerRecord]:
        while found := self._poll(self._iteration_timeout, _ITERATED):
            partitions = self._fetcher.partitions
            positions = {partition: batch.column("offset")[0].as_py() for partition, batch in reversed(found)}
            for partition, position in positions.items():
                partitions[partition].position = position
            for partition, batch in found:
                for record in to_records(partition, batch):
                    state = self._fetcher.partitions.get(partition)
                    if state is None or state.paused or state.position != positions[partition]:
                        break  # it was taken away, or the position has changed
                    state.position = positions[partition] = record.offset + 1
                    yield record

    # --- inside: partitions that come and go -------------------------------------------------------------------------

    def _keep_up(self) -> None:
        """Commit if the interval has passed, and follow changes of the assignment."""
        if self._auto_commit is not None and self._clock() >= self._commit_due:
            self._commit_by_itself()
            self._commit_due = self._clock() + self._auto_commit
        if self._membership is not None:
            self._keep_up_with_group(self._membership)
        elif self._topics:
            self._keep_up_with_topics()

    def _keep_up_with_topics(self) -> None:
        """Read all partitions of the topics; those that a topic is given later from their beginning."""
        with self._log.journal.lock:
            counts = self._log.journal.state().partition_counts()
        wanted = [TopicPartition(topic, number) for topic in self._topics for number in range(counts.get(topic, 0))]
        existing = set(wanted)
        self._lose([each for each in self._fetcher.partitions if each not in existing], notifies=False)
        known_topics = {each.topic for each in self._fetcher.partitions}
        self._gain([each for each in wanted if each not in self._fetcher.partitions], known_topics)

    def _keep_up_with_group(self, membership: Membership) -> None:
        group = membership.keep_up() or self._join_again(membership)
        me, reading = membership.member_id, self._fetcher.partitions
        self._lose([each for each in reading if group.assigned.get(each, 0) > membership.generation])
        member = group.member(me)
        target = set(member.target)
        leaving = [each for each in reading if each not in target]
        if leaving:
            self._on_revoke(leaving)
        if set(member.owned) - target:
            positions = self._fetcher.uncommitted() if self._auto_commit is not None else {}
            membership.release({each: positions[each] for each in leaving if each in positions})
            group = membership.group()
            member = group.member(me)
        owned = set(member.owned)
        self._lose([each for each in reading if each not in owned], notifies=False)
        membership.generation = group.generation
        self._gain([each for each in member.owned if each not in reading], set())

    def _join_again(self, membership: Membership) -> Group:
        """Become a member again after having been taken for dead."""
        self._lose(list(self._fetcher.partitions))
        membership.subscribe(self._topics)
        return membership.group()

    def _lose(self, partitions: list[TopicPartition], *, notifies: bool = True) -> None:
        """Stop reading partitions; the program is called back, unless it has been."""
        if partitions and notifies:
            self._on_revoke(partitions)
        for each in partitions:
            del self._fetcher.partitions[each]

    def _gain(self, partitions: list[TopicPartition], known_topics: set[str]) -> None:
        """Begin to read partitions at the group's offsets; new partitions of known topics at their beginning."""
        if not partitions:
            return
        found = self._log.committed(self._group) if self._group is not None else {}
        for each in partitions:
            committed = found.get(each)
            begun = 0 if committed is None and each.topic in known_topics else committed
            self._fetcher.partitions[each] = PartitionState(begun, committed)
        self._fetcher.remember_topics()
        if self._membership is not None and self._reset == "latest":
            # Who takes over from a member that has died before its first commit has to begin where that began.
            self.commit({each: self.position(each) for each in partitions if each not in found})
        self._on_assign(partitions)

    def _commit_by_itself(self) -> None:
        """Commit what was consumed, if the consumer commits by itself. Others read again what they took over before."""
        consumed = self._fetcher.uncommitted() if self._auto_commit is not None else {}
        if consumed:
            with suppress(CommitFailedError):
                self.commit(consumed)

    # --- inside: checks ----------------------------------------------------------------------------------------------

    @property
    def _is_forked(self) -> bool:
        """Tell whether a fork would go on as the member of a group that another process is."""
        return self._group is not None and self._process != os.getpid()

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidProgramError("the consumer is closed")
        self._check_process()

    def _check_process(self) -> None:
        if self._is_forked:
            raise InvalidProgramError(
                f"the consumer is of process {self._process}, of which this one is a fork, and that is the member of "
                "its group: make one in the fork"
            )

    def _named(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        return self._checked(partitions) or list(self._fetcher.partitions)

    def _checked(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Check that all of some partitions are read.

        Raises:
            InvalidProgramError: when one is not.
        """
        found = list(partitions)
        for each in found:
            if each not in self._fetcher.partitions:
                raise InvalidProgramError(f"{each} is not assigned to this consumer")
        return found

    def _needed_group(self) -> str:
        if self._group is None:
            raise InvalidProgramError("offsets are committed for a group: Consumer(log, group_id=…)")
        return self._group


def _check_at_least(least: int, **settings: int | None) -> None:
    for name, value in settings.items():
        if value is not None and value < least:
            raise ConfigurationError(f"{name} is {value}; expected {least} milliseconds or more")
