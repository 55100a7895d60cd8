"""``Consumer``: reads records of a log, alone or as a member of a group."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa

from headrace.common.arguments import expect
from headrace.common.errors import (
    CommitFailedError,
    ConfigurationError,
    InvalidProgramError,
    InvalidTypeError,
    OffsetOutOfRangeError,
)
from headrace.log.groups import CommittedOffset, Member
from headrace.log.log import Log
from headrace.log.membership import Membership, commit_without_members
from headrace.log.records import POLLED, TopicPartition, to_records, with_partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from headrace.log.records import ConsumerRecord

_RESETS: Final = ("earliest", "latest", "none")

_FETCH_BYTES: Final = 16 << 20

PartitionsCallback = Callable[[list[TopicPartition]], None]


class Consumer:
    """Reads records of a log; only what was committed. One thread at a time may use it.

    Consumers of one group share partitions, and the group remembers how far they have come. A member has to poll at
    least once in the session timeout; otherwise others take over.

    Args:
        log: the log, or its location.
        group_id: the group.
        auto_offset_reset: where to begin in a partition without a position, or whose position was deleted:
            ``earliest``, ``latest``, or ``none`` for an error.
        enable_auto_commit: whether :meth:`poll` commits now and then what the polls before it have given, as do
            :meth:`close` and giving up a partition.
        auto_commit_interval_ms: how often at most, in milliseconds.
        session_timeout_ms: after how long without a poll a member is taken for dead, in milliseconds.
        clock: seconds that pass, from whenever on.

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
    """

    def __init__(
        self,
        log: Log | str,
        group_id: str | None = None,
        *,
        auto_offset_reset: str = "latest",
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: int = 5_000,
        session_timeout_ms: int = 45_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if auto_offset_reset not in _RESETS:
            raise ConfigurationError(
                f"auto_offset_reset is {auto_offset_reset!r}; expected one of {', '.join(_RESETS)}"
            )
        self._log = Log.open(log)
        self._reset = auto_offset_reset
        self._positions: dict[TopicPartition, int | None] = {}
        self._created: dict[str, int] = {}
        self._paused: set[TopicPartition] = set()
        self._fetched: dict[TopicPartition, list[pa.RecordBatch]] = {}
        self._closed = False

        self._group = group_id
        self._session_timeout = session_timeout_ms / 1000
        self._clock = clock
        self._auto_commit = auto_commit_interval_ms / 1000 if enable_auto_commit and group_id is not None else None
        self._commit_due = clock() + (self._auto_commit or 0)
        self._committed: dict[TopicPartition, int] = {}

        self._topics: tuple[str, ...] = ()
        self._membership: Membership | None = None
        self._on_assign: PartitionsCallback = _ignore
        self._on_revoke: PartitionsCallback = _ignore

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
            self._lose(list(self._positions))
        self._topics = tuple(topics)
        if self._group is not None:
            if self._membership is None:
                self._membership = Membership(self._log.journal, self._group, self._session_timeout, self._clock)
            self._membership.subscribe(self._topics)

    def unsubscribe(self) -> None:
        """Read nothing any more, and leave the group."""
        if self._auto_commit is not None:
            self._commit_consumed()
        leaving = list(self._positions)
        if leaving and self._topics:
            self._on_revoke(leaving)
        self._lose(leaving)
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
        self._positions = {each: self._positions.get(each) for each in wanted}
        self._fetched = {}
        self._remember_topics(wanted)
        self._paused &= set(wanted)

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""
        return list(self._positions)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Give no records of these partitions for now."""
        self._paused |= set(self._assigned(partitions))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Give records of these partitions again."""
        self._paused -= set(self._assigned(partitions))

    # --- positions ---------------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on reading a partition at an offset."""
        self._assigned([partition])
        if offset < 0:
            raise InvalidProgramError(f"{offset} is no offset: they begin at 0")
        self._positions[partition] = offset
        self._fetched.pop(partition, None)

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
        self._assigned([partition])
        position = self._positions[partition]
        if position is None:
            position = self._positions[partition] = self._first_position(partition)
        return position

    def offsets_for_times(self, timestamps: dict[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """For each partition the offset of its first record with a timestamp or a later one; None without such."""
        return {partition: self._log.offset_for_time(partition, at) for partition, at in timestamps.items()}

    def lag(self) -> dict[TopicPartition, int]:
        """How many offsets each partition is ahead."""
        return {each: end - self.position(each) for each, end in self._log.end_offsets(self._positions).items()}

    def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Have the group remember how far it has come.

        Args:
            offsets: of the next records to read; the positions, if left out.

        Raises:
            CommitFailedError: when the group has given a partition to others.
            InvalidProgramError: when the consumer is of no group.
        """
        group = self._needed_group()
        if offsets is None:
            self._log.journal.refresh()
            self._begin_remade_topics()
            offsets = {each: position for each, position in self._positions.items() if position is not None}
        now = self._log.journal.clock()
        committed = {partition: CommittedOffset(offset, "", now) for partition, offset in offsets.items()}
        if not committed:
            return
        if self._membership is not None:
            self._membership.commit(committed, self._created)
        else:
            commit_without_members(self._log.journal, group, committed, self._created)
        self._committed.update(offsets)

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """How far the group has come in partitions; None where nothing was committed.

        Raises:
            InvalidProgramError: when the consumer is of no group.
        """
        found = self._log.committed(self._needed_group())
        return {each: found[each].offset if each in found else None for each in partitions}

    # --- records -----------------------------------------------------------------------------------------------------

    def poll(self, timeout: float = 0.0, max_records: int = 500) -> list[ConsumerRecord]:
        """The next records.

        Args:
            timeout: how long to wait for the first, in seconds.
            max_records: how many at most.

        Raises:
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
        if len(found) == 1:
            return found[0]
        table = pa.Table.from_batches(found).unify_dictionaries().combine_chunks()
        return table.to_batches()[0]

    def close(self) -> None:
        """Commit how far it has come, if it does so by itself, and leave the group; closing it again does nothing.

        Raises:
            OSError: when that cannot be committed.
        """
        if not self._closed:
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
        if max_records < 1:
            raise InvalidProgramError(f"at least one record has to be asked for, not {max_records}")
        until = time.monotonic() + timeout
        while True:
            version = self._log.journal.refresh()
            self._begin_remade_topics()
            self._keep_up()
            found = self._take(max_records)
            left = until - time.monotonic()
            if found or left <= 0:
                return found
            self._log.journal.wait(version, min(left, self._membership.interval if self._membership else left))

    def _keep_up(self) -> None:
        """Commit what was consumed, if it is time to, and see which partitions come and go."""
        if self._auto_commit is not None and self._clock() >= self._commit_due:
            with contextlib.suppress(CommitFailedError):  # what is lost is taken away below
                self._commit_consumed()
            self._commit_due = self._clock() + self._auto_commit
        if self._membership is not None:
            self._keep_up_with_group(self._membership)
        elif self._topics:
            with self._log.journal.lock:
                counts = self._log.journal.state().partition_counts()
            wanted = [TopicPartition(topic, n) for topic in self._topics for n in range(counts.get(topic, 0))]
            existing = set(wanted)
            self._lose([each for each in self._positions if each not in existing])
            known = {each.topic for each in self._positions}
            self._gain([each for each in wanted if each not in self._positions], known)

    def _keep_up_with_group(self, membership: Membership) -> None:
        member = membership.keep_up()
        if member is None:  # taken for dead
            lost = list(self._positions)
            if lost:
                self._on_revoke(lost)
            self._lose(lost)
            membership.subscribe(self._topics)
            member = membership.member() or Member(())
        target = set(member.target)
        leaving = [each for each in self._positions if each not in target]
        if leaving:
            self._on_revoke(leaving)
        if set(member.owned) - target:
            positions = self._consumed() if self._auto_commit is not None else {}
            now = self._log.journal.clock()
            given_up = {each: positions[each] for each in leaving if each in positions}
            membership.release({each: CommittedOffset(at, "", now) for each, at in given_up.items()})
            member = membership.member() or Member(())
        owned = set(member.owned)
        self._lose([each for each in self._positions if each not in owned])
        self._gain([each for each in member.owned if each not in self._positions], set())

    def _remember_topics(self, partitions: Iterable[TopicPartition]) -> None:
        """Remember which topics positions are of."""
        with self._log.journal.lock:
            topics = self._log.journal.state().topics
            for name in {each.topic for each in partitions} & set(topics):
                self._created.setdefault(name, topics[name].created)

    def _begin_remade_topics(self) -> None:
        """Read topics from their beginning that were deleted and made again; positions are of the ones before."""
        with self._log.journal.lock:
            topics = self._log.journal.state().topics
            created = {topic: topics[topic].created for topic in self._created if topic in topics}
        remade = {topic for topic, version in created.items() if self._created[topic] != version}
        self._created |= created
        for each in [each for each in self._positions if each.topic in remade] if remade else ():
            self._positions[each] = 0
            self._fetched.pop(each, None)
            self._committed.pop(each, None)

    def _gain(self, partitions: list[TopicPartition], known_topics: set[str]) -> None:
        """Begin with partitions, where the group has come to."""
        if not partitions:
            return
        self._remember_topics(partitions)
        committed = self._log.committed(self._group) if self._group is not None else {}
        for each in partitions:
            if each in committed:
                self._positions[each] = committed[each].offset
                self._committed[each] = committed[each].offset
            else:
                self._positions[each] = 0 if each.topic in known_topics else None
        if self._membership is not None and self._reset == "latest":
            # Who takes over from a member that has died before its first commit has to begin where that began.
            self.commit({each: self.position(each) for each in partitions if each not in committed})
        self._on_assign(partitions)

    def _lose(self, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            del self._positions[each]
            self._fetched.pop(each, None)
            self._committed.pop(each, None)
            self._paused.discard(each)

    def _consumed(self) -> dict[TopicPartition, int]:
        """The positions that were not committed yet."""
        positions = {each: position for each, position in self._positions.items() if position is not None}
        return {each: position for each, position in positions.items() if self._committed.get(each) != position}

    def _commit_consumed(self) -> None:
        consumed = self._consumed()
        if consumed:
            self.commit(consumed)

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidProgramError("the consumer is closed")

    def _needed_group(self) -> str:
        if self._group is None:
            raise InvalidProgramError("offsets are committed for a group: Consumer(log, group_id=…)")
        return self._group

    def _take(self, max_records: int) -> list[tuple[TopicPartition, pa.RecordBatch]]:
        """The next records of partitions in turn, as far as this process knows the log."""
        found = []
        for partition in list(self._positions):
            if max_records <= 0:
                break
            if partition in self._paused:
                continue
            batches = self._next(partition, max_records)
            if not batches:
                continue
            found += [(partition, batch) for batch in batches]
            max_records -= sum(batch.num_rows for batch in batches)
            del self._positions[partition]  # others have their turn first next time
            self._positions[partition] = batches[-1].column("offset")[-1].as_py() + 1
        return found

    def _next(self, partition: TopicPartition, count: int) -> list[pa.RecordBatch]:
        """The next records of a partition, of those that were fetched together."""
        waiting = self._fetched.pop(partition, None) or self._fetch(partition)
        taken: list[pa.RecordBatch] = []
        for number, batch in enumerate(waiting):
            taken.append(batch.slice(0, count))
            count -= taken[-1].num_rows
            if not count:
                rest = batch.slice(taken[-1].num_rows)
                self._fetched[partition] = [*([rest] if rest.num_rows else []), *waiting[number + 1 :]]
                break
        return taken

    def _fetch(self, partition: TopicPartition) -> list[pa.RecordBatch]:
        position = self.position(partition)
        try:
            fetched = self._log.fetch(partition, position, max_bytes=_FETCH_BYTES)
        except OffsetOutOfRangeError:
            if self._reset == "none":
                raise
            self._positions[partition] = self._reset_offset(partition)
            return []
        if not fetched.batches and fetched.next_offset > position:  # all there was has been superseded
            self._positions[partition] = fetched.next_offset
            return self._fetch(partition)
        return list(fetched.batches)

    def _first_position(self, partition: TopicPartition) -> int:
        if self._group is not None:
            committed = self._log.committed(self._group).get(partition)
            if committed is not None:
                return committed.offset
        return self._reset_offset(partition)

    def _reset_offset(self, partition: TopicPartition) -> int:
        if self._reset == "none":
            raise OffsetOutOfRangeError(
                f"{partition} has no position: seek to one, or let auto_offset_reset be earliest or latest"
            )
        find = self._log.beginning_offsets if self._reset == "earliest" else self._log.end_offsets
        return find([partition])[partition]

    def _named(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        return self._assigned(partitions) or list(self._positions)

    def _assigned(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        found = list(partitions)
        for each in found:
            if each not in self._positions:
                raise InvalidProgramError(f"{each} is not assigned to this consumer")
        return found


def _ignore(partitions: list[TopicPartition]) -> None:
    """What is called when nobody wants to know."""
