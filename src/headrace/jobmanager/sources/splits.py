"""A split as the driver sees it, and what an epoch does with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.connectors.source import SplitRead


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
