"""Collects what a program brings along, before its job is submitted: modules, requirements, archives, cached files."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.common import options
from headrace.common.durable import TemporaryFolder, writing
from headrace.common.errors import ConfigurationError, InvalidProgramError
from headrace.common.job_files import cached_files
from headrace.runtime.task.dependencies import (
    ARCHIVE_FORMATS,
    EXECUTABLE,
    PLAIN,
    Archive,
    Dependencies,
    entries_of,
    put_on_path,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.common.config_options import ConfigOption
    from headrace.common.configuration import Configuration


_PACKED: Final = (".zip", ".egg", ".whl")
"""Modules and packages in one file."""

_REQUIREMENTS: Final = "requirements"


def gather(configuration: Configuration) -> Dependencies:
    """What the options under ``python.`` and ``pipeline.cached-files`` name, ready to be shipped.

    The driver can import the modules from now on.

    Raises:
        InvalidProgramError: when something is not there, or pip cannot install what is required.
        InfrastructureError: when what is copied cannot be written: the disk is full, say.
    """
    archives = tuple(map(_archive, _listed(configuration, options.PYTHON_ARCHIVES)))
    with writing("the job"):
        return Dependencies(_modules(configuration), archives, _cached_files(configuration))


def _modules(configuration: Configuration) -> Archive | None:
    files = _listed(configuration, options.PYTHON_FILES)
    requirements = configuration.get(options.PYTHON_REQUIREMENTS)
    if not files and requirements is None:
        return None
    folder = Path(tempfile.mkdtemp(dir=_home()))
    for number, path in enumerate(files):
        _add_modules(Path(path), folder / f"{number:03}")
    if requirements is not None:
        _install(requirements, configuration.get(options.PYTHON_EXECUTABLE), folder / _REQUIREMENTS)
    kept = _kept(folder, "headrace-python")
    if files:  # what pip has installed is for the tasks: the driver has its own packages
        put_on_path([entry for entry in entries_of(str(kept)) if Path(entry).name != _REQUIREMENTS])
    return _bundle(kept)


def _cached_files(configuration: Configuration) -> Archive | None:
    files = cached_files(configuration.get(options.CACHED_FILES))
    if not files:
        return None
    folder = Path(tempfile.mkdtemp(dir=_home()))
    for file in files:
        path = Path(file.path.removeprefix("file://")).expanduser()
        copy = folder / (EXECUTABLE if file.executable else PLAIN) / file.name
        copy.parent.mkdir(exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, copy)
        elif path.is_file():
            shutil.copy(path, copy)
        else:
            raise InvalidProgramError(f"register_cached_file: there is no file or folder {path.absolute()}")
    return _bundle(_kept(folder, "headrace-files"))


def this_interpreter(python: str) -> bool:
    """Whether a path or command names the interpreter of this process."""
    found = shutil.which(python)
    return found is not None and _identity(found) == _identity(sys.executable)


def check_interpreter(configuration: Configuration) -> None:
    """Refuse an interpreter that cannot be had.

    Raises:
        ConfigurationError: when it is empty or inside an archive, or the local runtime, which has just this one
            process, is asked for another.
    """
    python = configuration.get(options.PYTHON_EXECUTABLE)
    if python is None:
        return
    if not python.strip():
        raise ConfigurationError(f"{options.PYTHON_EXECUTABLE.key} is empty: give a path or a command, or leave it out")
    names = [_archive_name(entry) for entry in _listed(configuration, options.PYTHON_ARCHIVES)]
    if Path(python).parts[0] in names:
        raise ConfigurationError(
            f"{options.PYTHON_EXECUTABLE.key} = {python!r} lies in an archive of the job, which is unpacked after the "
            "workers have started: let Spark do both, with spark.archives and spark.pyspark.python"
        )
    if configuration.get(options.RUNTIME) == "local" and not this_interpreter(python):
        raise ConfigurationError(
            f"{options.PYTHON_EXECUTABLE.key} = {python!r}: the local runtime runs in the program's own process "
            f"({sys.executable}); run the program with the other interpreter"
        )


@cache
def _home() -> str:
    """A folder that lives as long as this process: executors may ask for what is in it at any time."""
    folder = TemporaryFolder("dependencies-")
    atexit.register(folder.remove)
    return str(folder.path)


def _listed(configuration: Configuration, option: ConfigOption[str | None]) -> list[str]:
    text = configuration.get(option)
    return [entry.strip() for entry in text.split(",")] if text else []


def _archive_name(entry: str) -> str:
    path, _, name = entry.partition("#")
    return name or Path(path).name


def _archive(entry: str) -> Archive:
    path = Path(entry.partition("#")[0]).expanduser().absolute()
    name = _archive_name(entry)
    if not path.is_file():
        raise InvalidProgramError(f"add_python_archive: there is no file {path}")
    if not path.name.lower().endswith(tuple(ARCHIVE_FORMATS)):
        raise InvalidProgramError(f"add_python_archive: {path} is not one of {', '.join(ARCHIVE_FORMATS)}")
    if not _is_archive(path):
        raise InvalidProgramError(f"add_python_archive: {path} is no archive, or a damaged one")
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise InvalidProgramError(f"add_python_archive: the target folder {name!r} has to be a relative path")
    return Archive(str(path), name)


def _is_archive(path: Path) -> bool:
    """Whether a file begins, or ends, as its name says; what is inside is not looked at."""
    suffix = next(suffix for suffix in ARCHIVE_FORMATS if path.name.lower().endswith(suffix))
    return zipfile.is_zipfile(path) if ARCHIVE_FORMATS[suffix] == "zip" else tarfile.is_tarfile(path)


def _add_modules(path: Path, folder: Path) -> None:
    """Put what a program added where modules can be imported from."""
    path = path.expanduser()
    if path.is_dir():
        shutil.copytree(path, folder, ignore=shutil.ignore_patterns("__pycache__"))
    elif not path.is_file():
        raise InvalidProgramError(f"add_python_file: there is no file or folder {path.absolute()}")
    elif path.suffix == ".py":
        folder.mkdir()
        shutil.copy(path, folder)
    elif path.suffix in _PACKED:
        try:
            shutil.unpack_archive(path, folder, "zip")
        except (OSError, zipfile.BadZipFile) as error:
            raise InvalidProgramError(f"add_python_file: {path} cannot be unpacked: {error}") from None
    else:
        raise InvalidProgramError(
            f"add_python_file: {path} is neither a module (.py) nor a folder or one of {', '.join(_PACKED)}"
        )


def _install(requirements: str, python: str | None, folder: Path) -> None:
    """Have pip install what a file lists; from a folder of packages only when one is given."""
    listing, _, packages = requirements.partition("#")
    for path in filter(None, (listing, packages)):
        if not Path(path).exists():
            raise InvalidProgramError(f"set_python_requirements: there is no file or folder {Path(path).absolute()}")
    options_of_pip = ("--no-index", "--find-links", packages) if packages else ()
    install(listing, folder, "set_python_requirements", options_of_pip, python)


def _kept(folder: Path, prefix: str) -> Path:
    """The same content under a name that tells the content, so that it is shipped once however often it is used."""
    kept = folder.with_name(f"{prefix}-{_digest(folder)}")
    if kept.exists():
        shutil.rmtree(folder)
    else:
        folder.rename(kept)
    return kept


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").digest()
        digest.update(f"{path.relative_to(folder)}\0".encode(errors="surrogateescape") + content)
    return digest.hexdigest()[:16]


def _bundle(folder: Path) -> Archive:
    path = folder.with_suffix(".zip")
    if not path.exists():
        shutil.make_archive(str(folder), "zip", folder)
    return Archive(str(path), folder.name, str(folder))


def _identity(python: str) -> tuple[str, str]:
    """Two environments may share one program file, but not the folder that it is started from."""
    return os.path.realpath(python), os.path.realpath(Path(python).parent)


_QUIETLY: Final = ("--quiet", "--disable-pip-version-check", "--no-input", "--no-compile")


def install(listing: str, folder: Path, asked_by: str, options: Sequence[str] = (), python: str | None = None) -> None:
    """Install what a file of requirements lists.

    Args:
        listing: the file.
        folder: where the packages go; made where nothing is required, too.
        asked_by: who wants them, for an error.
        options: more options of ``pip install``.
        python: the interpreter whose pip does it, and for which packages are chosen; this one when left out.

    Raises:
        InvalidProgramError: when pip cannot install them; the message holds what pip says.
    """
    command = [python or sys.executable, "-m", "pip", "install", *_QUIETLY, "--target", str(folder)]
    done = subprocess.run([*command, "--requirement", listing, *options], capture_output=True, text=True, check=False)
    if done.returncode:
        raise InvalidProgramError(f"{asked_by}: pip could not install what {listing} asks for\n{done.stderr.strip()}")
    folder.mkdir(exist_ok=True)
