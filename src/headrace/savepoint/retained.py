"""The checkpoints that a directory retains: the newest, or an older one, which is named by the path of its manifest.

An older one is what another job can start from, and what is read of an earlier time; the job itself only ever goes on
from its newest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.manifest_folder import manifest_numbers, name_of, newest_manifest
from headrace.common.errors import SavepointMissingError

if TYPE_CHECKING:
    from headrace.storage.folder import Folder

_MANIFEST: Final = re.compile(r"(.+)/manifests/([0-9]{12})\.json")


@dataclass(frozen=True, slots=True)
class CheckpointPlace:
    """What somebody has named.

    Attributes:
        directory: the checkpoint directory, or a savepoint.
        number: of the checkpoint; None for the newest.
    """

    directory: str
    number: int | None = None

    @staticmethod
    def of(location: str) -> CheckpointPlace:
        """What a location names: a directory, or a manifest in it."""
        found = _MANIFEST.fullmatch(location)
        return CheckpointPlace(location) if found is None else CheckpointPlace(found[1], int(found[2]))


def read_checkpoint(directory: Folder, number: int | None) -> Manifest | None:
    """A checkpoint of a directory, with the output that is still to be published; the job may run meanwhile.

    Args:
        directory: the checkpoint directory.
        number: of the checkpoint; None for the newest.

    Returns:
        None where a directory has no checkpoint.

    Raises:
        SavepointMissingError: when the checkpoint with that number is not retained.
        CheckpointError: naming it, when a manifest is damaged.
    """
    if number is None:
        return newest_manifest(directory)
    folder = directory.folder("manifests")
    try:
        older = Manifest.from_bytes(folder.read(name_of(number)), folder.locate(name_of(number)))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise SavepointMissingError(f"{directory} has no checkpoint {number}: {_retained(folder)}") from error
    newest = newest_manifest(directory)
    waiting = {commit.epoch for commit in newest.pending} if newest is not None else set()
    return replace(older, pending=tuple(commit for commit in older.pending if commit.epoch in waiting))


def _numbers(folder: Folder) -> list[int]:
    try:
        return manifest_numbers(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _retained(folder: Folder) -> str:
    numbers = ", ".join(map(str, _numbers(folder)))
    return f"it retains {numbers} (execution.checkpointing.num-retained says how many)" if numbers else "it has none"
