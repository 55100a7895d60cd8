"""A job manager that stands still while it takes a savepoint, and is superseded meanwhile, leaves nothing of it."""

from __future__ import annotations

import threading
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from headrace.common.errors import JobSupersededError, SavepointError
from headrace.storage.folder import Folder
from tests.savepoint.jobs import DEADLINE, Place, start, wait_for_records

AMOUNTS = {key: key for key in range(20)}
ENDS = sorted(f"k{key} ends with {key} at {10_000 + key}" for key in range(20))


class Pause:
    """The first folder of a savepoint that is made waits, before or behind that."""

    def __init__(self, patch: pytest.MonkeyPatch, step: int) -> None:
        self.reached, self.over = threading.Event(), threading.Event()
        original, steps = Folder.make, count()

        def make(folder: Folder) -> None:
            if "/savepoint-" in str(folder) and next(steps) == step:
                self.reached.set()
                assert self.over.wait(DEADLINE)
            original(folder)

        patch.setattr(Folder, "make", make)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["canonical", "native"])
@pytest.mark.parametrize("step", [0, 1])
def test_nothing_is_left(kind: str, step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(tmp_path)
    place.write("a", AMOUNTS)
    slow = start(place, "job", 2)
    wait_for_records(slow, 20)
    pause = Pause(monkeypatch, step)
    outcome = slow.trigger_savepoint(format_type=kind)
    assert pause.reached.wait(DEADLINE)
    next_one: Any = start(place, "job", 3, ends=True)
    next_one.get_job_execution_result().result(DEADLINE)
    pause.over.set()
    assert isinstance(outcome.exception(DEADLINE), SavepointError)
    assert isinstance(slow.get_job_execution_result().exception(DEADLINE), JobSupersededError)
    assert [path for path in (tmp_path / "savepoints").rglob("*") if path.is_file()] == []
    assert sorted(line for line in place.lines("out-job") if "ends" in line) == ENDS
    start(place, "job", 2, ends=True).get_job_execution_result().result(DEADLINE)
    assert list((tmp_path / "job" / "pins").iterdir()) == []
