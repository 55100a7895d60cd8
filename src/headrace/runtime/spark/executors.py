"""What executors have, asked by small queries before a job starts on a cluster: versions, the checkpoint directory."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import headrace
from headrace.common.errors import CheckpointStorageError, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from headrace.storage.folder import Folder

_REPORT: Final = "python string, executable string, headrace string, pyarrow string"

_PROBE: Final = re.compile(r"\.probe-[0-9a-f]{32}")

_PROBES: Final = 3
"""Another job manager that starts at the same time may take our probe for one that was left behind."""


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """What a Python worker of an executor said about itself; versions are empty where a package is missing."""

    python: str
    executable: str
    headrace: str
    pyarrow: str


def ask_workers(session: SparkSession, tasks: int) -> list[WorkerReport]:
    """The different answers that the Python workers of so many tasks give, in a fixed order."""

    # Nested, so that it travels as a whole and runs where headrace is not installed, or is another one
    def report(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import importlib
        import platform
        import sys

        import pyarrow

        def version_of(package: str) -> str:
            try:
                return str(importlib.import_module(package).__version__)
            except ImportError:
                return ""

        for _ in batches:
            answers = [platform.python_version(), sys.executable, version_of("headrace"), pyarrow.__version__]
            names = ["python", "executable", "headrace", "pyarrow"]
            yield pyarrow.record_batch([[answer] for answer in answers], names=names)

    rows = session.range(0, tasks, 1, tasks).mapInArrow(report, _REPORT).collect()
    return sorted({WorkerReport(*row) for row in rows}, key=repr)


def check_versions(reports: Iterable[WorkerReport]) -> None:
    """Refuse executors whose headrace is not the driver's.

    What tasks and driver send each other, and what they write, is made for one version. PySpark itself refuses another
    minor version of Python (see :mod:`headrace.runtime.spark.faults`).

    Raises:
        ConfigurationError: naming both versions.
    """
    here = headrace.__version__
    others = sorted(
        {
            f"{report.executable} has {f'headrace {report.headrace}' if report.headrace else 'no headrace'}"
            for report in reports
            if report.headrace != here
        }
    )
    if others:
        raise ConfigurationError(
            f"the driver has headrace {here}, but on executors {', '.join(others)}: they have to have the same "
            "version\n  Make the archive of the job anew with `headrace package` where the driver's headrace is, or "
            f"install headrace=={here} on driver and executors"
        )


def remove_probes(folder: Folder) -> None:
    """Remove the files that killed runs have left."""
    for name in folder.names():
        if _PROBE.fullmatch(name):
            folder.remove(name)


def check_directory(session: SparkSession, folder: Folder) -> None:
    """Write a file of the directory in a task, and look for it here.

    Raises:
        CheckpointStorageError: when it is not there.
    """
    if not any(_write_and_look(session, folder) for _ in range(_PROBES)):
        raise CheckpointStorageError(
            f"a task wrote to {folder}, the driver does not see it: executors and driver must share the "
            "checkpoint directory; set execution.checkpointing.dir to a shared path"
        )


def _write_and_look(session: SparkSession, folder: Folder) -> bool:
    name = f".probe-{uuid.uuid4().hex}"
    session.range(0, 1, 1, 1).mapInArrow(_Probe(folder, name), "ok boolean").collect()
    seen = folder.size(name) is not None
    folder.remove(name)
    return seen


class _Probe:
    """Writes a file from a task."""

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder = folder
        self._name = name

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow

        for _ in batches:
            self._folder.make()
            self._folder.write(self._name, ())
            yield pyarrow.RecordBatch.from_arrays([pyarrow.array([True])], names=["ok"])
