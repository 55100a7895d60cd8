"""Makes a class archive: ``python -m headrace.runtime.spark.class_training FOLDER``, in the background.

A session of its own runs a query of the form of an epoch's, while Java writes down which classes it loads. Another Java
makes an archive of these.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import functions as sql

from headrace.exchange.envelope import SORT_COLUMNS
from headrace.runtime.spark.class_archive import ClassArchive
from headrace.runtime.spark.epoch_sessions import ENVELOPES
from headrace.runtime.spark.session import acquire_session, session_of_epochs
from headrace.runtime.spark.settings import DEFAULT_JAVA_OPTIONS, FRUGAL_JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLASS_LIST: Final = "classes.list"
_LIST_OPTION: Final = "-XX:DumpLoadedClassList="
_EXIT_SECONDS: Final = 120
_ALL_SECONDS: Final = 600
"""Nothing waits for this process. Where it takes longer the machine is busy; it is tried again on another day."""


def main(folder: Path) -> None:
    """Make the archive of a folder; what goes wrong is raised, and so comes into the log."""
    _end_in_time()
    os.nice(19)
    archive = ClassArchive(folder)
    classes, made = folder / _CLASS_LIST, folder / "unfinished.jsa"
    try:
        command = _train(classes)
        dump = ["-Xshare:dump", f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={made}"]
        subprocess.run([command[0], *dump, *command[1:]], check=True)
        archive.adopt(made)
    finally:
        for file in (classes, made):
            file.unlink(missing_ok=True)


def _end_in_time() -> None:
    """See to it that neither this process nor a Java that it has started, which are one process group, stays."""
    faulthandler.dump_traceback_later(_ALL_SECONDS)
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)
    limit = threading.Timer(_ALL_SECONDS, os.killpg, (0, signal.SIGKILL))
    limit.daemon = True
    limit.start()


def _train(classes: Path) -> list[str]:
    """Run a session that writes down its classes.

    Returns:
        The command to start the same Java with, without a main class.
    """
    options = f"{FRUGAL_JAVA} {shlex.quote(f'{_LIST_OPTION}{classes}')}"
    handle = acquire_session({DEFAULT_JAVA_OPTIONS: options}, master="local[2]")
    try:
        _query(session_of_epochs(handle.session))
        return _command(handle.session)
    finally:
        handle.stop()
        _end_java()


def _query(session: SparkSession) -> None:
    query = (
        session.range(0, 2, 1, 2)
        .mapInArrow(_nothing, ENVELOPES)
        .repartitionById(2, sql.col("partition"))
        .sortWithinPartitions(*SORT_COLUMNS)
        .mapInArrow(_same, ENVELOPES)
    )
    session.conf.set("spark.headrace.training", "")
    for _ in range(2):
        query.select("*").toArrow()


def _nothing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield from ()


def _same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _command(session: SparkSession) -> list[str]:
    jvm = session.sparkContext._jvm
    assert jvm is not None, "a session that runs has one"
    java = jvm.java
    options = java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    get = java.lang.System.getProperty
    program = Path(get("java.home")) / "bin" / "java"
    kept = [option for option in options if not option.startswith(_LIST_OPTION)]
    return [str(program), *kept, "-cp", get("java.class.path")]


def _end_java() -> None:
    """The list is complete when Java has ended, which it does at the end of its input."""
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        gateway.proc.wait(_EXIT_SECONDS)
        return
    gateway.proc.kill()
    raise TimeoutError(f"Java has not ended within {_EXIT_SECONDS} s")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
