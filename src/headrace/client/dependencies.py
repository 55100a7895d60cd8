"""Modules, archives and files of a program: collected before its job is submitted, or archived for clusters."""

import atexit
import compileall
import hashlib
import os
import re
import secrets
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import distribution, distributions
from itertools import chain
from pathlib import Path
from py_compile import PycInvalidationMode
from types import MappingProxyType
from typing import Final

import headrace
from headrace.common import options
from headrace.common.config_options import ConfigOption
from headrace.common.configuration import Configuration
from headrace.common.durable import TemporaryFolder, writing
from headrace.common.errors import ConfigurationError, InvalidProgramError
from headrace.common.job_files import cached_files
from headrace.runtime.task.dependencies import (
    ARCHIVE_FORMATS,
    EXECUTABLE,
    NOTHING,
    PLAIN,
    Archive,
    JobDependencies,
    entries_of,
    put_on_path,
)

_PACKED: Final = (".zip", ".egg", ".whl")
"""Modules and packages in one file."""

_REQUIREMENTS: Final = "requirements"

_BRINGING: Final = (
    options.PYTHON_FILES.key,
    options.PYTHON_REQUIREMENTS.key,
    options.PYTHON_ARCHIVES.key,
    options.CACHED_FILES.key,
)
"""The options that say what a program brings along."""


def gather(configuration: Configuration) -> JobDependencies:
    """Return what the options under ``python.`` and ``pipeline.cached-files`` name, ready to be shipped.

    The driver can import the modules from now on.

    Raises:
        InvalidProgramError: when something is not there, or pip cannot install what is required.
        InfrastructureError: when what is copied cannot be written: the disk is full, say.
    """
    if not any(map(configuration.contains_key, _BRINGING)):
        return NOTHING
    archives = tuple(map(_archive, _listed(configuration, options.PYTHON_ARCHIVES)))
    with writing("the job"):
        return JobDependencies(_modules(configuration), archives, _cached_files(configuration))


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
    text = configuration.get(options.CACHED_FILES)
    files = cached_files(text) if text else []
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
    """Return whether a path or command names the interpreter of this process."""
    found = shutil.which(python)
    return found is not None and _identity(found) == _identity(sys.executable)


def check_interpreter(configuration: Configuration) -> None:
    """Refuse an interpreter that cannot be had.

    Raises:
        ConfigurationError: when it is empty or inside an archive, or the local runtime, which has just this one
            process, is to get another.
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
    """Return whether a file begins, or ends, as its name says; what is inside is not looked at."""
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
    """The same content under a name derived from it, so that it is shipped once however often it is used."""
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


def install(
    listing: str, folder: Path, requested_by: str, options: Sequence[str] = (), python: str | None = None
) -> None:
    """Install what a file of requirements lists.

    Args:
        listing: the file.
        folder: where the packages go; made where nothing is required, too.
        requested_by: what requires them, for an error.
        options: more options of ``pip install``.
        python: the interpreter whose pip does it, and for which packages are chosen; this one when left out.

    Raises:
        InvalidProgramError: when pip cannot install them; the message holds what pip says.
    """
    command = [python or sys.executable, "-m", "pip", "install", *_QUIETLY, "--target", str(folder)]
    done = subprocess.run([*command, "--requirement", listing, *options], capture_output=True, text=True, check=False)
    if done.returncode:
        raise InvalidProgramError(
            f"{requested_by}: pip could not install what {listing} asks for\n{done.stderr.strip()}"
        )
    folder.mkdir(exist_ok=True)


REQUIREMENTS: Final = "requirements.txt"
"""The file in a job's folder that lists the packages it needs."""

_ALWAYS: Final = ("spark",)
"""Extras of headrace that every job on a cluster needs."""

_OF_THE_CLUSTER: Final = frozenset({"pyspark", "headrace"})
"""Is never installed from a package index: Spark is the cluster's, and headrace the one that makes the archive."""

