"""The pre-commit and the committer of a file sink whose output becomes visible as a whole.

It takes the place of files that are there, or is added to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from headrace.common.json_values import from_json
from headrace.connectors.file_system.committer import (
    FileCommitter,
    assembled_content,
    check_size,
    checked_blocks,
    is_assembled,
)
from headrace.connectors.file_system.overwrite_log import Overwrite, OverwriteLog
from headrace.connectors.file_system.rolling import FilePreCommit, PartsInProgress
from headrace.connectors.file_system.staging import PartFile
from headrace.connectors.sink import Json, PreCommit, PreCommitted
from headrace.storage.files import is_hidden


class NewFiles(NamedTuple):
    """Files that become visible with an epoch, as a committable.

    Attributes:
        parts: the files that become visible.
        buckets: the folders below the sink's path whose files they replace.
    """

    parts: list[PartFile]
    buckets: list[str]


class OverwritingPreCommit(PreCommit):
    """Holds everything back until the input has ended.

    Args:
        inner: decides which files are made then.
        buckets: the folders whose files are replaced in any case, beside those that are written; None where no file is
            replaced.
    """

    needs_whole_input = True

    def __init__(self, inner: FilePreCommit, buckets: Sequence[str] | None) -> None:
        self._inner = inner
        self._buckets = None if buckets is None else tuple(buckets)

    def prepare(
        self, in_progress: Json | None, committables: Sequence[Json], processing_time: int, *, is_last: bool
    ) -> PreCommitted:
        written = [*PartsInProgress.of(in_progress).growing, *from_json(list[PartFile], committables)]
        if not is_last:
            return PreCommitted((), PartsInProgress(written, {}, processing_time) if written else None)
        made = self._inner.prepare(None, written, processing_time, is_last=True)
        parts = from_json(list[PartFile], made.ready)
        replaced = () if self._buckets is None else {*self._buckets, *(part.bucket for part in parts)}
        return PreCommitted((NewFiles(parts, sorted(replaced)),), None)

    def due(self, in_progress: Json) -> int | None:
        return None


class OverwritingCommitter(FileCommitter):
    """Publishes the output of a whole job by an entry of the folder's :class:`OverwriteLog`.

    The entry follows from the manifest alone: a job manager that was superseded creates the same one.
    """

    def commit(self, epoch: int, committables: Sequence[Json], processing_time: int) -> None:
        identity = f"{self._staging.sink}-{epoch}"
        for files in from_json(list[NewFiles], committables):
            self._log.add(partial(self._entry, identity, files), identity)
            for part in files.parts:
                for chunk in part.chunks:
                    self._file_system.remove(self._staging.hidden(part.bucket, chunk))

    def post_commit(self, epoch: int, committables: Sequence[Json], processing_time: int) -> None:
        for files in from_json(list[NewFiles], committables):
            self.commit_partitions(sorted({part.bucket for part in files.parts}))

    def finish(self) -> None:
        for path, _ in self._file_system.walk(self._assembled):
            self._file_system.remove(path)
        for folder in (*self._file_system.folders(self._assembled), self._assembled):
            self._file_system.remove_folder(folder)
        super().finish()

    def _entry(self, identity: str, files: NewFiles) -> Overwrite:
        published = {self._below(self._hidden(part)): self._below(self._staging.visible(part)) for part in files.parts}
        removed = {self._below(path) for bucket in files.buckets for path in self._visible(bucket)}
        return Overwrite(identity, sorted(removed - set(published.values())), published)

    def _hidden(self, part: PartFile) -> str:
        """The hidden file of a part, which is known to be what tasks wrote."""
        if is_assembled(part):
            path = f"{self._assembled}/{self._below(self._staging.visible(part))}"
            self._file_system.make_folder(path.rpartition("/")[0])
            self._file_system.put(path, assembled_content(self._staging, part))
            return path
        (chunk,) = part.chunks
        path = self._staging.hidden(part.bucket, chunk)
        check_size(self._staging, path, chunk)
        for _ in checked_blocks(self._file_system, path, chunk):
            pass
        return path

    def _visible(self, bucket: str) -> Iterator[str]:
        folder = f"{self._staging.base}/{bucket}".rstrip("/")
        for path, entry in self._file_system.walk(folder, lambda name: not is_hidden(name)):
            if not is_hidden(entry.name):
                yield path

    def _below(self, path: str) -> str:
        return path[len(self._staging.base) + 1 :]

    @property
    def _assembled(self) -> str:
        return f"{self._staging.root}/assembled"

    @property
    def _log(self) -> OverwriteLog:
        return OverwriteLog(self._file_system, self._staging.base)
