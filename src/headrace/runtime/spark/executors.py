"""The cluster, looked at before a job starts: whether its master answers, and what its executors have."""

from __future__ import annotations

import re
import socket
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

import headrace
from headrace.common.errors import CheckpointStorageError, ConfigurationError, InfrastructureError
from headrace.storage.folder import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_REPORT: Final = "python string, executable string, headrace string, pyarrow string"

_PROBE: Final = re.compile(r"\.probe-[0-9a-f]{32}")

_PROBES: Final = 3
"""Another job manager that starts at the same time may take our probe for one that was left behind."""


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """The report of a Python worker of an executor about itself; versions are empty where a package is missing."""

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
    session.range(0, 1, 1, 1).mapInArrow(partial(_write_probe, folder, name), "ok boolean").collect()
    seen = folder.size(name) is not None
    folder.remove(name)
    return seen


def _write_probe(folder: Folder, name: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write a file from a task."""
    import pyarrow

    for _ in batches:
        folder.make()
        folder.write(name, ())
        yield pyarrow.RecordBatch.from_arrays([pyarrow.array([True])], names=["ok"])


_STANDALONE: Final = "spark://"
_CONNECT: Final = "sc://"
_CLASSIC: Final = "classic"
_SECONDS: Final = 10.0
_HADOOP_FOLDERS: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")

NO_CONNECT: Final = (
    "jobs do not run over Spark Connect: a client has no SparkContext, which hands tasks what an epoch starts from, "
    "ships modules and cancels epochs\n  Run the program where Spark's driver may be, with spark-submit or "
    "headrace run --master URL, and without SPARK_REMOTE, spark.remote and spark.api.mode"
)
"""The error that refuses Spark Connect, with the reason and the remedy."""


def check_is_classic(settings: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Refuse to start a session of Spark Connect.

    Args:
        settings: those of Spark.
        environment: the variables of this process.

    Raises:
        ConfigurationError: when something requests one.
    """
    connect_settings = {
        "SPARK_REMOTE": environment.get("SPARK_REMOTE"),
        "spark.remote": settings.get("spark.remote"),
        "spark.api.mode": settings.get("spark.api.mode", _CLASSIC).replace(_CLASSIC, ""),
        "the master": settings["spark.master"] if settings["spark.master"].startswith(_CONNECT) else None,
    }
    for name, value in connect_settings.items():
        if value:
            raise ConfigurationError(f"{name} is {value}, but {NO_CONNECT}")


def check_master(master: str, environment: Mapping[str, str], spark_conf: Path | None) -> None:
    """Refuse a master that nothing can come of.

    Args:
        master: the master URL.
        environment: the variables of this process.
        spark_conf: Spark's folder of configuration; a ``spark-env.sh`` there may set more variables.

    Raises:
        ConfigurationError: when it is YARN and no configuration locates YARN; or when the URL has no host and port.
        InfrastructureError: when none of the masters of a standalone cluster can be reached.
    """
    if master == "yarn":
        _check_yarn(environment, spark_conf)
    elif master.startswith(_STANDALONE):
        _check_standalone(master)


def _check_yarn(environment: Mapping[str, str], spark_conf: Path | None) -> None:
    has_script = spark_conf is not None and (spark_conf / "spark-env.sh").is_file()
    if not has_script and not any(environment.get(name) for name in _HADOOP_FOLDERS):
        raise ConfigurationError(
            "the master is yarn, but nothing says where YARN is\n  Set HADOOP_CONF_DIR or YARN_CONF_DIR to the folder "
            "that holds the cluster's core-site.xml and yarn-site.xml"
        )


def _check_standalone(master: str) -> None:
    failures = []
    for address in master.removeprefix(_STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            raise ConfigurationError(f"the master {master!r} has no host and port, as in spark://host:7077")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _SECONDS).close()
        except (OSError, OverflowError) as error:
            failures.append(f"{address}: {error}")
        else:
            return
    raise InfrastructureError(
        f"the master {master} cannot be reached ({'; '.join(failures)})\n  Check that it runs (sbin/start-master.sh), "
        "that host and port are as its web page says (spark://… at the top, port 8080), and that no firewall is between"
    )
