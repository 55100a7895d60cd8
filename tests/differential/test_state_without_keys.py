"""Operator list state and broadcast state on Spark: over epochs, workers, and starts at other parallelisms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace.runtime.spark.runtime import SparkRuntime
from headrace.runtime.spark.session import acquire_session
from headrace.testing import JobHarness, harness
from tests.runtime.state_operators import COMMAND, KeyedLedgerSpec, ledger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.testing.stored_state import Checkpoint

pytestmark = pytest.mark.spark


def build(job: JobHarness) -> None:
    """In stage 0, and again behind a shuffle; there with keyed state beside it."""
    commands = job.add_source("in", COMMAND, splits=4)
    job.add_sink("first", ledger(commands).uid("first-ledger"))
    job.add_sink("second", ledger(commands.key_by("f0"), KeyedLedgerSpec()).uid("second-ledger"))


def driven(parallelism: int, restore: Checkpoint | None) -> tuple[list[list[Any]], Checkpoint]:
    """What the operators answer in some epochs, sorted by subtask, and what the job has come to."""
    answers = []
    with JobHarness(build, parallelism=parallelism, restore=restore, fresh_functions=False) as job:
        for epoch in range(2):
            for split in range(4):
                keys = [split * 10 + number for number in range(5)]
                job.push_all("in", [(key, "add", key + epoch) for key in keys], split=split)
                job.push_all("in", [(key, "join", key) for key in keys[:1]], split=split)
                job.push_all("in", [(key, "rule", epoch) for key in range(40)], split=split)
                job.push_all("in", [(key, "show", 0) for key in keys], split=split)
            job.run_epoch()
            for sink in ("first", "second"):
                found = [answer for answer in job.take(sink) if answer[0] in {"add", "show"}]
                answers.append(sorted(found, key=lambda answer: answer[1]))
        return answers, job.checkpoint()


def runs() -> list[list[Any]]:
    """Two epochs, and two more at another parallelism."""
    answers: list[list[Any]] = []
    held: Checkpoint | None = None
    for parallelism in (2, 3):
        found, held = driven(parallelism, held)
        answers += found
    return answers


def test_it_is_as_on_the_local_runtime(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    local = runs()
    assert any(answer[2][3] for found in local for answer in found if answer[0] == "show"), "some are restored"
    with monkeypatch.context() as patched:
        patched.setattr(harness, "LocalRuntime", lambda: SparkRuntime(acquire_session({})))
        assert runs() == local
