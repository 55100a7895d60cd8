"""File sinks that write to S3: every record is shown once, whatever happens to others and to the store."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from headrace.common.errors import CheckpointStorageError, CommitRefusedError, JobSupersededError
from headrace.connectors.file_system.committer import FileCommitter
from headrace.connectors.file_system.staging import StagingArea
from headrace.storage.object_store import ObjectStore
from tests.reliability.support.file_sinks import Kind, by_name
from tests.reliability.support.small_jobs import CrashError
from tests.storage.remote_output import RemoteOutput
from tests.storage.s3_server import SECRET, S3Server, done_and_lost, done_but, refused
from tests.waiting import PATIENCE, wait_for

ROLLED = by_name("csv-rolled-by-size")
AT_ONCE = by_name("text-a-file-an-epoch")


class Output(RemoteOutput):
    """A place on S3 that jobs write to."""

    def __init__(self, server: S3Server, folder: Path) -> None:
        super().__init__(server, folder)
        self.server = server

    def get(self, path: str) -> bytes:
        return self.read(path)

    def put(self, path: str, content: bytes) -> None:
        self.server.put(f"{self.uri}/{path}", content)


@pytest.fixture
def output(s3: S3Server, tmp_path: Path) -> Output:
    return Output(s3, tmp_path)


class Pause:
    """A place where one thread waits until another lets it go on."""

    def __init__(self) -> None:
        self.reached, self.over = threading.Event(), threading.Event()

    def here(self) -> None:
        self.reached.set()
        assert self.over.wait(PATIENCE)


STEPS = [
    (ROLLED, StagingArea, "write_for_publishing"),
    (ROLLED, StagingArea, "has_publishing_folder"),
    (ROLLED, StagingArea, "publish"),
    (ROLLED, FileCommitter, "_publish"),
    (AT_ONCE, StagingArea, "publish"),
    (AT_ONCE, FileCommitter, "_publish"),
]


@pytest.mark.slow
@pytest.mark.parametrize("taken", [False, True], ids=["left", "taken-away"])
@pytest.mark.parametrize(
    ("kind", "owner", "step", "side"),
    [
        pytest.param(*step, side, marks=() if number % 2 == (side == "after") and number > 1 else pytest.mark.slow)
        for number, step in enumerate(STEPS)
        for side in ("before", "after")
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_the_older_of_two_job_managers_shows_nothing_more(
    output: Output, kind: Kind, owner: Any, step: str, side: str, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it was doing, and also where a reader has taken away what the younger one has shown."""
    pause, original = Pause(), getattr(owner, step)
    first = threading.Lock()

    def paused(self: Any, *arguments: Any) -> Any:
        is_it = not (arguments and "/probe-" in str(arguments[0])) and first.acquire(blocking=False)
        if is_it and side == "before":
            pause.here()
        found = original(self, *arguments)
        if is_it and side == "after":
            pause.here()
        return found

    monkeypatch.setattr(owner, step, paused)
    errors: list[BaseException] = []
    thread = output.job(kind).in_background(errors)
    assert pause.reached.wait(PATIENCE)
    output.job(kind).run()
    output.check(kind)
    before = output.objects()
    if taken:
        for path in before:
            output.remove(path)
        before = {}
    pause.over.set()
    thread.join(PATIENCE)
    assert [type(error) for error in errors] == [JobSupersededError], errors
    assert output.visible() == before


FAULTS = {
    "done, the answer is lost": done_and_lost,
    "done, an error": done_but("400 Bad Request"),
    "not done, an error": refused("400 Bad Request"),
    "not done, slow down": refused("503 Slow Down"),
}


STRUCK = {3, 7, 8, 15, 24, 40, 60, 85, 120, 170, 240}


