"""Which chunks become visible with an epoch's manifest, and which wait for more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.connectors.file_system.staging import Chunk, Part, PartForm
from headrace.connectors.sink import PreCommit, PreCommitted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.connectors.file_system.rolling import RollingPolicy
    from headrace.connectors.sink import Json


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


def chunks_in_progress(in_progress: Json | None) -> Iterator[tuple[str, Chunk]]:
    """All chunks that are part of no file yet, with their buckets."""
    for series in map(_Series.from_json, in_progress or ()):
        for chunk in series.chunks:
            yield series.bucket, chunk
