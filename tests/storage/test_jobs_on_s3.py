"""Whole jobs whose checkpoint directory is on S3: their output is exact, whatever the store answers, and when."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from headrace.cli.checkpoints import run_checkpoints
from headrace.common.errors import CheckpointStorageError, JobSupersededError
from headrace.storage.remote import WrittenFiles
from tests.storage.remote_job import RemoteJob
from tests.storage.s3_server import Fault, S3Server, done_and_lost, done_but, done_but_late, refused
from tests.waiting import PATIENCE, wait_for


class JobOnS3(RemoteJob):
    """One small job with its bucket and its output."""

    def __init__(self, server: S3Server, folder: Path) -> None:
        super().__init__(f"{server.new_bucket()}/jobs/small", server.options(), folder)
        self.server = server


@pytest.fixture
def made(s3: S3Server, tmp_path: Path) -> JobOnS3:
    return JobOnS3(s3, tmp_path)


@pytest.mark.slow
def test_a_server_that_is_gone_for_a_while(made: JobOnS3) -> None:
    errors: list[BaseException] = []
    thread = made.job(pause=0.02).in_background(errors)
    wait_for(lambda: made.epochs() >= 3)
    made.server.end()
    try:
        time.sleep(3)  # longer than requests are tried again
    finally:
        made.server.begin()
    thread.join(PATIENCE)
    assert not errors
    made.check()


REQUESTS = {
    "list": ("GET", re.compile(r"/[^/]+/?")),
    "delete": ("POST", re.compile(r"/[^/]+/?")),
    "put-manifest": ("PUT", re.compile(r".*/manifests/0[^/]*")),
    "get-manifest": ("GET", re.compile(r".*/manifests/0[^/]*")),
    "put-note": ("PUT", re.compile(r".*/manifests/newest")),
    "get-note": ("GET", re.compile(r".*/manifests/newest")),
    "put-state": ("PUT", re.compile(r".*/state/[^/]*")),
    "get-state": ("GET", re.compile(r".*/state/[^/]*")),
    "put-generation": ("PUT", re.compile(r".*/generations/[^/]*")),
    "get-generation": ("GET", re.compile(r".*/generations/[^/]*")),
    "head-generation": ("HEAD", re.compile(r".*/generations/[^/]*")),
    "put-probe": ("PUT", re.compile(r".*/\.probe-[^/]*")),
    "get-probe": ("GET", re.compile(r".*/\.probe-[^/]*")),
}
"""Every kind of request that a job sends, by method and path."""

FAULTS = {
    "refused": refused("400 Bad Request"),
    "overloaded": refused("503 Slow Down"),
    "done-but-refused": done_but("400 Bad Request"),
    "done-but-broken": done_but("500 Internal Server Error"),
    "lost": done_and_lost,
}

QUICK = {
    ("get-state", "overloaded"),
    ("put-manifest", "done-but-refused"),
    ("put-manifest", "lost"),
    ("put-state", "lost"),
    ("put-generation", "done-but-refused"),
}
"""What is tried whenever tests run; all is when slow tests run."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("request_kind", "fault"),
    [
        pytest.param(request, fault, marks=() if (request, fault) in QUICK else pytest.mark.slow)
        for request in REQUESTS
        for fault in FAULTS
    ],
)
def test_requests_that_go_wrong(made: JobOnS3, request_kind: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ever more rarely, so that the job comes to its end; where it cannot start it is started again."""
    monkeypatch.setattr(WrittenFiles, "take", lambda self, key: None)  # all of it is read from the store
    method, path = REQUESTS[request_kind]
    made.settings["execution.checkpointing.num-retained"] = "2"
    seen, struck = 0, 0

    def faults(its_method: str, its_path: str) -> Fault | None:
        nonlocal seen, struck
        if its_method != method or not path.fullmatch(its_path):
            return None
        seen += 1
        if seen not in (1, 2, 4, 8, 16, 32):
            return None
        struck += 1
        return FAULTS[fault]

    made.server.faults = faults
    try:
        failures = [error for stop_after in (5, 9, None) for error in made.run_at_last(stop_after)]
    finally:
        made.server.faults = lambda method, path: None
    assert struck >= 2
    assert all(made.location in str(error) for error in failures), failures
    made.check()


@pytest.mark.slow
def test_a_slow_server(made: JobOnS3) -> None:
    """The older of two job managers is in the midst of a request whenever the younger one does something."""
    made.server.faults = lambda method, path: time.sleep(0.04)
    errors: list[BaseException] = []
    try:
        thread = made.job().in_background(errors)
        wait_for(lambda: made.epochs() >= 3)
        assert made.job().run().restored[0] is not None
        thread.join(PATIENCE)
    finally:
        made.server.faults = lambda method, path: None
    assert [type(error) for error in errors] == [JobSupersededError], errors
    made.check()


@pytest.mark.parametrize(
    "path",
    [
        "/manifests/000000000004.json",
        *(pytest.param(path, marks=pytest.mark.slow) for path in ("/state/4-", "/generations/0")),
    ],
)
def test_a_server_that_answers_too_late(made: JobOnS3, path: str) -> None:
    with made.server.failing(done_but_late(3), "PUT", path) as struck:
        made.job(read_timeout="1 s").run()
    assert len(struck) == 1
    made.check()


@pytest.mark.parametrize(
    ("location", "told"),
    [("s3://there-is-none/job", "no such bucket"), ("webhdfs://host/job", "protocol only")],
)
def test_the_command_line_shows_that_nothing_can_be_there(s3: S3Server, location: str, told: str) -> None:
    with pytest.raises(CheckpointStorageError, match=told):
        run_checkpoints(location, s3.options())
