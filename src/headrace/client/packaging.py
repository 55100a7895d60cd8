"""Puts a job's modules, headrace and what both need into one archive, for clusters that have none of it."""

from __future__ import annotations

import compileall
import os
import re
import secrets
import shutil
import zipfile
from dataclasses import dataclass
from importlib.metadata import distribution, distributions
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import TYPE_CHECKING, Final

import headrace
from headrace.client.dependencies import install
from headrace.common.durable import TemporaryFolder, writing
from headrace.common.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

REQUIREMENTS: Final = "requirements.txt"
"""The file in a job's folder that lists the packages it needs."""

_ALWAYS: Final = ("spark",)
"""Extras of headrace that every job on a cluster needs."""

_OF_THE_CLUSTER: Final = frozenset({"pyspark", "headrace"})
"""Is never installed from a package index: Spark is the cluster's, and headrace the one that makes the archive."""

_LEFT_OUT: Final = shutil.ignore_patterns(".*", "__pycache__", "*.pyc", REQUIREMENTS)
_NAME: Final = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^]]*)\])?")
_EXTRA: Final = re.compile(r"(.*?)\s*;\s*extra\s*==\s*['\"]([^'\"]+)['\"]\s*")
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The time of every file in an archive, so that the same content makes the same bytes."""


@dataclass(frozen=True, slots=True)
class TargetPython:
    """The Python of the executors, as far as it differs from the one that makes the archive.

    Attributes:
        version: such as ``3.12``.
        platform: as in the names of wheels, such as ``manylinux_2_28_x86_64``.
    """

    version: str | None = None
    platform: str | None = None

    @property
    def is_this_one(self) -> bool:
        """Whether nothing differs."""
        return self.version is None and self.platform is None

    def options(self) -> list[str]:
        """What pip has to be told."""
        if self.is_this_one:
            return []
        given = {"--python-version": self.version, "--platform": self.platform}
        return ["--only-binary=:all:", *(word for name, value in given.items() if value for word in (name, value))]


@dataclass(frozen=True, slots=True)
class JobArchive:
    """An archive that was made.

    Attributes:
        path: the file.
        size: its size in bytes.
        packages: the names and versions of the packages in it, headrace among them.
    """

    path: Path
    size: int
    packages: tuple[str, ...]


def package_job(job: Path, archive: Path, extras: Iterable[str] = (), target: TargetPython | None = None) -> JobArchive:
    """Make the archive of a job.

    Args:
        job: the folder of its modules; a ``requirements.txt`` there lists the packages that it needs.
        archive: the zip file to make; one that is there is replaced.
        extras: those of headrace that the job needs: ``cloud``, ``hdfs``.
        target: the Python of the executors; packages have the versions that are installed here, where they are.

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
            packages = _collect(job, archive, work.path, required, target or TargetPython())
            with writing("headrace package", str(archive)):
                _zip(packages, archive)
            names = tuple(sorted(f"{found.name} {found.version}" for found in distributions(path=[str(packages)])))
        finally:
            work.remove()
    return JobArchive(archive, archive.stat().st_size, names)


def _collect(job: Path, archive: Path, work: Path, required: Sequence[str], target: TargetPython) -> Path:
    """The folder with all that the archive is to hold, made inside another one."""
    packages, modules = work / "packages", work / "modules"
    _copy_modules(job, modules, archive)  # before pip, which takes its time
    _install(work, packages, required, target)
    _copy_headrace(packages)
    _add_modules(job, modules, packages)
    if target.is_this_one:
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


def _install(work: Path, packages: Path, required: Sequence[str], target: TargetPython) -> None:
    listing, versions = work / REQUIREMENTS, work / "constraints.txt"
    listing.write_text("".join(f"{line}\n" for line in required))
    versions.write_text("".join(f"{line}\n" for line in _installed_versions()))
    install(str(listing), packages, "headrace package", ["--constraint", str(versions), *target.options()])


def _installed_versions() -> list[str]:
    """What is installed here from a package index: driver and executors are to have the same."""
    indexed = (found for found in distributions() if found.read_text("direct_url.json") is None)
    return sorted({f"{found.name}=={found.version}" for found in indexed if found.name})


def _copy_headrace(packages: Path) -> None:
    """The code that runs here, also where it was installed from a clone, in place of what a plugin has asked for."""
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
    """What of a job's folder has its place in the archive; links are followed."""

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


def _add_modules(job: Path, modules: Path, packages: Path) -> None:
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
