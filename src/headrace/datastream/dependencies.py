"""Parts of the environment: what jobs bring along for their functions, and Flink's settings that have no effect."""

import glob
import os
from collections.abc import Iterable, Iterator
from typing import Any, Final, Self
from urllib.parse import unquote, urlsplit

from headrace.common import flink_options, options
from headrace.common.call_site import warn_caller
from headrace.common.configuration import Configuration
from headrace.common.errors import InvalidProgramError, expect
from headrace.common.flink_options import FlinkOption
from headrace.common.job_files import CachedFile, cached_files
from headrace.datastream.slot_sharing_group import SlotSharingGroup

SPARK_JARS: Final = "spark.jars"
"""Jars for driver and tasks, with commas between them (Spark's key)."""


class ConfiguredEnvironment:
    """The part of an environment that only writes its configuration: a program's dependencies, and Flink's settings.

    Dependencies are shipped when a job is submitted.
    """

    _configuration: Configuration
    _local_parallelism: int | None = None

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

    # --- Flink's settings, without effect but for a warning that says why --------------------------------------------

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Keeps how long records may wait in buffers, in milliseconds; without effect."""
        expect(timeout_millis, int, "set_buffer_timeout")
        return self._keep(flink_options.BUFFER_TIMEOUT, timeout_millis)

    def get_buffer_timeout(self) -> int:
        """Gives back how long records may wait in buffers, in milliseconds."""
        return int(self._configuration.get(flink_options.BUFFER_TIMEOUT))

    def disable_operator_chaining(self) -> Self:
        """Keeps that operators are not to be chained; without effect."""
        return self._keep(flink_options.OPERATOR_CHAINING, False)

    def is_chaining_enabled(self) -> bool:
        """Gives back whether operators are to be chained."""
        return bool(self._configuration.get(flink_options.OPERATOR_CHAINING))

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Gives back whether operators with different key groups are to be chained; an option of the configuration."""
        return bool(self._configuration.get(flink_options.CHAIN_DIFFERENT_MAX_PARALLELISM))

    def enable_changelog_state_backend(self, enabled: bool) -> Self:
        """Keeps whether changes of state are to be logged; without effect."""
        expect(enabled, bool, "enable_changelog_state_backend")
        return self._keep(flink_options.CHANGELOG, enabled)

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """Gives back whether changes of state are to be logged; None where nothing was said of it."""
        option = flink_options.CHANGELOG
        is_set = any(map(self._configuration.contains_key, (option.key, *option.deprecated_keys)))
        return bool(self._configuration.get(option)) if is_set else None

    def set_default_savepoint_directory(self, directory: str) -> Self:
        """Sets the folder of savepoints whose request names no place."""
        expect(directory, str, "set_default_savepoint_directory")
        self._configuration.set(options.SAVEPOINT_DIR, directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """The directory in which those of savepoints are made; None for none."""
        return self._configuration.get(options.SAVEPOINT_DIR)

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Gives back whether checkpoints are to be unaligned; set with the checkpoint configuration."""
        return bool(self._configuration.get(flink_options.UNALIGNED))

    def is_force_unaligned_checkpoints(self) -> bool:
        """Gives back whether checkpoints are to be unaligned in loops, too; set with the checkpoint configuration."""
        return bool(self._configuration.get(flink_options.FORCE_UNALIGNED))

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """Keeps a parallelism for local environments; without effect, as in Flink for one that is there already."""
        expect(parallelism, int, "set_default_local_parallelism")
        self._local_parallelism = parallelism
        warn_caller("the default local parallelism has no effect: use set_parallelism(...)")

    def get_default_local_parallelism(self) -> int:
        """Gives back the parallelism for local environments; this machine's cores when none was set."""
        return self._local_parallelism or os.cpu_count() or 1

    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> Self:
        """Accepts what the slots of a group need; without effect."""
        expect(slot_sharing_group, SlotSharingGroup, "register_slot_sharing_group")
        warn_caller(f"the slot sharing group {slot_sharing_group.get_name()!r} has no effect: Spark places the tasks")
        return self

    def _keep(self, option: FlinkOption, value: Any) -> Self:
        self._configuration.set_checked(option, value)
        return self


def _useful_jars(paths: Iterable[str], method: str) -> Iterator[str]:
    """Return those that Spark is to have, and warn of each of the others."""
    for path in paths:
        expect(path, str, method)
        reason = _why_left_out(path)
        if reason is None:
            yield path
        else:
            warn_caller(f"{method}: {path!r} has no effect: {reason}")


def _why_left_out(path: str) -> str | None:
    """The reason why a jar would be of no use; None where Spark is to have it."""
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
