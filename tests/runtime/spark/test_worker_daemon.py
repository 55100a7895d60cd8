"""The daemon that forks workers with all imported: when it is used, what it has imported, and that forks differ."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.runtime.spark import worker_daemon
from headrace.runtime.spark.session import session_of_epochs
from headrace.runtime.spark.worker_daemon import daemon_settings, without_archives

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

SOURCES = Path(worker_daemon.__file__).parents[3]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="used on Linux alone")

FORKS = """
import gc, json, os, sys
from pathlib import Path
from headrace.runtime.spark.worker_daemon import prepare_forks
prepare_forks()
import numpy, pyarrow as pa, random
threads = sorted((each / "comm").read_text().strip() for each in Path("/proc/self/task").iterdir())
drawn = []
for _ in range(2):
    read, write = os.pipe()
    if os.fork() == 0:
        total = pa.compute.sum(pa.array(range(100_000), type=pa.int64())).as_py()
        os.write(write, json.dumps([numpy.random.rand(), random.random(), total]).encode())
        os._exit(0)
    drawn.append(json.loads(os.read(read, 1000)))
    os.wait()
collects = gc.isenabled(), len(gc.get_objects()) < 10_000
print(json.dumps({"threads": threads, "drawn": drawn, "imported": sorted(sys.modules), "collects": collects}))
"""


def prepared() -> dict[str, Any]:
    # As Spark sets it for the workers of tasks with one core
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error", "-c", FORKS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_forks_have_all_that_tasks_import_and_draw_their_own_random_numbers() -> None:
    found = prepared()

    (a, b), totals = zip(*([one[:2], one[2]] for one in found["drawn"]), strict=True)
    assert set(a).isdisjoint(b)
    assert totals == (4999950000, 4999950000)
    wanted = {"pyspark.worker", "pandas", "headrace.operators.window.general.window_operator", "headrace.datastream"}
    assert wanted <= set(found["imported"])


@pytest.mark.slow
def test_no_thread_runs_that_a_fork_would_be_without() -> None:
    found = prepared()

    assert len([name for name in found["threads"] if name != "jemalloc_bg_thd"]) == 1
    assert "obstore" not in found["imported"], "has threads of its own"


@pytest.mark.slow
def test_garbage_is_collected_in_forks_but_nothing_of_what_was_imported_is_looked_at() -> None:
    assert prepared()["collects"] == [True, True]


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    """Spark and py4j as packages, as pip installs them, and Spark's archives."""
    home = tmp_path / "site" / "pyspark"
    (home / "python" / "lib").mkdir(parents=True)
    for package in (home, tmp_path / "site" / "py4j"):
        package.mkdir(exist_ok=True)
        (package / "__init__.py").touch()
    return home


def path_of(spark_home: Path) -> tuple[list[str], list[str]]:
    """What Spark puts on the path, and what is there besides."""
    archives = ["python/lib/pyspark.zip", "python/lib/py4j-0.10.9.9-src.zip", "jars/spark-core_2.13-4.3.0.jar"]
    return [str(spark_home / archive) for archive in archives], ["/mine/modules.zip", "/mine", str(spark_home.parent)]


def test_what_is_installed_is_not_imported_from_archives(spark_home: Path) -> None:
    archives, others = path_of(spark_home)

    assert without_archives([others[0], *archives, *others[1:]], spark_home) == others


@pytest.mark.parametrize("package", ["pyspark", "py4j"])
def test_archives_are_needed_where_something_is_not_installed(spark_home: Path, package: str) -> None:
    archives, others = path_of(spark_home)
    shutil.rmtree(spark_home.parent / package)

    assert without_archives(archives + others, spark_home) == archives + others


def test_archives_are_needed_where_another_spark_is_installed(spark_home: Path, tmp_path: Path) -> None:
    (tmp_path / "distribution").mkdir()
    archives, others = path_of(tmp_path / "distribution")
    path = [*archives, *others, str(spark_home.parent)]

    assert without_archives(path, tmp_path / "distribution") == path


def test_it_is_used_unless_the_user_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SOURCES))

    assert daemon_settings({})["spark.python.daemon.module"] == "headrace.runtime.spark.worker_daemon"
    assert daemon_settings({"spark.executor.memory": "4g"}) == daemon_settings({})


@pytest.mark.parametrize(
    "key",
    [
        "spark.python.daemon.module",
        "spark.pyspark.python",
        "spark.submit.pyFiles",
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled",
    ],
)
def test_it_is_not_used_where_workers_may_differ(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SOURCES))

    assert daemon_settings({key: "true"}) == {}


@pytest.mark.parametrize("how", ["not found", "in PYTHONPATH", "installed", "linked"])
def test_it_is_used_where_a_new_interpreter_finds_it(how: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SOURCES) if how == "in PYTHONPATH" else "")
    installed = [str(SOURCES)] if how == "installed" else []
    monkeypatch.setattr(worker_daemon.site, "getsitepackages", lambda: [str(tmp_path), *installed])
    monkeypatch.setattr(worker_daemon.site, "ENABLE_USER_SITE", False)
    if how == "linked":
        (tmp_path / "headrace.pth").write_text(f"import something\n\n{SOURCES}\n")

    assert bool(daemon_settings({})) == (how != "not found")


def _parent(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import os
    from pathlib import Path

    import pyarrow

    for _ in batches:
        parent = os.getppid()
        command = Path(f"/proc/{parent}/cmdline").read_bytes().decode().replace("\0", " ")
        yield pyarrow.RecordBatch.from_pylist([{"parent": parent, "command": command}])


@pytest.mark.spark
def test_workers_have_no_archives_to_look_into(spark: SparkSession) -> None:
    if "spark.python.daemon.module" not in spark.conf.getAll:
        pytest.skip("headrace is in no place where new interpreters look")

    def looked_into(_: int) -> list[str]:
        import py4j
        import pyspark

        return [pyspark.__file__, py4j.__file__, *sys.path, *sys.path_importer_cache]

    (places,) = spark.sparkContext.range(1, numSlices=1).map(looked_into).collect()
    standard = f"{sys.base_prefix}/"  # where Python has an archive of its own, which is not there as a rule
    assert [each for each in places if not each.startswith(standard) and (".zip" in each or ".jar" in each)] == []


@pytest.mark.spark
def test_one_daemon_serves_the_job_that_starts_it_and_the_epochs(spark: SparkSession) -> None:
    if "spark.python.daemon.module" not in spark.conf.getAll:
        pytest.skip("headrace is in no place where new interpreters look")
    early = spark.sparkContext.range(1, numSlices=1).map(lambda _: os.getppid()).collect()

    epochs = session_of_epochs(spark).range(0, 2, 1, 2).mapInArrow(_parent, "parent long, command string").collect()

    assert {row.parent for row in epochs} == set(early)
    assert all("headrace.runtime.spark.worker_daemon" in row.command for row in epochs)
