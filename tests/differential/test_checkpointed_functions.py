"""Functions with state of their subtask on Spark: over epochs, workers that die, and starts at other parallelisms."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.common import Types
from headrace.common.errors import WorkerDiedError
from headrace.runtime.spark.runtime import SparkRuntime
from headrace.runtime.spark.session import acquire_session
from headrace.testing import JobHarness, harness
from tests.runtime.checkpointed_ledger import Ledger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.testing.stored_state import Checkpoint

pytestmark = pytest.mark.spark

SPLITS = 4
DEADLY = 1_000


class Mortal(Ledger):
    """Ends its worker at one number, unless somebody has before.

    Args:
        mark: a file that says so.
    """

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def flat_map(self, value: int) -> Iterator[Any]:
        if value == DEADLY and not self.mark.exists():
            self.mark.touch()
            os._exit(1)
        yield from super().flat_map(value)


def started(start: int, parallelism: int, held: Checkpoint | None, mark: Path) -> tuple[list[list[Any]], Checkpoint]:
    """What each subtask has in stage 0 and behind a shuffle in two epochs, and what the job has come to."""

    def build(job: JobHarness) -> None:
        numbers = job.add_source("in", Types.LONG(), splits=SPLITS)
        job.add_sink("first", numbers.flat_map(Mortal(mark)).uid("first-ledger"))
        spread = numbers.partition_custom(lambda key, parallelism: key % parallelism, abs)
        job.add_sink("second", spread.flat_map(Ledger()).uid("second-ledger"))

    shown: list[list[Any]] = []
    with JobHarness(build, parallelism=parallelism, restore=held, fresh_functions=False) as job:
        for epoch in range(2):
            for split in range(SPLITS):
                first = split * 100 + start * 20 + epoch * 10
                job.push_all("in", range(first, first + 5 + split), split=split)
                job.push_all("in", [DEADLY] * (start == 1 and split == 3), split=split)
                job.push_all("in", [-1, -2, -3, -4], split=split)
            job.run_epoch()
            shown += [sorted(job.take(sink), key=repr) for sink in ("first", "second")]
        return shown, job.checkpoint()


def runs(mark: Path) -> list[list[Any]]:
    """Three starts at other parallelisms; one that a worker has died in is made again."""
    shown: list[list[Any]] = []
    held: Checkpoint | None = None
    for start, parallelism in enumerate((1, 4, 3)):
        try:
            found, held = started(start, parallelism, held, mark)
        except WorkerDiedError:
            found, held = started(start, parallelism, held, mark)
        shown += found
    return shown


@pytest.mark.slow
def test_they_are_as_on_the_local_runtime(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nobody_dies, somebody_dies = tmp_path / "first", tmp_path / "second"
    nobody_dies.touch()
    local = runs(nobody_dies)
    assert any(facts == (True, True) for found in local for *_, facts in found), "some are restored"
    with monkeypatch.context() as patched:
        patched.setattr(harness, "LocalRuntime", lambda: SparkRuntime(acquire_session({})))
        assert without_facts(runs(somebody_dies)) == without_facts(local)
    assert somebody_dies.exists()


def without_facts(shown: list[list[Any]]) -> list[list[Any]]:
    """Without what an instance was told, which depends on when it was made."""
    return [[row[:-1] for row in rows] for rows in shown]
