"""The few promises of a file system that exactness rests on, made with POSIX calls and tried out at the start."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from urllib.parse import unquote, urlsplit

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


def create_exclusively(path: Path, content: bytes) -> bool:
    """Create a file with its whole content in one step, unless it exists.

    The content is written and synchronised under another name first; ``link`` then fails when the name is taken, on
    every POSIX file system and over NFS, so of two processes exactly one succeeds.

    Returns:
        Whether this call created it.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        _write_synchronised(temporary, content)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        _synchronise_folder(path.parent)
        return True
    finally:
        temporary.unlink(missing_ok=True)


def probe(folder: Path) -> None:
    """Try what will be relied on.

    Raises:
        CheckpointStorageError: when the folder cannot be written or does not create files exclusively.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
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


def _write_synchronised(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _synchronise_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
