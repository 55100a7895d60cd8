"""Rules whose tasks and drivers are killed, at another parallelism in each life: each match is there once."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.state.backend import DEFAULT_BACKEND, ROCKSDB_BACKEND
from tests.forks import Forks
from tests.processes import Ended, Launcher, Starter
from tests.reliability.support import doubles
from tests.reliability.support.dying_tables import AFTER_TABLE, BEFORE_TABLE
from tests.reliability.support.faults import FaultPlan
from tests.reliability.support.outputs import hidden_files, lines
from tests.reliability.support.patterns import (
    BEFORE_PATTERNS,
    BEHIND_PATTERNS,
    DYING_NUMBERS,
    OUTPUTS,
    expected_lines,
    rejected,
)


def run(starter: Starter, folder: Path, runtime: str, most: int, backend: str = DEFAULT_BACKEND) -> list[Ended]:
    """Run the program until it succeeds, each time at another parallelism; gives the runs that failed."""
    turns = [(folder, folder / "faults", runtime, parallelism, backend) for parallelism in (1, 4, 3)]
    return starter.run_in_turns("patterns", turns, most=most)


def check(folder: Path) -> None:
    """Nothing is lost, doubled or wrong."""
    for name, right in expected_lines().items():
        assert len(right) > 50
        assert sorted(lines(folder / "output" / name)) == right
    assert len([*lines(folder / "output" / "rejected")]) == rejected() > 1
    assert not any(hidden_files(folder / "output" / name) for name in OUTPUTS)


@pytest.mark.slow
def test_rules_survive(forks: Forks, plan: FaultPlan, tmp_path: Path) -> None:
    plan.arm(BEHIND_PATTERNS, 40).arm(BEFORE_PATTERNS, 2).arm(doubles.AFTER_MANIFEST, 15)
    failed = run(forks, tmp_path, "local", most=3)
    assert plan.happened == plan.planned
    assert [ended.code for ended in failed] == [-9] * 3
    check(tmp_path)


@pytest.mark.slow
def test_rules_survive_on_rocksdb(forks: Forks, plan: FaultPlan, tmp_path: Path) -> None:
    """Processes die while what partial matches have left in files is merged, too."""
    plan.arm(BEHIND_PATTERNS, 40).arm(BEFORE_TABLE, 2).arm(AFTER_TABLE, 4).arm(doubles.AFTER_MANIFEST, 15)
    failed = run(forks, tmp_path, "local", most=4, backend=ROCKSDB_BACKEND)
    assert plan.happened == plan.planned
    assert [ended.code for ended in failed] == [-9] * 4
    check(tmp_path)


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.timeout(3600)
def test_rules_survive_on_spark(programs: Launcher, plan: FaultPlan, tmp_path: Path) -> None:
    plan.arm(BEFORE_PATTERNS, *range(1, len(DYING_NUMBERS) + 1)).arm(BEHIND_PATTERNS, 30, 90)
    drivers = {doubles.BEFORE_MANIFEST: 5, doubles.AFTER_MANIFEST: 9, doubles.HALF_COMMIT: 12}
    for point, visit in drivers.items():
        plan.arm(point, visit)
    failed = run(programs, tmp_path, "spark", most=len(drivers))
    assert plan.happened == plan.planned
    assert [ended.code for ended in failed] == [-9] * len(drivers)
    check(tmp_path)
