"""One job that is killed two hundred times, while it takes savepoints, stops with them, starts from them elsewhere at
another parallelism under another backend, is rescaled, merges its state and publishes its output."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.forks import Forks
from tests.processes import Launcher, Running
from tests.reliability.support.kill_points import COMPACTION, OUTPUT, KillPoint
from tests.reliability.support.worlds import World

SEED = int(os.environ.get("HEADRACE_SEED", "20"))

BACKENDS: Final = ("hashmap", "rocksdb")

ACTIONS: Final = {
    "": 25,
    "savepoint:canonical": 25,
    "savepoint:native": 20,
    "stop:canonical": 10,
    "stop:native": 5,
    "rescale:1": 5,
    "rescale:4": 5,
    "rescale:3": 5,
}
"""What a life does besides, and how often."""

POINTS: Final = {
    "savepoint": [("savepoint", 30), ("savepoint", 60), ("pin", 3), ("manifest", 12), ("any", 60), ("", 0)],
    "stop": [("savepoint", 30), ("savepoint", 30), ("pin", 3), ("any", 60), ("", 0)],
    "rescale": [("manifest", 12), ("any", 60), ("", 0)],
    "": [("any", 120), ("any", 20), (COMPACTION, 3), (OUTPUT, 20), ("sources", 6), ("manifest", 20), ("", 0)],
}
"""By what it does, at which step it is killed, and how many it does at most before; empty for at some moment."""


@dataclass(frozen=True)
class Story:
    """How the job fares.

    Attributes:
        kills: how often it is killed.
        runtime: what runs it.
        seconds: how long a life is at most, once it has started.
        per_branch: how many lives there are before it starts from a savepoint again, at least.
    """

    kills: int
    runtime: str
    seconds: float
    per_branch: int

    def tell(self, world: World, chance: random.Random) -> None:
        """Live, until the job was killed so often and has started from a savepoint.

        On a slow machine no life comes as far as that at first; then lives become longer.
        """
        lives = 0
        while world.lives["killed"] < self.kills or len(world.branches) == 1:
            lives += 1
            if lives >= self.per_branch and world.branch.has_begun and _start_from_one(world, chance):
                lives = 0
                world.check()
            action = chance.choices(list(ACTIONS), list(ACTIONS.values()))[0]
            kind, most = chance.choice(POINTS[action.partition(":")[0]])
            point = KillPoint(kind, chance.randint(0, most))
            longest = self.seconds * max(1, lives - self.per_branch)
            seconds = longest if kind else chance.uniform(0, longest)
            world.live(chance.choice((1, 4, 3)), point, action, seconds)


def _start_from_one(world: World, chance: random.Random) -> bool:
    """From the newest savepoint, or from one that is not much older; False when there is none."""
    found = world.savepoints()[-4:]
    if found:
        savepoint = found[-1] if chance.random() < 0.6 else chance.choice(found)
        backend = chance.choice(BACKENDS) if savepoint.format == "canonical" else savepoint.branch.backend
        world.restore(savepoint, backend, claims=chance.random() < 0.3)
    return bool(found)


def told(story: Story, launch: Callable[[str, str], Running], folder: Path) -> World:
    """What has become of a world; a failure says how to see it again."""
    world = World(folder, launch, story.runtime, SEED)
    try:
        story.tell(world, random.Random(SEED))
        killed = world.lives["killed"]
        world.finish()
    except BaseException as error:
        again = f"HEADRACE_SEED={SEED} python -m pytest -m '' tests/reliability/test_long_job.py -k '{story.kills}'"
        error.add_note(f"seed {SEED} ({again}), in {world.branch.folder}, after {dict(world.lives)}")
        raise
    print(f"seed {SEED}: {dict(world.lives)}, {len(world.branches)} branches, {world.input.rounds} rounds of input")
    assert killed >= story.kills
    return world


@pytest.mark.slow
@pytest.mark.long
def test_10_kills(forks: Forks, tmp_path: Path) -> None:
    told(Story(10, "local", 1.5, 4), forks.start, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_200_kills(forks: Forks, tmp_path: Path) -> None:
    world = told(Story(200, "local", 1.5, 8), forks.start, tmp_path)
    assert len(world.branches) > 15
    for what in ("canonical savepoints", "native savepoints", "stopped", "rescaled"):
        assert world.lives[what] >= 5, what
    for what in ("restored from canonical", "restored from native", "claimed"):
        assert world.lives[what] >= 3, what


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.timeout(3600)
def test_12_kills_on_spark(programs: Launcher, tmp_path: Path) -> None:
    def launch(program: str, settings: str) -> Running:
        return programs.start(program, settings)

    world = told(Story(12, "spark", 12.0, 4), launch, tmp_path)
    assert len(world.branches) > 1
