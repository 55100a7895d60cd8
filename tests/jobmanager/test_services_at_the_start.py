"""A job begins, and a service that one of its sinks asks how far it has published is away."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from headrace.common import Configuration
from headrace.common.errors import CheckpointError, InfrastructureError
from headrace.datastream import StreamExecutionEnvironment
from headrace.testing.pushed import RecordingSink


class Asking(RecordingSink):
    """Asks a service, which answers so many times with errors first."""

    errors: ClassVar[list[Exception]] = []
    asked: ClassVar[int] = 0

    def check_output(self, context: Any) -> None:
        Asking.asked += 1
        if Asking.errors:
            raise Asking.errors.pop(0)


def run(folder: Path, *errors: Exception, attempts: int = 2) -> int:
    """How often the service was asked until it had answered."""
    settings = Configuration.from_dict(
        {
            "headrace.runtime": "local",
            "execution.checkpointing.dir": str(folder),
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": str(attempts),
            "restart-strategy.fixed-delay.delay": "1 ms",
        }
    )
    Asking.errors, Asking.asked = list(errors), 0
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.from_collection([1, 2], int).uid("numbers").sink_to(Asking()).uid("out")
    env.execute("asking")
    return Asking.asked


AWAY = InfrastructureError("no broker answers")


def test_a_job_that_has_run_waits(tmp_path: Path) -> None:
    run(tmp_path)
    assert run(tmp_path, AWAY, AWAY) == 3


def test_it_waits_as_often_as_its_strategy_says(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(InfrastructureError, match="no broker answers"):
        run(tmp_path, AWAY, AWAY, AWAY)


def test_a_job_that_has_never_run_fails_at_once(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(InfrastructureError, match="no broker answers"):
            run(tmp_path, AWAY)
        assert Asking.asked == 1
    assert run(tmp_path) == 1


def test_what_is_wrong_for_good_ends_it_at_once(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(CheckpointError, match="an old copy"):
        run(tmp_path, CheckpointError("an old copy"), CheckpointError("an old copy"))
