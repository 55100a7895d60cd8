"""Which kind of storage a location names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from headrace.common.durable import Permissions
from headrace.common.errors import CheckpointStorageError
from headrace.storage.posix import PosixFolder

if TYPE_CHECKING:
    from headrace.storage.folder import Folder


def open_storage(location: str, permissions: Permissions = Permissions.OWNER) -> Folder:
    """The folder that a checkpoint location names; it need not exist.

    Args:
        location: a path, or a URI.
        permissions: who may read and write what is made in it.

    Raises:
        CheckpointStorageError: for a location on a store whose promises headrace does not know how to get.
    """
    return PosixFolder(local_path(location), permissions)


def local_path(location: str) -> Path:
    """The folder that a checkpoint location names: a path, or a ``file:`` URI.

    Raises:
        CheckpointStorageError: for a location on a store whose promises headrace does not know how to get.
    """
    parts = urlsplit(location)
    if not location.lower().startswith(f"{parts.scheme}:/"):
        return Path(location).expanduser().absolute()
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path))
    raise CheckpointStorageError(
        f"checkpoint directory {location!r}: only folders that driver and executors see as a POSIX path are supported "
        "(a local disk, NFS, a mounted volume); give such a path, or its URI, such as file:///data/checkpoints"
    )
