"""The driver's half of the file sink: visible files are made of the chunks of tasks, each record once."""

import errno
import os
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import BinaryIO, Final, cast

from headrace.common.errors import CheckpointError, CommitRefusedError, InfrastructureError
from headrace.common.json_values import from_json
from headrace.connectors.file_system.partition_commit import PartitionCommitPolicy
from headrace.connectors.file_system.rolling import PartsInProgress
from headrace.connectors.file_system.staging import PartChunk, PartFile, StagingArea
from headrace.connectors.sink import Committer, Json, RunInTasks, run_here
from headrace.formats.file_format import joined
from headrace.storage.file_system import FileSystem, digest_text, new_digest

_IN_MEMORY_BYTES: Final = 8 << 20
"""A file up to this size is held in memory while it is joined with others, a larger one in an unnamed file."""


def assemble(staging: StagingArea, area: str, part: PartFile) -> str:
    """Write a part into a file of an area; gives its path.

    Raises:
        FileNotFoundError: when a chunk is missing, or the area has been taken away.
        CommitRefusedError: when a chunk is damaged.
    """
    name = uuid.uuid4().hex
    staging.write_for_publishing(area, name, assembled_content(staging, part))
    return f"{area}/{name}"


def assembled_content(staging: StagingArea, part: PartFile) -> Iterator[bytes]:
    """The bytes of a part that is put together."""
    if part.is_rewritten:
        assert part.form.kind is not None, "it is joined by its format"
        yield from joined(part.form.kind, _files(staging, part))
        return
    yield part.form.header.encode("latin-1")
    for number, chunk in enumerate(part.chunks):
        if number in (part.boundaries or ()):
            yield part.delimiter.encode("latin-1")
        yield from checked_blocks(staging.file_system, staging.hidden(part.bucket, chunk), chunk)


def _files(staging: StagingArea, part: PartFile) -> Iterator[BinaryIO]:
    """The chunks as files that are read anywhere, none before it is known to be what the task wrote."""
    for chunk in part.chunks:
        with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES) as file:
            for block in checked_blocks(staging.file_system, staging.hidden(part.bucket, chunk), chunk):
                file.write(block)
            file.seek(0)
            yield cast("BinaryIO", file)


def is_assembled(part: PartFile) -> bool:
    """Tell whether a part is more than a chunk as it stands."""
    return len(part.chunks) > 1 or bool(part.form.header)


def check_size(staging: StagingArea, path: str, chunk: PartChunk) -> None:
    """Check by its size that a chunk is there as a task wrote it.

    Raises:
        FileNotFoundError: when it is missing.
        CommitRefusedError: when it has another size.
    """
    found = staging.size(path)
    if found is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), staging.locate(path))
    if found != chunk.size:
        raise CommitRefusedError(
            f"{staging.locate(path)} has {found} bytes, but a task wrote {chunk.size}; put it back as it was"
        )


def checked_blocks(file_system: FileSystem, path: str, chunk: PartChunk) -> Iterator[bytes]:
    """The content of a chunk, which at its end is known to be what the task wrote.

    Raises:
        CommitRefusedError: when it is not.
    """
    digest = new_digest()
    for block in file_system.blocks(path):
        digest.update(block)
        yield block
    if digest_text(digest) != chunk.digest:
        raise CommitRefusedError(
            f"{file_system.locate(path)} is damaged: its content is not what a task wrote; put it back as it was"
        )


