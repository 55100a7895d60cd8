"""Two job managers on one checkpoint directory, both alive: the younger goes on, the older stops, and all is exact."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.checkpoint.store import CheckpointStore
from headrace.client import submission
from headrace.common.errors import JobSupersededError
from headrace.connectors.file_system import committer
from headrace.connectors.file_system.committer import FileCommitter
from headrace.connectors.file_system.staging import StagingArea
from headrace.storage import file_system
from headrace.storage.file_system import PosixFileSystem
from tests.reliability.support.file_sinks import KINDS, Kind, contents
from tests.reliability.support.small_jobs import EPOCHS, SmallJob, WatchedSink, expected
from tests.reliability.support.storages import CheckpointDirectory
from tests.waiting import PATIENCE, wait_for

WAYS_TO_COMMIT = ("text-a-file-an-epoch", "text-rolled-by-size", "csv-rolled-by-size", "parquet-bulk")


@pytest.fixture(params=[kind for kind in KINDS if kind.name in WAYS_TO_COMMIT], ids=str)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


ON_EACH_STORAGE = pytest.mark.parametrize(
    "checkpoints", ["posix", pytest.param("s3", marks=pytest.mark.slow)], indirect=True
)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "output"


class Pause:
    """A place where one thread waits until another lets it go on."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._over = threading.Event()

    def here(self) -> None:
        self._reached.set()
        assert self._over.wait(PATIENCE)

    def wait_for(self) -> None:
        assert self._reached.wait(PATIENCE)

    def end(self) -> None:
        self._over.set()


def only_superseded(errors: list[BaseException]) -> None:
    assert [type(error) for error in errors] == [JobSupersededError], errors
    assert "another job manager has taken over" in str(errors[0])


@pytest.mark.sampled(1)
@ON_EACH_STORAGE
def test_the_older_one_stops_at_its_next_manifest(
    kind: Kind, checkpoints: CheckpointDirectory, tmp_path: Path, output: Path
) -> None:
    older = SmallJob(tmp_path, WatchedSink(kind.make(output)), checkpoints.settings, pause=0.05)
    younger = SmallJob(tmp_path, WatchedSink(kind.make(output)), checkpoints.settings)
    errors: list[BaseException] = []
    thread = older.in_background(errors)
    wait_for(lambda: len(checkpoints.epochs()) >= 3)
    recorder = younger.run()
    thread.join(PATIENCE)
    only_superseded(errors)
    assert recorder.restored[0] is not None
    assert kind.records(output) == expected()


@pytest.mark.sampled(2)
@ON_EACH_STORAGE
def test_the_older_one_is_in_the_middle_of_a_commit(
    kind: Kind, checkpoints: CheckpointDirectory, tmp_path: Path, output: Path
) -> None:
    pause, commits = Pause(), itertools.count(1)
    paused = WatchedSink(kind.make(output), before=lambda epoch: pause.here() if next(commits) == 2 else None)
    older = SmallJob(tmp_path, paused, checkpoints.settings)
    younger = SmallJob(tmp_path, WatchedSink(kind.make(output)), checkpoints.settings)
    errors: list[BaseException] = []
    thread = older.in_background(errors)
    pause.wait_for()
    younger.run()
    before = kind.records(output)
    pause.end()
    thread.join(PATIENCE)
    only_superseded(errors)
    assert before == kind.records(output) == expected()


SHOWING = ["_is_there", "_publish", "publish", "remove"]
ASSEMBLING = [*SHOWING, "assemble", "write_file", "checked_blocks"]
STEPS = {
    "text-a-file-an-epoch": SHOWING,
    "text-rolled-by-size": ASSEMBLING,
    "csv-rolled-by-size": ASSEMBLING,
}


