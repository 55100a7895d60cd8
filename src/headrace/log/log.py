"""A log: topics, their partitions, what is in them, and the maintenance that runs beside its users."""

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.errors import LogCorruptedError, LogError, OffsetOutOfRangeError, TopicExistsError
from headrace.common.logs import get_logger
from headrace.common.messages import TopicPartition
from headrace.log.commits import Commit, LogState, TopicConfig, checked_partitions, checked_topic
from headrace.log.groups import Group
from headrace.log.journal import CHUNKS, Journal, make_log
from headrace.log.maintenance import Maintained, maintain, maintain_in_turn
from headrace.log.records import POLLED, Segment, with_partition
from headrace.storage.folder import Folder
from headrace.storage.locations import open_storage

logger = get_logger(__name__)


class BackgroundRounds:
    """Runs background work by name: one round of a name at a time; a request during a round runs next.

    A thread comes with the first round and goes with the last. The interpreter waits for it at its end; a process that
    is killed may leave a round half done.
    """

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def request(self, name: str, work: Callable[[], None]) -> None:
        """Request a round of work.

        Args:
            name: what it is about.
            work: the round. Of several that are requested while one is under way the last is done.
        """
        with self._lock:
            is_running = name in self._threads
            self._waiting[name] = work
            if is_running:
                return
            thread = threading.Thread(target=self._run, args=(name,), name=f"headrace-rounds {name}")
            try:
                thread.start()
            except RuntimeError:  # the interpreter ends: another process has to do it
                del self._waiting[name]
            else:
                self._threads[name] = thread

    def wait(self, name: str) -> None:
        """Wait until no round of a name is running."""
        with self._lock:
            thread = self._threads.get(name)
        if thread is not None:
            thread.join()

    def _run(self, name: str) -> None:
        while True:
            with self._lock:
                work = self._waiting.pop(name, None)
                if work is None:
                    del self._threads[name]
                    return
            try:
                work()
            except Exception:
                logger.exception("%s: what is done in the background has failed", name)

    def _forget(self) -> None:
        """Start with no threads, as a fork has none of its parent's."""
        self._lock = threading.Lock()
        self._threads = dict[str, threading.Thread]()
        self._waiting = dict[str, "Callable[[], None]"]()


MAINTENANCE: Final = BackgroundRounds()
"""The maintenance of logs by location: a process does one round of each at a time, however often it has opened it."""


_SEGMENTS_AT_ONCE: Final = 1000

_TRIES: Final = 20
"""The number of tries to find records that are merged into others meanwhile."""


