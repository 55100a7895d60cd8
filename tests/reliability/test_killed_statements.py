"""Statements of SQL whose processes end between any two steps, at another parallelism in each life.

Each operator of SQL is in one of the statements; what they write is what they write in a job that nothing happens to.
"""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from tests.forks import Forks
from tests.reliability.support.faults import FaultPlan
from tests.reliability.support.killed_logs import AFTER, BEFORE, DRIVER, KILL, point
from tests.table.statements import STATEMENTS, environment, fill, insert, outcome


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_kills_between_any_two_steps(forks: Forks, tmp_path: Path) -> None:
    kills, chance = 12, random.Random(12)
    fill(tmp_path / "whole")
    insert(environment(tmp_path / "whole", "local"), STATEMENTS).wait()
    fill(tmp_path / "killed")
    happened = 0
    for life in range(10 * kills):
        plan = FaultPlan(tmp_path / f"faults-{life}")
        if happened < kills:
            plan.arm(point(DRIVER, chance.choice([BEFORE, AFTER]), KILL), chance.randint(10, 150))
        ended = forks.start(
            "statements", tmp_path / "killed", "local", life % 3 + 1, tmp_path / f"faults-{life}"
        ).wait()
        happened += len(plan.happened)
        if ended.code == 0:
            break
        assert (ended.code, len(plan.happened)) == (-signal.SIGKILL, 1), f"life {life}: {ended}"
    assert happened >= 3
    assert outcome(tmp_path / "killed", STATEMENTS) == outcome(tmp_path / "whole", STATEMENTS)
