"""Requests to a job: one is carried out, or whoever asked is told that it is not; never both."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from headrace.checkpoint.directory import Generations, has_begun, may_begin
from headrace.client import submission
from headrace.common import Configuration
from headrace.common.errors import InfrastructureError, SavepointError
from headrace.datastream import StreamExecutionEnvironment
from headrace.jobmanager.control import RequestWatch
from headrace.savepoint import requests
from headrace.savepoint.requests import (
    REQUESTS,
    JobAnswer,
    JobNotFoundError,
    JobProcess,
    JobRequest,
    RequestFolder,
    RunningMark,
    ask,
    running,
)
from headrace.storage.folder import Folder, posix_folder

WANTED = JobRequest("/savepoints", stops=True)


@pytest.fixture
def directory(tmp_path: Path) -> Folder:
    return posix_folder(tmp_path / "a job, 100% ä")


def left(directory: Folder) -> list[str]:
    return [name for name in directory.folder(REQUESTS).names() if not name.endswith(".running")]


def test_where_no_job_is_it_is_withdrawn(directory: Folder) -> None:
    with pytest.raises(JobNotFoundError, match="no job has taken the request within 0 s"):
        ask(directory, WANTED, accept_seconds=0, timeout_seconds=0)
    assert left(directory) == []
    assert list(RequestFolder(directory).take()) == []


def test_a_job_that_takes_it_at_the_last_moment_is_waited_for(
    directory: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right behind the last look, and before it is withdrawn."""
    look, job = requests._appears, RequestFolder(directory)

    def taken_behind(folder: Folder, name: str, seconds: float) -> bool:
        found = look(folder, name, seconds)
        for stem, request in job.take():
            assert request == WANTED
            job.answer(stem, JobAnswer("/savepoints/savepoint-1"))
        return found

    monkeypatch.setattr(requests, "_appears", taken_behind)
    answer = ask(directory, WANTED, accept_seconds=0, timeout_seconds=0)
    assert answer == JobAnswer("/savepoints/savepoint-1")
    assert left(directory) == []