_LEFT_OUT: Final = shutil.ignore_patterns(".*", "__pycache__", "*.pyc", REQUIREMENTS)
_NAME: Final = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^]]*)\])?")
_SAME: Final = MappingProxyType[str, str]({})
_EXTRA: Final = re.compile(r"(.*?)\s*;\s*extra\s*==\s*['\"]([^'\"]+)['\"]\s*")
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The time of every file in an archive, so that the same content makes the same bytes."""


def package_job(
    job: Path, archive: Path, extras: Iterable[str] = (), target: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    """Make the archive of a job; gives the names and versions of the packages in it, headrace among them.

    Args:
        job: the folder of its modules; a ``requirements.txt`` there lists the packages that it needs.
        archive: the zip file to make; one that is there is replaced.
        extras: those of headrace that the job needs: ``cloud``, ``hdfs``.
        target: the Python of the executors, as far as it differs from this one, by the names of pip's options
            (``--python-version``, ``--platform``); packages have the versions that are installed here, where they are.

    Raises:
        InvalidProgramError: when there is nothing in the folder, something there cannot be copied, headrace has no
            such extra, a module of the job has the name of a package, or pip cannot install what is required.
        InfrastructureError: when the archive, or what it is made of, cannot be written: the disk is full, say.
    """
    if archive.is_dir():
        raise InvalidProgramError(f"{archive} is a folder: give the name of the archive, {archive / job.name}.zip say")
    required = _required(job, extras)
    with writing("headrace package"):
        work = TemporaryFolder("package-")
        try:
            packages = _collect(job, archive, work.path, required, target)
            with writing("headrace package", str(archive)):
                _zip(packages, archive)
            return sorted(f"{found.name} {found.version}" for found in distributions(path=[str(packages)]))
        finally:
            work.remove()


def _collect(job: Path, archive: Path, work: Path, required: Sequence[str], target: Mapping[str, str]) -> Path:
    """The folder with all that the archive is to hold, made inside another one."""
    packages, modules = work / "packages", work / "modules"
    _copy_modules(job, modules, archive)  # before pip, which takes its time
    _install_required(work, packages, required, target)
    _copy_headrace(packages)
    _move_modules(job, modules, packages)
    if not target:
        _compile(packages)
    return packages


def _required(job: Path, extras: Iterable[str]) -> list[str]:
    """The lines of a file of requirements: those of headrace and those of the job."""
    wanted = {*_ALWAYS, *extras}
    lines = []
    listing = job / REQUIREMENTS
    for line in _lines(listing) if listing.is_file() else ():
        found = _NAME.match(line)
        if found and found[1].lower() in _OF_THE_CLUSTER:
            wanted |= {extra.strip() for extra in (found[2] or "").split(",") if found[1].lower() == "headrace"} - {""}
        else:
            lines.append(line)
    return [*_requirements_of_headrace(wanted - {"jdk", "dev"}), *lines]


def _lines(listing: Path) -> list[str]:
    try:
        return listing.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InvalidProgramError(f"{listing} is not UTF-8 at byte {error.start}: save it as that") from None


def _requirements_of_headrace(extras: set[str]) -> Iterator[str]:
    about = distribution("headrace")
    unknown = extras - set(about.metadata.get_all("Provides-Extra") or ())
    if unknown:
        raise InvalidProgramError(f"headrace has no extra {', '.join(sorted(unknown))}")
    for requirement in about.requires or ():
        conditional = _EXTRA.fullmatch(requirement)
        plain = conditional[1] if conditional else requirement
        name = _NAME.match(plain)
        is_wanted = conditional is None or conditional[2] in extras
        if is_wanted and name and name[1].lower() not in _OF_THE_CLUSTER:
            yield plain


def _install_required(work: Path, packages: Path, required: Sequence[str], target: Mapping[str, str]) -> None:
    listing, versions = work / REQUIREMENTS, work / "constraints.txt"
    listing.write_text("".join(f"{line}\n" for line in required))
    versions.write_text("".join(f"{line}\n" for line in _installed_versions()))
    given = ["--only-binary=:all:", *chain.from_iterable(target.items())] if target else []
    install(str(listing), packages, "headrace package", ["--constraint", str(versions), *given])


def _installed_versions() -> list[str]:
    """Return what is installed here from a package index: driver and executors are to have the same."""
    indexed = (found for found in distributions() if found.read_text("direct_url.json") is None)
    return sorted({f"{found.name}=={found.version}" for found in indexed if found.name})


def _copy_headrace(packages: Path) -> None:
    """The code that runs here, also where it was installed from a clone, in place of what a plugin requires."""
    home = Path(headrace.__file__).parent
    for theirs in (*packages.glob(home.name), *packages.glob(f"{home.name}-*.dist-info")):
        shutil.rmtree(theirs)
    shutil.copytree(home, packages / home.name, ignore=_LEFT_OUT)
    about = distribution("headrace")
    kept = packages / f"headrace-{about.version}.dist-info"
    kept.mkdir()
    for name in ("METADATA", "entry_points.txt"):
        kept.joinpath(name).write_text(about.read_text(name) or "")


def _copy_modules(job: Path, modules: Path, archive: Path) -> None:
    """Copy the modules of a job's folder that belong into the archive; links are followed."""

    def left_out(folder: str, names: list[str]) -> set[str]:
        ignored = _LEFT_OUT(folder, names)
        paths = [Path(folder, name) for name in names if name not in ignored]
        for path in paths:
            _check_entry(path)
        return ignored | {path.name for path in paths if path.resolve() == archive.resolve()}

    try:
        shutil.copytree(job, modules, ignore=left_out)
    except OSError as error:
        path, _, why = error.args[0][0] if isinstance(error, shutil.Error) else (error.filename, "", error.strerror)
        raise InvalidProgramError(f"{path} cannot be put into the archive: {why}") from None
    if not any(modules.iterdir()) and not (job / REQUIREMENTS).is_file():
        raise InvalidProgramError(
            f"the folder {job.resolve()} is empty, but for hidden files perhaps: give the one with the job's modules"
        )


