"""A dispatcher: programs are submitted to it, and it sees to their jobs, whatever becomes of it or of them."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
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


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "cluster"
    yield place
    for process in processes_of(place):
        os.kill(process, signal.SIGKILL)


WAITING = """
import os, time
while not os.path.exists({gate!r}):
    time.sleep(0.01)
"""


def test_a_program_is_submitted_listed_and_cancelled(storage: Path, tmp_path: Path) -> None:
    cluster, gate = Cluster(storage), tmp_path / "gate"
    wait_for(lambda: cluster.service.dispatcher.leads)
    job = cluster.run(WAITING.format(gate=str(gate)) + PROGRAM, parallelism="2")
    assert cluster.rest.get("jobs", job)["state"] == "CREATED"  # pages ask at once
    wait_for(lambda: "job.py:4 in <module>" in cluster.rest.get("jobs", job, "archive")["waits_for"])
    wait_for(lambda: "job.py:4 in &lt;module&gt;" in page_of(cluster))
    told = CliRunner().invoke(app, ["info", job, "-m", cluster.service.address]).output
    assert "it has not begun: its program has not come to execute() yet" in told
    gate.touch()
    cluster.wait_for(job, "RUNNING")
    wait_for(lambda: cluster.epochs(job) > 0)
    [line] = cluster.rest.get("jobs", "overview")["jobs"]
    assert (line["jid"], line["name"], line["state"]) == (job, "numbers job", "RUNNING")
    vertices = cluster.rest.get("jobs", job)["vertices"]
    assert {vertex["name"]: vertex["parallelism"] for vertex in vertices}["Reduce"] == 2
    wait_for(lambda: "numbers job" in page_of(cluster))
    assert cluster.rest.get("jobs", job, "archive")["waits_for"] == ""
    [place] = cluster.rest.get("taskmanagers")["taskmanagers"]
    assert "starts afresh" in cluster.rest.log("taskmanagers", place["id"], "log")[0]
    assert cluster.rest.get("jobs", job, "lineage")["sources"][0]["name"] == "numbers"
    assert cluster.rest.get("jobs", job, "topics") == {"places": []}
    with urllib.request.urlopen(f"{cluster.service.address}/dashboard/jobs/{job}/logs/log", timeout=60) as page:
        assert "starts afresh" in page.read().decode()
    assert len(processes_of(storage)) == 1
    cluster.rest.ask("PATCH", ("jobs", job))
    cluster.wait_for(job, "CANCELED")
    assert processes_of(storage) == []
    assert "was cancelled" in cluster.rest.log("jobs", job, "logs", "log")[0]
    cluster.service.stop()


def page_of(cluster: Cluster) -> str:
    """The first page: that of the only job."""
    with urllib.request.urlopen(cluster.service.address, timeout=60) as page:
        return str(page.read().decode())


TALKATIVE = """
import threading
import time

def talk():
    for number in range(1 << 30):
        print("line", number, flush=True)
        time.sleep(0.001)

