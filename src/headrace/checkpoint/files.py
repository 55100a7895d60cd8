"""Where a checkpoint directory is, and whether it keeps the promises that exactness rests on."""

from __future__ import annotations

import hashlib
import re
import uuid
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headrace.common.durable import Permissions, create_exclusively, make_folder
from headrace.common.errors import CheckpointStorageError


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


def folder_name(uid: str) -> str:
    """The name of an operator's folder: readable, and another one for every uid, whatever is in it."""
    readable = re.sub(r"[^A-Za-z0-9_-]", "_", uid)[:60]
    return f"{readable}-{hashlib.blake2b(uid.encode(), digest_size=8).hexdigest()}"


def probe(folder: Path, permissions: Permissions = Permissions.OWNER) -> None:
    """Make the folder if it is missing, and try what will be relied on.

    Raises:
        CheckpointStorageError: when the folder cannot be written or does not create files exclusively.
    """
    try:
        make_folder(folder, permissions)
        name = folder / f".probe-{uuid.uuid4().hex}"
        try:
            if not create_exclusively(name, b"1") or create_exclusively(name, b"2") or name.read_bytes() != b"1":
                raise CheckpointStorageError(
                    f"checkpoint directory {folder} does not create files exclusively: two job managers could both "
                    "believe that they own the job; use a folder on a file system with hard links"
                )
        finally:
            name.unlink(missing_ok=True)
    except OSError as error:
        if isinstance(error, CheckpointStorageError):
            raise
        raise CheckpointStorageError(f"checkpoint directory {folder} cannot be used: {error}") from error
