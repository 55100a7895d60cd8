"""A job in reactive mode on a standalone cluster, whose workers are started and stopped while it runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from headrace.common.java import bundled_java_home, find_java
from tests.clusters.job.totals import KEYS
from tests.clusters.packaged import JOB, SOURCES, settings_of_this_environment
from tests.clusters.standalone import StandaloneCluster
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.integration, pytest.mark.slow]

CORES = 2
"""Those of a worker."""


def test_the_parallelism_follows_workers_that_come_and_go(tmp_path: Path) -> None:
    (folder := tmp_path / "cluster").mkdir()
    cluster = StandaloneCluster(folder, workers=1)
    log = tmp_path / "log"
    try:
        with log.open("wb") as output, running(cluster.master, tmp_path, output) as job:
            wait_for(log, 0, epochs=3)
            cluster.add_worker()
            grown = wait_for_parallelism(log, 2 * CORES)
            wait_for(log, grown, epochs=3)
            cluster.kill_worker()
            wait_for_parallelism(log, CORES)
            wait_for(log, grown, epochs=6)
            (tmp_path / "enough").touch()
            assert job.wait(PATIENCE) == 0, log.read_text()
    finally:
        cluster.end()
    assert_exact(tmp_path)


def running(master: str, folder: Path, output: object) -> subprocess.Popen[bytes]:
    limits = [setting for setting in settings_of_this_environment() if not setting.startswith("spark.cores.max")]
    options = [word for setting in limits for word in ("-D", setting)]
    command = [sys.executable, "-m", "headrace", "run", "--no-progress", "--master", master, *options]
    command += ["-D", "headrace.log.level=DEBUG", str(JOB / "reactive.py"), str(folder)]
    java = str(find_java(os.environ, bundled_java_home()).home)
    environment = {**os.environ, "PYTHONPATH": str(SOURCES), "JAVA_HOME": java}
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)  # type: ignore[call-overload, no-any-return] # a file


def wait_for(log: Path, start: int, epochs: int) -> None:
    """So many epochs after a place in the log."""
    deadline = time.monotonic() + PATIENCE
    while len(re.findall(r"epoch \d+: \d+ records", log.read_text()[start:])) < epochs:
        assert time.monotonic() < deadline, log.read_text()[-5000:]
        time.sleep(0.1)


def wait_for_parallelism(log: Path, number: int) -> int:
    """Until the job says that it goes on at a parallelism; where in the log."""
    deadline = time.monotonic() + PATIENCE
    while (place := log.read_text().rfind(f"at parallelism {number}\n")) < 0:
        assert time.monotonic() < deadline, log.read_text()[-5000:]
        time.sleep(0.1)
    return place


def assert_exact(folder: Path) -> None:
    """Every number up to the last one is there once, with the total of its key so far."""
    lines = [line for path in (folder / "out").glob("**/[!.]*") if path.is_file() for line in path.read_text().split()]
    found = sorted(tuple(map(int, line.split(","))) for line in lines)
    totals: Counter[int] = Counter()
    wanted = []
    for number in range(len(found)):
        totals[number % KEYS] += number
        wanted.append((number, totals[number % KEYS]))
    assert found == wanted
    assert len(found) > 100
