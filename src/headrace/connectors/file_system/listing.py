"""The files that paths stand for.

A file must not be overlooked because a folder cannot be listed for a while: what cannot be looked at is an error.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.common.errors import InfrastructureError
from headrace.connectors.file_system.paths import has_wildcards, is_pattern
from headrace.connectors.file_system.tolerance import GONE
from headrace.formats.file_format import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LOST_AND_FOUND = "lost+found"
"""A folder that the file system keeps for itself at the root of a volume; only root may look into it."""


@dataclass(frozen=True, slots=True)
class FileStatus:
    """A file as it was found.

    Attributes:
        path: the absolute path; bytes of it that are no text are surrogates, as Python has them.
        size: bytes.
        mtime_ns: when it was modified, in nanoseconds since the epoch.
    """

    path: str
    size: int
    mtime_ns: int


def list_files(paths: Iterable[str]) -> list[FileStatus]:
    """All files that the paths stand for, each once, in path order.

    A folder stands for the files in it and in its folders. Files and folders whose names start with ``.`` or ``_``, and
    ``lost+found``, are hidden, unless they are named in full. Empty files are left out: they hold no records, and may
    be about to be written. So is what is no file: pipes, sockets, devices, links to nothing.

    Raises:
        InfrastructureError: naming a folder or a file that cannot be looked at.
    """
    found: dict[str, FileStatus] = {}
    for path in paths:
        for match in _expand(path) if is_pattern(path) else [path]:
            for status in _below(match):
                found.setdefault(status.path, status)
    return [found[path] for path in sorted(found)]


def check_still_there(folders: Iterable[str]) -> None:
    """Tell a folder that is gone from one without new files.

    Raises:
        InfrastructureError: naming the folder.
    """
    for folder in folders:
        if _stat(folder) is None:
            raise InfrastructureError(
                f"{shown(folder)}, which the source watches, is gone: mount it or make it again, and the job goes on "
                "where it was. To watch for folders that come and go, give a pattern"
            )


def stat_file(path: str) -> FileStatus | None:
    """The file's status now; None when there is no file (any more).

    Raises:
        OSError: when that cannot be told.
    """
    try:
        return _status(path, Path(path).stat())
    except OSError as error:
        if _is_nothing(error):
            return None
        raise


def unreadable(path: str, error: OSError) -> InfrastructureError:
    """What to tell of a file that is there and cannot be read."""
    advice = ": let the user that runs the job read it" if isinstance(error, PermissionError) else ""
    return InfrastructureError(f"{shown(path)} cannot be read ({error.strerror or error}){advice}")


def _expand(pattern: str) -> list[str]:
    """The visible files and folders that match a pattern."""
    root, *parts = Path(pattern).parts
    found = [root]
    for part in parts:
        found = list(dict.fromkeys(match for folder in found for match in _step(folder, part)))
    return found


def _step(folder: str, part: str) -> Iterator[str]:
    """What matches the next part of a pattern."""
    if part == "**":
        yield folder
        for entry in _entries(folder):
            if _is_folder(entry) and not entry.is_symlink():
                yield from _step(entry.path, part)
    elif has_wildcards(part):
        yield from (entry.path for entry in _entries(folder) if fnmatch.fnmatchcase(entry.name, part))
    else:
        path = os.path.join(folder, part)
        if _stat(path) is not None:
            yield path


def _below(path: str) -> Iterator[FileStatus]:
    """The file ``path``, or all visible files below the folder ``path``.

    A folder that can be reached by several ways is gone through once, by a way without links if there is one.
    """
    info = _stat(path)
    if info is None or not stat.S_ISDIR(info.st_mode):
        yield from _with_content(path, info)
        return
    folders, links, seen = [path], list[str](), set[str]()
    while folders or links:
        if not folders:
            links.sort(reverse=True)
            folders.append(links.pop())
        folder = folders.pop()
        real = os.path.realpath(folder)
        if real in seen:
            continue
        seen.add(real)
        for entry in _entries(folder):
            if _is_folder(entry):
                (links if entry.is_symlink() else folders).append(entry.path)
            else:
                yield from _with_content(entry.path, _stat(entry.path))


def _with_content(path: str, info: os.stat_result | None) -> Iterator[FileStatus]:
    status = None if info is None else _status(path, info)
    if status is not None and status.size:
        yield status


def _status(path: str, info: os.stat_result) -> FileStatus | None:
    return FileStatus(path, info.st_size, info.st_mtime_ns) if stat.S_ISREG(info.st_mode) else None


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """What is visible in a folder; nothing when it is gone, or no folder."""
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if not _is_hidden(entry.name)]
    except GONE:
        return []
    except OSError as error:
        raise _not_seen(folder, error) from error


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError as error:
        if _is_nothing(error):
            return False
        raise _not_seen(entry.path, error) from error


def _stat(path: str) -> os.stat_result | None:
    """None when there is nothing."""
    try:
        return Path(path).stat()
    except OSError as error:
        if _is_nothing(error):
            return None
        raise _not_seen(path, error) from error


def _is_nothing(error: OSError) -> bool:
    """Whether there is nothing of that name, or a link that leads round in a circle."""
    return isinstance(error, GONE) or error.errno == errno.ELOOP


def _not_seen(path: str, error: OSError) -> InfrastructureError:
    return InfrastructureError(
        f"{shown(path)} cannot be looked at ({error.strerror}), so files may be overlooked: let the user that runs the "
        "job read it, or give it a name that starts with a dot"
    )


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_")) or name == _LOST_AND_FOUND
