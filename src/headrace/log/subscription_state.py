"""``SubscriptionState``: which partitions a consumer reads, and how far it has come in each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headrace.common.errors import ConfigurationError, InvalidProgramError, OffsetOutOfRangeError
from headrace.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from headrace.log.log import Log

_RESETS: Final = ("earliest", "latest", "none")

PartitionsCallback = Callable[[list[TopicPartition]], None]


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


class SubscriptionState:
    """What a consumer has subscribed to or was assigned, and where it is.

    Args:
        log: the log.
        group: the group whose offsets are where to begin.
        reset: where to begin without one.

    Attributes:
        topics: what was subscribed to.
        partitions: what is read; those whose turn is first come first.
        created: with which versions of the log the topics came that positions are of.
        on_assign: is called with partitions that have come.
        on_revoke: is called with partitions that go.

    Raises:
        ConfigurationError: when ``reset`` is none of those that there are.
    """

    def __init__(self, log: Log, group: str | None, reset: str) -> None:
        if reset not in _RESETS:
            raise ConfigurationError(f"auto_offset_reset is {reset!r}; expected one of {', '.join(_RESETS)}")
        self.topics: tuple[str, ...] = ()
        self.partitions: dict[TopicPartition, PartitionState] = {}
        self.created: dict[str, int] = {}
        self.on_assign: PartitionsCallback = ignore
        self.on_revoke: PartitionsCallback = ignore
        self.reset = reset
        self._log = log
        self._group = group

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, and no others."""
        self.partitions = {each: self.partitions.get(each, PartitionState()) for each in partitions}
        self._remember_topics()

    def gain(self, positions: dict[TopicPartition, int | None], committed: dict[TopicPartition, int]) -> None:
        """Read some more partitions.

        Args:
            positions: where to begin in each.
            committed: what was committed of them.
        """
        for each, position in positions.items():
            self.partitions[each] = PartitionState(position, committed.get(each))
        self._remember_topics()

    def lose(self, partitions: Iterable[TopicPartition]) -> None:
        """Read some partitions no more."""
        for each in partitions:
            del self.partitions[each]

    def checked(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Partitions, if all of them are read.

        Raises:
            InvalidProgramError: when one is not.
        """
        found = list(partitions)
        for each in found:
            if each not in self.partitions:
                raise InvalidProgramError(f"{each} is not assigned to this consumer")
        return found

    def pause(self, partitions: Iterable[TopicPartition], *, paused: bool) -> None:
        """Give no records of partitions, or give some again."""
        for each in self.checked(partitions):
            self.partitions[each].paused = paused

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on at an offset."""
        self.checked([partition])
        if offset < 0:
            raise InvalidProgramError(f"{offset} is no offset: they begin at 0")
        self.partitions[partition].position = offset

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record to be given.

        Raises:
            OffsetOutOfRangeError: when there is none, and that was said to be an error.
        """
        self.checked([partition])
        state = self.partitions[partition]
        if state.position is None:
            state.position = self._first_position(partition)
        return state.position

    def positions(self) -> dict[TopicPartition, int]:
        """Of all partitions that have one."""
        return {each: state.position for each, state in self.partitions.items() if state.position is not None}

    def uncommitted(self) -> dict[TopicPartition, int]:
        """The positions that were not committed yet."""
        return {each: at for each, at in self.positions().items() if self.partitions[each].committed != at}

    def reset_offset(self, partition: TopicPartition) -> int:
        """Where to begin in a partition without a position.

        Raises:
            OffsetOutOfRangeError: when that was said to be an error.
        """
        if self.reset == "none":
            raise OffsetOutOfRangeError(
                f"{partition} has no position: seek to one, or let auto_offset_reset be earliest or latest"
            )
        find = self._log.beginning_offsets if self.reset == "earliest" else self._log.end_offsets
        return find([partition])[partition]

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

    def _first_position(self, partition: TopicPartition) -> int:
        if self._group is not None:
            committed = self._log.committed(self._group).get(partition)
            if committed is not None:
                return committed.offset
        return self.reset_offset(partition)

    def _remember_topics(self) -> None:
        """Remember which topics positions are of."""
        with self._log.journal.lock:
            topics = self._log.journal.state().topics
            for name in {each.topic for each in self.partitions} & set(topics):
                self.created.setdefault(name, topics[name].created)


def ignore(partitions: list[TopicPartition]) -> None:
    """What is called when nobody wants to know."""