threading.Thread(target=talk, daemon=True).start()
"""


@pytest.mark.slow
def test_logs_are_put_aside_and_read_as_one(storage: Path) -> None:
    cluster = Cluster(storage, **{"headrace.log.max-file-size": "2 kb", "env.log.max": "3"})
    wait_for(lambda: cluster.service.dispatcher.leads)
    job = cluster.run(TALKATIVE + PROGRAM)
    cluster.wait_for(job, "RUNNING")
    [process] = processes_of(storage)
    folder = Path(os.readlink(f"/proc/{process}/cwd"))
    wait_for((folder / "stdout.3").exists)
    assert not (folder / "stdout.4").exists()
    text, position = cluster.rest.log("jobs", job, "logs", "stdout")
    numbers = [int(line.split()[1]) for line in text.splitlines()[1:-1]]
    assert numbers == sorted(set(numbers))
    more, _ = wait_for(
        lambda: found if (found := cluster.rest.log("jobs", job, "logs", "stdout", after=position))[0] else None
    )
    following = [int(line.split()[1]) for line in more.splitlines()[1:-1]]
    assert following == sorted(set(following))
    assert min(following, default=1 << 30) > max(numbers)
    cluster.rest.ask("PATCH", ("jobs", job))
    cluster.wait_for(job, "CANCELED")
    kept, _ = cluster.rest.log("jobs", job, "logs", "stdout")
    assert int(kept.splitlines()[-2].split()[1]) > max(numbers)
    endless = f"{position.partition('-')[0]}-{'9' * 5_000}"
    assert cluster.rest.log("jobs", job, "logs", "stdout", after=endless)[0] == kept
    cluster.service.stop()


@pytest.mark.slow
def test_a_new_dispatcher_goes_on_with_what_the_one_before_has_left(storage: Path) -> None:
    first = Cluster(storage)
    wait_for(lambda: first.service.dispatcher.leads)
    ended, running = first.run(programArgs="100"), first.run()
    first.wait_for(ended, "FINISHED")
    wait_for(lambda: first.epochs(running) > 0)
    first.service.stop()
    assert processes_of(storage) == []
    second = Cluster(storage)
    wait_for(lambda: second.service.dispatcher.leads)
    second.wait_for(running, "RUNNING")
    assert second.status(ended) == "FINISHED"
    assert second.rest.get("jobs", ended)["name"] == "numbers job"
    restored = wait_for(lambda: second.rest.get("jobs", running, "checkpoints")["latest"]["restored"])
    assert restored["id"] > 0
    second.service.stop()


@pytest.mark.slow
def test_old_jobs_are_left_to_the_history(storage: Path) -> None:
    cluster = Cluster(storage, **{"jobstore.max-capacity": "1"})
    wait_for(lambda: cluster.service.dispatcher.leads)
    first = cluster.run(programArgs="10")
    cluster.wait_for(first, "FINISHED")
    second = cluster.run(programArgs="10")
    cluster.wait_for(second, "FINISHED")
    wait_for(lambda: [line["jid"] for line in cluster.rest.get("jobs", "overview")["jobs"]] == [second])
    assert [each.name for each in (storage / "jobs").iterdir()] == [f"{second}-0001"]
    assert {each.name for each in (storage / "archives").iterdir()} == {first, second}
    cluster.service.stop()


@pytest.mark.slow
def test_a_process_that_is_killed_is_started_again_and_goes_on(storage: Path) -> None:
    cluster = Cluster(storage)
    wait_for(lambda: cluster.service.dispatcher.leads)
    job = cluster.run()
    wait_for(lambda: cluster.epochs(job) > 0)
    [before] = processes_of(storage)
    os.kill(before, signal.SIGKILL)
    after = wait_for(lambda: [process for process in processes_of(storage) if process != before])
    wait_for(lambda: cluster.rest.get("jobs", job, "checkpoints")["latest"]["restored"])
    assert len(after) == 1
    attempts = sorted(each.name for each in (storage / "jobs" / f"{job}-0001" / "attempts").glob("*.end"))
    assert attempts == ["000001.end"]
    assert json.loads((storage / "jobs" / f"{job}-0001" / "attempts" / attempts[0]).read_text())["code"] == -9
    cluster.service.stop()
    assert processes_of(storage) == []


@pytest.mark.slow
def test_one_stands_by_and_takes_over_with_the_processes_that_run(storage: Path) -> None:
    first, second = Cluster(storage), Cluster(storage)
    leader, other = wait_for(lambda: _by_rank(first, second))
    job = leader.run()
    wait_for(lambda: leader.epochs(job) > 0)
    with pytest.raises(RestClientError, match=f"stands by; the one that leads is at {leader.service.address}"):
        other.rest.get("jobs", "overview")
    assert other.rest.get("healthz")["status"] == "ok"
    with pytest.raises(RestClientError, match="stands by"):
        other.rest.get("readyz")
    before = processes_of(storage)
    leader.service.dispatcher.abandon()
    wait_for(lambda: other.service.dispatcher.leads)
    wait_for(lambda: other.epochs(job) > 0)
    assert processes_of(storage) == before
    other.service.stop()
    leader.service.stop()
    assert processes_of(storage) == []


def _by_rank(*clusters: Cluster) -> list[Cluster] | None:
    found = sorted(clusters, key=lambda each: not each.service.dispatcher.leads)
    return found if found[0].service.dispatcher.leads else None


@pytest.mark.slow
def test_a_process_on_another_machine_ends_when_another_takes_its_place(storage: Path) -> None:
    first = Cluster(storage)
    wait_for(lambda: first.service.dispatcher.leads)
    job = first.run()
    wait_for(lambda: first.epochs(job) > 0)
    [before] = processes_of(storage)
    first.service.dispatcher.abandon()
    attempts = storage / "jobs" / f"{job}-0001" / "attempts"
    said = json.loads((attempts / "000001.process").read_text())
    said["process"]["machine"] = "elsewhere"
    (attempts / "000001.process").write_text(json.dumps(said))
    second = Cluster(storage)
    wait_for(lambda: second.service.dispatcher.leads)
    wait_for(lambda: second.rest.get("jobs", job, "checkpoints")["latest"]["restored"])
    assert json.loads((attempts / "000001.end").read_text())["status"] == "SUSPENDED"
    assert before not in processes_of(storage)
    assert len(processes_of(storage)) == 1
    second.service.stop()
    first.service.stop()
