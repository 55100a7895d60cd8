"""Runs the job in this folder, packaged or from where it is, and looks at what came of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import headrace
from headrace.common.java import bundled_java_home, find_java
from headrace.runtime.spark.settings import FRUGAL_JAVA
from tests.clusters.job.totals import KEYS, NUMBERS

JOB = Path(__file__).with_name("job")

SOURCES = Path(headrace.__file__).parents[1]

_SIZES_AND_PLACES = [
    "spark.executor.memory=512m",
    "spark.driver.memory=512m",
    "spark.driver.host=127.0.0.1",
    "spark.driver.bindAddress=127.0.0.1",
]


def settings(archive: Path, python: Path) -> list[str]:
    """For executors that have an interpreter without packages."""
    return [
        f"spark.archives={archive}#job",
        "spark.executorEnv.PYTHONPATH=job",
        f"spark.pyspark.python={python}",
        f"spark.pyspark.driver.python={sys.executable}",
        *_SIZES_AND_PLACES,
    ]


PREPARED_WORKERS = (
    "spark.python.daemon.module=headrace.runtime.spark.worker_daemon",
    "spark.executorEnv.SPARK_SIMPLIFIED_TRACEBACK=1",
)
"""Settings for executors whose new interpreters find headrace."""


def settings_of_this_environment() -> list[str]:
    """For executors that have this interpreter with all its packages."""
    return [
        f"spark.executorEnv.PYTHONPATH={SOURCES}{os.pathsep}{JOB}",
        f"spark.pyspark.python={sys.executable}",
        *PREPARED_WORKERS,
        "spark.cores.max=2",  # one of each worker
        f"spark.executor.extraJavaOptions={FRUGAL_JAVA}",
        f"spark.driver.extraJavaOptions={FRUGAL_JAVA}",
        *_SIZES_AND_PLACES,
    ]


def run(folder: Path, command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(SOURCES),
        "JAVA_HOME": str(find_java(os.environ, bundled_java_home()).home),
        **variables,
    }
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def assert_exact(folder: Path) -> None:
    """Every number is there once, with the total of its key so far."""
    assert (folder / "an executor has died").exists()
    totals: dict[int, int] = defaultdict(int)
    expected = set()
    for number in range(1, NUMBERS + 1):
        totals[number % KEYS] += number
        expected.add((number, totals[number % KEYS]))
    lines = [line for path in (folder / "out").glob("**/[!.]*") if path.is_file() for line in path.read_text().split()]
    found = [tuple(map(int, line.split(","))) for line in lines]
    assert len(found) == NUMBERS
    assert set(found) == expected
