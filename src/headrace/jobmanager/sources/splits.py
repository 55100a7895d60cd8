"""The splits of a source: how far each was read, what an epoch reads of it, and which wait for others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from headrace.connectors.source import SplitRead
    from headrace.time.watermark_strategy import WatermarkAlignment


@dataclass(slots=True)
class Pace:
    """How much event time a split has in a record, in milliseconds, as its last shares tell.

    Attributes:
        millis: milliseconds a record; None before two watermarks are known.
    """

    millis: float | None = None

    def learn(self, before: int, after: int, records: int) -> None:
        """So many records brought the watermark from ``before`` to ``after``; a slow stretch counts half."""
        if records > 0 and before > MIN_WATERMARK and after < MAX_WATERMARK:
            self.millis = max((after - before) / records, (self.millis or 0.0) / 2)


@dataclass(slots=True)
class Split:
    """One split of one source.

    Attributes:
        split_id: the enumerator's id for it.
        channel: its number within the job.
        position: where the next epoch goes on.
        watermarks: by node id of the operator that makes them.
        generators: by node id of the operator, the memory of its generator, if that has one.
        active_since: by node id, when that operator last saw a record, in milliseconds of the job's clock.
        paces: by node id of the operators whose watermarks are aligned.
        idle: the operators whose idleness the tasks have been told of.
        finished: whether the tasks have been told that nothing will come any more.
        is_held_back: whether it waited in the last epoch for others that it is aligned with.
    """

    split_id: str
    channel: int
    position: Any
    watermarks: dict[int, int] = field(default_factory=dict)
    generators: dict[int, Any] = field(default_factory=dict)
    active_since: dict[int, int] = field(default_factory=dict)
    paces: dict[int, Pace] = field(default_factory=dict)
    idle: frozenset[int] = frozenset()
    finished: bool = False
    is_held_back: bool = False

    @property
    def watermark(self) -> int:
        """The lowest watermark that was made of its records."""
        return min(self.watermarks.values(), default=MIN_WATERMARK)

    def reaches(self, operator: int, watermark: int) -> None:
        """An operator has come so far with its records; it never goes back."""
        self.watermarks[operator] = max(watermark, self.watermarks.get(operator, MIN_WATERMARK))

    def has_read(self, records: int, before: Mapping[int, int]) -> None:
        """So many records have brought the watermarks of aligned operators from ``before`` to where they are now."""
        for node, pace in self.paces.items():
            pace.learn(before.get(node, MIN_WATERMARK), self.watermarks.get(node, MIN_WATERMARK), records)


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """What an epoch does with one split."""

    split: Split
    read: SplitRead | None
    ends: bool
    idle: frozenset[int]
    is_held_back: bool = False

    @property
    def changes_something(self) -> bool:
        """Whether the split alone is a reason to run an epoch."""
        return self.read is not None or self.ends or self.idle != self.split.idle


FIRST_RECORDS: Final = 100
"""So many records an epoch are read at most of a split of a group as long as its pace is not known: in two epochs."""


@dataclass(frozen=True, slots=True)
class _Member:
    """A split in one of its groups, and how far it comes with what is planned."""

    split: Split
    node: int
    alignment: WatermarkAlignment
    expected: int
    counts: bool


class WatermarkAligner:
    """Watermark alignment: splits that run ahead of the others of their group wait for them.

    What an epoch reads has fixed ends, so how far it brings event time is bounded before it runs: by the event time
    that the last share of a split had for each record. A split that is further ahead than its group allows all the
    same is not read.

    Args:
        alignments: by node id of the operators that make watermarks, those that are in a group.
    """

    def __init__(self, alignments: Mapping[int, WatermarkAlignment]) -> None:
        self._alignments = alignments

    def held_back(self, splits: Iterable[Split]) -> frozenset[int]:
        """The channels of the splits that are too far ahead to be read; the slowest of a group never is.

        Args:
            splits: those of all sources from which something may still come.
        """
        members = [
            _Member(split, node, self._alignments[node], _reached(split, node), node not in split.idle)
            for split, node in self._pairs(splits)
        ]
        lowest = _lowest(members)
        return frozenset(
            member.split.channel
            for member in members
            if member.expected > lowest.get(member.alignment.group, MAX_WATERMARK) + member.alignment.max_drift
        )

    def limits(self, plans: Iterable[SplitPlan]) -> dict[int, int]:
        """By channel, how many records are enough for the splits whose planned shares would lead too far ahead.

        Args:
            plans: what the epoch is to read of all splits.
        """
        planned = {plan.split.channel: plan for plan in plans}
        members = [
            _Member(
                split,
                node,
                self._alignments[node],
                _expected(planned[split.channel], node),
                node not in planned[split.channel].idle and not planned[split.channel].ends,
            )
            for split, node in self._pairs(plan.split for plan in planned.values())
        ]
        lowest = _lowest(members)
        found: dict[int, int] = {}
        for member in members:
            goal = lowest.get(member.alignment.group, MAX_WATERMARK) + member.alignment.max_drift
            if planned[member.split.channel].read is not None and member.expected > goal:
                pace = member.split.paces[member.node].millis
                # One is ahead of the goal already where a split has come back that was idle, and is behind.
                enough = max(1, int((goal - _reached(member.split, member.node)) / pace)) if pace else 1
                found[member.split.channel] = min(enough, found.get(member.split.channel, enough))
        return found

    def _pairs(self, splits: Iterable[Split]) -> Iterator[tuple[Split, int]]:
        if self._alignments:
            for split in splits:
                for node in split.paces:
                    yield split, node


def _reached(split: Split, node: int) -> int:
    return split.watermarks.get(node, MIN_WATERMARK)


def _expected(plan: SplitPlan, node: int) -> int:
    """Where a split is after what is planned; where it is now as long as its pace is not known."""
    reached, pace = _reached(plan.split, node), plan.split.paces[node].millis
    if plan.read is None or pace is None or reached == MIN_WATERMARK:
        return reached
    return reached + int(pace * plan.read.records)


def _lowest(members: Iterable[_Member]) -> dict[str, int]:
    """By group, how far the slowest of those that count comes."""
    found: dict[str, int] = {}
    for member in members:
        if member.counts:
            group = member.alignment.group
            found[group] = min(member.expected, found.get(group, member.expected))
    return found
