"""Jobs of other processes that are asked for savepoints, and to stop."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headrace.cli import savepoint as cli_savepoint
from headrace.cli.main import app
from headrace.client.job_client import JobClient
from headrace.common import JobStatus
from headrace.savepoint import requests
from headrace.savepoint.metadata import METADATA
from headrace.savepoint.requests import REQUESTS, JobNotFoundError, JobRequest, RequestFolder, ask
from headrace.storage.folder import posix_folder
from tests.savepoint.jobs import DEADLINE, Place, start, wait_for_records

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
    client = start(place, "job", 1, settings={"execution.checkpointing.savepoint-dir": None})
    wait_for_records(client, 5)
    stopped = headrace("stop", str(place.root / "job"))
    assert "the job has stopped" in stopped.output
    client.get_job_execution_result().result(DEADLINE)
    assert client.get_job_status().result() is JobStatus.SUSPENDED


def test_the_jobs_own_place_will_do(place: Place) -> None:
    client = start(place, "job", 1)
    wait_for_records(client, 5)
    taken = headrace("savepoint", str(place.root / "job"))
    assert taken.exit_code == 0, taken.output
    stopped = headrace("stop", str(place.root / "job"), "--type", "native")
    assert stopped.exit_code == 0, stopped.output
    for savepoint in (taken, stopped):
        assert Path(savepoint.output.strip()).parent == place.root / "savepoints"
    client.get_job_execution_result().result(DEADLINE)


def test_a_job_goes_on_when_there_is_no_place_for_the_savepoint_that_it_is_to_stop_with(place: Place) -> None:
    client = start(place, "job", 1, settings={"execution.checkpointing.savepoint-dir": None})
    wait_for_records(client, 5)
    for arguments in (["savepoint"], ["stop", "--type", "native"], ["stop", "--drain", "--type", "canonical"]):
        asked = headrace(arguments[0], str(place.root / "job"), *arguments[1:])
        assert asked.exit_code == 1
        assert "where is the savepoint to be made? Give a directory, or set" in asked.stderr
    assert client.get_job_status().result() is JobStatus.RUNNING
    client.stop().result(DEADLINE)


def test_who_asks_before_the_job_has_begun_waits_for_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, clients = place.root / "job", list[JobClient]()

    def begins_meanwhile(seconds: float) -> None:
        if not clients:
            directory.mkdir()
            (directory / "sources").mkdir()  # made before the job is known to have begun
            clients.append(start(place, "job", 1))
        real_sleep(seconds)

    real_sleep = time.sleep
    monkeypatch.setattr(cli_savepoint.time, "sleep", begins_meanwhile)
    taken = headrace("savepoint", str(directory))
    assert taken.exit_code == 0, taken.output
    assert taken.stderr.count(f"no job has begun in {directory} yet: waiting for one, 60 s at most") == 1
    assert Path(taken.stdout.strip()).is_dir()
    clients[0].stop().result(DEADLINE)


def test_a_job_that_has_come_to_its_end_is_asked_for_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_PATIENCE_SECONDS", 0)
    start(place, "job", 1, ends=True).get_job_execution_result().result(DEADLINE)
    for arguments in (["savepoint", "there"], ["stop"], ["rescale", "-p", "2"]):
        asked = headrace(arguments[0], str(place.root / "job"), *arguments[1:])
        assert asked.exit_code == 1
        assert "has come to its end, and takes no requests any more" in asked.stderr
    assert list((place.root / "job" / REQUESTS).iterdir()) == []


def test_a_job_that_comes_to_its_end_meanwhile(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_PATIENCE_SECONDS", 0)
    directory = begun(place.root / "job")

    def ends_meanwhile() -> None:
        start(place, "job", 1, ends=True).get_job_execution_result().result(DEADLINE)

    monkeypatch.setattr(RequestFolder, "take", lambda self, _=None: iter(()))
    with pytest.raises(JobNotFoundError, match="has come to its end, and takes no requests any more"):
        ask(
            posix_folder(directory),
            JobRequest(""),
            accept_seconds=DEADLINE,
            timeout_seconds=0,
            still_waiting=ends_meanwhile,
        )


def test_a_job_that_waits_for_its_restart_is_stopped(place: Place) -> None:
    """A savepoint needs it to run: such a request is there for when it does."""
    (place.input / "bad").write_text("k1,not a number\n")
    restarts = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1d"}
    client = start(place, "job", 1, settings={**restarts, "execution.checkpointing.savepoint-dir": None})
    job = place.root / "job"
    early = headrace("savepoint", str(job), str(place.root / "there"), "--timeout", "1")
    assert "or it fails and restarts again and again" in early.output
    stopped = headrace("stop", str(job))
    assert (stopped.exit_code, stopped.stdout) == (0, "the job has stopped\n"), stopped.output
    client.get_job_execution_result().result(DEADLINE)
    assert list((job / REQUESTS).iterdir()) == []


@pytest.mark.parametrize("arguments", [["savepoint", ".", ""], ["stop", ".", "-p", " "]])
def test_a_place_that_is_empty_is_told(arguments: list[str]) -> None:
    asked = headrace(*arguments)
    assert asked.exit_code == 1
    assert "the place of the savepoint is empty (was it to come from a variable that is not set?)" in asked.stderr


@pytest.mark.parametrize("also", [["there"], ["--type", "native"]])
def test_who_disposes_gives_nothing_else(also: list[str], tmp_path: Path) -> None:
    asked = headrace("savepoint", "--dispose", str(tmp_path), *also)
    assert asked.exit_code == 2
    assert "it removes the savepoint DIR: give nothing else" in asked.stderr


def begun(directory: Path) -> Path:
    """As a job has left it that does not run any more."""
    (directory / "generations").mkdir(parents=True)
    (directory / "generations" / "000000000000").write_text("")
    return directory


def test_where_no_job_runs_it_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    begun(tmp_path)
    asked = headrace("savepoint", str(tmp_path), str(tmp_path / "there"), "--timeout", "0")
    assert asked.exit_code == 1
    assert "no job has taken the request within 0 s" in asked.stderr
    assert list((tmp_path / REQUESTS).iterdir()) == []


def test_who_waits_is_told_what_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_PATIENCE_SECONDS", 0)
    asked = headrace("rescale", str(begun(tmp_path)), "-p", "2", "--timeout", "0.2")
    assert asked.exit_code == 1
    assert asked.stderr.count("waiting for the job in") == 1
    assert "to take the request, 0.2 s at most" in asked.stderr


@pytest.mark.parametrize("arguments", [["savepoint", "there"], ["stop"], ["rescale", "-p", "2"]])
@pytest.mark.parametrize("directory", ["input", "input/a.txt", "nowhere"])
def test_a_folder_that_no_job_has_checkpoints_in_gets_no_request(
    arguments: list[str], directory: str, tmp_path: Path
) -> None:
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "a.txt").write_text("data")
    asked = headrace(arguments[0], str(tmp_path / directory), *arguments[1:], "--timeout", "0")
    assert asked.exit_code == 1
    assert "is no checkpoint directory: no job has begun there" in asked.stderr
    assert [path.name for path in tmp_path.rglob("*")] == ["input", "a.txt"]


@pytest.mark.parametrize("command", ["savepoint", "stop"])
def test_an_unknown_type_is_a_command_that_is_not_understood(command: str, tmp_path: Path) -> None:
    asked = headrace(command, str(tmp_path), "--type", "odd")
    assert asked.exit_code == 2
    assert "'odd' is not one of" in asked.stderr


def test_what_is_no_savepoint_is_not_disposed_of() -> None:
    asked = headrace("savepoint", "--dispose", ".")
    assert asked.exit_code == 1
    assert "is no savepoint" in asked.stderr


def test_what_others_have_left_of_requests_goes_after_an_hour(tmp_path: Path) -> None:
    folder = tmp_path / REQUESTS
    folder.mkdir()
    now = int(time.time() * 1000)
    for age in (0, 3_700_000):
        (folder / f"{now - age:013}-0123456789ab.done").write_text("{}")
    (folder / f"{now:013}-0123456789cd.json").write_text("{")
    (folder / "else").write_text("")
    assert list(RequestFolder(posix_folder(tmp_path)).take()) == []
    assert sorted(path.name for path in folder.iterdir()) == [f"{now:013}-0123456789ab.done", "else"]
