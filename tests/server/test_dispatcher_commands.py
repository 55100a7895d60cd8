"""``headrace cluster``, and the commands that ask a dispatcher; programs of every kind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from headrace.cli.main import app
from headrace.server.client import RestClientError
from tests.server.clusters import PROGRAM, Cluster, processes_of
from tests.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

STATEMENTS = """
CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '50');
CREATE TABLE nowhere (n BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO nowhere SELECT n FROM numbers;
"""


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "cluster"
    yield place
    for process in processes_of(place):
        os.kill(process, signal.SIGKILL)


@pytest.fixture
def cluster(storage: Path) -> Iterator[Cluster]:
    made = Cluster(storage)
    wait_for(lambda: made.service.dispatcher.leads)
    yield made
    made.service.stop()


def headrace(*arguments: str, code: int = 0) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "headrace", *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def test_a_cluster_is_started_asked_and_stopped(storage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(storage.parent))
    monkeypatch.setenv("HOME", str(storage.parent))
    program = storage.parent / "job.py"
    program.write_text(PROGRAM)
    assert "no dispatcher" in headrace("cluster", "status", code=1)
    assert "headrace cluster start" in headrace("run", "-d", str(program), code=2)
    address = headrace("cluster", "start", "--dir", str(storage), "--rest", "0", "-D", "headrace.runtime=local")
    address = address.partition("http://")[2].split()[0]
    try:
        assert "leads" in headrace("cluster", "status")
        job = headrace("run", "-d", "-p", "2", "-m", address, str(program), "100").split()[1]
        wait_for(lambda: "FINISHED" in headrace("list", "--all"))
        assert "numbers job" in headrace("list", "-a", "-m", address)
        assert "starts afresh" in headrace("logs", job)
        assert "no job ffffffff" in headrace("logs", "f" * 32, code=1)
    finally:
        assert "has stopped" in headrace("cluster", "stop")
    assert processes_of(storage) == []


def test_programs_of_every_kind_are_planned_and_run(cluster: Cluster, storage: Path) -> None:
    archive = storage.parent / "packed.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("main.py", PROGRAM.replace("import sys\n", "import sys\nimport helper\n"))
        made.writestr("helper.py", "")
    packed = cluster.rest.upload(archive)
    nodes = cluster.rest.ask("POST", ("jars", packed, "plan"), body={"programArgs": "10"})["plan"]["nodes"]
    assert "numbers" in {node["description"] for node in nodes}
    jobs = [
        str(cluster.rest.ask("POST", ("jars", packed, "run"), body={"programArgs": "10"})["jobid"]),
        cluster.run(STATEMENTS, "statements.sql"),
        cluster.run("raise SystemExit('it cannot begin')", "broken.py"),
    ]
    assert cluster.wait_for(jobs[0], "FINISHED", "FAILED") == "FINISHED"
    assert cluster.wait_for(jobs[1], "FINISHED", "FAILED") == "FINISHED"
    assert cluster.wait_for(jobs[2], "FINISHED", "FAILED") == "FAILED"
    [failure] = cluster.rest.get("jobs", jobs[2], "exceptions")["exceptionHistory"]["entries"]
    assert "it cannot begin" in failure["stacktrace"]


def test_one_job_runs_in_a_directory_and_one_in_a_program(cluster: Cluster, storage: Path) -> None:
    directory = storage.parent / "checkpoints"
    settings = {"execution.checkpointing.dir": str(directory)}
    job = cluster.run(flinkConfiguration=settings)
    wait_for(lambda: cluster.epochs(job) > 0)
    with pytest.raises(RestClientError, match="runs already"):
        cluster.run(flinkConfiguration=settings)
    cluster.rest.ask("PATCH", ("jobs", job))
    cluster.wait_for(job, "CANCELED")
    assert cluster.run(flinkConfiguration=settings) == job  # it goes on, as the second run of the same job
    restored = wait_for(lambda: cluster.rest.get("jobs", job, "checkpoints")["latest"]["restored"])
    assert restored["id"] > 0
    cluster.rest.ask("PATCH", ("jobs", job))
    more = 'env.from_collection([1]).print()\nenv.execute("another job")\n'
    second = cluster.run(PROGRAM + more, programArgs="10")
    assert cluster.wait_for(second, "FAILED", "FINISHED") == "FINISHED"
    assert "has one job" in CliRunner().invoke(app, ["logs", second, "-m", cluster.service.address]).output
