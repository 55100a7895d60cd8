"""Fixtures of the tests of the guarantees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reliability.support.faults import FaultPlan
from tests.reliability.support.processes import Launcher, launcher


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Launcher]:
    """Starts programs; ends what is left of them after the test."""
    with launcher(tmp_path) as started:
        yield started


@pytest.fixture
def plan(tmp_path: Path) -> FaultPlan:
    """The faults of the test."""
    return FaultPlan(tmp_path / "faults")
