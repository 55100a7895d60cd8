"""What the list of features promises about failures and checkpoints; each job runs on the local runtime."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from headrace.common import Configuration, Types
from headrace.common.errors import (
    ConfigurationError,
    InfrastructureError,
)
from headrace.datastream import (
    CheckpointingMode,
    StreamExecutionEnvironment,
)
from headrace.jobmanager.failover import ExponentialDelay
from headrace.jobmanager.settings import RESTARTS_WITHOUT_CHECKPOINTS, restart_strategy
from headrace.runtime.local import LocalRuntime
from headrace.runtime.task.messages import EpochContext
from headrace.time.clock import ManualClock


@pytest.fixture
def local() -> StreamExecutionEnvironment:
    configuration = Configuration().set_string("headrace.runtime", "local")
    return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> list[InfrastructureError]:
    """What the next epochs fail with, one after the other."""
    coming: list[InfrastructureError] = []
    original = LocalRuntime.run_epoch

    def run_epoch(self: LocalRuntime, context: EpochContext) -> Any:
        if coming:
            raise coming.pop()
        return original(self, context)

    monkeypatch.setattr(LocalRuntime, "run_epoch", run_epoch)
    return coming


def numbers(env: StreamExecutionEnvironment, strategy: str, **settings: str) -> list[int]:
    """A job of a few numbers under a restart strategy without delay."""
    configuration = Configuration().set_string("restart-strategy.type", strategy)
    for name, value in settings.items():
        configuration.set_string(f"restart-strategy.{strategy}.{name.replace('_', '-')}", value)
    env.configure(configuration)
    return list(env.from_sequence(1, 3).execute_and_collect())


def test_an_epoch_is_run_again(local: StreamExecutionEnvironment, faults: list[InfrastructureError]) -> None:
    faults += [InfrastructureError("a node is gone")] * 2
    assert numbers(local, "fixed-delay", attempts="2", delay="1 ms") == [1, 2, 3]
    faults += [InfrastructureError("a node is gone")] * 2
    with pytest.raises(InfrastructureError, match="a node is gone"):
        numbers(local, "fixed-delay", attempts="1", delay="1 ms")


def test_attempts_count_over_the_life_of_a_job(
    local: StreamExecutionEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: set[int] = set()
    original = LocalRuntime.run_epoch

    def run_epoch(self: LocalRuntime, context: EpochContext) -> Any:
        if context.epoch not in failed:
            failed.add(context.epoch)
            raise InfrastructureError(f"epoch {context.epoch} fails once")
        return original(self, context)

    monkeypatch.setattr(LocalRuntime, "run_epoch", run_epoch)
    local.configure(
        Configuration.from_dict({"headrace.epoch.max-records": "1", "headrace.epoch.target-duration": "60s"})
    )
    with pytest.raises(InfrastructureError, match="fails once"):
        numbers(local, "fixed-delay", attempts="2", delay="1 ms")
    assert len(failed) == 3


@pytest.mark.parametrize("mode", CheckpointingMode)
def test_every_checkpointing_mode_is_met_by_exactly_once(
    local: StreamExecutionEnvironment, monkeypatch: pytest.MonkeyPatch, mode: CheckpointingMode, tmp_path: Path
) -> None:
    attempts: list[int] = []
    original = LocalRuntime.run_epoch

    def run_epoch(self: LocalRuntime, context: EpochContext) -> Any:
        reports = original(self, context)
        attempts.append(context.generation)
        if len(attempts) % 3:
            raise InfrastructureError("the answer is lost, the tasks have done everything")
        return reports

    monkeypatch.setattr(LocalRuntime, "run_epoch", run_epoch)
    local.enable_checkpointing(1_000, mode)
    settings = {
        "execution.checkpointing.dir": str(tmp_path),
        "headrace.epoch.max-records": "4",
        "headrace.epoch.target-duration": "60s",
        "restart-strategy.exponential-delay.initial-backoff": "1 ms",
    }
    local.configure(Configuration.from_dict(settings))
    stream = local.from_sequence(1, 10).key_by(lambda number: 0, Types.INT()).sum()
    assert list(stream.execute_and_collect()) == [number * (number + 1) // 2 for number in range(1, 11)]
    assert len(attempts) >= 9, "every epoch was run three times"
    assert len(set(attempts)) == len(attempts) - len(attempts) // 3 + 1, "each time under a new generation"


def test_an_unknown_checkpointing_mode_is_refused(local: StreamExecutionEnvironment) -> None:
    local.configure(Configuration().set_string("execution.checkpointing.mode", "AT_MOST_ONCE"))
    local.from_sequence(1, 3).print()
    with pytest.raises(ConfigurationError, match=r"execution\.checkpointing\.mode.*EXACTLY_ONCE, AT_LEAST_ONCE"):
        local.execute()


@pytest.mark.parametrize(
    ("strategy", "settings", "delays"),
    [
        ("none", {}, [None]),
        ("fixed-delay", {"attempts": "2", "delay": "3 s"}, [3.0, 3.0, None]),
        (
            "exponential-delay",
            {"initial-backoff": "1 s", "max-backoff": "3 s", "backoff-multiplier": "2", "jitter-factor": "0"},
            [1, 2, 3, 3],
        ),
        (
            "exponential-delay",
            {"jitter-factor": "0", "attempts-before-reset-backoff": "2"},
            [1, 1.5, None],
        ),
        (
            "exponential-delay",
            {"jitter-factor": "0", "reset-backoff-threshold": "1 ms", "attempts-before-reset-backoff": "1"},
            [1, 1, 1],
        ),
        ("failure-rate", {"max-failures-per-interval": "2", "delay": "4 s"}, [4.0, 4.0, None]),
    ],
)
def test_restart_strategies(strategy: str, settings: dict[str, str], delays: list[float | None]) -> None:
    configuration = Configuration().set_string("restart-strategy.type", strategy)
    for name, value in settings.items():
        configuration.set_string(f"restart-strategy.{strategy}.{name}", value)
    clock = ManualClock()
    next_delay = restart_strategy(configuration).begin(clock, random.Random(1))
    found = []
    for _ in delays:
        found.append(next_delay())
        clock.advance(int((found[-1] or 0) * 1000) + 1)
    assert found == delays


@pytest.mark.parametrize(
    ("settings", "attempts"),
    [
        ({}, RESTARTS_WITHOUT_CHECKPOINTS),
        ({"execution.checkpointing.dir": "/checkpoints"}, None),
        ({"restart-strategy.type": "exponential-delay"}, None),
        ({"restart-strategy.exponential-delay.attempts-before-reset-backoff": "3"}, 3),
    ],
)
def test_restarts_go_on_for_ever_but_without_checkpoints(settings: dict[str, str], attempts: int | None) -> None:
    strategy = restart_strategy(Configuration.from_dict(settings))
    assert isinstance(strategy, ExponentialDelay)
    assert strategy.attempts == attempts


def test_the_first_delay_is_not_longer_than_the_longest() -> None:
    settings = {"restart-strategy.exponential-delay.max-backoff": "500 ms"}
    with pytest.raises(ConfigurationError, match=r"\(1000 ms\) is longer than .*max-backoff \(500 ms\)"):
        restart_strategy(Configuration.from_dict(settings))
