"""``StoredJob``: a job as it lies in a savepoint or in a checkpoint directory, whether it runs meanwhile or not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.manifest_folder import manifest_numbers, name_of
from headrace.common.errors import SavepointError, StateCorruptedError
from headrace.savepoint.metadata import METADATA, SavepointMetadata, read_metadata
from headrace.savepoint.tables import read_table
from headrace.state.backend import STATE_BACKENDS
from headrace.storage.locations import open_storage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.state.exported import ExportedTable
    from headrace.state.version import VersionRef
    from headrace.storage.folder import Folder

_ATTEMPTS: Final = 5
"""A job that runs deletes what its newest checkpoint does not need; so often the next one is looked at."""


class Tables(Protocol):
    """Gives what the tasks of a job hold."""

    def __call__(self) -> Iterator[ExportedTable]:
        """All tables of all tasks, each to be gone through before the next one is asked for."""


@dataclass(frozen=True)
class StoredJob:
    """One job.

    Attributes:
        location: the savepoint or checkpoint directory, for messages.
        manifest: the job at the end of the epoch.
        tables: what its tasks hold.
        state: where its state files are; None where it has none but tables.
    """

    location: str
    manifest: Manifest
    tables: Tables
    state: Folder | None = None

    def versions(self) -> list[VersionRef]:
        """The versions of the state of all tasks that hold some."""
        every = (partition.version for stage in self.manifest.stages for partition in stage.partitions)
        return [version for version in every if version is not None and (version.name or version.inline)]


def open_job(location: str, options: Mapping[str, str]) -> StoredJob:
    """A job of which nothing was read yet but where everything is.

    Args:
        location: a savepoint, or a checkpoint directory, of which the newest checkpoint counts.
        options: how object stores are reached.

    Raises:
        SavepointError: when it is neither, or a damaged one.
        CheckpointError: when the newest manifest is damaged.
    """
    directory = open_storage(location, options=options)
    if directory.size(METADATA) is not None:
        return _of_savepoint(directory, read_metadata(directory), options)
    manifest = _newest(directory)
    if manifest is None:
        raise SavepointError(f"{directory} is neither a savepoint nor a checkpoint directory with a checkpoint in it")
    return _of_files(str(directory), directory, manifest)


def read_again(job: StoredJob, attempt: int, options: Mapping[str, str], error: StateCorruptedError) -> StoredJob:
    """The same job later, when it has deleted files of a checkpoint that is not its newest any more.

    Raises:
        StateCorruptedError: when it is no later, so that something is wrong with the files.
    """
    later = open_job(job.location, options)
    if attempt == _ATTEMPTS or later.manifest.epoch == job.manifest.epoch:
        raise error
    return later


def _of_savepoint(directory: Folder, metadata: SavepointMetadata, options: Mapping[str, str]) -> StoredJob:
    if metadata.format == "native":
        return _of_files(str(directory), open_storage(metadata.directory, options=options), metadata.checkpoint)
    return StoredJob(
        str(directory), metadata.checkpoint, lambda: (read_table(directory, file) for file in metadata.tables)
    )


def _of_files(location: str, directory: Folder, manifest: Manifest) -> StoredJob:
    backend = STATE_BACKENDS.load(manifest.state_backend)
    state = directory.folder("state")
    job = StoredJob(location, manifest, lambda: iter(()), state)

    def tables() -> Iterator[ExportedTable]:
        for version in job.versions():
            yield from backend.export_tables(state, version, manifest.processing_time)

    return replace(job, tables=tables)


def _newest(directory: Folder) -> Manifest | None:
    """The newest manifest; a job that runs may remove the one that was listed."""
    folder = directory.folder("manifests")
    for _ in range(_ATTEMPTS):
        try:
            numbers = manifest_numbers(folder)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not numbers:
            return None
        try:
            name = name_of(numbers[-1])
            return Manifest.from_bytes(folder.read(name), folder.locate(name))
        except FileNotFoundError:
            continue
    return None