def pause_at(monkeypatch: pytest.MonkeyPatch, step: str, side: str, nth: int, pause: Pause) -> None:
    """Wait at the beginning, the end, or in the middle, of what a committer of files does."""
    callers: list[Any] = [FileCommitter, committer, StagingArea, PosixFileSystem, file_system]
    owner = committer if step == "checked_blocks" else next(each for each in callers if hasattr(each, step))
    original, calls = getattr(owner, step), itertools.count(1)

    def paused(*arguments: Any, **named: Any) -> Any:
        is_of_all = step in ("remove", "write_file") and "/.headrace-" not in str(arguments)
        is_it = not is_of_all and next(calls) == nth
        if is_it and side == "before":
            pause.here()
        found = original(*arguments, **named)
        if is_it and side == "after":
            pause.here()
        return found

    def paused_blocks(*arguments: Any) -> Iterator[bytes]:
        is_it = next(calls) == nth
        if is_it and side == "before":
            pause.here()
        for block in original(*arguments):
            yield block[: len(block) // 2]
            if is_it and side == "after":
                pause.here()
            yield block[len(block) // 2 :]

    monkeypatch.setattr(owner, step, paused_blocks if step == "checked_blocks" else paused)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("nth", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize(("name", "step"), [(name, step) for name, steps in STEPS.items() for step in steps])
def test_the_older_one_is_in_the_middle_of_publishing(
    name: str, step: str, side: str, nth: int, tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it goes on with, the younger one has published everything, and nothing appears twice."""
    (kind,) = (kind for kind in KINDS if kind.name == name)
    pause = Pause()
    pause_at(monkeypatch, step, side, nth, pause)
    older, younger = (SmallJob(tmp_path, WatchedSink(kind.make(output))) for _ in range(2))
    errors: list[BaseException] = []
    thread = older.in_background(errors)
    pause.wait_for()
    younger.run()
    before = contents(output)
    assert kind.records(output) == expected()
    pause.end()
    thread.join(PATIENCE)
    only_superseded(errors)
    assert contents(output) == before
    SmallJob(tmp_path, WatchedSink(kind.make(output))).run()
    assert contents(output) == before


@pytest.mark.sampled(2)
@pytest.mark.parametrize("step", ["assemble", "write_file", "checked_blocks", "publish"])
def test_the_older_one_cannot_show_again_what_a_reader_has_taken_away(
    step: str, tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (kind,) = (kind for kind in KINDS if kind.name == "csv-rolled-by-size")
    pause = Pause()
    pause_at(monkeypatch, step, "before" if step == "publish" else "after", 1, pause)
    older, younger = (SmallJob(tmp_path, WatchedSink(kind.make(output))) for _ in range(2))
    errors: list[BaseException] = []
    thread = older.in_background(errors)
    pause.wait_for()
    younger.run()
    for name in contents(output):
        (output / name).unlink()
    pause.end()
    thread.join(PATIENCE)
    only_superseded(errors)
    assert contents(output) == {}


@pytest.mark.slow
@pytest.mark.parametrize("checkpoints", ["posix", "s3"], indirect=True)
def test_one_that_wakes_up_when_its_next_manifest_has_come_and_gone(
    checkpoints: CheckpointDirectory, tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause, original = Pause(), CheckpointStore.write
    is_first = threading.Lock()

    def paused(self: CheckpointStore, manifest: Any) -> None:
        if manifest.epoch == 4 and is_first.acquire(blocking=False):
            pause.here()
        original(self, manifest)

    monkeypatch.setattr(CheckpointStore, "write", paused)
    kind = KINDS[0]
    few = checkpoints.settings | {"execution.checkpointing.num-retained": "1"}
    older, younger = (SmallJob(tmp_path, WatchedSink(kind.make(output)), few) for _ in range(2))
    errors: list[BaseException] = []
    thread = older.in_background(errors)
    pause.wait_for()
    younger.run()
    assert 4 not in checkpoints.epochs(), "the name of the next manifest is free again"
    pause.end()
    thread.join(PATIENCE)
    only_superseded(errors)
    assert 4 not in checkpoints.epochs()
    assert kind.records(output) == expected()


@ON_EACH_STORAGE
def test_two_that_begin_together(
    checkpoints: CheckpointDirectory, tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The older one is still in its first epoch when the younger one finds nothing to restore."""
    pause, original = Pause(), submission.open_runtime
    is_first = threading.Lock()

    def open_runtime(*given: Any) -> Any:
        runtime, parallelism = original(*given)
        if is_first.acquire(blocking=False):
            run_epoch: Callable[[Any], Any] = runtime.run_epoch
            runtime.run_epoch = lambda context: (pause.here(), run_epoch(context))[1]  # type: ignore[method-assign]
        return runtime, parallelism

    monkeypatch.setattr(submission, "open_runtime", open_runtime)
    kind = KINDS[0]
    older, younger = (SmallJob(tmp_path, WatchedSink(kind.make(output)), checkpoints.settings) for _ in range(2))
    errors: list[BaseException] = []
    thread = older.in_background(errors)
    pause.wait_for()
    assert younger.run().completed == list(range(1, EPOCHS + 1))
    pause.end()
    thread.join(PATIENCE)
    only_superseded(errors)
    assert kind.records(output) == expected()
