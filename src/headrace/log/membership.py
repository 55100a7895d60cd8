"""A consumer's part in its group: joining, heartbeats, taking over and giving up partitions.

A group has no coordinator: it is a value in the journal, and each member changes it when it sees a reason to. That a
member is gone is told by its heartbeat, a number in a file, which has not changed for the session timeout by the clock
of whoever looks. So clocks need not agree, and one that jumps ends nobody's membership but by its own judgement. Who is
taken for dead and is not finds out before it reads on or commits anything.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headrace.common.errors import CommitFailedError
from headrace.log.groups import CommittedOffset, Group, Member

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.common.topic_partition import TopicPartition
    from headrace.log.commits import Commit
    from headrace.log.journal import Journal
    from headrace.log.state import LogState

_BEATS_A_SESSION: Final = 3


class Membership:
    """A member of a consumer group.

    Args:
        journal: of the log.
        group: the group's name.
        session_timeout: after how many seconds without a heartbeat a member is taken for dead.
        clock: seconds that pass, from whenever on.

    Attributes:
        member_id: nobody else has it.
        interval: how often to call :meth:`keep_up`, in seconds.
    """

    def __init__(
        self, journal: Journal, group: str, session_timeout: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.member_id = uuid.uuid4().hex
        self.interval = session_timeout / _BEATS_A_SESSION
        self._journal = journal
        self._group = group
        self._timeout = session_timeout
        self._clock = clock
        self._topics: tuple[str, ...] = ()
        self._beats = 0
        self._due = clock()
        self._seen: dict[str, tuple[int, float]] = {}

    def subscribe(self, topics: Iterable[str]) -> None:
        """Say which topics to read; joins the group if this is no member yet."""
        self._topics = tuple(sorted(set(topics)))
        self._beat()
        self._change(lambda group, partitions: group.joined(self.member_id, self._topics, partitions))
        self._expire()

    def keep_up(self) -> Member | None:
        """Show that this member lives, and see whether the others do.

        Returns:
            What is known of this member; None when the others have taken it for dead.
        """
        if self._clock() >= self._due:
            self._beat()
            self._expire()
        with self._journal.lock:
            group = self._journal.state().groups.get(self._group, Group())
            partitions = self._journal.state().partition_counts()
        if not group.is_assigned(partitions) and self.member_id in group.members:
            self._change(lambda group, partitions: group.rebalanced(partitions))
            return self.member()
        return group.members.get(self.member_id)

    def member(self) -> Member | None:
        """What is known of this member; None when it is none."""
        with self._journal.lock:
            return self._journal.state().groups.get(self._group, Group()).members.get(self.member_id)

    def release(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Give up what others are to read.

        Args:
            offsets: how far it has been read.
        """

        def released(group: Group, _: Mapping[str, int]) -> Group:
            if self.member_id not in group.members:
                return group
            owned = set(group.members[self.member_id].owned)
            mine = {partition: offset for partition, offset in offsets.items() if partition in owned}
            return group.committed(mine).released(self.member_id)

        self._change(released)

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset], created: Mapping[str, int]) -> None:
        """Commit offsets of partitions that this member owns.

        Args:
            offsets: of the next records to read.
            created: with which versions the topics have come that these are of; see :func:`of_these_topics`.

        Raises:
            CommitFailedError: when others own one of them by now.
        """

        def describe(commit: Commit, state: LogState) -> Commit:
            member = state.groups.get(self._group, Group()).members.get(self.member_id)
            owned = set() if member is None else set(member.owned)
            wanted = of_these_topics(offsets, created, state)
            lost = [each for each in wanted if each not in owned]
            if lost:
                raise CommitFailedError(
                    f"group {self._group!r} has given {', '.join(map(str, lost))} to others, as this consumer did not "
                    f"poll for {self._timeout:g} s or more: what it has read of it since its last commit is read again"
                )
            return replace(commit, offsets={self._group: wanted})

        self._journal.change(describe)

    def leave(self) -> None:
        """Leave the group: others go on with what this member has read."""
        self._change(lambda group, partitions: group.left([self.member_id], partitions))
        self._journal.store.remove_heartbeat(self._group, self.member_id)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _change(self, change: Callable[[Group, Mapping[str, int]], Group]) -> None:
        def describe(commit: Commit, state: LogState) -> Commit:
            group = state.groups.get(self._group, Group())
            return replace(commit, groups={self._group: change(group, state.partition_counts())})

        self._journal.change(describe)

    def _beat(self) -> None:
        self._beats += 1
        self._journal.store.write_heartbeat(self._group, self.member_id, self._beats)
        self._due = self._clock() + self.interval

    def _expire(self) -> None:
        """Take members for dead whose heartbeat has stood still for too long."""
        with self._journal.lock:
            others = set(self._journal.state().groups.get(self._group, Group()).members) - {self.member_id}
        now = self._clock()
        seen: dict[str, tuple[int, float]] = {}
        for member_id in others:
            beats = self._journal.store.read_heartbeat(self._group, member_id)
            before = self._seen.get(member_id)
            seen[member_id] = before if before is not None and before[0] == beats else (beats, now)
        self._seen = seen
        dead = [member_id for member_id, (_, since) in seen.items() if now - since >= self._timeout]
        if dead:
            self._change(lambda group, partitions: group.left(dead, partitions))
            for member_id in dead:
                self._journal.store.remove_heartbeat(self._group, member_id)


def commit_without_members(
    journal: Journal, group: str, offsets: Mapping[TopicPartition, CommittedOffset], created: Mapping[str, int]
) -> None:
    """Commit offsets of a group whose partitions nobody shares.

    Args:
        journal: of the log.
        group: the group.
        offsets: of the next records to read.
        created: with which versions the topics have come that these are of; see :func:`of_these_topics`.

    Raises:
        CommitFailedError: when it has members, which alone may do so.
    """

    def describe(commit: Commit, state: LogState) -> Commit:
        if state.groups.get(group, Group()).members:
            raise CommitFailedError(f"group {group!r} has members, and only these commit offsets: subscribe to topics")
        return replace(commit, offsets={group: of_these_topics(offsets, created, state)})

    journal.change(describe)


def of_these_topics(
    offsets: Mapping[TopicPartition, CommittedOffset], created: Mapping[str, int], state: LogState
) -> dict[TopicPartition, CommittedOffset]:
    """Offsets without those of topics that were deleted, and maybe made again: these have no meaning any more.

    Args:
        offsets: by their partitions.
        created: with which versions the topics have come; of one that is left out, whatever there is now is meant.
        state: what the log holds.
    """
    now = {name: topic.created for name, topic in state.topics.items()}
    gone = {
        each.topic
        for each in offsets
        if each.topic not in now or created.get(each.topic, now[each.topic]) != now[each.topic]
    }
    return {each: offset for each, offset in offsets.items() if each.topic not in gone}
