"""The driver's half of the file sink: hidden files become visible, each record once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.common.errors import CommitRefusedError
from headrace.connectors.file_system.durable import make_folder, size_of, sync_folders
from headrace.connectors.file_system.rolls import HeldChunks
from headrace.connectors.file_system.staging import ChunkName, single_roll
from headrace.connectors.sink import Committer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from headrace.connectors.file_system.rolling import RollingPolicy
    from headrace.connectors.file_system.staging import Staging
    from headrace.connectors.sink import Json


@dataclass(frozen=True, slots=True)
class _Committable:
    bucket: str
    chunk: ChunkName
    size: int

    @staticmethod
    def parse(committable: Json) -> _Committable:
        return _Committable(committable["bucket"], ChunkName.parse(committable["chunk"]), committable["size"])


class FileCommitter(Committer):
    """Renames files, at once or when a rolling policy finds that there is enough for a file.

    Every step is a rename or a removal that finds out by itself whether it was done before, so a commit that was
    interrupted anywhere is simply done again.

    Args:
        staging: where files are.
        policy: when a file is complete.
        header: what a file begins with that is put together from several chunks.
    """

    def __init__(self, staging: Staging, policy: RollingPolicy, header: bytes) -> None:
        self._staging = staging
        self._policy = policy
        self._held = HeldChunks(staging, header)
        make_folder(staging.root)

    def commit(self, epoch: int, committables: Sequence[Json], processing_time: int) -> None:
        parsed = [_Committable.parse(committable) for committable in committables]
        self._held.mend()
        if self._policy.holds_back:
            self._hold(parsed)
            self._held.roll(self._policy, processing_time)
        else:
            self._publish(parsed)

    def _publish(self, committables: list[_Committable]) -> None:
        """Every chunk becomes a visible file."""
        moves = [(item, self._staging.visible(item.bucket, single_roll(item.chunk))) for item in committables]
        self._move(moves)

    def _hold(self, committables: list[_Committable]) -> None:
        """Every chunk waits for more."""
        new = [item for item in committables if not self._held.is_published(item.bucket, item.chunk)]
        moves = [(item, self._hidden(item, "held")) for item in new]
        self._move(moves)
        for item, target in moves:
            self._held.add(item.bucket, item.chunk, target, item.size)

    def _move(self, moves: list[tuple[_Committable, Path]]) -> None:
        for item, target in moves:
            make_folder(target.parent)
            _move_once(self._hidden(item, "part"), target, item)
        sync_folders(target.parent for _, target in moves)
        sources = {self._hidden(item, "part").parent for item, _ in moves}
        sync_folders(folder for folder in sources if folder.exists())

    def _hidden(self, item: _Committable, state: str) -> Path:
        return self._staging.hidden(item.bucket, item.chunk.stem, state)

    def recover(self, generation: int) -> None:
        self._held.mend()
        if not self._policy.holds_back:  # the policy was another one before the restart
            self._held.roll_all()
        self._remove_left_overs(before=generation)

    def finish(self) -> None:
        self._held.mend()
        self._held.roll_all()
        self._remove_left_overs(before=None)
        _remove_empty(self._staging.root)

    def _remove_left_overs(self, before: int | None) -> None:
        """Remove what failed attempts left, of the generations before the given one or of all."""
        for state in ("tmp", "part"):
            for _, path in self._staging.files(state):
                if before is None or _generation(path) < before:
                    path.unlink(missing_ok=True)


def _move_once(source: Path, target: Path, item: _Committable) -> None:
    """Rename a file unless it was done before.

    Raises:
        CommitRefusedError: when neither file is what was committed.
    """
    there, done = size_of(source), size_of(target)
    if there == item.size and done is None:
        source.rename(target)
    elif done != item.size:
        found = f"the hidden file {_bytes(there)}, the target {_bytes(done)}"
        raise CommitRefusedError(f"{target} cannot be published: it should have {item.size} bytes, but {found}")
    elif there is not None:  # a late attempt of the task has written the same content again
        source.unlink()


def _bytes(size: int | None) -> str:
    return "is missing" if size is None else f"has {size} bytes"


def _generation(path: Path) -> int:
    """The generation that wrote a hidden file, by its name; what is being merged is of no use after a restart."""
    fields = path.name.split(".")[0].split("-")
    is_merge = len(fields) == 4
    return -1 if is_merge else int(fields[1])


def _remove_empty(folder: Path) -> None:
    """Remove a tree of folders as far as there are no files in it."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
    if folder.exists() and not any(folder.iterdir()):
        folder.rmdir()
