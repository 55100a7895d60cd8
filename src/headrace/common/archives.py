"""Where a task finds the archives and the cached files that its program brought along."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from headrace.common.errors import InvalidProgramError


@dataclass(frozen=True, slots=True)
class UnpackedFiles:
    """Where the archives and the cached files of a job are on this machine, by their names."""

    archives: Mapping[str, Path] = field(default_factory=dict)
    cached: Mapping[str, Path] = field(default_factory=dict)


_of_context: ContextVar[UnpackedFiles | None] = ContextVar("headrace_unpacked_files", default=None)

_of_process: list[UnpackedFiles] = [UnpackedFiles()]
"""Those of the job that this process has turned to last, for threads that its functions start."""


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
