"""What the driver asks an embedded log: topics, partitions, offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.common.errors import CommitFailedError, SourceChangedError, UnknownTopicError
from headrace.common.logs import get_logger
from headrace.connectors.partitions.partitioned_log import PartitionedLog
from headrace.log.groups import CommittedOffset
from headrace.log.membership import commit_without_members

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from headrace.common.topic_partition import TopicPartition
    from headrace.log.groups import Group
    from headrace.log.log import Log

logger = get_logger(__name__)


class EmbeddedPartitionedLog(PartitionedLog):
    """An embedded log as an enumerator sees it.

    Args:
        log: the log.
        group: the consumer group that is told how far the job has come; None for none.
    """

    def __init__(self, log: Log, group: str | None) -> None:
        self._log = log
        self._group = group
        self._committed: dict[TopicPartition, int] = {}
        self._created: dict[str, int] = {}

    def topics(self) -> dict[str, int]:
        return self._log.topics()

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        with self._log.journal.lock:
            state = self._log.journal.state()
            self._created = {name: state.topic(name).created for name in topics}
        return {name: str(created) for name, created in self._created.items()}

    def earliest(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return _asked(self._log.beginning_offsets, partitions)

    def latest(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return _asked(self._log.end_offsets, partitions)

    def at_timestamp(self, partitions: Sequence[TopicPartition], millis: int) -> dict[TopicPartition, int]:
        found = {each: self._log.offset_for_time(each, millis) for each in partitions}
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        known = {} if self._group is None else self._log.committed(self._group)
        return {each: known[each].offset for each in partitions if each in known}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        if self._group is None or offsets == self._committed:
            return
        now = self._log.journal.clock()
        found = {each: CommittedOffset(offset, now) for each, offset in offsets.items()}
        try:
            commit_without_members(
                self._log.journal, self._group, found, self._created, lambda group: self._check_alone(group, offsets)
            )
            self._committed = dict(offsets)
        except (CommitFailedError, OSError) as error:
            logger.warning("the offsets of group %s were not committed: %s", self._group, error)
            self._committed = {}

    def _check_alone(self, group: Group, offsets: Mapping[TopicPartition, int]) -> None:
        """Check that no other process has committed further offsets of the group.

        A job manager that stood still learns only from its next manifest that another one has taken its place.

        Raises:
            CommitFailedError: when it has.
        """
        for each, offset in offsets.items() if self._committed else ():
            there = group.offsets[each].offset if each in group.offsets else 0
            if there > offset and there != self._committed.get(each):
                raise CommitFailedError(f"another process has committed {there} of {each}; this job is at {offset}")


def _asked(
    ask: Callable[[Iterable[TopicPartition]], Mapping[TopicPartition, int]], partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    try:
        found = ask(partitions)
    except UnknownTopicError as error:
        raise SourceChangedError(
            f"{error}. Take it from the source, or make it again and start the job without its checkpoints"
        ) from error
    return dict(found)
