"""The daemon that forks workers with all imported: when it is used, what it has imported, and that forks differ."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.runtime.spark import worker_daemon
from headrace.runtime.spark.session import session_of_epochs
from headrace.runtime.spark.worker_daemon import daemon_settings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

SOURCES = Path(worker_daemon.__file__).parents[3]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="used on Linux alone")

FORKS = """
import json, os, sys
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
print(json.dumps({"threads": threads, "drawn": drawn, "imported": sorted(sys.modules)}))
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
    wanted = {"pyspark.worker", "pandas", "headrace.runtime.task.operator_table", "headrace.datastream"}
    assert wanted <= set(found["imported"])


def test_no_thread_runs_that_a_fork_would_be_without() -> None:
    found = prepared()

    assert len([name for name in found["threads"] if name != "jemalloc_bg_thd"]) == 1
    assert "obstore" not in found["imported"], "has threads of its own"


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
def test_one_daemon_serves_the_job_that_starts_it_and_the_epochs(spark: SparkSession) -> None:
    if "spark.python.daemon.module" not in spark.conf.getAll:
        pytest.skip("headrace is in no place where new interpreters look")
    early = spark.sparkContext.range(1, numSlices=1).map(lambda _: os.getppid()).collect()

    epochs = session_of_epochs(spark).range(0, 2, 1, 2).mapInArrow(_parent, "parent long, command string").collect()

    assert {row.parent for row in epochs} == set(early)
    assert all("headrace.runtime.spark.worker_daemon" in row.command for row in epochs)
