"""Paths as users write them, and the files they stand for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from headrace.common.errors import InvalidProgramError, UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_GLOB = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class FileStatus:
    """A file as it was found.

    Attributes:
        path: the absolute path.
        size: bytes.
        mtime_ns: when it was modified, in nanoseconds since the epoch.
    """

    path: str
    size: int
    mtime_ns: int


def local_path(path: str | os.PathLike[str]) -> str:
    """The absolute local path that ``path`` or a ``file:`` URI means.

    Raises:
        UnsupportedOperationError: when it is on another file system.
    """
    text = os.fspath(path)
    parts = urlsplit(text)
    if len(parts.scheme) > 1 and text.startswith(f"{parts.scheme}:/"):
        if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
            raise UnsupportedOperationError(
                f"{text}: only local files can be read and written directly. Mount the file system, or let Spark "
                "read it as a DataFrame and use that as the source"
            )
        text = unquote(parts.path)
    return os.path.normpath(Path(text).expanduser().absolute())


def check_exist(paths: Iterable[str]) -> None:
    """Refuse paths that name nothing, which is a mistake more often than not; a pattern may match nothing.

    Raises:
        InvalidProgramError: naming the path.
    """
    for path in paths:
        if not is_pattern(path) and not Path(path).exists():
            raise InvalidProgramError(f"there is no file or folder {path}")


def is_pattern(path: str) -> bool:
    """Whether a path is a pattern of ``*``, ``?``, ``[...]`` and ``**``, and not the name of a file that exists."""
    return not _GLOB.isdisjoint(path) and not Path(path).exists()


def list_files(paths: Iterable[str]) -> list[FileStatus]:
    """All files that the paths stand for, each once, in path order.

    A folder stands for the files in it and in its folders. Files and folders whose names start with ``.`` or ``_`` are
    hidden, unless they are named in full. Empty files are left out: they hold no records, and may be about to be
    written.
    """
    found: dict[str, FileStatus] = {}
    for path in paths:
        for status in _matches(path):
            found.setdefault(status.path, status)
    return [found[path] for path in sorted(found)]


def _matches(path: str) -> Iterator[FileStatus]:
    if not is_pattern(path):
        yield from _below(path)
        return
    root = Path(path).anchor
    fixed = sum(1 for _ in _fixed_parts(path))
    for match in sorted(Path(root).glob(os.path.relpath(path, root))):
        if not any(map(_is_hidden, match.parts[fixed:])):
            yield from _below(str(match))


def _fixed_parts(path: str) -> Iterator[str]:
    """The leading parts of a pattern that are not patterns."""
    for part in Path(path).parts:
        if not _GLOB.isdisjoint(part):
            return
        yield part


def _below(path: str) -> Iterator[FileStatus]:
    """The file ``path``, or all visible files below the folder ``path``."""
    if not Path(path).is_dir():
        status = stat_file(path)
        if status is not None and status.size:
            yield status
        return
    folders, seen = [path], set()
    while folders:
        folder = folders.pop()
        real = os.path.realpath(folder)
        if real in seen:  # a symbolic link to a folder above
            continue
        seen.add(real)
        yield from _visible(folder, folders)


def _visible(folder: str, folders: list[str]) -> Iterator[FileStatus]:
    """The visible files of one folder; its visible folders are put into ``folders``."""
    try:
        entries = os.scandir(folder)
    except FileNotFoundError:  # removed since it was listed
        return
    with entries:
        for entry in entries:
            if _is_hidden(entry.name):
                continue
            if entry.is_dir():
                folders.append(entry.path)
                continue
            status = stat_file(entry)
            if status is not None and status.size:
                yield status


def stat_file(entry: str | os.DirEntry[str]) -> FileStatus | None:
    """The file's status now; None when it is gone."""
    try:
        info = entry.stat() if isinstance(entry, os.DirEntry) else Path(entry).stat()
    except FileNotFoundError:
        return None
    return FileStatus(os.fspath(entry), info.st_size, info.st_mtime_ns)


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))
