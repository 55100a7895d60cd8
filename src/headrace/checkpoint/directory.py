"""A checkpoint directory as a place: whether it keeps the promises that exactness rests on, and who may write to it."""

import errno
import hashlib
import re
import time
import uuid
from typing import Final

from headrace.common.errors import CheckpointStorageError
from headrace.common.logs import get_logger
from headrace.storage.folder import Folder

logger = get_logger(__name__)

_PROBE: Final = re.compile(r"\.probe-(?:([0-9]+)-)?[0-9a-f]{32}")

_NOT_KNOWN: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
"""What file systems say to calls that they do not know."""

_OF_A_JOB: Final = frozenset(
    {"failures", "generations", "manifests", "pins", "requests", "shipped", "sinks", "sources", "state"}
)

_PROBE_LIFE_SECONDS: Final = 3600
"""A file of a start that is this old is not one that somebody is just trying the folder with."""


def folder_name(uid: str) -> str:
    """The name of an operator's folder: readable, and another one for every uid, whatever is in it."""
    readable = re.sub(r"[^A-Za-z0-9_-]", "_", uid)[:60]
    return f"{readable}-{hashlib.blake2b(uid.encode(), digest_size=8).hexdigest()}"


def source_folder(storage: Folder, uid: str) -> Folder:
    """The folder of a checkpoint directory that belongs to one source; made by whoever needs it."""
    return storage.folder("sources").folder(folder_name(uid))


def sink_folder(storage: Folder, uid: str) -> Folder:
    """The folder of a checkpoint directory that belongs to one sink; made by whoever needs it."""
    return storage.folder("sinks").folder(folder_name(uid))


def has_begun(directory: Folder) -> bool:
    """Whether a job has ever begun there, whatever has become of it; nothing is written to find out.

    Raises:
        OSError: when the directory cannot be listed.
    """
    return any(_is_anything_in(directory.folder(name)) for name in ("generations", "manifests", "failures"))


def may_begin(directory: Folder) -> bool:
    """Whether a job may be about to begin there: nothing is there yet, or only what a job makes there.

    Raises:
        OSError: when the directory cannot be listed.
    """
    try:
        return all(name in _OF_A_JOB or _PROBE.fullmatch(name) for name in directory.names())
    except FileNotFoundError:
        return True
    except NotADirectoryError:
        return False


def _is_anything_in(folder: Folder) -> bool:
    try:
        return bool(folder.names())
    except (FileNotFoundError, NotADirectoryError):
        return False


def probe(folder: Folder) -> None:
    """Make the folder if it is missing, and try what will be relied on.

    Raises:
        CheckpointStorageError: when the folder cannot be written or does not create files exclusively.
    """
    try:
        folder.make()
        _remove_left_probes(folder)
        name = f".probe-{time.time():.0f}-{uuid.uuid4().hex}"
        try:
            if not folder.create(name, b"1") or folder.create(name, b"2") or folder.read(name) != b"1":
                raise CheckpointStorageError(
                    f"checkpoint directory {folder} does not create files exclusively: two job managers could both "
                    "believe that they own the job; use a file system with hard links, or a store with conditional puts"
                )
            if name not in folder.names() or folder.size(f"{name}-missing") is not None:
                raise CheckpointStorageError(f"checkpoint directory {folder} does not list the files that are there")
        finally:
            folder.remove(name)
    except OSError as error:
        if isinstance(error, CheckpointStorageError):
            raise
        # Of a link alone two names are told; the file was written before, so rights are not what is missing.
        is_link = error.filename2 is not None and error.errno in _NOT_KNOWN
        why = "; the file system has no hard links, which are needed here: use another one" if is_link else ""
        raise CheckpointStorageError(f"checkpoint directory {folder} cannot be used: {error}{why}") from error


def warn_if_open_to_others(directory: Folder) -> None:
    """Warn when other users may write to a checkpoint directory."""
    way_to_close = directory.open_to_others()
    if way_to_close is not None:
        logger.warning(
            "others may write to the checkpoint directory %s, and so decide what the job unpickles: %s",
            directory,
            way_to_close,
        )


def _remove_left_probes(folder: Folder) -> None:
    """Remove what starts have left that were killed while they tried the folder."""
    oldest = time.time() - _PROBE_LIFE_SECONDS

    def is_left(name: str) -> bool:
        found = _PROBE.fullmatch(name)
        return found is not None and int(found[1] or 0) < oldest

    folder.remove_all([name for name in folder.names() if is_left(name)])
    folder.remove_unfinished(is_left)
