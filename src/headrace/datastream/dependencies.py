"""What a program needs on every machine: files, archives, jars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.datastream.method_tables import unsupported

if TYPE_CHECKING:
    from headrace.common.configuration import Configuration

PYTHON_FILES: Final = "python.files"
"""Modules, packages and zips for the Python path of the tasks, with commas between them (Flink's key)."""

PYTHON_ARCHIVES: Final = "python.archives"
"""Archives that are unpacked beside the tasks, ``path`` or ``path#folder``, with commas between them (Flink's key)."""

PYTHON_EXECUTABLE: Final = "python.executable"
"""The Python interpreter of the tasks (Flink's key)."""

SPARK_JARS: Final = "spark.jars"
"""Jars for driver and tasks, with commas between them (Spark's key)."""


@unsupported(
    {
        "set_python_requirements": "install the packages where tasks run, or ship them with add_python_archive(...)",
        "add_classpaths": "use add_jars(...), or set spark.driver.extraClassPath and spark.executor.extraClassPath",
    }
)
class Dependencies:
    """Collects a program's dependencies in its configuration; the runtime brings them to the tasks."""

    _configuration: Configuration

    def add_python_file(self, file_path: str) -> None:
        """Puts a module, a package or a zip of them on the Python path of the tasks."""
        self._append(PYTHON_FILES, file_path)

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Unpacks an archive (zip, jar, tar.gz) beside the tasks.

        Args:
            archive_path: the archive.
            target_dir: the folder's name; that of the archive when left out.
        """
        self._append(PYTHON_ARCHIVES, archive_path if target_dir is None else f"{archive_path}#{target_dir}")

    def set_python_executable(self, python_exec: str) -> None:
        """Sets the Python interpreter of the tasks; it may lie in an archive: ``folder/bin/python``."""
        self._configuration.set(PYTHON_EXECUTABLE, python_exec)

    def add_jars(self, *jars_path: str) -> None:
        """Adds Java libraries, for Spark's own connectors say."""
        for path in jars_path:
            self._append(SPARK_JARS, path)

    def _append(self, key: str, value: str) -> None:
        before = self._configuration.get_string(key, "")
        self._configuration.set(key, f"{before},{value}" if before else value)
