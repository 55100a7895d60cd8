"""From a topic of the embedded log to another one, with processes that end, or stand still, between any two steps.

Steps are the changes of folders: commits of the log, files of records, state files, manifests. A reader sees each id
once and in the order of its key, at any time.
"""

from __future__ import annotations

import random
import signal
from functools import partial
from pathlib import Path

import pytest

from tests.forks import Forks
from tests.processes import Launcher
from tests.reliability.support.faults import FaultPlan
from tests.reliability.support.killed_logs import (
    AFTER,
    BEFORE,
    COUNT,
    DRIVER,
    KILL,
    PAUSE,
    TASK,
    check,
    make_logs,
    point,
)

STEPS = 50
"""Among how many steps of a life the one is at which it ends."""


@pytest.mark.parametrize(
    ("runtime", "kills"),
    [
        pytest.param("local", 2, id="local"),
        pytest.param("local", 100, id="local-100", marks=[pytest.mark.slow, pytest.mark.timeout(3_600)]),
        pytest.param(
            "spark", 12, id="spark", marks=[pytest.mark.slow, pytest.mark.integration, pytest.mark.timeout(3_600)]
        ),
    ],
)
def test_kills_between_any_two_steps(
    runtime: str, kills: int, programs: Launcher, forks: Forks, tmp_path: Path
) -> None:
    chance, seed = random.Random(kills), kills
    start = partial(forks.start, "log_to_log") if runtime == "local" else partial(programs.start, "log_to_log")
    killed = rounds = 0
    while killed < kills:  # a round is a job from its beginning to its end
        rounds += 1
        folder = tmp_path / str(rounds)
        folder.mkdir()
        make_logs(folder)
        seen = [0]
        for life in range(10 * kills):
            plan = FaultPlan(folder / f"faults-{life}")
            process = chance.choice([DRIVER, TASK]) if runtime == "spark" else DRIVER
            where = point(process, chance.choice([BEFORE, AFTER]), KILL)
            if killed < kills:
                plan.arm(where, chance.randint(1, STEPS))
            arguments = folder, runtime, chance.randint(1, 4), folder / f"faults-{life}"
            ended = start(*arguments).wait()
            seen.append(check(folder))
            assert seen == sorted(seen), f"seed {seed}: what was visible stays"
            killed += len(plan.happened)
            if ended.code == 0:
                break
            assert ended.code == -signal.SIGKILL, f"seed {seed}, round {rounds}, life {life}: {ended}"
            assert plan.happened, f"seed {seed}: {ended}"
        assert seen[-1] == COUNT, f"seed {seed}, round {rounds}"
    assert killed == kills


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_a_driver_that_stands_still_while_another_one_takes_over(forks: Forks, tmp_path: Path) -> None:
    pauses, chance = 20, random.Random(20)
    paused = superseded = 0
    while paused < pauses:
        folder = tmp_path / str(paused)
        folder.mkdir()
        make_logs(folder)
        plan = FaultPlan(folder / "faults")
        plan.arm(point(DRIVER, chance.choice([BEFORE, AFTER]), PAUSE), chance.randint(20, 20 + STEPS))
        zombie = forks.start("log_to_log", folder, "local", 2, folder / "faults")
        zombie.wait_until_it_stands_still()
        assert len(plan.happened) == 1
        before = check(folder)
        other = forks.start("log_to_log", folder, "local", chance.randint(1, 4), folder / "none").wait()
        assert other.code == 0, other
        assert before <= check(folder) == COUNT
        zombie.go_on()
        ended = zombie.wait()
        assert ended.code == 1, ended
        superseded += "JobSupersededError" in ended.errors or "younger job manager" in ended.errors
        assert check(folder) == COUNT
        paused += 1
    assert superseded == paused == pauses
