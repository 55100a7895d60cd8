"""Requests to a job: one is carried out, or whoever asked is told that it is not; never both."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from headrace.savepoint import requests
from headrace.savepoint.requests import REQUESTS, JobAnswer, JobNotFoundError, JobRequest, RequestFolder, ask
from headrace.storage.folder import Folder
from headrace.storage.posix import PosixFolder

WANTED = JobRequest("/savepoints", stops=True)


@pytest.fixture
def directory(tmp_path: Path) -> PosixFolder:
    return PosixFolder(tmp_path / "a job, 100% ä")


def left(directory: PosixFolder) -> list[str]:
    return directory.folder(REQUESTS).names()


def test_where_no_job_is_it_is_withdrawn(directory: PosixFolder) -> None:
    with pytest.raises(JobNotFoundError, match="no job has taken the request within 0 s"):
        ask(directory, WANTED, accept_seconds=0, timeout_seconds=0)
    assert left(directory) == []
    assert list(RequestFolder(directory).take()) == []


def test_a_job_that_takes_it_at_the_last_moment_is_waited_for(
    directory: PosixFolder, monkeypatch: pytest.MonkeyPatch
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
    directory: PosixFolder, monkeypatch: pytest.MonkeyPatch
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
    directory: PosixFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a job would find it once more in between, as a store removes many files in any order."""
    job, removed = RequestFolder(directory), PosixFolder.remove_all
    seen: list[str] = []

    def in_any_order(folder: PosixFolder, names: list[str]) -> list[str]:
        for name in reversed(names):
            removed(folder, [name])
            seen.extend(stem for stem, _ in job.take())
        return names

    with monkeypatch.context() as patch:
        patch.setattr(PosixFolder, "remove_all", in_any_order)
        look = requests._appears

        def accepted(folder: Folder, name: str, seconds: float) -> bool:
            if name.endswith(".accepted"):
                seen.extend(stem for stem, _ in job.take())
            return look(folder, name, seconds)

        patch.setattr(requests, "_appears", accepted)
        with pytest.raises(requests.SavepointError, match="has taken the request, and not done it in 0 s"):
            ask(directory, WANTED, accept_seconds=0, timeout_seconds=0)
    assert len(seen) == 1


@pytest.mark.parametrize("change", ["clock", "version"])
def test_one_that_the_job_takes_for_none_is_told_at_once(
    change: str, directory: PosixFolder, monkeypatch: pytest.MonkeyPatch
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
        names = PosixFolder.names

        def older(folder: PosixFolder) -> list[str]:
            monkeypatch.setattr(requests, "_LIFE_MILLIS", -60_000)
            return names(folder)

        monkeypatch.setattr(PosixFolder, "names", older)
    with pytest.raises(JobNotFoundError, match=r"has removed the request.*the clock of this machine is behind"):
        ask(directory, WANTED, accept_seconds=2, timeout_seconds=0)
    assert left(directory) == []


def test_what_others_have_put_there_stays_and_what_was_left_behind_goes(directory: PosixFolder) -> None:
    folder = directory.folder(REQUESTS)
    folder.make()
    old, now = "1000000000000-0123456789ab", f"{time.time() * 1000:013.0f}-0123456789ab"
    theirs = ["README", "lost+found", f"{now}.json.bak", f".{now}.json.{'0' * 32}.tmp"]
    for name in [*theirs, f"{old}.json", f"{old}.done", f".{old}.json.{'0' * 32}.tmp"]:
        (folder.path / name).write_text("theirs")
    assert list(RequestFolder(directory).take()) == []
    assert {path.name for path in folder.path.iterdir()} == set(theirs)


def test_one_that_the_job_may_not_read_does_not_hold_up_those_behind_it(
    directory: PosixFolder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody else has asked, as root say."""
    folder, now = directory.folder(REQUESTS), time.time() * 1000
    theirs, mine = f"{now:013.0f}-0123456789ab", f"{now + 1:013.0f}-0123456789ab"
    folder.make()
    for stem in (theirs, mine):
        folder.write(f"{stem}.json", [json.dumps(asdict(WANTED)).encode()])
    read = PosixFolder.read

    def read_own(folder: PosixFolder, name: str) -> bytes:
        if name.startswith(theirs):
            raise PermissionError(13, "Permission denied", folder.locate(name))
        return read(folder, name)

    monkeypatch.setattr(PosixFolder, "read", read_own)
    job = RequestFolder(directory)
    assert list(job.take()) == [(mine, WANTED)]
    assert list(job.take()) == []
    assert caplog.text.count("a request must come from the user that runs the job") == 1
    assert theirs in caplog.text
