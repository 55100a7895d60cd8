"""Where a task finds the archives and the cached files that its program brought along."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headrace.common.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Mapping

_folders: dict[str, Path] = {}
_files: dict[str, Path] = {}


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
    if name not in _folders:
        known = ", ".join(sorted(_folders)) or "none"
        raise InvalidProgramError(
            f"there is no archive {name!r} here: add_python_archive() was called for {known}; archives are there for "
            "the functions of a job, not while the job is built"
        )
    return _folders[name]


class DistributedCache:
    """The files of ``register_cached_file``, as the functions of a job find them; ``RuntimeContext`` gives it."""

    def get_file(self, name: str) -> Path:
        """The copy of a file or folder on this machine.

        Args:
            name: the name that it was registered under.

        Raises:
            InvalidProgramError: when the job in this process has no such file.
        """
        if name not in _files:
            known = ", ".join(sorted(_files)) or "none"
            raise InvalidProgramError(
                f"there is no cached file {name!r} here: register_cached_file() was called for {known}"
            )
        return _files[name]


def register_archives(folders: Mapping[str, Path]) -> None:
    """From now on this process works for a job with these archives."""
    _folders.clear()
    _folders.update(folders)


def register_cached_files(files: Mapping[str, Path]) -> None:
    """From now on this process works for a job with these cached files."""
    _files.clear()
    _files.update(files)
