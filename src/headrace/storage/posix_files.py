"""Files of users on a POSIX file system."""

from __future__ import annotations

import errno
import fnmatch
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headrace.common.errors import InfrastructureError
from headrace.storage.files import FileStatus, FileStore, has_wildcards, is_hidden, shown

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator

_GONE: Final = (FileNotFoundError, NotADirectoryError)


class PosixFiles(FileStore):
    """Files that driver and executors see under the same path."""

    def find(self, path: str) -> Iterator[FileStatus]:
        for match in _expand(path) if self.is_pattern(path) else [path]:
            yield from _below(match)

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def is_lost(self, folder: str) -> bool:
        return _stat(folder) is None

    def missing(self, path: str) -> str | None:
        found = Path(path)
        if found.exists() and not found.is_file() and not found.is_dir():
            return f"{shown(path)} is neither a file nor a folder"
        return super().missing(path)

    def status(self, path: str) -> FileStatus | None:
        try:
            return _status(path, Path(path).stat())
        except OSError as error:
            if _is_nothing(error):
                return None
            raise

    def open(self, path: str) -> io.RawIOBase:
        return Path(path).open("rb", buffering=0)

    def open_for_arrow(self, path: str) -> pa.NativeFile:
        # Not mapped into memory: if the file were cut short meanwhile, touching it would kill the process. The path as
        # bytes, for a name may hold bytes that are no text.
        return pa.OSFile(os.fsencode(path))


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
            return [entry for entry in entries if not is_hidden(entry.name)]
    except _GONE:
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
    return isinstance(error, _GONE) or error.errno == errno.ELOOP


def _not_seen(path: str, error: OSError) -> InfrastructureError:
    return InfrastructureError(
        f"{shown(path)} cannot be looked at ({error.strerror}), so files may be overlooked: let the user that runs the "
        "job read it, or give it a name that starts with a dot"
    )
