"""Which kind of storage a location names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from headrace.common.durable import Permissions
from headrace.common.errors import CheckpointStorageError
from headrace.storage.object_client import client
from headrace.storage.object_store import ObjectFolder
from headrace.storage.posix import PosixFolder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.storage.folder import Folder

OBJECT_STORES: Final = ("s3", "s3a", "gs", "az", "abfs", "abfss")
"""The schemes of object stores that create exclusively."""


def open_storage(
    location: str, permissions: Permissions = Permissions.OWNER, options: Mapping[str, str] | None = None
) -> Folder:
    """The folder that a checkpoint location names; it need not exist.

    Args:
        location: a path, or a URI.
        permissions: who may read and write what is made in it, where it is a path.
        options: how to reach it, where it is on an object store, by the names that its client has for them.

    Raises:
        CheckpointStorageError: for a location on a store whose promises headrace does not know how to get.
    """
    scheme = urlsplit(location).scheme
    if scheme in OBJECT_STORES and location[len(scheme) :].startswith("://"):
        return object_folder(location, options or {})
    return PosixFolder(local_path(location), permissions)


def object_folder(location: str, options: Mapping[str, str]) -> ObjectFolder:
    """The prefix of keys that a URI names.

    Raises:
        CheckpointStorageError: when it names no bucket, or what cannot be a prefix; or when the options do not fit.
    """
    parts = urlsplit(location)
    prefix = parts.path.strip("/")
    folders = prefix.split("/") if prefix else []
    if not parts.netloc or parts.query or parts.fragment or {"", ".", ".."}.intersection(folders):
        raise CheckpointStorageError(
            f"checkpoint directory {location!r}: expected {parts.scheme}://<bucket>/<prefix>, the prefix without empty "
            "parts, dots alone, ? and #"
        )
    folder = ObjectFolder(f"{parts.scheme}://{parts.netloc}", prefix, tuple(sorted(options.items())))
    client(folder.bucket, folder.options)
    return folder


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
        f"checkpoint directory {location!r}: it can be a folder that driver and executors see as a POSIX path (a local "
        "disk, NFS, a mounted volume; its URI is file:///data/checkpoints, say), or on an object store "
        f"({', '.join(f'{scheme}://' for scheme in OBJECT_STORES)})"
    )
