"""Watermark alignment: splits that run ahead of others of their group wait for them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.jobmanager.sources import Split, SplitPlan
from headrace.time.watermark_strategy import WatermarkAlignment


@dataclass(frozen=True, slots=True)
class _Member:
    """A split in one of its groups, and how far it comes with what is planned."""

    split: Split
    operator: str
    alignment: WatermarkAlignment
    expected: int
    counts: bool


class WatermarkAligner:
    """Watermark alignment: splits that run ahead of the others of their group wait for them.

    What an epoch reads has fixed ends, so how far it brings event time is bounded before it runs: by the event time
    that the last share of a split had for each record. A split that is further ahead than its group allows all the
    same is not read.

    Args:
        alignments: by uid of the operators that make watermarks, those that are in a group.
    """

    def __init__(self, alignments: Mapping[str, WatermarkAlignment]) -> None:
        self._alignments = alignments

    def held_back(self, splits: Iterable[Split]) -> frozenset[int]:
        """The channels of the splits that are too far ahead to be read; the slowest of a group never is.

        Args:
            splits: those of all sources from which something may still come.
        """
        members = [
            _Member(split, uid, self._alignments[uid], _reached(split, uid), uid not in split.idle)
            for split, uid in self._pairs(splits)
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
                uid,
                self._alignments[uid],
                _expected(planned[split.channel], uid),
                uid not in planned[split.channel].idle and not planned[split.channel].ends,
            )
            for split, uid in self._pairs(plan.split for plan in planned.values())
        ]
        lowest = _lowest(members)
        found: dict[int, int] = {}
        for member in members:
            goal = lowest.get(member.alignment.group, MAX_WATERMARK) + member.alignment.max_drift
            if planned[member.split.channel].read is not None and member.expected > goal:
                pace = member.split.paces[member.operator]
                # One is ahead of the goal already where a split has come back that was idle, and is behind.
                enough = max(1, int((goal - _reached(member.split, member.operator)) / pace)) if pace else 1
                found[member.split.channel] = min(enough, found.get(member.split.channel, enough))
        return found

    def _pairs(self, splits: Iterable[Split]) -> Iterator[tuple[Split, str]]:
        for split in splits:
            for uid in split.paces:
                yield split, uid


def _reached(split: Split, operator: str) -> int:
    return split.watermarks.get(operator, MIN_WATERMARK)


def _expected(plan: SplitPlan, operator: str) -> int:
    """Return where a split is after what is planned; where it is now as long as its pace is not known."""
    reached, pace = _reached(plan.split, operator), plan.split.paces[operator]
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
