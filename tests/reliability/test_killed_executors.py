"""Executors are killed in every stage of an epoch, and two attempts of a task are never mixed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import Launcher
from tests.reliability.support.faults import FaultPlan
from tests.reliability.support.outputs import hidden_files, lines
from tests.reliability.support.two_sinks import COUNT, MARKS, SPLITS, point


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.timeout(1800)
def test_two_sinks_agree_on_what_was_random(programs: Launcher, plan: FaultPlan, tmp_path: Path) -> None:
    for stage, numbers in MARKS.items():
        for number in numbers:
            plan.arm(point(stage, number), 1)
    ended = programs.start("two_sinks", tmp_path, tmp_path / "faults", "local-cluster[2,1,1024]").wait(1500)
    assert ended.code == 0, ended
    assert plan.happened == plan.planned
    assert len(plan.happened) == 5
    early, late = (tokens(tmp_path / name) for name in ("early", "late"))
    assert sorted(early) == list(range(SPLITS * COUNT))
    assert early == late
    assert not hidden_files(tmp_path / "early")
    assert not hidden_files(tmp_path / "late")


def tokens(folder: Path) -> dict[int, str]:
    """The token of each number, which is there once."""
    found: dict[int, str] = {}
    for line in lines(folder):
        number, token = line.strip("()").split(",")
        assert int(number) not in found, f"{number} is there twice"
        found[int(number)] = token
    return found
