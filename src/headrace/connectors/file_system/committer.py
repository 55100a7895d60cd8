"""The driver's half of the file sink: chunks become visible files, each record once."""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING

from headrace.common.durable import AppendedFile, make_folder, move, remove, size_of, sync_folders
from headrace.common.errors import CheckpointError, CommitRefusedError, InfrastructureError
from headrace.connectors.file_system.pre_commit import held_chunks
from headrace.connectors.file_system.staging import ContentDigest, Part, is_put_together
from headrace.connectors.sink import Committer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from headrace.connectors.file_system.staging import Chunk, Staging
    from headrace.connectors.sink import Json

_BLOCK = 1 << 20


class FileCommitter(Committer):
    """Shows the parts that manifests name.

    What is shown, and under which name, follows from the manifest alone, so whoever commits it shows the same. A part
    of one chunk is shown by renaming that chunk, which can happen once. One that has to be put together is renamed out
    of a folder that belongs to this generation, and that the next one takes away.

    Args:
        staging: where files are.
        generation: that of the job manager.
    """

    def __init__(self, staging: Staging, generation: int) -> None:
        self._staging = staging
        self._generation = generation
        self._publishing = staging.publishing(generation)
        make_folder(self._publishing)
        self._fence()

    def commit(self, epoch: int, committables: Sequence[Json], processing_time: int) -> None:
        parts = [Part.from_json(committable) for committable in committables]
        for part in parts:
            self._show(part, self._staging.visible(part), epoch)
        sync_folders(self._staging.visible(part).parent for part in parts)
        for part in parts:  # only now: if they were gone and the part was not there after a power failure, it was lost
            for chunk in part.chunks:
                remove(self._staging.hidden(part.bucket, chunk.name))

    def recover(self, held: Json | None) -> None:
        _refuse_shown(self._staging, held)
        needed = {self._staging.hidden(bucket, chunk.name): chunk for bucket, chunk in held_chunks(held)}
        for path, chunk in needed.items():
            try:
                _check_size(path, chunk)
            except FileNotFoundError as error:
                raise CommitRefusedError(f"{path} is missing, which waits to be published; put it back") from error
        for path in self._staging.written_before(self._generation):
            if path not in needed:
                remove(path)

    def finish(self) -> None:
        for path in list(self._staging.written_before(self._generation + 1)):
            remove(path)
        _clear(self._publishing)
        _remove_empty_folders(self._staging)

    def _fence(self) -> None:
        """From now on nothing that an older generation has put together can become visible."""
        for folder in list(self._staging.publishing_before(self._generation)):
            with contextlib.suppress(FileNotFoundError):  # another one that starts has just done it
                move(folder, self._staging.fenced())
        for folder in self._staging.all_fenced():
            _clear(folder)

    def _show(self, part: Part, target: Path, epoch: int) -> None:
        try:
            if not _is_there(target, part.size):
                make_folder(target.parent)
                self._publish(part, target, epoch)
        except FileNotFoundError as error:
            if not self._publishing.exists():
                # The job manager knows which it is, and begins again with a folder of its own where it is the second.
                raise InfrastructureError(
                    f"{self._publishing} has been taken away, by another job manager that has taken over or by "
                    f"somebody else; {target} is left to whoever goes on"
                ) from error
            if not _is_there(target, part.size):  # else somebody has just shown it
                raise CommitRefusedError(
                    f"{target} cannot be published: {error.filename} is missing, which the checkpoint names; put it "
                    f"back. Where {target.name} was published and has been removed since: do not do so within seconds"
                ) from error

    def _publish(self, part: Part, target: Path, epoch: int) -> None:
        if len(part.chunks) == 1 and not part.form.header:
            (chunk,) = part.chunks
            source = self._staging.hidden(part.bucket, chunk.name)
            _check_size(source, chunk)
            if (chunk.name.generation, chunk.name.epoch) != (self._generation, epoch):  # it has waited for a while
                for _ in _checked_blocks(source, chunk):
                    pass
            move(source, target)
        else:
            move(self._put_together(part), target)

    def _put_together(self, part: Part) -> Path:
        merged = AppendedFile(self._publishing / uuid.uuid4().hex)
        try:
            merged.append(part.form.header)
            for chunk in part.chunks:
                for block in _checked_blocks(self._staging.hidden(part.bucket, chunk.name), chunk):
                    merged.append(block)
            merged.make_durable()
        except BaseException:
            merged.path.unlink(missing_ok=True)
            raise
        finally:
            merged.close()
        return merged.path


