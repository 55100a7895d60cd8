"""Which chunks become visible with an epoch's manifest, and which wait for more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.connectors.file_system.staging import Chunk, Part
from headrace.connectors.sink import PreCommit, PreCommitted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.connectors.file_system.rolling import RollingPolicy
    from headrace.connectors.sink import Json

    Waiting = dict[tuple[str, int], list[Chunk]]


class RollingPreCommit(PreCommit):
    """Asks a rolling policy, for each subtask and bucket, whether what has been written is enough for a file.

    A chunk that is a file as it stands becomes one at once.

    Args:
        policy: decides.
    """

    def __init__(self, policy: RollingPolicy) -> None:
        self._policy = policy

    def prepare(
        self, held: Json | None, committables: Sequence[Json], processing_time: int, *, is_last: bool
    ) -> PreCommitted:
        waiting = _from_json(held)
        parts = []
        for part in map(Part.from_json, committables):
            if part.is_complete:
                parts.append(part)
            else:
                (chunk,) = part.chunks
                waiting.setdefault((part.bucket, chunk.name.subtask), []).append(chunk)
        for (bucket, _), chunks in waiting.items():
            groups = [chunks[:]] if is_last else list(self._complete(chunks, processing_time))
            parts += (Part(bucket, tuple(group), is_complete=False) for group in groups if group)
            del chunks[: sum(map(len, groups))]
        return PreCommitted(tuple(part.to_json() for part in parts), _to_json(waiting))

    def due(self, held: Json) -> int | None:
        ends = ((Chunk.from_json(chunks[0]), Chunk.from_json(chunks[-1])) for _, _, chunks in held)
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


def held_chunks(held: Json | None) -> Iterator[tuple[str, Chunk]]:
    """Everything that is held back, with its bucket."""
    for (bucket, _), chunks in _from_json(held).items():
        for chunk in chunks:
            yield bucket, chunk


def _from_json(held: Json | None) -> Waiting:
    return {(bucket, subtask): [Chunk.from_json(chunk) for chunk in chunks] for bucket, subtask, chunks in held or ()}


def _to_json(waiting: Waiting) -> Json | None:
    return [
        [bucket, subtask, [chunk.to_json() for chunk in chunks]]
        for (bucket, subtask), chunks in sorted(waiting.items())
        if chunks
    ] or None
