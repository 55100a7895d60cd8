"""Fixtures of the tests of the guarantees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reliability.support.faults import FaultPlan
from tests.reliability.support.forked import Forks, launcher_of_forks
from tests.reliability.support.processes import Launcher, launcher
from tests.reliability.support.storages import CheckpointDirectory, on_posix, on_s3


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Launcher]:
    """Starts programs; ends what is left of them after the test."""
    with launcher(tmp_path) as started:
        yield started


@pytest.fixture
def forks(tmp_path: Path) -> Iterator[Forks]:
    """Starts programs that are killed soon; ends what is left of them after the test."""
    with launcher_of_forks(tmp_path) as started:
        yield started


@pytest.fixture
def plan(tmp_path: Path) -> FaultPlan:
    """The faults of the test."""
    return FaultPlan(tmp_path / "faults")


@pytest.fixture
def checkpoints(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointDirectory:
    """A fresh checkpoint directory; its parameter says on which storage."""
    if request.param == "posix":
        return on_posix(tmp_path)
    return on_s3(request.getfixturevalue("s3"))
