"""Locations: which kind of storage a path or URI names, and opening it.

Modules of remote storages are imported when one is named: a job on POSIX paths needs none of them.
"""

from __future__ import annotations

import contextlib
import re
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, unquote, urlsplit

from headrace.common.durable import Permissions
from headrace.common.errors import CheckpointStorageError
from headrace.common.plugins import Plugin, PluginGroup
from headrace.storage.file_system import FileSystem, PosixFileSystem
from headrace.storage.folder import Folder, posix_folder

if TYPE_CHECKING:
    from headrace.storage.hdfs import HdfsFileSystem
    from headrace.storage.object_store import Options

OBJECT_STORES: Final = ("s3", "s3a", "gs", "az", "abfs", "abfss")
"""The schemes of object stores that create exclusively."""

HDFS: Final = "hdfs"
"""The scheme of Hadoop's file system."""

REMOTE: Final = (*OBJECT_STORES, HDFS)
"""The schemes of all that is not a POSIX path."""

_THROUGH_HDFS: Final = ("viewfs", "webhdfs", "swebhdfs")
"""Other ways to what HDFS is the way to."""

_URI: Final = re.compile(rf"\s*(?:[a-z][a-z0-9+.-]*:/|(?:file|{'|'.join(REMOTE)}):)", re.IGNORECASE)
"""The beginning of a URI. Anything else before a colon is a part of a path, unless it is a scheme that is known."""


_USUAL_SCHEMES: Final = {"s3a": "s3", "abfs": "abfss"}
"""Schemes that stand for the same places as others, by which these are known."""


class CheckpointStoragePlugin(Plugin):
    """Opens the checkpoint directories of one scheme, which is the plugin's name.

    A distribution adds one as an entry point of the group ``headrace.checkpoint_storages``.
    """

    noun = "checkpoint storage"

    @abstractmethod
    def open(self, location: str, options: Mapping[str, str]) -> Folder:
        """The folder of a location; it need not exist.

        Args:
            location: the whole URI.
            options: what the configuration says behind ``headrace.storage.``, with ``_`` for ``-``.

        Raises:
            CheckpointStorageError: when the location or the options cannot be right.
        """


CHECKPOINT_STORAGES: Final = PluginGroup(
    "headrace.checkpoint_storages",
    CheckpointStoragePlugin,
    {},
)
"""All that are there; POSIX paths and object stores are not among them, but come first."""


def usual_spelling(location: str) -> str:
    """The one of several URIs of a place by which it is known: ``s3:`` for ``s3a:``; whatever else it is, as it is."""
    scheme, separator, rest = location.partition("://")
    return f"{_USUAL_SCHEMES.get(scheme, scheme)}{separator}{rest}"


def open_storage(
    location: str, permissions: Permissions = Permissions.OWNER, options: Mapping[str, str] | None = None
) -> Folder:
    """The folder that a checkpoint location names; it need not exist.

    Args:
        location: a path, or a URI.
        permissions: those of what is made in it, where it is a path.
        options: how to reach it, where it is on an object store, by the names that its client has for them.

    Raises:
        CheckpointStorageError: for a location on a store whose promises headrace does not know how to get, or which is
            none.
    """
    if _URI.match(location):
        scheme = _split(location).scheme
        if scheme in OBJECT_STORES and location[len(scheme) :].startswith("://"):
            return object_folder(location, options or {})
        if scheme == HDFS and location[len(scheme) :].startswith("://"):
            return hdfs_folder(location, permissions, options or {})
        if scheme != "file" and scheme in CHECKPOINT_STORAGES.names():
            return CHECKPOINT_STORAGES.load(scheme).open(location, options or {})
    return posix_folder(local_path(location), permissions)


def object_folder(location: str, options: Mapping[str, str]) -> Folder:
    """The prefix of keys that a URI names.

    Raises:
        CheckpointStorageError: when it names no bucket, or what cannot be a prefix; or when the options do not fit.
    """
    from headrace.storage.object_store import ObjectStore, client

    parts = _split(location)
    bucket = bucket_of(parts.scheme, parts.netloc)
    prefix = parts.path.strip("/")
    folders = prefix.split("/") if prefix else []
    if not parts.netloc or parts.query or parts.fragment or {"", ".", ".."}.intersection(folders):
        raise CheckpointStorageError(
            f"checkpoint directory {location!r}: expected {parts.scheme}://<bucket>/<prefix>, the prefix without empty "
            "parts, dots alone, ? and #"
        )
    store = ObjectStore(bucket, complete_options(bucket, options))
    client(bucket, store.options)  # says what is wrong with them
    return Folder(store, f"/{prefix}" if prefix else "")


