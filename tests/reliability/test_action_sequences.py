"""Sequences of all that may be done to a job, drawn by a seed: whatever the order, its output is exact in the end."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.forks import Forks
from tests.reliability.support.world_actions import ACTIONS, Actor
from tests.reliability.support.worlds import World

SEEDS = [int(seed) for seed in os.environ.get("HEADRACE_SEED", "0 1 2 3 4 5 6 7 8 9").split()]
COUNT = 50


def act(seed: int, count: int, forks: Forks, folder: Path) -> Counter[str]:
    """Do so many things, let the job come to its end, and give what was done; a failure says how to see it again."""
    actor = Actor(World(folder, forks.start, "local", seed), random.Random(seed))
    try:
        for _ in range(count):
            actor.act()
        if actor.runs:
            actor.kill()
        actor.world.finish()
    except BaseException as error:
        again = f"HEADRACE_SEED={seed} python -m pytest -m '' tests/reliability/test_action_sequences.py -k {count}_"
        error.add_note(f"seed {seed} ({again}), in {actor.world.branch.folder}: {'; '.join(actor.done)}")
        raise
    print(f"seed {seed}: {dict(actor.world.lives)}; {'; '.join(actor.done)}")
    return Counter(actor.done)


@pytest.mark.long
def test_15_actions(forks: Forks, tmp_path: Path) -> None:
    done = act(3, 15, forks, tmp_path)
    assert done.total() == 15


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_50_actions_each(forks: Forks, tmp_path: Path) -> None:
    done = sum((act(seed, COUNT, forks, tmp_path / str(seed)) for seed in SEEDS), Counter[str]())
    assert done.total() == COUNT * len(SEEDS)
    if len(SEEDS) > 1:
        assert {action.removesuffix(", killed") for action in done} == ACTIONS.keys()
        assert any("killed" in action for action in done)
