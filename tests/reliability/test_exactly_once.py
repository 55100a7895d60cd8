"""Every record once and in order, and exact state, whatever dies and whenever it does."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.forks import Forks
from tests.processes import Ended, Launcher
from tests.reliability.support import canonical, doubles
from tests.reliability.support.faults import FaultPlan
from tests.reliability.support.outputs import hidden_files, parts


def arm(plan: FaultPlan) -> FaultPlan:
    """Spread faults over the life of the job, one for each run; the user's own comes first."""
    plan.arm(canonical.FAILING_MAP, 1)
    plan.arm(doubles.BEFORE_MANIFEST, 4)
    plan.arm(doubles.AFTER_TAKE_OVER, 2)
    plan.arm(doubles.AFTER_MANIFEST, 5)
    return plan.arm(doubles.HALF_COMMIT, 9)


def check(failed: list[Ended], plan: FaultPlan, output: Path) -> None:
    """Nothing is lost, doubled or out of order, and the job has failed exactly as planned."""
    assert canonical.verify(output) == canonical.EXACT
    assert plan.happened == plan.planned
    assert len(failed) == len(plan.planned)
    raised = [ended for ended in failed if ended.code != -signal.SIGKILL]
    assert [ended.code for ended in raised] == [1], "all faults but the user's error are deaths"
    assert "this record does not please me" in raised[0].errors
    found = parts(output)
    assert len({part.first for part in found}) >= 8
    assert {part.subtask for part in found} == set(range(canonical.PARALLELISM))
    assert not hidden_files(output)


@pytest.mark.long
def test_faults_at_every_step_of_an_epoch_cost_nothing(forks: Forks, plan: FaultPlan, tmp_path: Path) -> None:
    arm(plan).arm(doubles.BEFORE_CLEANING, 3).arm(doubles.BEFORE_FINISH, 1)
    failed = forks.run_until_it_succeeds("canonical", tmp_path, tmp_path / "faults", "local", most=7)
    check(failed, plan, tmp_path / "output")


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.timeout(1200)
def test_faults_at_every_step_of_an_epoch_cost_nothing_on_spark(
    programs: Launcher, plan: FaultPlan, tmp_path: Path
) -> None:
    arm(plan)
    failed = programs.run_until_it_succeeds("canonical", tmp_path, tmp_path / "faults", "spark", most=5)
    check(failed, plan, tmp_path / "output")
