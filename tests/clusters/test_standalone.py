"""Jobs on a standalone cluster that has nothing but Spark: no headrace, no packages."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusters.packaged import JOB, assert_exact, run, settings
from tests.clusters.standalone import SPARK_HOME, StandaloneCluster

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    started = StandaloneCluster(tmp_path_factory.mktemp("cluster"))
    yield started
    started.end()


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
    options = [word for setting in settings(archive, bare_python) for word in ("-D", setting)]
    command = [sys.executable, "-m", "headrace", "run", "--master", cluster.master, *options]
    done = run(tmp_path, [*command, str(JOB / "main.py"), str(tmp_path)])
    assert done.returncode == 0, done.stderr
    assert "job 'totals' ended" in done.stderr
    assert_exact(tmp_path)