class Log:
    """A log of partitioned topics. All threads of a process can use one; every process has its own.

    Args:
        folder: where it is.
        clock: returns the time in milliseconds.
        in_background: whether a thread does the maintenance that is due after some hundred commits; else the one that
            makes the last of these does it at once.

    Attributes:
        journal: its commits.

    Raises:
        LogError: when there is no log.
        OSError: when the folder cannot be read.

    Examples:
        >>> from headrace.log import Log, Producer
        >>> log = Log.open("orders.log", create=True)
        >>> log.create_topic("orders", partitions=2, config={"retention.ms": "7 days"})
        >>> log.topics()
        {'orders': 2}
        >>> with Producer(log) as producer:
        ...     for customer in [b"ann", b"bob", b"ann"]:
        ...         _ = producer.send("orders", b"1 book", key=customer)
        >>> log.read("orders").read_all().column("key").to_pylist()
        [b'ann', b'bob', b'ann']
    """

    def __init__(self, folder: Folder, clock: Callable[[], int] | None = None, *, in_background: bool = False) -> None:
        self._in_background = in_background
        self.journal = Journal(folder, clock or _system_clock, self._maintain_in_turn)

    @classmethod
    def open(cls, location: "str | Log", *, create: bool = False, options: Mapping[str, str] | None = None) -> "Log":
        """The log at a location.

        Args:
            location: a path, or the URI of a folder on an object store or HDFS; a log is given back as it is.
            create: whether to make one where there is none.
            options: how to reach the store, by the names of ``headrace.storage.``'s options.

        Raises:
            LogError: when there is none.
            CheckpointStorageError: when the location cannot be one.
        """
        if isinstance(location, Log):
            return location
        if not str(location).strip():
            raise LogError("the path of the log is empty (was it to come from a variable that is not set?)")
        folder = open_storage(str(location), options=options)
        if create:
            make_log(folder)
        return cls(folder, in_background=True)

    def __str__(self) -> str:
        return str(self.journal)

    @property
    def folder(self) -> Folder:
        """The folder of the log; another process makes its own log of it."""
        return self.journal.folder

    def maintain(self, topics: Iterable[str] | None = None, *, fully: bool = False) -> Maintained:
        """Delete records by time and size, compact and merge them, and remove files that are not needed.

        After some hundred commits a thread of the process that makes the next one does so by itself.

        Args:
            topics: which; all if left out.
            fully: whether to merge and compact all there is; otherwise what is worth it.

        Raises:
            LogCorruptedError: when a file is damaged.
            OSError: when a file cannot be read or written.
        """
        return maintain(self.journal, topics, fully=fully)

    def _maintain_in_turn(self) -> None:
        if self._in_background:
            MAINTENANCE.request(str(self), partial(maintain_in_turn, self.journal))
        else:
            maintain_in_turn(self.journal)

    # --- topics ------------------------------------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, object] | None = None) -> None:
        """Make a topic.

        Args:
            name: ASCII letters, digits, dots, hyphens and underscores.
            partitions: how many it has; records of one partition keep their order.
            config: settings by Kafka's names, see :class:`TopicConfig`.

        Raises:
            TopicExistsError: when there is such a topic.
            ConfigurationError: when it cannot be as requested.
        """
        described = checked_partitions(partitions), TopicConfig().with_settings(config or {})
        checked_topic(name)

        def describe(commit: Commit, state: LogState) -> Commit:
            if name in state.topics:
                raise TopicExistsError(f"{self} has a topic {name!r} already")
            return replace(commit, topics={name: described})

        self.journal.change(describe)

    def alter_topic(self, name: str, config: Mapping[str, object] | None = None, partitions: int | None = None) -> None:
        """Change settings of a topic, or give it more partitions.

        Args:
            name: the topic.
            config: settings that change.
            partitions: how many it is to have; keys go to other partitions then.

        Raises:
            UnknownTopicError: when there is no such topic.
            ConfigurationError: when a setting is malformed.
            LogError: when there are to be fewer partitions.
        """

        def describe(commit: Commit, state: LogState) -> Commit:
            topic = state.topic(name)
            count = len(topic.partitions) if partitions is None else checked_partitions(partitions)
            if count < len(topic.partitions):
                raise LogError(f"topic {name!r} has {len(topic.partitions)} partitions, and cannot have fewer: {count}")
            described = count, topic.config.with_settings(config or {})
            return replace(commit, topics={name: described})

        self.journal.change(describe)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all its records, and what groups have committed of it.

        Raises:
            UnknownTopicError: when there is no such topic.
        """
        with self.journal.lock:

            def describe(commit: Commit, state: LogState) -> Commit:
                state.topic(name)
                groups = {group: each.without(name) for group, each in state.groups.items()}
                changed = {group: each for group, each in groups.items() if each is not state.groups[group]}
                return replace(commit, topics={name: None}, groups=changed)

            self.journal.refresh()
            before = self.journal.state().files()
            self.journal.change(describe)
            self.journal.chunks.remove_all(
                sorted(each for each in before - self.journal.state().files() if each.endswith(CHUNKS))
            )

    def topics(self) -> dict[str, int]:
        """Return how many partitions each topic has."""
        return self.journal.look(lambda state: state.partition_counts())

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic.

        Raises:
            UnknownTopicError: when there is no such topic.
        """
        count = self.journal.look(lambda state: len(state.topic(topic).partitions))
        return [TopicPartition(topic, number) for number in range(count)]

    # --- offsets -----------------------------------------------------------------------------------------------------

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset that each partition still has."""
        return self.journal.look(lambda state: {each: state.partition(each).start_offset for each in partitions})

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset of the next record of each partition."""
        return self.journal.look(lambda state: {each: state.partition(each).end_offset for each in partitions})

    def offset_for_time(self, partition: TopicPartition, timestamp: int) -> int | None:
        """The offset of the first record of a partition with a timestamp or a later one.

        Args:
            partition: the partition.
            timestamp: in milliseconds.

        Returns:
            None when there is no such record.
        """
        self.journal.refresh()
        for _ in range(_TRIES):
            with self.journal.lock:
                found = self.journal.state().partition(partition)
                segments, start = found.from_timestamp(timestamp), found.start_offset
            try:
                return self._first_at(segments, start, timestamp)
            except FileNotFoundError:
                self.journal.refresh()
        raise self._vanishing(partition)

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """Return how far a group has come; empty for one that there is not."""
        return self.journal.look(lambda state: dict(state.groups.get(group, Group()).offsets))

    def groups(self) -> dict[str, Group]:
        """The consumer groups, by their names."""
        return self.journal.look(lambda state: dict(state.groups))

    def delete_group(self, name: str) -> None:
        """Forget how far a group has come.

        Raises:
            LogError: when there is none, or it has members.
        """

        def describe(commit: Commit, state: LogState) -> Commit:
            found = state.groups.get(name)
            if found is None:
                there = ", ".join(sorted(state.groups)[:20]) or "none at all"
                raise LogError(f"{self} has no group {name!r}; there is {there}")
            if found.members:
                raise LogError(f"group {name!r} has {len(found.members)} members: they have to be closed first")
            return replace(commit, groups={name: None})

        self.journal.change(describe)

    # --- reading -----------------------------------------------------------------------------------------------------

    def fetch(
        self, partition: TopicPartition, offset: int, end: int | None = None, max_bytes: int = 16 << 20
    ) -> tuple[list[pa.RecordBatch], int]:
        """Records of a partition, as far as this process has taken in what was committed.

        Args:
            partition: the partition.
            offset: where to begin.
            end: the offset to stop before; all that there are when left out.
            max_bytes: after how many bytes of keys and values to stop; at least one segment is read.

        Returns:
            The records, and the offset behind them; of some before that offset there may be nothing left.

        Raises:
            OffsetOutOfRangeError: when the offset is none of the partition's: too old, or not there yet.
            LogCorruptedError: when a file is damaged.
            OSError: when a file cannot be read.
        """
        for _ in range(_TRIES):
            segments, behind = self._segments(partition, offset, end, max_bytes)
            try:
                batches = [_within(batch, offset, end) for batch in self.journal.segments.read(segments)]
            except FileNotFoundError:  # merged with others since, or deleted
                self.journal.refresh()
                continue
            return [batch for batch in batches if batch.num_rows], behind
        raise self._vanishing(partition)

    def read(self, topic: str) -> pa.RecordBatchReader:
        """All records that a topic has now, partition by partition, as they are taken: for DuckDB, say.

        Returns:
            Batches with the columns topic, partition, offset, timestamp, key, value and headers.

        Raises:
            UnknownTopicError: when there is no such topic.
        """
        ends = self.end_offsets(self.partitions_of(topic))
        return pa.RecordBatchReader.from_batches(POLLED, self._batches(ends))

    # --- inside ------------------------------------------------------------------------------------------------------

    def _segments(
        self, partition: TopicPartition, offset: int, end: int | None, max_bytes: int
    ) -> tuple[list[Segment], int]:
        """The segments to read, and the offset behind them."""
        with self.journal.lock:
            found = self.journal.state().partition(partition)
            if not found.start_offset <= offset <= found.end_offset:
                raise OffsetOutOfRangeError(
                    f"{self}: {partition} has offsets {found.start_offset} to {found.end_offset}, not {offset}"
                )
            stop = found.end_offset if end is None else max(offset, min(end, found.end_offset))
            chosen: list[Segment] = []
            size = 0
            for segment in found.from_offset(offset, _SEGMENTS_AT_ONCE):
                if segment.base_offset >= stop:
                    break
                if chosen and size >= max_bytes:
                    return chosen, chosen[-1].end_offset
                chosen.append(segment)
                size += segment.raw_bytes
            is_cut = len(chosen) == _SEGMENTS_AT_ONCE
            return chosen, min(chosen[-1].end_offset, stop) if is_cut else stop

    def _batches(self, ends: Mapping[TopicPartition, int]) -> Iterator[pa.RecordBatch]:
        for partition, end in ends.items():
            offset = self.beginning_offsets([partition])[partition]
            while offset < end:
                batches, offset = self.fetch(partition, offset, end)
                yield from (with_partition(partition, batch) for batch in batches)

    def _first_at(self, segments: list[Segment], start: int, timestamp: int) -> int | None:
        for segment in segments:
            batch = _within(next(self.journal.segments.read([segment])), start, None)
            times = batch.column("timestamp").cast(pa.int64())
            found = pc.index(pc.greater_equal(times, timestamp), True).as_py()
            if found >= 0:
                return int(batch.column("offset")[found].as_py())
        return None

    def _vanishing(self, partition: TopicPartition) -> LogError:
        """The error for files that are missing and not superseded."""
        return LogCorruptedError(f"{self}: a file of {partition} is missing, and nothing has taken its place")


def _within(batch: pa.RecordBatch, offset: int, end: int | None) -> pa.RecordBatch:
    """Cut a batch to certain offsets."""
    offsets = batch.column(0).to_numpy()
    first = int(offsets.searchsorted(offset))
    last = len(offsets) if end is None else int(offsets.searchsorted(end))
    return batch if last - first == batch.num_rows else batch.slice(first, max(last - first, 0))


def _system_clock() -> int:
    return time.time_ns() // 1_000_000
