"""Which chunks become visible with an epoch's manifest, and which wait for more."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.connectors.file_system.staging import Chunk, Part, PartForm
from headrace.connectors.sink import PreCommit, PreCommitted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.connectors.file_system.compaction import Compaction
    from headrace.connectors.file_system.rolling import RollingPolicy
    from headrace.connectors.sink import Json


_QUIET_MILLIS: Final = 1_000
"""Epochs are counted so often while nothing comes."""


class RollingPreCommit(PreCommit):
    """Asks a rolling policy, for each subtask and bucket, whether what has been written is enough for a file.

    A chunk that is a file as it stands becomes one at once.

    Args:
        policy: decides.
    """

    def __init__(self, policy: RollingPolicy) -> None:
        self._policy = policy

    def prepare(
        self, in_progress: Json | None, committables: Sequence[Json], processing_time: int, *, is_last: bool
    ) -> PreCommitted:
        waiting = {(series.bucket, series.subtask): series for series in map(_Series.from_json, in_progress or ())}
        parts = []
        for part in map(Part.from_json, committables):
            if part.is_complete:
                parts.append(part)
            else:
                (chunk,) = part.chunks
                key = (part.bucket, chunk.name.subtask)
                series = waiting.setdefault(key, _Series(*key, part.form, []))
                series.form = part.form  # the program may have changed it
                series.chunks.append(chunk)
        for series in waiting.values():
            groups = [series.chunks[:]] if is_last else list(self._complete(series.chunks, processing_time))
            parts += (Part(series.bucket, tuple(group), series.form, is_complete=True) for group in groups if group)
            del series.chunks[: sum(map(len, groups))]
        still = [series.to_json() for _, series in sorted(waiting.items()) if series.chunks]
        return PreCommitted(tuple(part.to_json() for part in parts), still or None)

    def due(self, in_progress: Json) -> int | None:
        ends = ((Chunk.from_json(chunks[0]), Chunk.from_json(chunks[-1])) for *_, chunks in in_progress)
        ages = (self._policy.complete_at(first.name.written, last.name.written) for first, last in ends)
        return min((age for age in ages if age is not None), default=None)

    def _complete(self, chunks: list[Chunk], now: int) -> Iterator[list[Chunk]]:
        """The leading runs of chunks that are complete."""
        group: list[Chunk] = []
        size = 0
        for chunk in chunks:
            group.append(chunk)
            size += chunk.size
            if self._policy.is_complete(size, now, now, now):  # by size alone
                yield group
                group, size = [], 0
        if group and self._policy.is_complete(size, group[0].name.written, group[-1].name.written, now):
            yield group


@dataclass(slots=True)
class _Series:
    """The chunks of one subtask and bucket that wait to become files."""

    bucket: str
    subtask: int
    form: PartForm
    chunks: list[Chunk]

    def to_json(self) -> Json:
        return [self.bucket, self.subtask, self.form.to_json(), [chunk.to_json() for chunk in self.chunks]]

    @staticmethod
    def from_json(document: Json) -> _Series:
        bucket, subtask, form, chunks = document
        return _Series(bucket, subtask, PartForm.from_json(form), [Chunk.from_json(chunk) for chunk in chunks])


class CompactingPreCommit(PreCommit):
    """Has the files that a rolling policy makes wait until they are put together; without a compaction none waits.

    Args:
        rolling: decides what is a file.
        compaction: when and how files are put together; None for not at all.
    """

    def __init__(self, rolling: RollingPreCommit, compaction: Compaction | None) -> None:
        self._rolling = rolling
        self._compaction = compaction

    def prepare(
        self, in_progress: Json | None, committables: Sequence[Json], processing_time: int, *, is_last: bool
    ) -> PreCommitted:
        before = _Waiting.from_json(in_progress)
        rolled = self._rolling.prepare(before.series, committables, processing_time, is_last=is_last)
        piles = {pile.bucket: pile for pile in before.piles}
        for part in map(Part.from_json, rolled.ready):
            piles.setdefault(part.bucket, _CompactionCandidate(part.bucket, 0, [])).parts.append(part)
        ready = [part for pile in piles.values() for part in self._taken_from(pile, is_last=is_last)]
        left = tuple(pile for _, pile in sorted(piles.items()) if pile.parts)
        after = _Waiting(rolled.in_progress, left, processing_time)
        return PreCommitted(tuple(part.to_json() for part in ready), after.to_json())

    def due(self, in_progress: Json) -> int | None:
        waiting = _Waiting.from_json(in_progress)
        rolled = None if waiting.series is None else self._rolling.due(waiting.series)
        times = [] if rolled is None else [rolled]
        if waiting.piles and (self._compaction is None or self._compaction.strategy.num_checkpoints is not None):
            times.append(waiting.looked_at + _QUIET_MILLIS)
        return min(times, default=None)

    def _taken_from(self, pile: _CompactionCandidate, *, is_last: bool) -> list[Part]:
        """The files that become visible, which the pile loses."""
        if self._compaction is None:
            taken, pile.parts = pile.parts, []
            return taken
        strategy = self._compaction.strategy
        groups = list(pile.take_by_size(strategy.size_threshold))
        pile.epochs = 1 if groups else pile.epochs + 1
        if pile.parts and (is_last or pile.epochs >= (strategy.num_checkpoints or math.inf)):
            groups.append(pile.parts)
            pile.parts = []
        return [part for group in groups for part in self._compaction.compactor.compacted(group)]


@dataclass(slots=True)
class _CompactionCandidate:
    """The files of one bucket that wait to be put together, and for how many epochs they have."""

    bucket: str
    epochs: int
    parts: list[Part]

    def take_by_size(self, threshold: int | None) -> Iterator[list[Part]]:
        """The leading runs of files that are large enough."""
        waiting, self.parts, size = self.parts, [], 0
        for part in waiting:
            self.parts.append(part)
            size += part.size
            if threshold is not None and size >= threshold:
                yield self.parts
                self.parts, size = [], 0


@dataclass(frozen=True, slots=True)
class _Waiting:
    """All that is not committed: what is no file yet, what waits to be put together, and when that was looked at."""

    series: Json | None
    piles: tuple[_CompactionCandidate, ...] = ()
    looked_at: int = 0

    def to_json(self) -> Json | None:
        """What the rolling policy holds back alone where nothing waits to be put together."""
        if not self.piles:
            return self.series
        piles = [[pile.bucket, pile.epochs, [part.to_json() for part in pile.parts]] for pile in self.piles]
        return {"series": self.series, "piles": piles, "looked_at": self.looked_at}

    @staticmethod
    def from_json(document: Json | None) -> _Waiting:
        if not isinstance(document, dict):
            return _Waiting(document)
        found = ((bucket, epochs, list(map(Part.from_json, parts))) for bucket, epochs, parts in document["piles"])
        return _Waiting(document["series"], tuple(_CompactionCandidate(*pile) for pile in found), document["looked_at"])


def chunks_in_progress(in_progress: Json | None) -> Iterator[tuple[str, Chunk]]:
    """All chunks that are part of no visible file yet, with their buckets."""
    waiting = _Waiting.from_json(in_progress)
    for series in map(_Series.from_json, waiting.series or ()):
        for chunk in series.chunks:
            yield series.bucket, chunk
    for pile in waiting.piles:
        for part in pile.parts:
            for chunk in part.chunks:
                yield pile.bucket, chunk
