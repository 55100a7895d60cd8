"""The driver is killed at random moments, and goes on at another parallelism: a word count is exact in the end, and
never too high on the way."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.processes import Running, Starter
from tests.reliability.support.outputs import hidden_files, lines
from tests.reliability.support.storages import CheckpointDirectory

_COUNT = re.compile(r"\((w\d+),(\d+)\)")


@dataclass(frozen=True)
class Input:
    """Words to be counted, and how.

    Attributes:
        rows: how many words there are.
        keys: how many different words they are drawn from.
        epochs: how many epochs there are at least.
        kills: how often the driver is killed.
        runtime: what runs the job.
        seed: of all that is random.
        outages: how often, in a hundred lives, the store is gone for a moment.
    """

    rows: int
    keys: int
    epochs: int
    kills: int
    runtime: str
    seed: int
    outages: int = 0

    def write(self, folder: Path) -> Counter[str]:
        """Write the words into files; gives the answer."""
        chance = random.Random(self.seed)
        words = [f"w{int(self.keys * chance.random() ** 2)}" for _ in range(self.rows)]
        folder.mkdir()
        for number in range(4):
            (folder / f"{number}.txt").write_text("\n".join(words[number::4]) + "\n")
        return Counter(words)


def check_upper_bound(output: Path, truth: Counter[str]) -> int:
    """No count appears twice, and none is above the truth; gives how many there are."""
    seen: set[tuple[str, int]] = set()
    for number, line in enumerate(lines(output), 1):
        match = _COUNT.fullmatch(line)
        assert match, line
        word, count = match[1], int(match[2])
        assert count <= truth[word], f"{word} was counted {count} times and is there {truth[word]} times"
        seen.add((word, count))
        assert len(seen) == number, f"{word} was counted to {count} twice"
    return len(seen)


@pytest.mark.long
@pytest.mark.parametrize(
    ("checkpoints", "words"),
    [
        pytest.param("posix", Input(30_000, 3_000, 40, 5, "local", 7), id="local"),
        pytest.param(
            "s3",
            Input(100_000, 10_000, 60, 12, "local", 13, outages=50),
            id="local-on-s3",
            marks=[pytest.mark.slow, pytest.mark.timeout(3600)],
        ),
        pytest.param(
            "posix",
            Input(1_000_000, 100_000, 120, 15, "spark", 11),
            id="spark",
            marks=[pytest.mark.slow, pytest.mark.integration, pytest.mark.timeout(3600)],
        ),
    ],
    indirect=["checkpoints"],
)
def test_a_word_count_survives(
    words: Input, checkpoints: CheckpointDirectory, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    truth = words.write(tmp_path / "words")
    starter: Starter = request.getfixturevalue("forks" if words.runtime == "local" else "programs")
    output, chance = tmp_path / "output", random.Random(words.seed)
    settings = [f"{key}={value}" for key, value in checkpoints.settings.items()]

    def start() -> Running:
        rows, parallelism = words.rows // words.epochs // 2, chance.randint(1, 4)
        return starter.start("word_count", tmp_path, words.runtime, rows, parallelism, *settings)

    progress = [0]
    for kill in range(words.kills):
        running = start()
        if kill % 5 != 4:  # every fifth life ends while the program is still starting
            running.wait_until("started")
            if chance.randrange(100) < words.outages:
                request.getfixturevalue("s3").end_for(chance.uniform(0.1, 1.0))
            running.wait_until("epoch", times=chance.randint(0, words.epochs // words.kills // 2))
        time.sleep(chance.uniform(0.0, 0.5))
        ended = running.kill()
        assert ended.code == -9, f"seed {words.seed}, kill {kill}: the program was not there any more: {ended}"
        progress.append(check_upper_bound(output, truth) if output.exists() else 0)
    assert progress == sorted(progress), "what was visible stays"
    ended = start().wait()
    assert ended.code == 0, f"seed {words.seed}: {ended}"
    assert check_upper_bound(output, truth) == words.rows
    assert not hidden_files(output)
    assert checkpoints.left_overs() == []
