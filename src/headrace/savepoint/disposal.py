"""Disposing of savepoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.checkpoint.pins import PINS
from headrace.savepoint.metadata import METADATA, read_metadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.storage.folder import Folder


def dispose(savepoint: Folder, open_directory: Callable[[str], Folder]) -> None:
    """Remove a savepoint; of a native one, also what keeps its files in the checkpoint directory.

    Those files go when the job that owns the directory, or the next one, removes what it does not need.

    Args:
        savepoint: its directory. What else is in there is left alone.
        open_directory: gives the checkpoint directory that a native savepoint names.

    Raises:
        SavepointError: when there is none, or it is damaged, so that what belongs to it is not known.
    """
    metadata = read_metadata(savepoint)
    savepoint.remove(METADATA)  # first: from here on nobody can start from it
    tables, files = (file.path for file in metadata.tables), (file.path for file in metadata.files)
    for path in (*tables, *files):
        *folders, name = path.split("/")
        folder = savepoint
        for each in folders:
            folder = folder.folder(each)
        folder.remove(name)
    savepoint.remove_empty_folders()
    if metadata.pin:
        open_directory(metadata.directory).folder(PINS).remove(metadata.pin)
