"""Checkpoint directories on POSIX and on S3, for tests that run on both."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.manifest_folder import manifest_numbers, name_of
from headrace.storage.locations import open_storage
from tests.reliability.support.checkpoints import left_overs

if TYPE_CHECKING:
    from headrace.storage.folder import Folder
    from tests.storage.s3_server import S3Server


@dataclass(frozen=True)
class CheckpointDirectory:
    """A checkpoint directory of a test.

    Attributes:
        location: a path, or a URI.
        options: how to reach it, by the names that its client has for them.
    """

    location: str
    options: dict[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, str]:
        """What a job has to be told."""
        options = {f"headrace.storage.{key.replace('_', '-')}": value for key, value in self.options.items()}
        return {"execution.checkpointing.dir": self.location, **options}

    @property
    def folder(self) -> Folder:
        return open_storage(self.location, options=self.options)

    def epochs(self) -> list[int]:
        """The epochs of the manifests that are there."""
        try:
            return manifest_numbers(self.folder.folder("manifests"))
        except FileNotFoundError:
            return []

    def left_overs(self) -> list[str]:
        """State files that no manifest needs, and what killed drivers had begun to write, of a job that has ended."""
        needed: set[str] = set()
        for epoch in self.epochs():
            name = name_of(epoch)
            needed.update(Manifest.from_bytes(self.folder.folder("manifests").read(name), name).state_files())
        unneeded = sorted(set(self.folder.folder("state").names()) - needed)
        return unneeded + (left_overs(Path(self.location)) if not self.options else [])

    def copy(self) -> CheckpointDirectory:
        """A copy of it as it is now, beside it."""
        made = replace(self, location=f"{self.location}-copy")
        with tempfile.TemporaryDirectory() as folder:
            files = Path(folder) / "checkpoints"
            download(self.folder, files)
            upload(files, made.folder)
        return made


def on_posix(folder: Path) -> CheckpointDirectory:
    """A fresh one below a folder."""
    return CheckpointDirectory(str(folder / "checkpoints"))


def on_s3(server: S3Server) -> CheckpointDirectory:
    """A fresh one in a bucket of its own."""
    return CheckpointDirectory(f"{server.new_bucket()}/jobs/small", server.options())


def upload(files: Path, to: Folder) -> None:
    """Put a tree of files into a folder."""
    to.make()
    for path in sorted(files.iterdir()):
        if path.is_dir():
            upload(path, to.folder(path.name))
        else:
            to.write(path.name, [path.read_bytes()])


def download(source: Folder, to: Path) -> None:
    """Get all files of a folder."""
    to.mkdir(parents=True)
    for name in source.names():
        try:
            (to / name).write_bytes(source.read(name))
        except IsADirectoryError:
            download(source.folder(name), to / name)
