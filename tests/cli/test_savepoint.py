"""Jobs of other processes that are asked for savepoints, and to stop."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headrace.cli.main import app
from headrace.common import JobStatus
from headrace.savepoint.metadata import METADATA
from headrace.savepoint.requests import REQUESTS, RequestFolder
from headrace.storage.posix import PosixFolder
from tests.savepoint.jobs import DEADLINE, Place, start, wait_for_records

pytestmark = pytest.mark.timeout(200)

AMOUNTS = {key: key for key in range(5)}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write("a", AMOUNTS)
    return place


def headrace(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "400"})


def test_a_savepoint_while_the_job_goes_on_then_a_stop_with_one(place: Place) -> None:
    client = start(place, "job", 1)
    wait_for_records(client, 5)
    target, job = str(place.root / "there"), str(place.root / "job")
    for kind in ("canonical", "native"):
        taken = headrace("savepoint", job, target, "--type", kind)
        assert taken.exit_code == 0, taken.output
        assert (Path(taken.output.strip()) / METADATA).exists()
    place.write("b", AMOUNTS)
    wait_for_records(client, 10)
    stopped = headrace("stop", job, "--savepoint-path", target, "--drain")
    assert stopped.exit_code == 0, stopped.output
    client.get_job_execution_result().result(DEADLINE)
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert len([line for line in place.lines("out-job") if "ends" in line]) == 5
    assert list((place.root / "job" / REQUESTS).iterdir()) == []
    disposed = headrace("savepoint", "--dispose", stopped.output.strip())
    assert disposed.exit_code == 0, disposed.output
    assert not Path(stopped.output.strip()).exists()


def test_a_stop_without_a_savepoint(place: Place) -> None:
    client = start(place, "job", 1)
    wait_for_records(client, 5)
    stopped = headrace("stop", str(place.root / "job"))
    assert "the job has stopped" in stopped.output
    client.get_job_execution_result().result(DEADLINE)
    assert client.get_job_status().result() is JobStatus.CANCELED


def test_where_no_job_runs_it_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    asked = headrace("savepoint", str(tmp_path), str(tmp_path / "there"), "--timeout", "0")
    assert asked.exit_code == 1
    assert "no job has taken the request within 0 s" in asked.stderr
    assert list((tmp_path / REQUESTS).iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["savepoint", "."], "where is the savepoint to be made?"),
        (["savepoint", "--dispose", "."], "is no savepoint"),
    ],
)
def test_what_cannot_be_done_is_told(arguments: list[str], message: str) -> None:
    asked = headrace(*arguments)
    assert asked.exit_code == 1
    assert message in asked.stderr


def test_what_others_have_left_goes_after_an_hour(tmp_path: Path) -> None:
    requests = tmp_path / REQUESTS
    requests.mkdir()
    now = int(time.time() * 1000)
    for age in (0, 3_700_000):
        (requests / f"{now - age:013}-0123456789ab.done").write_text("{}")
    (requests / f"{now:013}-0123456789cd.json").write_text("{")
    (requests / "else").write_text("")
    assert list(RequestFolder(PosixFolder(tmp_path)).take()) == []
    assert [path.name for path in requests.iterdir()] == [f"{now:013}-0123456789ab.done"]
