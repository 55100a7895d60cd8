"""Fixtures of the tests of the guarantees."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reliability.support.faults import FaultPlan
from tests.reliability.support.storages import CheckpointDirectory, on_posix, on_s3


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
