"""What a program needs on every machine: files, archives, packages, jars."""

from __future__ import annotations

import glob
import os
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from headrace.common import options
from headrace.common.arguments import expect
from headrace.common.cached_files import CachedFile, cached_files
from headrace.common.call_site import warn_caller
from headrace.common.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.common.configuration import Configuration

SPARK_JARS: Final = "spark.jars"
"""Jars for driver and tasks, with commas between them (Spark's key)."""


class Dependencies:
    """Collects a program's dependencies in its configuration; they are shipped when a job is submitted."""

    _configuration: Configuration

    def add_python_file(self, file_path: str) -> None:
        """Lets functions import modules that are not installed where tasks run.

        Args:
            file_path: a module (``.py``), a folder with modules and packages in it, or a zip, egg or wheel of them.

        Raises:
            InvalidProgramError: when it has a comma in its name; when the job is submitted, if it is not there.
        """
        expect(file_path, str, "add_python_file")
        self._append(options.PYTHON_FILES.key, file_path)

    def set_python_requirements(self, requirements_file_path: str, requirements_cache_dir: str | None = None) -> None:
        """Lets functions import packages that pip installs.

        The driver installs them when the job is submitted, with all that they need, and ships them; so driver and
        workers have to be alike in system and Python version, as Spark wants it anyway.

        Args:
            requirements_file_path: lists the packages, one a line, as for ``pip install --requirement``.
            requirements_cache_dir: a folder of packages; nothing is downloaded then.

        Raises:
            InvalidProgramError: when the job is submitted, if pip cannot install them.
        """
        expect(requirements_file_path, str, "set_python_requirements")
        entry = (
            requirements_file_path
            if requirements_cache_dir is None
            else _entry(requirements_file_path, requirements_cache_dir)
        )
        self._configuration.set(options.PYTHON_REQUIREMENTS, entry)

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Unpacks an archive wherever tasks run.

        Functions find it with :func:`headrace.common.archive_path`, or below their working directory.

        Args:
            archive_path: the archive: .zip, .jar, .tar, .tar.gz or .tgz.
            target_dir: the folder's name; that of the archive's file when left out.

        Raises:
            InvalidProgramError: when it has a comma or # in its name; when the job is submitted, if it is not there.
        """
        expect(archive_path, str, "add_python_archive")
        self._append(
            options.PYTHON_ARCHIVES.key, archive_path if target_dir is None else _entry(archive_path, target_dir)
        )

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Copies a file or a folder to wherever tasks run; functions find it by its name.

        ::

            env.register_cached_file("/data/rates.csv", "rates")


            class Convert(MapFunction):
                def open(self, runtime_context: RuntimeContext) -> None:
                    path = runtime_context.get_distributed_cache().get_file("rates")
                    self.rates = dict(csv.reader(path.open()))

        Args:
            file_path: a path, or a URI of the scheme ``file``.
            name: any name that could be a file's.
            executable: whether functions may start it as a program.

        Raises:
            InvalidProgramError: when the path or the name cannot be used; when the job is submitted, if there is no
                such file.
            ConfigurationError: when the name is taken.
            UnsupportedOperationError: when the path is a URI of another scheme.
        """
        before = self._configuration.get(options.CACHED_FILES)
        file = CachedFile(name, file_path, executable)
        entries = f"{before};{file}" if before else str(file)
        cached_files(entries)
        self._configuration.set(options.CACHED_FILES, entries)

    def set_python_executable(self, python_exec: str) -> None:
        """Sets the Python interpreter of the workers of a Spark session that headrace starts.

        Raises:
            ConfigurationError: when the job is submitted, if a session is running whose workers have another one.
        """
        expect(python_exec, str, "set_python_executable")
        self._configuration.set(options.PYTHON_EXECUTABLE, python_exec)

    def add_jars(self, *jars_path: str) -> None:
        """Adds Java libraries, for Spark's own connectors say.

        Programs of PyFlink name those of Flink's connectors, often at a place that has to be filled in. Connectors need
        none here: a jar of Flink's, and one that is not there, is left out, and a warning says so.

        Args:
            jars_path: paths, patterns of them, or URIs that Spark can fetch.

        Raises:
            InvalidProgramError: when it has a comma in its name.
        """
        for path in _useful_jars(jars_path, "add_jars"):
            self._append(SPARK_JARS, path)

    def add_classpaths(self, *classpaths: str) -> None:
        """Adds Java libraries that lie at the same place on every machine, so that nothing is copied.

        Args:
            classpaths: URLs of jars, or paths; what is left out is left out as by :meth:`add_jars`.

        Raises:
            InvalidProgramError: as there.
        """
        for path in _useful_jars(classpaths, "add_classpaths"):
            parts = urlsplit(path)
            self._append(SPARK_JARS, f"local:{parts.path}" if parts.scheme in ("", "file") else path)

    def _append(self, key: str, value: str) -> None:
        if "," in value:
            raise InvalidProgramError(f"{value!r}: a comma cannot be part of a path here, it stands between two")
        before = self._configuration.get_string(key, "")
        self._configuration.set(key, f"{before},{value}" if before else value)


def _useful_jars(paths: Iterable[str], method: str) -> Iterator[str]:
    """Those that Spark is to have, with a warning for each of the others."""
    for path in paths:
        expect(path, str, method)
        reason = _why_left_out(path)
        if reason is None:
            yield path
        else:
            warn_caller(f"{method}: {path!r} has no effect: {reason}")


def _why_left_out(path: str) -> str | None:
    """Why a jar would be of no use; None where Spark is to have it."""
    parts = urlsplit(path)
    local = unquote(parts.path) if parts.scheme else path
    if os.path.basename(local).startswith("flink-"):
        return "it is Flink's, and headrace's connectors need no jars"
    if parts.scheme in ("", "file") and not any(map(os.path.isfile, [local, *glob.glob(local)])):
        return f"there is no file {os.path.abspath(local)!r}"
    return None


def _entry(path: str, name: str) -> str:
    if "#" in path:
        raise InvalidProgramError(f"{path!r}: a # cannot be part of a path here, it stands before the second one")
    return f"{path}#{name}"
