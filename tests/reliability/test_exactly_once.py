"""Every record once and in order, and exact state, whatever dies and whenever it does."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.reliability.support import canonical, doubles
from tests.reliability.support.faults import FaultPlan
from tests.reliability.support.outputs import hidden_files, parts
from tests.reliability.support.processes import Launcher


def arm_everything(plan: FaultPlan) -> None:
    """Spread the faults over the life of the job; each strikes in a run of its own."""
    plan.arm(canonical.FAILING_MAP, 1)
    plan.arm(doubles.BEFORE_MANIFEST, 4)
    plan.arm(doubles.AFTER_TAKE_OVER, 2)
    plan.arm(doubles.AFTER_MANIFEST, 5)
    plan.arm(doubles.BEFORE_CLEANING, 3)
    plan.arm(doubles.HALF_COMMIT, 9)
    plan.arm(doubles.BEFORE_FINISH, 1)


@pytest.mark.parametrize(
    "runtime",
    ["local", pytest.param("spark", marks=[pytest.mark.integration, pytest.mark.timeout(600)])],
)
def test_faults_at_every_step_of_an_epoch_cost_nothing(
    runtime: str, programs: Launcher, plan: FaultPlan, tmp_path: Path
) -> None:
    arm_everything(plan)
    failed = programs.run_until_it_succeeds("canonical.py", tmp_path, tmp_path / "faults", runtime, most=7)
    output = tmp_path / "output"
    assert canonical.verify(output) == canonical.EXACT
    assert plan.happened == plan.planned
    assert len(failed) == len(plan.planned) == 7
    raised = [ended for ended in failed if ended.code != -signal.SIGKILL]
    assert [ended.code for ended in raised] == [1], "all faults but the user's error are deaths"
    assert "this record does not please me" in raised[0].errors
    epochs = {part.first for part in parts(output)}
    assert len(epochs) >= 8
    assert {part.subtask for part in parts(output)} == set(range(canonical.PARALLELISM))
    assert not hidden_files(output)