def _check_entry(path: Path) -> None:
    """Refuse what would make a copy without end, and names that cannot be in an archive."""
    if path.is_symlink() and path.is_dir() and path.parent.resolve().is_relative_to(path.resolve()):
        raise InvalidProgramError(f"{path} is a link to a folder that it is in: remove it, or move it elsewhere")
    try:
        path.name.encode()
    except UnicodeEncodeError:
        raise InvalidProgramError(f"the name of the file {os.fsencode(path)!r} is not UTF-8: rename it") from None


def _move_modules(job: Path, modules: Path, packages: Path) -> None:
    """The job's modules beside the packages, of which they must not have the names."""
    taken = {path.name.partition(".")[0] for path in packages.iterdir()}
    for path in sorted(modules.iterdir()):
        is_module = path.is_dir() or path.suffix == ".py"
        if (packages / path.name).exists() or (is_module and path.stem in taken):
            raise InvalidProgramError(f"{job / path.name} has the name of a package that the job needs: rename it")
        path.rename(packages / path.name)


def _compile(packages: Path) -> None:
    """Else every executor would compile all modules anew; what cannot be compiled is not imported either."""
    compileall.compile_dir(
        packages, quiet=2, stripdir=str(packages), workers=1, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH
    )


def _zip(folder: Path, archive: Path) -> None:
    """All files of a folder, in an order and with times that are always the same."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own: another one may be made at the same time
    unfinished = archive.with_name(f".{archive.name}.{secrets.token_hex(4)}.unfinished")
    try:
        with zipfile.ZipFile(unfinished, "w") as file:
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                entry = zipfile.ZipInfo(str(path.relative_to(folder)), _EPOCH)
                entry.external_attr = (0o755 if path.stat().st_mode & 0o100 else 0o644) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                with path.open("rb") as content, file.open(entry, "w", force_zip64=True) as written:
                    shutil.copyfileobj(content, written)
        unfinished.replace(archive)
    finally:
        unfinished.unlink(missing_ok=True)
