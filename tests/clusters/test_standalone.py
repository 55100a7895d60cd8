"""Jobs on a standalone cluster, with this environment or with Spark alone: no headrace, no packages."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusters.packaged import JOB, PREPARED_WORKERS, assert_exact, run, settings, settings_of_this_environment
from tests.clusters.standalone import SPARK_HOME, StandaloneCluster

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    started = StandaloneCluster(tmp_path_factory.mktemp("cluster"))
    yield started
    started.end()


def test_an_executor_with_this_environment_dies(cluster: StandaloneCluster, tmp_path: Path) -> None:
    options = [word for setting in settings_of_this_environment() for word in ("-D", setting)]
    command = [sys.executable, "-m", "headrace", "run", "--master", cluster.master, *options]
    killed = cluster.killed_executors
    done = run(tmp_path, [*command, str(JOB / "main.py"), str(tmp_path)])
    assert done.returncode == 0, done.stderr
    ended = re.search(r"job 'totals' ended at epoch (\d+)", done.stderr)
    assert ended, done.stderr
    assert int(ended[1]) >= 20
    assert cluster.killed_executors - killed == 1
    assert_exact(tmp_path)


def test_spark_submit_and_an_executor_dies(
    cluster: StandaloneCluster, archive: Path, bare_python: Path, tmp_path: Path
) -> None:
    options = [word for setting in settings(archive, bare_python) for word in ("--conf", setting)]
    submit = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", cluster.master, *options]
    done = run(tmp_path, [*submit, str(JOB / "main.py"), str(tmp_path)])
    assert done.returncode == 0, done.stderr
    assert_exact(tmp_path)


def test_headrace_run_and_an_executor_dies(
    cluster: StandaloneCluster, archive: Path, bare_python: Path, tmp_path: Path
) -> None:
    options = [word for setting in (*settings(archive, bare_python), *PREPARED_WORKERS) for word in ("-D", setting)]
    command = [sys.executable, "-m", "headrace", "run", "--master", cluster.master, *options]
    done = run(tmp_path, [*command, str(JOB / "main.py"), str(tmp_path)])
    assert done.returncode == 0, done.stderr
    assert "job 'totals' ended" in done.stderr
    assert_exact(tmp_path)