class FileCommitter(Committer):
    """Publishes the parts that manifests name.

    What is published, and under which name, follows from the manifest alone, so every job manager that commits it
    publishes the same. A part of one chunk is published by giving that chunk its visible name, which can happen once.
    One that has to be assembled is published out of a folder that belongs to this generation, and that the next one
    takes away.

    Args:
        staging: the sink's files.
        generation: that of the job manager.
        run_in_tasks: has several tasks at once assemble files.
        tasks: how many tasks do so; with one the driver does it.
        policies: tell readers that a partition is complete.
    """

    def __init__(
        self,
        staging: StagingArea,
        generation: int,
        run_in_tasks: RunInTasks = run_here,
        *,
        tasks: int = 1,
        policies: Sequence[PartitionCommitPolicy] = (),
    ) -> None:
        self._policies = policies
        self._run_in_tasks = run_in_tasks
        self._tasks = tasks
        self._staging = staging.for_committing()
        self._file_system = self._staging.file_system
        self._generation = generation
        self._publishing = staging.publishing(generation)
        self._staging.make_publishing_folder(self._publishing)
        self._made: dict[str, str] = {}
        if generation:  # else this is the first run
            self._staging.fence(generation)

    def commit(self, epoch: int, committables: Sequence[Json], processing_time: int) -> None:
        parts = [(self._staging.visible(part), part) for part in from_json(list[PartFile], committables)]
        self._made = self._assemble_in_tasks(parts) if self._tasks > 1 else {}
        found = [name for name, part in parts if not self._publish_once(part, name, epoch)]
        self._file_system.make_durable([name for name, _ in parts])
        if found:
            self._staging.confirm(found)
        # Only now: if they were gone and the part was not there after a power failure, it was lost
        for _, part in parts:
            for chunk in part.chunks:
                self._file_system.remove(self._staging.hidden(part.bucket, chunk))

    def commit_partitions(self, buckets: Iterable[str]) -> None:
        """Commit partitions all of whose files are visible."""
        for bucket in buckets:
            for policy in self._policies:
                policy.commit(self._file_system, f"{self._staging.base}/{bucket}".rstrip("/"))

    def waiting_parts(self, in_progress: Json | None) -> PartsInProgress:
        """The parts in progress, as the pre-commit of this committer keeps them."""
        return PartsInProgress.of(in_progress)

    def recover(self, in_progress: Json | None) -> None:
        waiting = self.waiting_parts(in_progress)
        _refuse_visible(self._staging, waiting)
        needed = {self._staging.hidden(bucket, chunk): chunk for bucket, chunk in waiting.chunks()}
        for path, chunk in needed.items():
            try:
                check_size(self._staging, path, chunk)
            except FileNotFoundError as error:
                raise CommitRefusedError(
                    f"{self._staging.locate(path)} is missing, which waits to be published; put it back"
                ) from error
        for path in self._staging.written_before(self._generation):
            if path not in needed:
                self._file_system.remove(path)

    def finish(self) -> None:
        for path in self._staging.written_before(self._generation + 1):
            self._file_system.remove(path)
        self._staging.clear_publishing_folder(self._publishing)
        self._staging.remove_empty_folders()

    def _publish_once(self, part: PartFile, target: str, epoch: int) -> bool:
        """Have a part be visible; False where it was there already: an earlier try may have published it."""
        staging = self._staging
        try:
            if _is_there(staging, target, part):
                return False
            if self._publish(part, target, epoch):
                return True
            _is_there(staging, target, part)
        except FileNotFoundError as error:
            if not staging.has_publishing_folder(self._publishing):
                # The job manager knows which it is, and begins again with an area of its own where it is the second.
                raise InfrastructureError(
                    f"{staging.locate(self._publishing)} has been taken away, by another job manager that has taken "
                    f"over or by another process; {staging.locate(target)} is left to the job that goes on"
                ) from error
            if not _is_there(staging, target, part):  # else another process has just published it
                name = target.rpartition("/")[2]
                raise CommitRefusedError(
                    f"{staging.locate(target)} cannot be published: {error.filename} is missing, which the checkpoint "
                    f"names; put it back. Where {name} was published and has been removed since: do not do so within "
                    "seconds"
                ) from error
        return False

    def _publish(self, part: PartFile, target: str, epoch: int) -> bool:
        """Publish a part; False if another process may have been faster."""
        if is_assembled(part):
            made = self._made.pop(target, None) or assemble(self._staging, self._publishing, part)
            return self._staging.publish(made, target)
        (chunk,) = part.chunks
        source = self._staging.hidden(part.bucket, chunk)
        check_size(self._staging, source, chunk)
        if (chunk.generation, chunk.epoch) != (self._generation, epoch):  # it has waited for a while
            for _ in checked_blocks(self._file_system, source, chunk):
                pass
        return self._staging.publish(source, target)

    def _assemble_in_tasks(self, parts: Sequence[tuple[str, PartFile]]) -> dict[str, str]:
        """Have tasks assemble the parts that are not visible yet; gives by visible name where each is.

        What a task misses is reported when the part is to be published.
        """
        wanted = [(name, part) for name, part in parts if is_assembled(part) and self._staging.size(name) is None]
        shares = [wanted[number :: self._tasks] for number in range(min(self._tasks, len(wanted)))]
        made = self._run_in_tasks(partial(_assemble_share, self._staging, self._publishing), shares)
        return {name: path for share in made for name, path in share.items()}


def _assemble_share(staging: StagingArea, area: str, share: Sequence[tuple[str, PartFile]]) -> dict[str, str]:
    """Assemble one task's share of the parts; those whose chunks are missing are left out."""
    made = {}
    for name, part in share:
        try:
            made[name] = assemble(staging, area, part)
        except FileNotFoundError:
            continue
    return made


def _is_there(staging: StagingArea, target: str, part: PartFile) -> bool:
    """Return whether a part is visible; for one that is rewritten its name says so.

    Raises:
        CommitRefusedError: when something else has its name.
    """
    found = staging.size(target)
    if found not in (None, part.size) and not part.is_rewritten:
        raise CommitRefusedError(
            f"{staging.locate(target)} has {found} bytes, but what is to be published there has {part.size}; remove it"
        )
    return found is not None


def refuse_future(staging: StagingArea, epoch: int) -> None:
    """Notice that a checkpoint is older than the output.

    Raises:
        CheckpointError: naming a file of a later epoch.
    """
    later = [(last, staging.locate(path)) for path, _, _, _, last in staging.visible_parts() if last > epoch]
    if later:
        last, path = max(later)
        raise CheckpointError(
            f"the checkpoint directory is at epoch {epoch}, but {path} holds output up to epoch {last}: the "
            "directory is an old copy, or newer checkpoints were removed, and going on would write that output again. "
            "Put the newest checkpoint directory back; or, if this is the one to go on from, move all files of epochs "
            f"after {epoch} away from {staging} (*-{staging.sink}-<subtask>-<first epoch>-<last epoch>-*)"
        )


def _refuse_visible(staging: StagingArea, waiting: PartsInProgress) -> None:
    """Notice that what waits to be published is visible: a later epoch may have published it by itself.

    Raises:
        CheckpointError: naming the file.
    """
    epochs: dict[tuple[str, int], set[int]] = {}
    for bucket, chunk in waiting.chunks():
        epochs.setdefault((bucket, chunk.subtask), set()).add(chunk.epoch)
    for path, bucket, subtask, first, last in staging.visible_parts() if epochs else ():
        if any(first <= epoch <= last for epoch in epochs.get((bucket, subtask), ())):
            raise CheckpointError(
                f"{staging.locate(path)} holds output that waits to be published by the checkpoint: the "
                "checkpoint directory is an old copy, and going on would write that output again. Put the newest "
                "checkpoint directory back; or, if this is the one to go on from, move that file away"
            )
