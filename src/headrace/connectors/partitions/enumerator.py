"""The driver's half of a source of topics: finds partitions and gives each epoch a fixed range of offsets of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.common.errors import SourceChangedError
from headrace.common.logs import get_logger
from headrace.common.topic_partition import TopicPartition
from headrace.connectors.partitions.offsets import OffsetsInitializer
from headrace.connectors.partitions.subscription import topic_made_again
from headrace.connectors.ranges import pending_numbers, share
from headrace.connectors.source import SplitEnumerator, SplitRead

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from headrace.connectors.partitions.subscription import PartitionedLog, Subscription
    from headrace.connectors.source import Json, Pending, ReadBudget

_RECORD_BYTES: Final = 256
"""What a record is guessed to take: nobody tells."""

DISCOVERY_MILLIS: Final = 300_000
"""How often to look for new partitions, unless the program says otherwise; Flink's value."""

logger = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ReadingPlan:
    """What a source reads.

    Attributes:
        subscription: which partitions.
        start: where the partitions that are there at first start; those that come later start at their beginning.
        stop: where they stop, as found when the job first starts; None for never.
        is_bounded: whether the source ends there.
        discovery_interval: after how many milliseconds to look for new partitions; None for never.
        commits: whether the consumer group is told how far the job has come.
        resets_to: where to go on when records were deleted before they were read: ``earliest``, ``latest``; None fails.
    """

    subscription: Subscription
    start: OffsetsInitializer
    stop: OffsetsInitializer | None
    is_bounded: bool
    discovery_interval: int | None
    commits: bool
    resets_to: str | None


class PartitionEnumerator(SplitEnumerator):
    """Plans ranges of offsets; a split is a partition, its position the offset of the next record.

    Args:
        log: what is read.
        plan: what of it.
        state: what :meth:`snapshot` gave.
    """

    def __init__(self, log: PartitionedLog, plan: ReadingPlan, state: Json | None) -> None:
        self._log = log
        self._plan = plan
        self._topic_ids: dict[str, str] = {} if state is None else dict(state["topics"])
        self._stops: dict[str, int] = {} if state is None else dict(state["stops"])
        self._is_first_look = state is None
        self._partitions: dict[str, TopicPartition] = {}
        self._starts: dict[str, int] = {}
        self._ends: dict[str, int] = {}
        self._firsts: dict[str, int] = {}
        self._looked_at: int | None = None

    def discover(self, now: int) -> Sequence[str]:
        if self._is_time_to_look(now):
            self._look()
            self._looked_at = now
        ends = _by_split(self._log.latest(list(self._partitions.values())))
        if ends != self._ends:
            # Only after the ends are known: what is behind them is of the topics that are checked
            self._check_topics(self._partitions.values())
        self._ends = ends
        return list(self._partitions)

    def initial_position(self, split_id: str) -> Json:
        return self._starts[split_id]

    def plan(self, split_id: str, position: Json, budget: ReadBudget, now: int) -> SplitRead | None:
        start, end = self._checked(split_id, position), self._end(split_id, position)
        count = share(start, end, budget, _RECORD_BYTES)
        if count:
            piece = (split_id, start, start + count)  # one task reads a partition
            return SplitRead(split_id, position, start + count, (piece,), count, count * _RECORD_BYTES)
        return SplitRead(split_id, position, end, ()) if position < end else None  # all of it was deleted

    def is_finished(self, split_id: str, position: Json) -> bool:
        stop = self._stops.get(split_id)
        return stop is not None and position >= stop

    def is_complete(self) -> bool:
        return self._plan.is_bounded or self._plan.discovery_interval is None

    def pending(self, split_id: str, position: Json, now: int) -> Pending:
        return pending_numbers(position, self._end(split_id, position), _RECORD_BYTES)

    def snapshot(self) -> Json:
        return {"topics": self._topic_ids, "stops": self._stops}

    def checkpoint_completed(self, positions: dict[str, Json]) -> None:
        if self._plan.commits:
            known = self._partitions
            self._log.commit({known.get(at) or TopicPartition.parse(at): offset for at, offset in positions.items()})

    def close(self) -> None:
        self._log.close()

    def _is_time_to_look(self, now: int) -> bool:
        if self._looked_at is None:
            return True
        interval = self._plan.discovery_interval
        return not self.is_complete() and interval is not None and now - self._looked_at >= interval

    def _look(self) -> None:
        """Look which partitions there are, and whether topics are still the same."""
        found = self._plan.subscription.partitions(self._log.topics())
        if not found and self._is_first_look:
            told = "the source ends at once" if self._plan.is_bounded else "nothing is read until there are"
            logger.warning("there are no %s: %s", self._plan.subscription, told)
        self._check_topics(found)
        new = [each for each in found if str(each) not in self._partitions]
        initializer = self._plan.start if self._is_first_look else OffsetsInitializer.earliest()
        self._starts |= _by_split(initializer.resolve(new, self._log))
        self._firsts = _by_split(self._log.earliest(found))
        if self._plan.stop is not None:
            unknown = [each for each in new if str(each) not in self._stops]
            self._stops |= _by_split(self._plan.stop.resolve(unknown, self._log))
        self._partitions |= {str(each): each for each in new}
        self._is_first_look = False

    def _check_topics(self, partitions: Iterable[TopicPartition]) -> None:
        topics = list(dict.fromkeys(each.topic for each in partitions))
        for topic, topic_id in self._log.topic_ids(topics).items():
            known = self._topic_ids.setdefault(topic, topic_id)
            if known != topic_id:
                raise topic_made_again(topic)

    def _end(self, split_id: str, position: int) -> int:
        """Up to where a partition can be read now; it has been read up to there where it was not looked at."""
        end, stop = self._ends.get(split_id, position), self._stops.get(split_id)
        return end if stop is None else min(end, stop)

    def _checked(self, split_id: str, position: int) -> int:
        """Where reading goes on: the position, unless the records there are gone.

        Raises:
            SourceChangedError: when they are, and the program does not say where to go on.
        """
        first, end = self._firsts.get(split_id, position), self._ends.get(split_id, position)
        if end < position:
            raise SourceChangedError(
                f"{split_id} would be read from offset {position}, but ends at {end}: records were lost, it "
                "was made again, or the offset is a wrong one of the program. Start the job without its checkpoints to "
                "read what there is now"
            )
        if position >= first:
            return position
        if self._plan.resets_to is None:
            raise SourceChangedError(
                f"{split_id} would be read from offset {position}, but the first that is left is {first}: the others "
                "were deleted (retention.ms, retention.bytes) before they were read. To go on without them, have "
                "the source reset to the earliest or latest offset ('auto.offset.reset')"
            )
        target = first if self._plan.resets_to == "earliest" else end
        logger.warning("%s: offsets %d to %d were deleted before they were read", split_id, position, first - 1)
        return target


def narrowed_state(state: Json, topics: Collection[str]) -> Json:
    """What a :meth:`PartitionEnumerator.snapshot` says about some topics alone."""
    stops = {split: stop for split, stop in state["stops"].items() if TopicPartition.parse(split).topic in topics}
    return {"topics": {topic: of for topic, of in state["topics"].items() if topic in topics}, "stops": stops}


def _by_split(offsets: dict[TopicPartition, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in offsets.items()}
