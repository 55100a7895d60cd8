"""When state is looked at for runs to merge: now and then, and again at once while there is more."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.jobmanager.compaction import EPOCHS_BETWEEN_LOOKS, CompactionCoordinator

WORK = SimpleNamespace(stage=0, partition=0, is_shared=False)
OUTCOME = SimpleNamespace(task=WORK, file="merged")


class Backend:
    """Finds work so often, one piece each time."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.looked_at: list[int] = []
        self.epoch = 0

    def plan_compaction(self, *_: Any) -> list[Any]:
        self.looked_at.append(self.epoch)
        self.rounds -= 1
        return [WORK] if self.rounds >= 0 else []


class Runtime:
    """Does the work at once; each piece gives the same outcome, or none."""

    def __init__(self, outcome: Any) -> None:
        self.outcome = outcome
        self.gave_way: list[bool] = []

    def run_background(self, work: Any, items: list[Any], *, gives_way: bool = False) -> Future[list[Any]]:
        self.gave_way.append(gives_way)
        done: Future[list[Any]] = Future()
        if isinstance(self.outcome, Exception):
            done.set_exception(self.outcome)
        else:
            done.set_result([self.outcome] * len(items))
        return done


def looks(rounds: int, outcome: Any, epochs: int) -> tuple[list[int], list[bool]]:
    """In which epochs state was looked at, and whether the work gave way each time."""
    backend, runtime = Backend(rounds), Runtime(outcome)
    coordinator = CompactionCoordinator(runtime, None, backend)  # type: ignore[arg-type]
    partition = SimpleNamespace(version=SimpleNamespace(files=("a file",)), progress={})
    stages = [SimpleNamespace(partitions=[partition])]
    manifest: Any = SimpleNamespace(
        stages=stages, processing_time=0, generation=1, state_files=lambda: [getattr(outcome, "file", "")]
    )
    for backend.epoch in range(1, epochs + 1):
        coordinator.adoptions(manifest)
        coordinator.epoch_completed(manifest)
    return backend.looked_at, runtime.gave_way


def test_as_long_as_there_is_more_the_next_look_follows_at_once() -> None:
    first, second = EPOCHS_BETWEEN_LOOKS, 2 * EPOCHS_BETWEEN_LOOKS
    looked_at, gave_way = looks(3, OUTCOME, second)
    assert looked_at == [first, first + 1, first + 2, first + 3, second]
    assert gave_way == [True] * 3


def test_that_it_fails_is_told(caplog: pytest.LogCaptureFixture) -> None:
    looked_at, _ = looks(9, OSError("the disk is full"), 2 * EPOCHS_BETWEEN_LOOKS + 1)
    assert len(looked_at) == 2
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == ["a compaction is given up; state grows until a later one makes up for it: the disk is full"] * 2


def test_work_that_cannot_be_done_is_not_tried_again_at_once() -> None:
    first, second = EPOCHS_BETWEEN_LOOKS, 2 * EPOCHS_BETWEEN_LOOKS
    assert looks(9, None, second)[0] == [first, second]
