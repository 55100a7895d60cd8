"""Joins of every kind, and functions of two streams, whose tasks and drivers are killed, at another parallelism in each
life: each pair is there once, and so is each record that has found no partner."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.forks import Forks
from tests.processes import Ended, Launcher, Starter
from tests.reliability.support import doubles
from tests.reliability.support.faults import FaultPlan
from tests.reliability.support.joins import BEFORE_JOINS, DYING_NUMBERS, WAYS, expected, point_of
from tests.reliability.support.outputs import hidden_files, lines

FEW = ["interval join", "window join in columns"]
NO_JOINS = ["connected", "broadcast"]
JOINS = [way for way in WAYS if way not in NO_JOINS]


def run(starter: Starter, folder: Path, runtime: str, ways: Sequence[str], most: int) -> list[Ended]:
    """Run the program until it succeeds, each time at another parallelism; gives the runs that failed."""
    turns = [(folder, folder / "faults", runtime, parallelism, *ways) for parallelism in (1, 4, 3)]
    return starter.run_in_turns("joins", turns, most=most)


def check(folder: Path, ways: Sequence[str]) -> None:
    """Nothing that is shown is lost, doubled or wrong."""
    for way in ways:
        right = expected(way)
        assert len([line for line in right if "None" in line]) > 50 or way in ("co-group", *NO_JOINS)
        assert sorted(lines(folder / "output" / way)) == right
        assert not hidden_files(folder / "output" / way)


@pytest.mark.long
@pytest.mark.parametrize("ways", [FEW, pytest.param(NO_JOINS, marks=pytest.mark.slow)], ids=["joins", "no joins"])
def test_they_survive(forks: Forks, plan: FaultPlan, ways: Sequence[str], tmp_path: Path) -> None:
    plan.arm(point_of(ways[0]), 1).arm(doubles.AFTER_MANIFEST, 15)
    failed = run(forks, tmp_path, "local", ways, most=2)
    assert plan.happened == plan.planned
    assert [ended.code for ended in failed] == [-9] * 2
    check(tmp_path, ways)


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.timeout(3600)
def test_joins_survive_on_spark(programs: Launcher, plan: FaultPlan, tmp_path: Path) -> None:
    plan.arm(BEFORE_JOINS, *range(1, len(DYING_NUMBERS) + 1))
    for way in JOINS:
        plan.arm(point_of(way), 1)
    drivers = {
        doubles.BEFORE_MANIFEST: 5,
        doubles.AFTER_MANIFEST: 9,
        doubles.HALF_COMMIT: 30,
        doubles.AFTER_TAKE_OVER: 2,
    }
    for point, visit in drivers.items():
        plan.arm(point, visit)
    failed = run(programs, tmp_path, "spark", JOINS, most=len(drivers))
    assert plan.happened == plan.planned
    assert [ended.code for ended in failed] == [-9] * len(drivers)
    check(tmp_path, JOINS)
