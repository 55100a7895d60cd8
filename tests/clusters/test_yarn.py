"""Jobs on YARN, whose machines have nothing but what Spark brings."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusters.packaged import JOB, assert_exact, run, settings
from tests.clusters.standalone import SPARK_HOME
from tests.clusters.yarn import YarnCluster
from tests.storage.hdfs_cluster import require_yarn

_NOT_NEEDED = re.compile(r"\.(pyc|pyi|pxd)$|/tests/|^(pyarrow/include|pygments/lexers|tzdata|pytz/zoneinfo)/")

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[YarnCluster]:
    require_yarn()
    started = YarnCluster(tmp_path_factory.mktemp("yarn"))
    yield started
    started.end()


@pytest.fixture(scope="module")
def few_files(archive: Path) -> Path:
    """The archive without what is not needed here: Hadoop without its native library starts a process for each file."""
    smaller = archive.with_name("few-files.zip")
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(smaller, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            if not _NOT_NEEDED.search(entry.filename):
                new.writestr(entry, old.read(entry))
    return smaller


def test_an_executor_dies(cluster: YarnCluster, few_files: Path, bare_python: Path, tmp_path: Path) -> None:
    own = [f"spark.yarn.jars=local:{SPARK_HOME}/jars/*"]
    options = [word for setting in settings(few_files, bare_python) + own for word in ("--conf", setting)]
    submit = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", "yarn", *options]
    done = run(tmp_path, [*submit, str(JOB / "main.py"), str(tmp_path)], HADOOP_CONF_DIR=str(cluster.configuration))
    assert done.returncode == 0, done.stderr
    assert_exact(tmp_path)