PATHS = [("PUT", "/out/"), ("POST", "/out/part-"), ("HEAD", "/out/")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "path", "kind", "fault"),
    [
        pytest.param(*path, kind, FAULTS[fault], id=f"{path[0]}-{kind}-{fault}", marks=marks)
        for number, path in enumerate(PATHS)
        for kind in (ROLLED, AT_ONCE)
        for turn, fault in enumerate(FAULTS)
        for marks in [() if (number + turn) % 4 == 0 and kind is (ROLLED, AT_ONCE)[turn % 2] else pytest.mark.slow]
    ],
)
def test_requests_that_go_wrong(output: Output, kind: Kind, fault: Any, method: str, path: str) -> None:
    """Ever fewer of them: were it every seventh, no start would come through, as each makes more."""
    seen, struck = itertools.count(1), list[str]()

    def faults(its_method: str, its_path: str) -> Any:
        if its_method != method or path not in its_path or next(seen) not in STRUCK:
            return None
        struck.append(its_path)
        return fault

    output.server.faults = faults
    try:
        output.job(kind).run(stop_after=6)
        output.job(kind).run()
    finally:
        output.server.faults = lambda method, path: None
    assert struck
    output.check(kind)


@pytest.mark.slow
def test_a_server_that_is_gone_for_a_while(output: Output) -> None:
    errors: list[BaseException] = []
    thread = output.job(ROLLED, pause=0.02).in_background(errors)
    wait_for(lambda: len(output.visible()) >= 2)
    output.server.end()
    try:
        time.sleep(3)  # longer than requests are tried again
    finally:
        output.server.begin()
    thread.join(PATIENCE)
    assert not errors
    output.check(ROLLED)


@pytest.mark.slow
def test_a_store_that_heeds_the_header_is_asked_by_it(output: Output) -> None:
    output.server.heeds_conditions_of_copies = True
    try:
        output.server.requests.clear()
        output.job(ROLLED).run()
    finally:
        output.server.heeds_conditions_of_copies = False
    output.check(ROLLED)
    assert not [path for method, path in output.server.requests if method == "POST" and "/part-" in path]


def test_a_store_that_replaces_what_is_there_is_refused(output: Output) -> None:
    output.server.ignores_conditions = True
    try:
        with pytest.raises(CheckpointStorageError, match="does not copy objects without replacing others"):
            output.job(AT_ONCE, **{"restart-strategy.type": "none"}).run()
    finally:
        output.server.ignores_conditions = False
    assert output.objects() == {}


def stopped(output: Output, kind: Kind) -> list[str]:
    """A job that has stopped before its fourth commit; gives what is hidden."""

    def die(epoch: int) -> None:
        if epoch >= 4:
            raise CrashError

    output.job(kind, before=die).crash()
    return [path for path in output.objects() if path.endswith(".part")]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("damage", ["missing", "cut", "changed"])
def test_damage_to_what_waits_is_told(output: Output, damage: str) -> None:
    for path in stopped(output, AT_ONCE):
        content = output.get(path)
        if damage == "missing":
            output.remove(path)
        else:
            output.put(path, content[:-1] if damage == "cut" else content[:-1] + b"?")
    with pytest.raises(CommitRefusedError, match=rf"{output.uri}/\.headrace-.*\.part"):
        output.job(AT_ONCE).run()


@pytest.mark.slow
def test_something_else_with_the_name_of_a_part_is_told(output: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    output.job(AT_ONCE).run(stop_after=3)
    shown = output.visible()
    original, names = FileCommitter._publish, list[str]()

    def publish(self: FileCommitter, part: Any, target: str, epoch: int) -> bool:
        if not names:
            names.append(target.removeprefix(f"{self._staging.base}/"))
            output.put(names[0], b"a stranger's")
        return original(self, part, target, epoch)

    monkeypatch.setattr(FileCommitter, "_publish", publish)
    with pytest.raises(CommitRefusedError, match="has 12 bytes, but what is"):
        output.job(AT_ONCE).run()
    assert shown.items() <= output.visible().items()
    output.remove(names[0])
    output.job(AT_ONCE).run()
    output.check(AT_ONCE)


def test_the_root_of_a_bucket(output: Output) -> None:
    staging = StagingArea(ObjectStore(output.place, tuple(sorted(output.options.items()))), "", "a")
    file = staging.begin_chunk("", 1, 2, 3)
    file.write(b"x")
    file.keep("/.headrace-a/chunks/name")
    assert b"".join(staging.file_system.blocks("/.headrace-a/chunks/name")) == b"x"
    assert [path for path, _ in staging.file_system.walk("", lambda _: True)] == ["/.headrace-a/chunks/name"]


def test_it_travels_without_showing_secrets(output: Output) -> None:
    staging = StagingArea(ObjectStore(output.place, tuple(sorted(output.options.items()))), "/a", "a")
    assert SECRET not in f"{staging} {staging!r}"