def _is_there(target: Path, size: int) -> bool:
    """Whether a part is visible.

    Raises:
        CommitRefusedError: when something else has its name.
    """
    found = size_of(target)
    if found not in (None, size):
        raise CommitRefusedError(f"{target} has {found} bytes, but what is to be published there has {size}; remove it")
    return found is not None


def _check_size(path: Path, chunk: Chunk) -> None:
    """See whether a chunk is there as a task wrote it, by its size.

    Raises:
        FileNotFoundError: when it is missing.
        CommitRefusedError: when it has another size.
    """
    found = path.stat().st_size
    if found != chunk.size:
        raise CommitRefusedError(f"{path} has {found} bytes, but a task wrote {chunk.size}; put it back as it was")


def _checked_blocks(path: Path, chunk: Chunk) -> Iterator[bytes]:
    """The content of a chunk, which at its end is known to be what the task wrote.

    Raises:
        CommitRefusedError: when it is not.
    """
    digest = ContentDigest()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            yield block
    if digest.text() != chunk.name.digest:
        raise CommitRefusedError(f"{path} is damaged: its content is not what a task wrote; put it back as it was")


def refuse_future(staging: Staging, epoch: int) -> None:
    """Notice that a checkpoint is older than the output.

    Raises:
        CheckpointError: naming a file of a later epoch.
    """
    later = max(((shown.last, str(shown.path)) for shown in staging.shown() if shown.last > epoch), default=None)
    if later is not None:
        raise CheckpointError(
            f"the checkpoint directory is at epoch {epoch}, but {later[1]} holds output up to epoch {later[0]}: the "
            "directory is an old copy, or newer checkpoints were removed, and going on would write that output again. "
            "Put the newest checkpoint directory back; or, if this is the one to go on from, move all files of epochs "
            f"after {epoch} away from {staging.base} (*-{staging.sink}-<subtask>-<first epoch>-<last epoch>-*)"
        )


def _refuse_shown(staging: Staging, held: Json | None) -> None:
    """Notice that what waits to be published is visible: a later epoch may have published it by itself.

    Raises:
        CheckpointError: naming the file.
    """
    waiting: dict[tuple[str, int], set[int]] = {}
    for bucket, chunk in held_chunks(held):
        waiting.setdefault((bucket, chunk.name.subtask), set()).add(chunk.name.epoch)
    for shown in staging.shown() if waiting else ():
        if any(shown.first <= epoch <= shown.last for epoch in waiting.get((shown.bucket, shown.subtask), ())):
            raise CheckpointError(
                f"{shown.path} holds output that waits to be published by the checkpoint: the checkpoint directory is "
                "an old copy, and going on would write that output again. Put the newest checkpoint directory back; "
                "or, if this is the one to go on from, move that file away"
            )


def _clear(folder: Path) -> None:
    """Remove what was put together in a folder, and the folder as well unless somebody else has put something there."""
    with contextlib.suppress(FileNotFoundError):  # another one that starts has just done it
        for path in folder.iterdir():
            if is_put_together(path.name):
                remove(path)
        if not any(folder.iterdir()):
            folder.rmdir()


def _remove_empty_folders(staging: Staging) -> None:
    """Remove our own folders as far as they are empty; one among the chunks is ours if the output has that bucket."""
    found = [path for path in staging.chunks.rglob("*") if path.is_dir() and not path.is_symlink()]
    buckets = [path for path in found if (staging.base / path.relative_to(staging.chunks)).is_dir()]
    for folder in [*sorted(buckets, reverse=True), staging.chunks, staging.root]:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
