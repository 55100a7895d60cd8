"""Paths as users write them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from headrace.common.errors import InvalidProgramError, UnsupportedOperationError
from headrace.formats.file_format import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

_GLOB = frozenset("*?[")

_URI = re.compile(r"([a-z][a-z0-9+.-]+):(/.*)", re.IGNORECASE | re.DOTALL)
_PATH_OF_FILE_URI = re.compile(r"(?://(?:localhost)?)?(/(?!/).*)", re.IGNORECASE | re.DOTALL)


def local_path(path: str | os.PathLike[str]) -> str:
    """The absolute local path that ``path`` or a ``file:`` URI means.

    Raises:
        UnsupportedOperationError: when it is on another file system.
    """
    text = os.fspath(path)
    uri = _URI.fullmatch(text)
    if uri is not None:
        # ``?`` and ``#`` are characters of the path, as those who write patterns expect: a file has no query.
        local = _PATH_OF_FILE_URI.fullmatch(uri[2]) if uri[1].lower() == "file" else None
        if local is None:
            raise UnsupportedOperationError(
                f"{text}: only local files can be read and written directly. Mount the file system, or let Spark "
                "read it as a DataFrame and use that as the source"
            )
        text = unquote(local[1], errors="surrogateescape")
    return os.path.normpath(Path(text).expanduser().absolute())


def check_exist(paths: Iterable[str]) -> None:
    """Refuse paths that name nothing to read, which is a mistake more often than not; a pattern may match nothing.

    Raises:
        InvalidProgramError: naming the path.
    """
    for path in map(Path, paths):
        if is_pattern(str(path)):
            continue
        if not path.exists():
            raise InvalidProgramError(f"there is no file or folder {shown(str(path))}")
        if not path.is_file() and not path.is_dir():
            raise InvalidProgramError(f"{shown(str(path))} is neither a file nor a folder")


def is_pattern(path: str) -> bool:
    """Whether a path is a pattern of ``*``, ``?``, ``[...]`` and ``**``, and not the name of a file that exists."""
    return has_wildcards(path) and not Path(path).exists()


def has_wildcards(part: str) -> bool:
    """Whether there are characters in a path, or in one part of it, that stand for others."""
    return not _GLOB.isdisjoint(part)
