"""The fetcher of a consumer: positions in the partitions that it reads, and their next records."""

from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from headrace.common.errors import OffsetOutOfRangeError
from headrace.common.messages import TopicPartition
from headrace.log.log import Log

_FETCH_BYTES: Final = 16 << 20

_POLL_BYTES: Final = 256 << 20
"""With so much no other partition has its turn: a column of a batch has 2 GiB at most, and one record may have half."""


@dataclass(slots=True)
class PartitionState:
    """A partition that is read.

    Attributes:
        position: the offset of the next record to be given; None before it was looked for.
        committed: what was committed of it last.
        paused: whether no records are given for now.
        fetched: records that were fetched with others, and not given yet.
        fetched_from: the position at which these follow.
    """

    position: int | None = None
    committed: int | None = None
    paused: bool = False
    fetched: list[pa.RecordBatch] = field(default_factory=list)
    fetched_from: int = 0


class Fetcher:
    """Fetches the records of a consumer's partitions in turn, and knows its position in each.

    Args:
        log: the log.
        group_id: the group whose committed offsets are the first positions; None without a group.
        reset: where to begin without a position: ``earliest``, ``latest``, or ``none`` for an error.

    Attributes:
        partitions: the assigned partitions, in the order of their turns.
        created: the versions of the log in which the topics were created that positions are of.
    """

    def __init__(self, log: Log, group_id: str | None, reset: str) -> None:
        self.partitions: dict[TopicPartition, PartitionState] = {}
        self.created: dict[str, int] = {}
        self._log = log
        self._group = group_id
        self._reset = reset

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record to be given of a partition.

        Raises:
            OffsetOutOfRangeError: when there is none, and ``reset`` is ``none``.
        """
        state = self.partitions[partition]
        if state.position is None:
            committed = self._log.committed(self._group).get(partition) if self._group is not None else None
            state.position = self._reset_offset(partition) if committed is None else committed
        return state.position

    def positions(self) -> dict[TopicPartition, int]:
        """The positions of the partitions that have one."""
        return {each: state.position for each, state in self.partitions.items() if state.position is not None}

    def uncommitted(self) -> dict[TopicPartition, int]:
        """The positions that have not been committed."""
        return {each: at for each, at in self.positions().items() if self.partitions[each].committed != at}

    def begin_remade_topics(self) -> None:
        """Read topics from their beginning that were deleted and made again; positions are of the ones before."""
        with self._log.journal.lock:
            topics = self._log.journal.state().topics
            created = {topic: topics[topic].created for topic in self.created if topic in topics}
        remade = {topic for topic, version in created.items() if self.created[topic] != version}
        self.created |= created
        for each, state in self.partitions.items():
            if each.topic in remade:
                self.partitions[each] = PartitionState(position=0, paused=state.paused)

    def remember_topics(self) -> None:
        """Remember the versions of the log in which the topics were created that positions are of."""
        with self._log.journal.lock:
            topics = self._log.journal.state().topics
            for name in {each.topic for each in self.partitions} & set(topics):
                self.created.setdefault(name, topics[name].created)

    def take(self, max_records: int) -> list[tuple[TopicPartition, pa.RecordBatch]]:
        """The next records of partitions in turn, as far as this process knows the log; few enough for one batch.

        Raises:
            OffsetOutOfRangeError: when a position was deleted, and ``reset`` is ``none``.
            LogCorruptedError: when a file is damaged.
            OSError: when a file cannot be read.
        """
        found = []
        size = 0
        partitions = self.partitions
        for partition in [each for each, state in partitions.items() if not state.paused]:
            if max_records <= 0 or size >= _POLL_BYTES:
                break
            batches = self._next(partition, max_records)
            if batches:
                found += [(partition, batch) for batch in batches]
                max_records -= sum(batch.num_rows for batch in batches)
                size += sum(batch.nbytes for batch in batches)
                partitions[partition] = partitions.pop(partition)  # others have their turn first next time
        return found

    # --- inside ------------------------------------------------------------------------------------------------------

    def _next(self, partition: TopicPartition, count: int) -> list[pa.RecordBatch]:
        """The next records of a partition, at first those that an earlier fetch left."""
        position = self.position(partition)
        state = self.partitions[partition]
        waiting, state.fetched = state.fetched, []
        if not waiting or state.fetched_from != position:
            waiting = self._fetch(partition)
        taken: list[pa.RecordBatch] = []
        for number, batch in enumerate(waiting):
            taken.append(batch.slice(0, count))
            count -= taken[-1].num_rows
            if not count:
                rest = batch.slice(taken[-1].num_rows)
                state.fetched = [*([rest] if rest.num_rows else []), *waiting[number + 1 :]]
                break
        if taken:
            state.position = state.fetched_from = taken[-1].column("offset")[-1].as_py() + 1
        return taken

    def _fetch(self, partition: TopicPartition) -> list[pa.RecordBatch]:
        while True:
            position = self.position(partition)
            state = self.partitions[partition]
            try:
                batches, behind = self._log.fetch(partition, position, max_bytes=_FETCH_BYTES)
            except OffsetOutOfRangeError:
                if self._reset == "none":
                    raise
                state.position = self._reset_offset(partition)
                return []
            if batches or behind <= position:
                return batches
            state.position = behind  # all there was has been superseded

    def _reset_offset(self, partition: TopicPartition) -> int:
        """The offset at which to begin in a partition without a position.

        Raises:
            OffsetOutOfRangeError: when ``reset`` is ``none``.
        """
        if self._reset == "none":
            raise OffsetOutOfRangeError(
                f"{partition} has no position: seek to one, or let auto_offset_reset be earliest or latest"
            )
        find = self._log.beginning_offsets if self._reset == "earliest" else self._log.end_offsets
        return find([partition])[partition]
