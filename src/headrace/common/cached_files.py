"""``pipeline.cached-files``: the files that a program has copied to wherever its tasks run."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from headrace.common.config_values import parse_list
from headrace.common.errors import ConfigurationError, InvalidProgramError, UnsupportedOperationError

_ENTRY: Final = re.compile(
    r"""name:(?P<name>[^,:;'"]+),\s*path:(?:'(?P<quoted>[^']+)'|(?P<path>[^,']+))"""
    r"(?:,\s*executable:(?P<executable>true|false))?"
)
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


@dataclass(frozen=True, slots=True)
class CachedFile:
    """A file or folder on the driver's machine.

    Attributes:
        name: what functions call it.
        path: where it is: a path, or a URI of the scheme ``file``.
        executable: whether functions may start it as a program.

    Raises:
        InvalidProgramError: when the name or the path cannot be used.
        UnsupportedOperationError: when the path is a URI of another scheme.
    """

    name: str
    path: str
    executable: bool = False

    def __post_init__(self) -> None:
        if PurePath(self.name).parts != (self.name,) or self.name == ".." or set(self.name) & set(",:;'\"/"):
            raise InvalidProgramError(
                f"the name of a cached file, {self.name!r}, has to be one that files can have, without , : ; and quotes"
            )
        if not self.path or set(self.path) & set(";'\n"):
            raise InvalidProgramError(f"the path of a cached file, {self.path!r}, cannot be empty or have ; or ' in it")
        scheme = _SCHEME.match(self.path)
        if scheme is not None and scheme[1] != "file":
            raise UnsupportedOperationError(
                f"the cached file {self.name!r} is at {self.path}: only files of the driver's machine are copied; read "
                "others in open(), from storage that all tasks reach"
            )

    def __str__(self) -> str:
        """Its entry in the option."""
        return f"name:{self.name},path:'{self.path}'" + (",executable:true" if self.executable else "")


def cached_files(text: str | None) -> list[CachedFile]:
    """The files that the option names.

    Raises:
        ConfigurationError: when an entry is not understood, or a name comes twice.
        InvalidProgramError: when a name or a path cannot be used.
        UnsupportedOperationError: when a path is a URI of another scheme than ``file``.
    """
    files = [_file(str(entry).strip()) for entry in parse_list(text or "")]
    twice = [name for name, count in Counter(file.name for file in files).items() if count > 1]
    if twice:
        raise ConfigurationError(f"pipeline.cached-files: there are two files of the name {twice[0]!r}")
    return files


def _file(entry: str) -> CachedFile:
    found = _ENTRY.fullmatch(entry)
    if found is None:
        raise ConfigurationError(
            f"pipeline.cached-files: {entry!r} is not like name:rates,path:'/data/rates.csv', maybe with "
            ",executable:true at its end"
        )
    return CachedFile(found["name"], found["quoted"] or found["path"], found["executable"] == "true")
