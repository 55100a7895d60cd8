"""The writer, the pre-commit and the committer of a file sink that commits its partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headrace.common.constants import MIN_WATERMARK
from headrace.common.json_values import from_json
from headrace.connectors.file_system.committer import FileCommitter
from headrace.connectors.file_system.overwriting import NewFiles
from headrace.connectors.file_system.partition_commit import PartitionTrigger
from headrace.connectors.file_system.rolling import FilePreCommit, PartsInProgress
from headrace.connectors.file_system.staging import FileSinkWriter, PartFile
from headrace.connectors.sink import Json, PreCommit, PreCommitted


class WrittenEpoch(NamedTuple):
    """The output of a subtask in an epoch, as a committable.

    Attributes:
        parts: what it has written.
        watermark: its watermark.
    """

    parts: list[PartFile]
    watermark: int


class PartitionWriter(FileSinkWriter):
    """Writes files, and says how far event time has come."""

    _watermark = MIN_WATERMARK

    def write_watermark(self, watermark: int) -> None:
        self._watermark = watermark

    def prepare_commit(self) -> Sequence[Json]:
        watermark = max(self._watermark, self._epoch.watermark)
        return [WrittenEpoch(from_json(list[PartFile], super().prepare_commit()), watermark)]


class PendingPartitions(NamedTuple):
    """The partitions that wait; a value of JSON, as the manifest has it.

    Attributes:
        files: files that are not visible yet.
        begun: the partitions to commit, and when the first row of each was written.
    """

    files: PartsInProgress
    begun: dict[str, int]


class PartitionPreCommit(PreCommit):
    """Decides which files become visible, and which partitions are complete with them.

    Args:
        inner: decides about files; those of a partition that is complete do not wait any more.
        trigger: decides about partitions.
    """

    def __init__(self, inner: FilePreCommit, trigger: PartitionTrigger) -> None:
        self._inner = inner
        self._trigger = trigger

    def prepare(
        self, in_progress: Json | None, committables: Sequence[Json], processing_time: int, *, is_last: bool
    ) -> PreCommitted:
        written, watermark = self._written(committables)
        before = from_json(PendingPartitions, in_progress or [PartsInProgress.of(None), {}])
        begun = {part.bucket: processing_time for part in written} | before.begun
        complete = [
            bucket
            for bucket, since in sorted(begun.items())
            if is_last or self._trigger.is_due(bucket, since, processing_time, watermark)
        ]
        files = self._inner.prepare(before.files, written, processing_time, is_last=is_last, complete=complete)
        left = {bucket: since for bucket, since in begun.items() if bucket not in complete}
        new = NewFiles(from_json(list[PartFile], files.ready), complete)
        pending = PendingPartitions(PartsInProgress.of(files.in_progress), left)
        return PreCommitted((new,) if any(new) else (), pending if left or files.in_progress else None)

    def due(self, in_progress: Json) -> int | None:
        pending = from_json(PendingPartitions, in_progress)
        times = [self._inner.due(pending.files)]
        if self._trigger.time_of is None and not self._trigger.is_at_end:
            times += [since + self._trigger.delay + 1 for since in pending.begun.values()]
        return min((time for time in times if time is not None), default=None)

    def _written(self, committables: Sequence[Json]) -> tuple[list[PartFile], int]:
        """The parts that an epoch has written, and its watermark."""
        if not self._trigger.takes_watermarks:
            return from_json(list[PartFile], committables), MIN_WATERMARK
        every = from_json(list[WrittenEpoch], committables)
        watermark = min((each.watermark for each in every), default=MIN_WATERMARK)
        return [part for each in every for part in each.parts], watermark


class PartitionCommitter(FileCommitter):
    """Publishes files, and then commits the partitions that are complete with them."""

    def commit(self, epoch: int, committables: Sequence[Json], processing_time: int) -> None:
        for files in from_json(list[NewFiles], committables):
            super().commit(epoch, files.parts, processing_time)

    def waiting_parts(self, in_progress: Json | None) -> PartsInProgress:
        return PartsInProgress.of(None) if in_progress is None else from_json(PendingPartitions, in_progress).files

    def post_commit(self, epoch: int, committables: Sequence[Json], processing_time: int) -> None:
        for files in from_json(list[NewFiles], committables):
            self.commit_partitions(files.buckets)
