"""An archive of the classes that Spark loads when it starts, for class data sharing (CDS) of Java.

Java spends most of a Spark session's start with reading, verifying and linking some 15,000 classes of 280 jars. From an
archive of them, which it maps into memory, it needs 5 s of CPU time less until the first query has run.

An archive fits one build of Java and one set of jars, so each combination has a folder of its own in the user's cache.
The first session there runs without; when its process ends, another one in the background makes the archive. Java
itself compares an archive with the jars and options that it is started with, and goes without when they differ.
"""

import contextlib
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.common.durable import Permissions, make_folder, move, sync_folder
from headrace.common.java import JavaRuntime, cache_directory
from headrace.common.logs import get_logger

logger = get_logger(__name__)

_LAYOUT: Final = 3
"""Goes up when archives have to be made in another way."""

_ARCHIVE: Final = re.compile(r"classes-([0-9a-f]{8})\.jsa")
"""An archive's name holds the checksum of its content."""

_IMPORTED_FROM: Final = Path(__file__).parents[3]
"""The folder in which the package is."""

_LOG: Final = "making.log"
_RETRY_SECONDS: Final = 24 * 3600
_UNUSED_SECONDS: Final = 30 * 24 * 3600
"""Archives of a Java or of jars that were not started for this time are removed."""
_KEPT: Final = 10
"""The archives that were used last stay: each takes 170 MB, and each virtual environment with PySpark has its own."""

_DIRECTORIES_IN_CLASS_PATH: Final = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
"""Java refuses an archive where folders are on the class path."""

QUIET: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Java would write to the user's terminal about every archive that does not fit; it starts all the same."""


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive for one Java and one installation of Spark, whether it is there or not.

    Attributes:
        folder: where it is kept.
    """

    folder: Path

    @staticmethod
    def of(java: JavaRuntime, spark_home: Path, environment: Mapping[str, str]) -> "ClassArchive | None":
        """The archive for a Java and a Spark; None where Java could not use one."""
        if os.name == "nt" or any(environment.get(name) for name in _DIRECTORIES_IN_CLASS_PATH):
            return None
        if (spark_home / "conf").is_dir():
            return None
        try:
            return ClassArchive(cache_directory(environment) / "classes" / _key(java, spark_home))
        except OSError as error:
            logger.info("there is no place for a class archive: %s", error)
            return None

    def find(self) -> Path | None:
        """The archive, its content checked; one that is damaged is removed. None when there is none."""
        try:
            if not _is_trustworthy(self.folder):
                return None
            found = next((path for path in self._archives() if _is_whole(path)), None)
            if found is not None:
                with contextlib.suppress(PermissionError):  # of a cache that an image or an administrator has filled
                    os.utime(self.folder)
        except OSError as error:  # the session starts without it, only later
            logger.info("the class archive in %s cannot be used: %s", self.folder, error)
            return None
        return found

    def begin_making(self) -> bool:
        """Claim the making of the archive where there is none, once a day: what has failed is likely to fail again.

        Returns:
            Whether this call has claimed it.
        """
        log = self.folder / _LOG
        try:
            make_folder(self.folder, Permissions.OWNER)
            if not _is_trustworthy(self.folder) or self._archives():
                return False
            with contextlib.suppress(FileNotFoundError):
                begun = log.stat().st_mtime_ns
                if begun < time.time_ns() - _RETRY_SECONDS * 10**9:
                    # Of those that find it out of date, one alone removes it: the next that has the name is new.
                    (self.folder / f"{_LOG}.{begun}").open("x").close()
                    log.unlink()
            log.open("x").close()
        except OSError:
            return False
        return True

    def make_in_background(self) -> None:
        """Have a process that outlives this one make the archive, unless one does or has tried."""
        if not self.begin_making():
            return
        command = [sys.executable, "-m", "headrace.runtime.spark.class_training", str(self.folder)]
        path = [str(_IMPORTED_FROM), *filter(None, (os.environ.get("PYTHONPATH"),))]
        # The program's folder for temporary files may go with the program.
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path), "TMPDIR": str(self.folder)}
        with contextlib.suppress(OSError), (self.folder / _LOG).open("wb") as log:
            maker = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,  # the user's may hold modules with names of others, and may be unmounted
                env=environment,
                start_new_session=True,  # so that Ctrl-C does not reach it
            )
            maker.returncode = 0  # else Python warns, where warnings are shown, that it is still running

    def adopt(self, file: Path) -> Path:
        """Put an archive that Java has written into its place, and remove those that are out of use.

        Raises:
            OSError: when it cannot be read or moved.
        """
        with file.open("rb") as content:
            os.fsync(content.fileno())
        target = self.folder / f"classes-{_checksum(file):08x}.jsa"
        move(file, target)
        sync_folder(self.folder)
        for log in self.folder.glob(f"{_LOG}*"):  # if it is damaged one day, it may be made again
            log.unlink(missing_ok=True)
        _remove_unused(self.folder.parent)
        return target

    def _archives(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("classes-*.jsa") if _ARCHIVE.fullmatch(path.name))


def _key(java: JavaRuntime, spark_home: Path) -> str:
    """Differs when Java or a jar does."""
    jars = sorted((entry.name, entry.stat().st_size, entry.stat().st_mtime_ns) for entry in _jars(spark_home))
    return hashlib.sha256(repr((_LAYOUT, java.home, java.build, spark_home, jars)).encode()).hexdigest()[:24]


def _jars(spark_home: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(spark_home / "jars") as entries:
            return list(entries)
    except FileNotFoundError:
        return []


def _is_trustworthy(folder: Path) -> bool:
    """Return whether only this user and the system's can put classes there, which would run as this user."""
    try:
        status = folder.stat()
    except FileNotFoundError:
        return False
    return status.st_uid in {0, os.getuid()} and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _is_whole(path: Path) -> bool:
    name = _ARCHIVE.fullmatch(path.name)
    if name is not None and _checksum(path) == int(name[1], 16):
        return True
    logger.warning("the class archive %s is damaged: it is removed, and made again when this program has ended", path)
    path.unlink(missing_ok=True)
    return False


def _checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            checksum = zlib.crc32(chunk, checksum)
    return checksum


def _remove_unused(folder: Path) -> None:
    oldest = time.time() - _UNUSED_SECONDS
    used = sorted(((other.stat().st_mtime, other) for other in folder.iterdir()), reverse=True)
    for rank, (last_use, other) in enumerate(used):
        if rank >= _KEPT or last_use < oldest:
            shutil.rmtree(other, ignore_errors=True)
