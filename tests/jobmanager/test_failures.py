"""Which failures a job goes on after, and what is told of those that come again and again."""

from __future__ import annotations

import pickle
import threading
from random import Random
from unittest.mock import Mock

import pytest

from headrace.common import Configuration
from headrace.common.errors import InfrastructureError, WorkerDiedError
from headrace.jobmanager.failover import FailureHandler, FailureRules, FixedDelay
from headrace.jobmanager.settings import job_settings
from headrace.time.clock import SystemClock


def handler(most_deaths: int | None, attempts: int = 10) -> tuple[FailureHandler, Mock]:
    listener = Mock()
    restarts = FixedDelay(attempts, 0.0).begin(SystemClock(0), Random(0))
    made = FailureHandler(
        restarts,
        listener,
        threading.Event(),
        cancelled=threading.Event(),
        rules=FailureRules(most_deaths=most_deaths),
    )
    return made, listener


def test_the_third_worker_that_dies_in_an_epoch_ends_the_job() -> None:
    failures, listener = handler(3)
    for _ in range(2):
        assert failures.await_restart(WorkerDiedError("a worker has died"), 1)
    for _ in range(2):
        assert failures.await_restart(WorkerDiedError("a worker has died"), 2)
    with pytest.raises(WorkerDiedError, match="a worker has died; it was number 3 in a row in this epoch"):
        failures.await_restart(WorkerDiedError("a worker has died"), 2)
    told = [str(call.args[0].error) for call in listener.call_args_list]
    assert told == ["a worker has died", "a worker has died; it was number 2 in a row in this epoch"] * 2


def test_other_failures_are_for_the_strategy() -> None:
    failures, listener = handler(3)
    for _ in range(10):
        assert failures.await_restart(InfrastructureError("no connection"), 1)
    with pytest.raises(InfrastructureError):
        failures.await_restart(InfrastructureError("no connection"), 1)
    assert listener.call_count == 10


def test_where_a_strategy_was_asked_for_it_says_how_many_may_die() -> None:
    failures, _ = handler(None, attempts=5)
    for _ in range(5):
        assert failures.await_restart(WorkerDiedError("a worker has died"), 1)
    with pytest.raises(WorkerDiedError, match="number 6 in a row"):
        failures.await_restart(WorkerDiedError("a worker has died"), 1)


@pytest.mark.parametrize(
    ("given", "most_deaths"),
    [({}, 3), ({"restart-strategy.type": "fixed-delay"}, None), ({"execution.checkpointing.dir": "/ck"}, None)],
)
def test_only_a_job_that_flink_would_not_restart_has_a_limit(given: dict[str, str], most_deaths: int | None) -> None:
    plan = Mock()
    plan.stages = [Mock(parallelism=1)]
    plan.settings.is_batch = False
    assert job_settings(Configuration.from_dict(given), plan).rules.most_deaths == most_deaths


def test_it_travels() -> None:
    error = pickle.loads(pickle.dumps(WorkerDiedError("a worker has died", 2)))
    assert str(error) == str(WorkerDiedError("a worker has died").number(2))
