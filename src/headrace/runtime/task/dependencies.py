"""The dependencies of a job beside its plan: modules, archives, cached files. Every process of its tasks gets them.

Modules travel as one archive, the *bundle*: a folder with a folder for each entry of the Python path. So do cached
files: a folder for those to be executed, and one for the others.
"""

import importlib
import os
import shutil
import site
import sys
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.common.errors import InvalidProgramError
from headrace.common.job_files import UnpackedFiles, register_files

ARCHIVE_FORMATS: Final = {".zip": "zip", ".jar": "zip", ".tar": "tar", ".tar.gz": "gztar", ".tgz": "gztar"}
"""The archives that Spark unpacks, by the end of their names, and what Python calls their formats."""


EXECUTABLE: Final = "executable"
PLAIN: Final = "plain"
"""The two folders of cached files."""


@dataclass(frozen=True, slots=True)
class Archive:
    """Something that is unpacked wherever tasks run.

    Attributes:
        path: the file, on the driver's machine.
        name: the folder that it is unpacked into.
        folder: where it lies unpacked on the driver's machine already; None when it does not.
    """

    path: str
    name: str
    folder: str | None = None


@dataclass(frozen=True, slots=True)
class JobDependencies:
    """All that a job brings along.

    Attributes:
        bundle: its modules.
        archives: what the program added.
        files: its cached files.
        path: where else its modules are, for tasks that run on the driver's machine: as of :func:`own_path` there.
    """

    bundle: Archive | None = None
    archives: tuple[Archive, ...] = ()
    files: Archive | None = None
    path: tuple[str, ...] = ()

    def all(self) -> Iterator[Archive]:
        """Everything that has to be shipped."""
        yield from self.archives
        yield from (bundle for bundle in (self.bundle, self.files) if bundle is not None)


NOTHING: Final = JobDependencies()
"""Most jobs bring nothing along."""


def enter(dependencies: JobDependencies, folder_of: Callable[[str], str]) -> UnpackedFiles:
    """From now on this process works for a job with these dependencies: its modules can be imported.

    A process that serves several jobs calls this whenever it turns to another one.

    Args:
        dependencies: those of the job.
        folder_of: by its name, where something was unpacked.

    Returns:
        Where its files are.
    """
    _look_in(dependencies.path)
    if dependencies.bundle is not None:
        put_on_path(entries_of(folder_of(dependencies.bundle.name)))
    files = UnpackedFiles(
        {archive.name: Path(folder_of(archive.name)) for archive in dependencies.archives},
        {} if dependencies.files is None else _cached_in(Path(folder_of(dependencies.files.name))),
    )
    register_files(files)
    return files


def work_in(folder: str | None) -> None:
    """Let relative paths begin in a folder; where they did at first, when it is None."""
    if folder is None and not _home:
        return
    if not _home:
        _home.append(os.getcwd())
    os.chdir(_home[0])  # a folder may be relative
    if folder is not None:
        os.chdir(folder)


_home: list[str] = []
"""The working directory of the process before :func:`work_in` changed it."""


def entries_of(bundle: str) -> list[str]:
    """The entries of the Python path in a bundle, in their order."""
    return [str(entry) for entry in sorted(Path(bundle).iterdir()) if entry.is_dir()]


def own_path() -> tuple[str, ...]:
    """Return where this process finds modules that are not its interpreter's, not installed and of no bundle.

    The folder of the program is one of them, or the archive that it is in; and what the program itself has added.
    """
    paths = sysconfig.get_paths()
    elsewhere = [paths[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib")]
    elsewhere += [*site.getsitepackages(), site.getusersitepackages(), *_entries]
    entries = (Path(entry).absolute() for entry in sys.path)  # an empty one is the working directory
    return tuple(str(entry) for entry in entries if entry.exists() and not any(map(entry.is_relative_to, elsewhere)))


def _look_in(entries: tuple[str, ...]) -> None:
    missing = [entry for entry in entries if entry not in sys.path]
    if missing:
        sys.path[:0] = missing
        importlib.invalidate_caches()


def _cached_in(bundle: Path) -> dict[str, Path]:
    for path in (bundle / EXECUTABLE).glob("*"):
        if not os.access(path, os.X_OK):  # neither zip files nor all that unpacks them keep it
            path.chmod(path.stat().st_mode | 0o555)
    return {path.name: path for kind in (EXECUTABLE, PLAIN) for path in (bundle / kind).glob("*")}


def put_on_path(entries: list[str]) -> None:
    """Let modules be imported from these folders, and no longer from those of jobs before, unless they still run here.

    Two jobs may have different modules of one name, so what was imported from the other's folders is forgotten.

    Raises:
        InvalidProgramError: when a job that runs in this process has another module of one name.
    """
    kept = [entry for entry in _entries if _held[entry] and entry not in entries]
    if _entries == [*entries, *kept]:
        return
    _check_no_others(entries, kept)
    _forget_modules([entry for entry in _entries if not _held[entry]])
    sys.path[:] = [entry for entry in sys.path if entry not in _entries]
    sys.path[1:1] = [*entries, *kept]  # behind the program's own folder, ahead of what is installed
    _entries[:] = [*entries, *kept]
    importlib.invalidate_caches()


_entries: list[str] = []
"""The entries that :func:`put_on_path` has added."""

_held: Final[Counter[str]] = Counter()
"""The number of jobs with tasks in this process that have modules in a folder."""


@contextmanager
def held_on_path(entries: list[str]) -> Iterator[None]:
    """Inside, a job runs its tasks in this process, and its modules stay, whatever other jobs bring along."""
    _held.update(entries)
    try:
        yield
    finally:
        _held.subtract(entries)


def _check_no_others(entries: list[str], kept: list[str]) -> None:
    known = {path.name: path for entry in kept for path in Path(entry).iterdir()}
    for path in (path for entry in entries for path in Path(entry).iterdir()):
        other = known.get(path.name)
        if other is not None and _content(other) != _content(path):
            raise InvalidProgramError(
                f"a job that runs in this process has another module {path.stem!r}: wait for its end, or run this job "
                "in a process of its own"
            )


def _content(place: Path) -> dict[str, bytes]:
    """The files of a module or package, by where they are in it; without what Python has compiled."""
    files = [place] if place.is_file() else [path for path in place.rglob("*") if path.is_file()]
    return {str(path.relative_to(place)): path.read_bytes() for path in files if path.suffix != ".pyc"}


def _forget_modules(entries: list[str]) -> None:
    homes = tuple(entry + os.sep for entry in entries)
    for name, module in list(sys.modules.items()):
        if homes and _place_of(module).startswith(homes):
            del sys.modules[name]


def _place_of(module: object) -> str:
    """The file of a module, or the folder of a package that has none."""
    place = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), "")
    return str(place)


def unpack(archive: Archive, into: str) -> str:
    """Unpack an archive in a folder, unless it is there unpacked.

    Returns:
        The folder that holds its content.
    """
    if archive.folder is not None:
        return archive.folder
    kind = next(kind for end, kind in ARCHIVE_FORMATS.items() if archive.path.lower().endswith(end))
    folder = str(Path(into) / archive.name)
    if kind == "zip":
        shutil.unpack_archive(archive.path, folder, kind)
    else:
        shutil.unpack_archive(archive.path, folder, kind, filter="tar")
    return folder
