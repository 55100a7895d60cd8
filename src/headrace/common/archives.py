"""Where a task finds the archives that its program brought along."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headrace.common.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Mapping

_folders: dict[str, Path] = {}


def archive_path(name: str) -> Path:
    """The folder into which ``add_python_archive`` had an archive unpacked; to be called in functions of a job.

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


def register_archives(folders: Mapping[str, Path]) -> None:
    """From now on this process works for a job with these archives."""
    _folders.clear()
    _folders.update(folders)