def hdfs_folder(location: str, permissions: Permissions, options: Mapping[str, str]) -> Folder:
    """The folder of a name service that a URI names.

    Raises:
        CheckpointStorageError: when it is no such URI; or when the settings do not fit.
    """
    parts = _split(location)
    path = parts.path.rstrip("/")
    if not path or parts.query or parts.fragment or {"", ".", ".."}.intersection(path.split("/")[1:]) or ":" in path:
        raise CheckpointStorageError(
            f"checkpoint directory {location!r}: expected hdfs://<name service or host:port>/<folder>, or "
            "hdfs:///<folder> for the file system of fs.defaultFS; the folder without empty parts, dots alone, : ? #"
        )
    return Folder(_hdfs(f"{parts.scheme}://{parts.netloc}", options), path, permissions)


def _hdfs(authority: str, options: Mapping[str, str]) -> HdfsFileSystem:
    from headrace.storage.hdfs import HdfsFileSystem
    from headrace.storage.settings import check_settings, complete_settings

    settings = complete_settings(options)
    check_settings(authority, settings)
    hdfs = HdfsFileSystem(authority, tuple(sorted(settings.items())))
    hdfs.connect()  # says what else is wrong with them
    return hdfs


def complete_options(bucket: str, options: Mapping[str, str]) -> Options:
    """The options of a bucket's client. A profile's keys, which tasks cannot find where they run, are among them.

    Raises:
        CheckpointStorageError: when the profile cannot be used.
    """
    from headrace.storage.object_store import options_for
    from headrace.storage.settings import with_profile

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


def file_system_of(place: str, options: Mapping[str, str]) -> FileSystem:
    """The storage at a place.

    Args:
        place: the URL of a bucket or name service; empty for POSIX paths.
        options: as of :func:`open_storage`.

    Raises:
        CheckpointStorageError: when the options do not fit.
    """
    if not place:
        return PosixFileSystem()
    if place.startswith(f"{HDFS}:"):
        return _hdfs(place, options)
    from headrace.storage.object_store import ObjectStore

    return ObjectStore(place, complete_options(place, options))


def place_of(path: str) -> str:
    """The URL of the bucket or name service in which a path is; empty for a POSIX path."""
    if path.startswith("/"):
        return ""
    scheme, _, rest = path.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def open_path(path: str, options: Mapping[str, str]) -> tuple[FileSystem, str]:
    """The file system of an absolute path or a URI, and the path there.

    Raises:
        CheckpointStorageError: when the options do not fit.
    """
    place = place_of(path)
    return file_system_of(place, options), path[len(place) :].rstrip("/")


def options_for_tasks(options: Mapping[str, str]) -> dict[str, str]:
    """Options as tasks need them, which need not have the driver's ``~/.aws`` and Hadoop's files: what those say is in.

    What is wrong with either is an error when that storage is used, which perhaps it is not.
    """
    from headrace.storage.object_store import options_for
    from headrace.storage.settings import PROFILE, complete_settings, is_of_hdfs, with_profile

    found = dict(options)
    with contextlib.suppress(CheckpointStorageError):
        found = {key: value for key, value in found.items() if not is_of_hdfs(key)} | complete_settings(options)
    mine = options_for("s3://", options)
    try:
        of_profile = with_profile(mine)
    except CheckpointStorageError:
        return found
    added = {f"aws_{key}": value for key, value in of_profile.items() if key not in mine}
    return {key: value for key, value in found.items() if key != PROFILE} | added | {f"aws_{PROFILE}": ""}


def are_said(options: Mapping[str, str]) -> bool:
    """Return whether options say how storages are reached, which may be secret, in options as tasks have them."""
    from headrace.storage.settings import DEFAULT_SETTINGS

    return any(value and DEFAULT_SETTINGS.get(key) != value for key, value in options.items())


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
    except FileNotFoundError as error:
        raise CheckpointStorageError(
            f"checkpoint directory {location!r}: it is relative to the working directory, which was deleted: give a "
            "path from the root, or start the program in another folder"
        ) from error


def _path_of_uri(location: str) -> Path:
    parts = _split(location)
    if parts.scheme in _THROUGH_HDFS:
        raise CheckpointStorageError(
            f"checkpoint directory {location!r}: HDFS is used by its own protocol only; give what it stands for there, "
            "hdfs://<name service or host:port>/<folder>"
        )
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        raise CheckpointStorageError(
            f"checkpoint directory {location!r}: it can be a folder that driver and executors see as a POSIX path (a "
            "local disk, NFS, a mounted volume; its URI is file:///data/checkpoints, say), or on HDFS or an object "
            f"store ({', '.join(f'{scheme}://' for scheme in REMOTE)}), or where a distribution with an entry point "
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
