"""Archives and cached files of a job: how the program names them, and where its functions find them."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Final

from headrace.common.config_options import parse_list
from headrace.common.errors import ConfigurationError, InvalidProgramError, UnsupportedOperationError


@dataclass(frozen=True, slots=True)
class UnpackedFiles:
    """The places of a job's archives and cached files on this machine, by their names."""

    archives: Mapping[str, Path] = field(default_factory=dict)
    cached: Mapping[str, Path] = field(default_factory=dict)


_of_context: ContextVar[UnpackedFiles | None] = ContextVar("headrace_unpacked_files", default=None)

_of_process: list[UnpackedFiles] = [UnpackedFiles()]
"""The files of the job that this process has turned to last, for threads that its functions start."""


def _current() -> UnpackedFiles:
    return _of_context.get() or _of_process[0]


def archive_path(name: str) -> Path:
    """The folder into which ``add_python_archive`` had an archive unpacked; to be called in functions of a job.

    While such functions run it also is that folder below the working directory: ``open("cities/names.txt")`` finds it.

    Args:
        name: the target folder that was given, or the name of the archive's file.

    Raises:
        InvalidProgramError: when the job in this process has no such archive.

    Examples:
        >>> from pathlib import Path
        >>> from zipfile import ZipFile
        >>> from headrace.common import archive_path
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> with ZipFile("cities.zip", "w") as archive:
        ...     archive.writestr("names.txt", "Basel")
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.add_python_archive("cities.zip", "cities")
        >>> def load(_):
        ...     return (archive_path("cities") / "names.txt").read_text()
        >>> env.from_collection([1]).map(load, output_type=str).execute_and_collect(limit=10)
        ['Basel']
    """
    folders = _current().archives
    if name not in folders:
        known = ", ".join(sorted(folders)) or "none"
        raise InvalidProgramError(
            f"there is no archive {name!r} here: add_python_archive() was called for {known}; archives are there for "
            "the functions of a job, not while the job is built"
        )
    return folders[name]


class DistributedCache:
    """The files of ``register_cached_file``, as the functions of a job find them; ``RuntimeContext`` gives it."""

    def get_file(self, name: str) -> Path:
        """The copy of a file or folder on this machine.

        Args:
            name: the name that it was registered under.

        Raises:
            InvalidProgramError: when the job in this process has no such file.
        """
        files = _current().cached
        if name not in files:
            known = ", ".join(sorted(files)) or "none"
            raise InvalidProgramError(
                f"there is no cached file {name!r} here: register_cached_file() was called for {known}"
            )
        return files[name]


def register_files(files: UnpackedFiles) -> None:
    """From now on this process works for a job with these files."""
    _of_process[0] = files


@contextmanager
def working_with(files: UnpackedFiles) -> Iterator[None]:
    """Inside, this thread works for a job with these files, whatever other jobs there are in the process."""
    token = _of_context.set(files)
    try:
        yield
    finally:
        _of_context.reset(token)


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
