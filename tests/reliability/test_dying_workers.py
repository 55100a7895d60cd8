"""A Python worker that dies in the user's code costs an epoch that is run again, and no more."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.reliability.support.dying_workers import IN_A_RECORD, IN_A_TIMER, IN_CLOSE, expected
from tests.reliability.support.faults import FaultPlan
from tests.reliability.support.outputs import hidden_files, lines
from tests.reliability.support.processes import Launcher


@pytest.mark.integration
@pytest.mark.timeout(900)
def test_workers_that_die_in_a_record_a_timer_and_at_the_end(
    programs: Launcher, plan: FaultPlan, tmp_path: Path
) -> None:
    plan.arm(IN_A_RECORD, 1).arm(IN_A_TIMER, 1).arm(IN_CLOSE, 1)
    ended = programs.start("dying_workers.py", tmp_path, tmp_path / "faults", "spark").wait()
    assert ended.code == 0, ended
    assert plan.happened == plan.planned
    assert len(plan.happened) == 3
    assert ended.errors.count("it is run again in") == 3, ended
    found = Counter(tuple(map(int, line.strip("()").split(","))) for line in lines(tmp_path / "output"))
    assert found == Counter(expected())
    assert not hidden_files(tmp_path / "output")
