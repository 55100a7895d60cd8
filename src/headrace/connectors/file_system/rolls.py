"""Committed chunks that wait to become one visible file."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from headrace.common.errors import CommitRefusedError
from headrace.connectors.file_system.durable import make_folder, size_of, sync_folders
from headrace.connectors.file_system.staging import ChunkName, RollName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headrace.connectors.file_system.rolling import RollingPolicy
    from headrace.connectors.file_system.staging import Staging


class _Series(NamedTuple):
    """Chunks that may be put together. A restart begins a new series: epochs count on, but may be written again."""

    bucket: str
    subtask: int
    generation: int


@dataclass(frozen=True, slots=True)
class _Held:
    chunk: ChunkName
    path: Path
    size: int


class HeldChunks:
    """The chunks of a sink that are committed but not visible; all of it can be told from the file system.

    A part is published in steps, each of which leaves something that :meth:`mend` can go on with:

    1. the chunks are copied into a temporary file, which is renamed to ``.roll`` when it is complete and durable;
    2. the chunks are removed;
    3. the ``.roll`` file is renamed to its visible name.

    Args:
        staging: where files are.
        header: what a file begins with.
    """

    def __init__(self, staging: Staging, header: bytes) -> None:
        self._staging = staging
        self._header = header
        self._held: dict[_Series, dict[int, _Held]] = {}
        self._published: dict[str, dict[_Series, int]] = {}
        self._is_known = False

    def mend(self) -> None:
        """Finish what was interrupted, and find the chunks; does nothing unless there was an interruption."""
        if self._is_known:
            return
        for bucket, path in self._staging.files("roll"):
            self._uncover(bucket, RollName.parse(path.stem))
        self._held = defaultdict(dict)
        self._published = {}
        for bucket, path in self._staging.files("held"):
            self.add(bucket, ChunkName.parse(path.stem), path, path.stat().st_size)
        self._is_known = True

    def add(self, bucket: str, chunk: ChunkName, path: Path, size: int) -> None:
        """A chunk has been committed and is at ``path`` now."""
        series = _Series(bucket, chunk.subtask, chunk.generation)
        self._held.setdefault(series, {})[chunk.epoch] = _Held(chunk, path, size)

    def is_published(self, bucket: str, chunk: ChunkName) -> bool:
        """Whether a chunk is in a visible file already."""
        last = self._last_published(bucket).get(_Series(bucket, chunk.subtask, chunk.generation))
        return last is not None and chunk.epoch <= last

    def _last_published(self, bucket: str) -> dict[_Series, int]:
        """The last published epoch of each series of a bucket, by the names of the visible files."""
        known = self._published.get(bucket)
        if known is None:
            known = self._published[bucket] = {}
            for roll in self._staging.visible_rolls(bucket):
                series = _Series(bucket, roll.subtask, roll.generation)
                known[series] = max(roll.last, known.get(series, -1))
        return known

    def roll(self, policy: RollingPolicy, now: int) -> None:
        """Publish the parts that are complete."""
        self._publish_all(lambda chunks: _complete_groups(chunks, policy, now))

    def roll_all(self) -> None:
        """Publish everything."""
        self._publish_all(lambda chunks: iter([chunks]))

    def _publish_all(self, groups_of: Callable[[list[_Held]], Iterator[list[_Held]]]) -> None:
        self._is_known = False  # until it is done: an interruption has to be looked into
        for series in sorted(self._held):
            chunks = self._held[series]
            for group in groups_of([chunks[epoch] for epoch in sorted(chunks)]):
                self._publish(series, group)
                for held in group:
                    del chunks[held.chunk.epoch]
            if not chunks:
                del self._held[series]
        self._is_known = True

    def _publish(self, series: _Series, group: list[_Held]) -> None:
        roll = RollName(group[0].chunk.epoch, group[-1].chunk.epoch, series.generation, series.subtask)
        if len(group) == 1 and not self._header:
            self._show(group[0].path, series.bucket, roll)
        else:
            self._merge(series.bucket, roll, group)
            self._uncover(series.bucket, roll)
        self._last_published(series.bucket)[series] = roll.last

    def _merge(self, bucket: str, roll: RollName, group: list[_Held]) -> None:
        temporary = self._staging.temporary(bucket, roll.stem)
        with temporary.open("wb") as target:
            target.write(self._header)
            for held in group:
                with held.path.open("rb") as source:
                    shutil.copyfileobj(source, target, 1 << 20)
            target.flush()
            os.fsync(target.fileno())
        temporary.rename(self._staging.hidden(bucket, roll.stem, "roll"))
        sync_folders([temporary.parent])

    def _uncover(self, bucket: str, roll: RollName) -> None:
        """Show a merged file after its chunks are gone for good, so that no record can be published twice."""
        merged = self._staging.hidden(bucket, roll.stem, "roll")
        for path in merged.parent.glob("*.held"):
            if roll.covers(ChunkName.parse(path.stem)):
                path.unlink()
        sync_folders([merged.parent])
        self._show(merged, bucket, roll)

    def _show(self, path: Path, bucket: str, roll: RollName) -> None:
        target = self._staging.visible(bucket, roll)
        make_folder(target.parent)
        shown = size_of(target)
        if shown is None:
            path.rename(target)
        elif shown == size_of(path):  # a job manager that has been superseded was about to show the same
            path.unlink()
        else:
            raise CommitRefusedError(f"{target} is there already, written by another run of the job")
        sync_folders([path.parent, target.parent])


def _complete_groups(chunks: list[_Held], policy: RollingPolicy, now: int) -> Iterator[list[_Held]]:
    """The leading runs of chunks that are complete parts."""
    group: list[_Held] = []
    for held in chunks:
        group.append(held)
        if policy.is_complete(_size(group), now, now, now):  # by size alone
            yield group
            group = []
    if group and policy.is_complete(_size(group), group[0].chunk.written, group[-1].chunk.written, now):
        yield group


def _size(group: list[_Held]) -> int:
    return sum(held.size for held in group)