def test_what_is_withdrawn_while_a_job_reads_it_is_not_carried_out(
    directory: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, folder, stem = RequestFolder._read, directory.folder(REQUESTS), "1800000000000-0123456789ab"

    def withdrawn_behind(job: RequestFolder, name: str) -> JobRequest | None:
        request = read(job, name)
        folder.remove(name)
        return request

    monkeypatch.setattr(RequestFolder, "_read", withdrawn_behind)
    folder.make()
    folder.write(f"{stem}.json", [json.dumps(asdict(WANTED)).encode()])
    assert list(RequestFolder(directory).take()) == []
    assert left(directory) == []


def test_the_request_goes_before_what_says_that_it_was_accepted(
    directory: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a job would find it once more in between, as a store removes many files in any order."""
    job, removed = RequestFolder(directory), Folder.remove_all
    seen: list[str] = []

    def in_any_order(folder: Folder, names: list[str]) -> list[str]:
        for name in reversed(names):
            removed(folder, [name])
            seen.extend(stem for stem, _ in job.take())
        return names

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "remove_all", in_any_order)
        look = requests._appears

        def accepted(folder: Folder, name: str, seconds: float) -> bool:
            if name.endswith(".accepted"):
                seen.extend(stem for stem, _ in job.take())
            return look(folder, name, seconds)

        patch.setattr(requests, "_appears", accepted)
        with pytest.raises(requests.SavepointError, match="has taken the request, and not done it in 0 s"):
            ask(directory, WANTED, accept_seconds=0, timeout_seconds=0)
    assert len(seen) == 1


def test_who_stops_a_job_that_fails_on_the_way_is_told(directory: Folder) -> None:
    answers = list[JobAnswer]()
    for number, error in enumerate([None, InfrastructureError("the sink is away")]):
        watch = RequestWatch(directory, None)
        watch.begin(number)
        stem = put(directory, JobRequest("", stops=True, drains=bool(number)), number)
        watch.look(Mock())
        watch.close(error)
        answers.append(JobAnswer(**json.loads(directory.folder(REQUESTS).read(f"{stem}.done"))))
    assert answers == [JobAnswer(), JobAnswer(error="the job has ended with an error: the sink is away")]


# --- requests that are there when a job starts ------------------------------------------------------------------------


def put(directory: Folder, request: JobRequest = WANTED, number: int = 0) -> str:
    """A request whose client may be gone."""
    stem = f"{time.time() * 1000:013.0f}-{number:012x}"
    directory.folder(REQUESTS).make()
    directory.folder(REQUESTS).write(f"{stem}.json", [json.dumps(asdict(request)).encode()])
    return stem


def test_a_request_whose_client_was_killed_before_the_start_is_dropped(
    directory: Folder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stem, job = put(directory), RequestFolder(directory)
    job.begin()
    assert [*job.take(), *job.take()] == []
    later = put(directory, number=1)
    assert list(job.take()) == [(later, WANTED)], "one that came behind the start is as good as ever"
    monkeypatch.setattr(requests, "_SILENT_SECONDS", -1)
    assert list(job.take()) == []
    assert left(directory) == [f"{later}.accepted", f"{later}.json"]
    assert f"no command waits any more for the request {stem}" in caplog.text


def test_one_that_was_asked_by_a_start_that_was_killed_as_well_is_dropped_by_the_next(
    directory: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(directory)
    for silent in (30, -1):
        monkeypatch.setattr(requests, "_SILENT_SECONDS", silent)
        job = RequestFolder(directory)
        job.begin()
        assert [*job.take(), *job.take()] == []
    assert left(directory) == []


def test_a_request_is_carried_out_by_the_next_start_while_its_client_waits(
    directory: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It finds the request, asks whether anybody waits, and takes it up once that was answered."""
    wait, jobs = requests._appears, list[RequestFolder]()

    def restarted_meanwhile(folder: Folder, name: str, seconds: float) -> bool:
        if not jobs:
            jobs.append(RequestFolder(directory))
            jobs[0].begin()
        for stem, request in jobs[0].take():
            assert request.described(stem).startswith("the stop with a canonical savepoint that ")
            assert f"@{socket.gethostname()} asked for at 20" in request.described(stem)
            jobs[0].answer(stem, JobAnswer("/savepoints/savepoint-1"))
        return wait(folder, name, 0)

    monkeypatch.setattr(requests, "_appears", restarted_meanwhile)
    RunningMark(directory.folder(REQUESTS), 1).set()
    answer = ask(directory, WANTED, accept_seconds=60, timeout_seconds=0)
    assert answer == JobAnswer("/savepoints/savepoint-1")
    assert left(directory) == []


# --- whether a job runs ----------------------------------------------------------------------------------------------


def killed() -> JobProcess:
    """A process that is gone."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return replace(JobProcess.present(), pid=process.pid)


def mark(folder: Folder, process: JobProcess) -> None:
    """Have a job run there in that process."""
    folder.write("000000000001.running", [json.dumps(asdict(process)).encode()])


def test_nobody_waits_for_the_answer_of_a_job_that_was_killed(
    directory: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does one that has been started since have anything to do with it."""
    monkeypatch.setattr(requests, "_PATIENCE_SECONDS", 0)
    look, folder, job = requests._appears, directory.folder(REQUESTS), RequestFolder(directory)

    def killed_then(of: Folder, name: str, seconds: float) -> bool:
        if name.endswith(".accepted"):
            mark(folder, JobProcess.present())
            list(job.take())
        elif look(of, name, 0):
            return True
        else:
            mark(folder, killed())
            RunningMark(folder, 2).set()
        return look(of, name, seconds)

    monkeypatch.setattr(requests, "_appears", killed_then)
    with pytest.raises(SavepointError, match="its process is gone without an answer"):
        ask(directory, WANTED, accept_seconds=600, timeout_seconds=600)
    assert left(directory) == []


def test_a_job_that_starts_again_says_so_before_it_has_opened_its_directory(
    directory: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark starts meanwhile; where that fails, no job runs."""
    folder, seen = directory.folder(REQUESTS), list[bool]()

    def spark_fails(*_: object) -> None:
        seen.append(has_begun(directory) and bool(running(folder)))
        raise InfrastructureError("Spark does not start")

    monkeypatch.setattr(submission, "open_runtime", spark_fails)
    settings = {"execution.checkpointing.dir": str(directory), "headrace.runtime": "local"}
    for _ in range(2):
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
        env.from_collection([1]).print()
        with pytest.raises(InfrastructureError, match="Spark does not start"):
            env.execute_async()
        if len(seen) == 1:
            assert may_begin(directory), "nothing is written where no job has begun"
            Generations(directory.folder("generations")).claim(0, "a job")
    assert seen == [False, True]
    assert not running(folder)


@pytest.mark.parametrize("was", ["ended", "killed", "its number is another process's"])
def test_where_no_job_runs_any_more_nobody_waits(was: str, directory: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_PATIENCE_SECONDS", 0)
    folder = directory.folder(REQUESTS)
    folder.make()
    if was == "ended":
        running_mark = RunningMark(folder, 1)
        running_mark.set()
        running_mark.remove()
    else:
        mark(folder, killed() if was == "killed" else replace(JobProcess.present(), started="1"))
    with pytest.raises(JobNotFoundError, match=r"no job runs in .*: it has ended, or its process is gone"):
        ask(directory, WANTED, accept_seconds=600, timeout_seconds=0)
    assert left(directory) == []


def test_a_job_of_another_machine_is_waited_for(directory: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_PATIENCE_SECONDS", 0)
    folder = directory.folder(REQUESTS)
    folder.make()
    mark(folder, replace(JobProcess.present(), machine="another", started="1"))
    with pytest.raises(JobNotFoundError, match="no job has taken the request within"):
        ask(directory, WANTED, accept_seconds=0.2, timeout_seconds=0)


def test_a_job_manager_removes_no_mark_of_a_younger_one(directory: Folder) -> None:
    folder = directory.folder(REQUESTS)
    folder.make()
    older, younger = RunningMark(folder, 9), RunningMark(folder, 10)
    older.set()
    younger.set()
    assert folder.names() == ["000000000010.running"]
    older.remove()
    assert running(folder) == {"000000000010.running"}
    younger.remove()
    assert not running(folder)


# --- requests that are none ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["clock", "version"])
def test_one_that_the_job_takes_for_none_is_told_at_once(
    change: str, directory: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of who asks is an hour behind that of the job, or another version asks for what this one has not."""
    job, wait = RequestFolder(directory), requests._appears
    asked = asdict

    def taken_meanwhile(folder: Folder, name: str, seconds: float) -> bool:
        assert list(job.take()) == []
        return wait(folder, name, 0)

    monkeypatch.setattr(requests, "_appears", taken_meanwhile)
    if change == "version":
        monkeypatch.setattr(requests, "asdict", lambda request: {**asked(request), "more": True})
    else:
        names = Folder.names

        def older(folder: Folder) -> list[str]:
            monkeypatch.setattr(requests, "_LIFE_MILLIS", -60_000)
            return names(folder)

        monkeypatch.setattr(Folder, "names", older)
    with pytest.raises(JobNotFoundError, match=r"has removed the request.*the clock of this machine is behind"):
        ask(directory, WANTED, accept_seconds=2, timeout_seconds=0)
    assert left(directory) == []


def test_what_others_have_put_there_stays_and_what_was_left_behind_goes(directory: Folder) -> None:
    folder = directory.folder(REQUESTS)
    folder.make()
    old, now = "1000000000000-0123456789ab", f"{time.time() * 1000:013.0f}-0123456789ab"
    theirs = ["README", "lost+found", f"{now}.json.bak", f".{now}.json.{'0' * 32}.tmp"]
    for name in [*theirs, f"{old}.json", f"{old}.done", f".{old}.json.{'0' * 32}.tmp"]:
        Path(folder.path, name).write_text("theirs")
    assert list(RequestFolder(directory).take()) == []
    assert {path.name for path in Path(folder.path).iterdir()} == set(theirs)


def test_one_that_the_job_may_not_read_does_not_hold_up_those_behind_it(
    directory: Folder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody else has asked, as root say."""
    folder, now = directory.folder(REQUESTS), time.time() * 1000
    theirs, mine = f"{now:013.0f}-0123456789ab", f"{now + 1:013.0f}-0123456789ab"
    folder.make()
    for stem in (theirs, mine):
        folder.write(f"{stem}.json", [json.dumps(asdict(WANTED)).encode()])
    read = Folder.read

    def read_own(folder: Folder, name: str) -> bytes:
        if name.startswith(theirs):
            raise PermissionError(13, "Permission denied", folder.locate(name))
        return read(folder, name)

    monkeypatch.setattr(Folder, "read", read_own)
    job = RequestFolder(directory)
    assert list(job.take()) == [(mine, WANTED)]
    assert list(job.take()) == []
    assert caplog.text.count("a request must come from the user that runs the job") == 1
    assert theirs in caplog.text
