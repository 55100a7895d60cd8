"""Which kind of storage a location names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from headrace.common.durable import Permissions
from headrace.common.errors import CheckpointStorageError
from headrace.storage.aws_profile import PROFILE, with_profile
from headrace.storage.checkpoint_storage import CHECKPOINT_STORAGES
from headrace.storage.object_client import client, options_for
from headrace.storage.object_files import ObjectFiles
from headrace.storage.object_store import ObjectFolder
from headrace.storage.posix import PosixFolder
from headrace.storage.posix_files import PosixFiles

if TYPE_CHECKING:
    from collections.abc import Mapping
    from urllib.parse import SplitResult

    from headrace.storage.files import FileStore
    from headrace.storage.folder import Folder
    from headrace.storage.object_client import Options

OBJECT_STORES: Final = ("s3", "s3a", "gs", "az", "abfs", "abfss")
"""The schemes of object stores that create exclusively."""

_HADOOP: Final = ("hdfs", "viewfs", "webhdfs")

_URI: Final = re.compile(rf"\s*(?:[a-z][a-z0-9+.-]*:/|(?:file|{'|'.join(OBJECT_STORES)}):)", re.IGNORECASE)
"""How URIs begin. What else there is in front of a colon is a part of a path, unless it is a scheme that is known."""


def open_storage(
    location: str, permissions: Permissions = Permissions.OWNER, options: Mapping[str, str] | None = None
) -> Folder:
    """The folder that a checkpoint location names; it need not exist.

    Args:
        location: a path, or a URI.
        permissions: who may read and write what is made in it, where it is a path.
        options: how to reach it, where it is on an object store, by the names that its client has for them.

    Raises:
        CheckpointStorageError: for a location on a store whose promises headrace does not know how to get, or which is
            none.
    """
    if _URI.match(location):
        scheme = _split(location).scheme
        if scheme in OBJECT_STORES and location[len(scheme) :].startswith("://"):
            return object_folder(location, options or {})
        if scheme != "file" and scheme in CHECKPOINT_STORAGES.names():
            return CHECKPOINT_STORAGES.load(scheme).open(location, options or {})
    return PosixFolder(local_path(location), permissions)


def object_folder(location: str, options: Mapping[str, str]) -> ObjectFolder:
    """The prefix of keys that a URI names.

    Raises:
        CheckpointStorageError: when it names no bucket, or what cannot be a prefix; or when the options do not fit.
    """
    parts = _split(location)
    bucket = bucket_of(parts.scheme, parts.netloc)
    prefix = parts.path.strip("/")
    folders = prefix.split("/") if prefix else []
    if not parts.netloc or parts.query or parts.fragment or {"", ".", ".."}.intersection(folders):
        raise CheckpointStorageError(
            f"checkpoint directory {location!r}: expected {parts.scheme}://<bucket>/<prefix>, the prefix without empty "
            "parts, dots alone, ? and #"
        )
    folder = ObjectFolder(bucket, prefix, complete_options(bucket, options))
    client(folder.bucket, folder.options)
    return folder


def complete_options(bucket: str, options: Mapping[str, str]) -> Options:
    """What the client of a bucket is told; what tasks cannot find out where they run, a profile's keys, is among it.

    Raises:
        CheckpointStorageError: when the profile cannot be used.
    """
    mine = options_for(bucket, options)
    return tuple(sorted((with_profile(mine) if bucket.startswith(("s3:", "s3a:")) else mine).items()))


def bucket_of(scheme: str, name: str) -> str:
    """The URL of a bucket or container.

    Raises:
        CheckpointStorageError: when there is more than its name.
    """
    if ":" in name or ("@" in name and not scheme.startswith("abfs")):
        # Not shown: it may be a password.
        raise CheckpointStorageError(
            f"{scheme}://…: between // and / only the name of the bucket has its place; credentials and the endpoint "
            "are options that begin with headrace.storage."
        )
    return f"{scheme}://{name}"


def open_files(bucket: str, options: Mapping[str, str]) -> FileStore:
    """The files of users in a bucket, or on POSIX paths.

    Args:
        bucket: its URL; empty for POSIX paths.
        options: as of :func:`open_storage`.

    Raises:
        CheckpointStorageError: when the options do not fit.
    """
    return ObjectFiles(bucket, complete_options(bucket, options)) if bucket else PosixFiles()


def options_for_tasks(options: Mapping[str, str]) -> dict[str, str]:
    """Options as tasks need them, which need not have the driver's ``~/.aws``: what its profile says is among them."""
    mine = options_for("s3://", options)
    try:
        found = with_profile(mine)
    except CheckpointStorageError:  # told when S3 is used, which perhaps it is not
        return dict(options)
    added = {f"aws_{key}": value for key, value in found.items() if key not in mine}
    return {key: value for key, value in options.items() if key != PROFILE} | added | {f"aws_{PROFILE}": ""}


def local_path(location: str) -> Path:
    """The folder that a checkpoint location names: a path, or a ``file:`` URI.

    Raises:
        CheckpointStorageError: for a location on a store whose promises headrace does not know how to get, or which is
            none.
    """
    path = _path_of_uri(location) if _URI.match(location) else _path(location)
    if "\0" in str(path):
        raise CheckpointStorageError(f"checkpoint directory {location!r}: no path has a zero byte in it")
    return path


def _path(location: str) -> Path:
    if not location.strip():
        raise CheckpointStorageError(
            "the checkpoint directory is empty: it has to be a path or a URI (was it to come from a variable that is "
            "not set?); without checkpoints, leave it out"
        )
    try:
        return Path(location).expanduser().absolute()
    except RuntimeError as error:
        raise CheckpointStorageError(f"checkpoint directory {location!r}: {error}") from error


def _path_of_uri(location: str) -> Path:
    parts = _split(location)
    if parts.scheme in _HADOOP:
        raise CheckpointStorageError(
            f"checkpoint directory {location!r}: through HDFS's client for Python a file cannot be created exclusively "
            "(opening truncates, moving replaces what has the name), so two job managers could both believe that they "
            "own the job; use a POSIX path or an object store"
        )
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        raise CheckpointStorageError(
            f"checkpoint directory {location!r}: it can be a folder that driver and executors see as a POSIX path (a "
            "local disk, NFS, a mounted volume; its URI is file:///data/checkpoints, say), or on an object store "
            f"({', '.join(f'{scheme}://' for scheme in OBJECT_STORES)}), or where a distribution with an entry point "
            f"{parts.scheme!r} in the group {CHECKPOINT_STORAGES.name!r} brings it"
        )
    if not parts.path.startswith("/") or "?" in location or "#" in location:
        raise CheckpointStorageError(
            f"checkpoint directory {location!r}: expected file:///<path>, with ? and # in it written as %3F and %23"
        )
    return Path(unquote(parts.path, errors="surrogateescape"))


def _split(location: str) -> SplitResult:
    """The parts of a URI.

    Raises:
        CheckpointStorageError: when it has characters that have no place in one, some of which would just be left out.
    """
    if location != location.strip() or not location.isprintable():
        raise CheckpointStorageError(
            f"checkpoint directory {location!r}: a URI has no white space at its ends and no control characters"
        )
    try:
        return urlsplit(location)
    except ValueError as error:
        raise CheckpointStorageError(f"checkpoint directory {location!r}: {error}") from error
