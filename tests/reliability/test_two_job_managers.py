"""Two job managers on one checkpoint directory, both alive: the younger goes on, the older stops, and all is exact."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.checkpoint.store import CheckpointStore
from headrace.client import submission
from headrace.common.errors import JobSupersededError
from headrace.connectors.file_system.rolls import HeldChunks
from tests.reliability.support.file_sinks import KINDS, Kind
from tests.reliability.support.small_jobs import EPOCHS, SmallJob, WatchedSink, expected

PATIENCE = 60.0
WAYS_TO_COMMIT = ("text-a-file-an-epoch", "text-rolled-by-size", "csv-rolled-by-size", "parquet-bulk")


@pytest.fixture(params=[kind for kind in KINDS if kind.name in WAYS_TO_COMMIT], ids=str)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


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


def test_the_older_one_stops_at_its_next_manifest(kind: Kind, tmp_path: Path, output: Path) -> None:
    older = SmallJob(tmp_path, WatchedSink(kind.make(output)), pause=0.05)
    younger = SmallJob(tmp_path, WatchedSink(kind.make(output)))
    errors: list[BaseException] = []
    thread = older.in_background(errors)
    wait_until(lambda: len(older.epochs()) >= 3)
    recorder = younger.run()
    thread.join(PATIENCE)
    only_superseded(errors)
    assert recorder.restored[0] is not None
    assert kind.records(output) == expected()


def test_the_older_one_is_in_the_middle_of_a_commit(kind: Kind, tmp_path: Path, output: Path) -> None:
    pause = Pause()
    paused = WatchedSink(kind.make(output), before=lambda epoch: pause.here() if epoch == 4 else None)
    older = SmallJob(tmp_path, paused)
    younger = SmallJob(tmp_path, WatchedSink(kind.make(output)))
    errors: list[BaseException] = []
    thread = older.in_background(errors)
    pause.wait_for()
    younger.run()
    before = kind.records(output)
    pause.end()
    thread.join(PATIENCE)
    only_superseded(errors)
    assert before == kind.records(output) == expected()


@pytest.mark.parametrize("step", ["_merge", "_uncover", "_show"])
def test_the_older_one_is_in_the_middle_of_publishing_a_merged_file(
    step: str, tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (kind,) = (kind for kind in KINDS if kind.name == "csv-rolled-by-size")
    pause, original = Pause(), getattr(HeldChunks, step)
    is_first = threading.Lock()

    def paused(self: HeldChunks, *arguments: Any) -> None:
        if is_first.acquire(blocking=False):
            pause.here()
        original(self, *arguments)

    monkeypatch.setattr(HeldChunks, step, paused)
    older, younger = (SmallJob(tmp_path, WatchedSink(kind.make(output))) for _ in range(2))
    errors: list[BaseException] = []
    thread = older.in_background(errors)
    pause.wait_for()
    younger.run()
    pause.end()
    thread.join(PATIENCE)
    only_superseded(errors)
    assert kind.records(output) == expected()
    SmallJob(tmp_path, WatchedSink(kind.make(output))).run()
    assert kind.records(output) == expected()


def test_one_that_wakes_up_when_its_next_manifest_has_come_and_gone(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause, original = Pause(), CheckpointStore.write
    is_first = threading.Lock()

    def paused(self: CheckpointStore, manifest: Any) -> None:
        if manifest.epoch == 4 and is_first.acquire(blocking=False):
            pause.here()
        original(self, manifest)

    monkeypatch.setattr(CheckpointStore, "write", paused)
    kind = KINDS[0]
    few = {"execution.checkpointing.num-retained": "1"}
    older, younger = (SmallJob(tmp_path, WatchedSink(kind.make(output)), few) for _ in range(2))
    errors: list[BaseException] = []
    thread = older.in_background(errors)
    pause.wait_for()
    younger.run()
    assert 4 not in younger.epochs(), "the name of the next manifest is free again"
    pause.end()
    thread.join(PATIENCE)
    only_superseded(errors)
    assert 4 not in younger.epochs()
    assert kind.records(output) == expected()


def test_two_that_begin_together(tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The older one is still in its first epoch when the younger one finds nothing to restore."""
    pause, original = Pause(), submission.open_runtime
    is_first = threading.Lock()

    def open_runtime(configuration: Any) -> Any:
        runtime, parallelism = original(configuration)
        if is_first.acquire(blocking=False):
            run_epoch: Callable[[Any], Any] = runtime.run_epoch
            runtime.run_epoch = lambda context: (pause.here(), run_epoch(context))[1]  # type: ignore[method-assign]
        return runtime, parallelism

    monkeypatch.setattr(submission, "open_runtime", open_runtime)
    kind = KINDS[0]
    older, younger = (SmallJob(tmp_path, WatchedSink(kind.make(output))) for _ in range(2))
    errors: list[BaseException] = []
    thread = older.in_background(errors)
    pause.wait_for()
    assert younger.run().completed == list(range(1, EPOCHS + 1))
    pause.end()
    thread.join(PATIENCE)
    only_superseded(errors)
    assert kind.records(output) == expected()


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)
