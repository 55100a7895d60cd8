"""A driver is killed a hundred times, with another parallelism each time, while its folder fills with odd files.

What it has written is compared with a model in plain Python: after every kill that nothing is wrong or there twice, in
the end that everything is there.
"""

from __future__ import annotations

import random
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from tests.processes import Launcher, Running
from tests.reliability.support.checkpoints import left_overs, manifests, newest_manifest
from tests.reliability.support.growing_folder import INPUT, Output, expected
from tests.reliability.support.odd_files import OddFile, OddFiles, clutter
from tests.reliability.support.reporting import said

KILLS = 100
PARALLELISM = range(1, 9)
LONG_LINES_AT = 0.3, 0.5, 0.7
"""The shares of all kills before which files with lines of 50 MB are added; they are large, so there are few."""


@dataclass(frozen=True)
class Loop:
    """How a job is killed.

    Attributes:
        runtime: what runs it.
        rolling: when its sinks roll.
        kills: how often.
        files: how many files are added in each of its lives.
        records: how many records a subtask reads in an epoch at most.
        longest: seconds that a life lasts at most after the moment that it is measured from.
        seed: of all that is random.
    """

    runtime: str
    rolling: str
    kills: int
    files: int
    records: int
    longest: float
    seed: int

    def program(self, folder: Path) -> tuple[object, ...]:
        """The program and its arguments but the last two: parallelism and mode."""
        return "growing_folder.py", folder, self.runtime, self.rolling, self.records

    def rounds(self) -> list[list[OddFile]]:
        """The files of each life, and one for the end."""
        odd = OddFiles(self.seed)
        with_long_line = [int(self.kills * share) for share in LONG_LINES_AT]
        rounds = []
        for kill in range(self.kills):
            extra = [odd.with_long_line(with_long_line.index(kill))] if kill in with_long_line else []
            rounds.append(extra + odd.next_round(self.files))
        return [*rounds, [odd.last()]]


@dataclass(frozen=True)
class Moment:
    """When a driver is killed.

    Attributes:
        word: what it has to say first; nothing for the moment it is started.
        times: how often it has to say so.
        seconds: how long after that.
    """

    word: str
    times: int
    seconds: float

    @staticmethod
    def draw(kill: int, chance: random.Random, longest: float) -> Moment:
        """Any moment from milliseconds after the start to seconds into the work; each kind of them in turn."""
        word = ("epoch", "", "epoch", "started", "epoch")[kill % 5]
        shortened = 10 ** chance.uniform(-3, -1 if word == "started" else 0)
        return Moment(word, chance.randint(1, 5) if word == "epoch" else 1, longest * shortened)

    def wait(self, running: Running, files: deque[OddFile], folder: Path, patience: float) -> None:
        """Add files until it has come; what has nothing to say for too long is killed all the same."""
        end = time.monotonic() + patience
        kill_at = None
        while (now := time.monotonic()) < min(end, kill_at or end):
            assert running.code is None, running.wait()
            if files:
                files.popleft().publish(folder)
            if kill_at is None and running.output.count(self.word) >= self.times:
                kill_at = now + self.seconds
            time.sleep(0.002)


@dataclass
class Tally:
    """What the kills struck.

    Attributes:
        reached: the newest manifest after each kill, 0 for none.
        read: how many lines were read for good by then.
        restored: how many lives went on from a manifest.
    """

    reached: list[int] = field(default_factory=list)
    read: int = 0
    restored: int = 0

    def count(self, folder: Path, running: Running) -> None:
        """Look at what a kill has left."""
        self.restored += "started from" in running.output
        newest = newest_manifest(folder) if manifests(folder) else None
        self.reached.append(0 if newest is None else newest.epoch)
        self.read = 0 if newest is None else newest.counters["numRecordsRead"]

    def check(self, kills: int, lines: int) -> None:
        """The kills struck everywhere: before a life had a manifest, after its take-over, in the middle of its work."""
        grown = [after - before for before, after in pairwise([0, *self.reached])]
        lives = Counter("idle" if number == 0 else "took over" if number == 1 else "worked" for number in grown)
        assert lives.total() == kills
        assert lives["idle"] >= kills // 10, f"too few lives ended before they owned the job: {lives}"
        assert lives["took over"], f"no life ended between its take-over and its first epoch: {lives}"
        assert lives["worked"] >= kills // 3, f"too few lives did any work: {lives}"
        assert self.restored >= kills // 3, f"too few lives went on from a manifest: {self}"
        assert lines > self.read > lines // 3, f"the work was not done between the kills: {self.read} of {lines} lines"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "loop",
    [
        pytest.param(Loop("local", "size", KILLS, 5, 100, 1.0, 1), id="local-rolled-by-size"),
        pytest.param(Loop("local", "checkpoint", KILLS // 4, 5, 100, 1.0, 2), id="local-a-file-an-epoch"),
        pytest.param(Loop("spark", "size", 12, 8, 300, 5.0, 3), id="spark", marks=pytest.mark.integration),
    ],
)
def test_no_kill_shows(loop: Loop, programs: Launcher, tmp_path: Path) -> None:
    rounds, chance, tally, parallelism = loop.rounds(), random.Random(loop.seed), Tally(), 0
    files = [file for files in rounds for file in files]
    lines = sum(len(file.records) + len(file.bad) for file in files)
    outputs = [Output(tmp_path / sink, facts) for sink, facts in expected(files, tmp_path).items()]
    clutter(tmp_path / INPUT)
    for kill, added in enumerate(rounds[:-1]):
        parallelism = chance.choice([number for number in PARALLELISM if number != parallelism])
        running = programs.start(*loop.program(tmp_path), parallelism, "watch")
        waiting = deque(added)
        Moment.draw(kill, chance, loop.longest).wait(running, waiting, tmp_path / INPUT, patience=20 * loop.longest)
        ended = running.kill()
        assert ended.code == -9, f"seed {loop.seed}, kill {kill}: the program was not there any more: {ended}"
        for file in waiting:
            file.publish(tmp_path / INPUT)
        tally.count(tmp_path, running)
        for output in outputs:
            output.check()
    tally.check(loop.kills, lines)
    finish(loop, rounds[-1], lines, programs, tmp_path)
    for output in outputs:
        output.check_complete()
    assert left_overs(tmp_path / "checkpoints") == []


def finish(loop: Loop, last: list[OddFile], lines: int, programs: Launcher, folder: Path) -> None:
    """Let the job find what it has not found, and then come to an end."""
    for file in last:
        file.publish(folder / INPUT)
    running = programs.start(*loop.program(folder), 3, "watch")
    running.wait_until(said(lines))
    running.kill()
    ended = programs.start(*loop.program(folder), 5, "finish").wait()
    assert ended.code == 0, ended
