"""A job that is cancelled or stopped: between epochs, during one, and while one waits to be run again."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.cli.progress.job_progress import JobProgress
from headrace.cli.progress.lines import last_line
from headrace.common import Configuration, JobStatus, Types, WatermarkStrategy
from headrace.common.errors import InfrastructureError, JobCancelledError
from headrace.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from headrace.datastream import StreamExecutionEnvironment
from headrace.runtime.local.runtime import LocalRuntime
from headrace.runtime.task.messages import EpochContext, TaskReport

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from headrace.client.job_client import JobClient

pytestmark = pytest.mark.timeout(120)


def endless(runtime: str = "local", function: Callable[[int], int] = abs, **settings: str) -> JobClient:
    """A job that would never end: fifty numbers a second through a function."""
    configuration = Configuration.from_dict({"headrace.runtime": runtime, "parallelism.default": "1"} | settings)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    source = DataGeneratorSource(lambda number: number, None, RateLimiterStrategy.per_second(50), Types.LONG())
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "endless").map(function, Types.LONG())
    numbers.filter(lambda number: number < 0).print()
    return env.execute_async("endless")


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def epochs(client: JobClient) -> int:
    return int(client.get_accumulators().result().get("numEpochs", 0))


def assert_cancelled(client: JobClient, match: str = r"job 'endless' was cancelled after epoch \d+") -> None:
    with pytest.raises(JobCancelledError, match=match):
        client.get_job_execution_result().result(timeout=60)
    assert client.get_job_status().result() is JobStatus.CANCELED


def test_between_epochs() -> None:
    client = endless(**{"headrace.epoch.min-interval": "1 h"})
    wait_until(lambda: epochs(client) == 1)
    client.cancel().result(timeout=60)
    assert_cancelled(client, "job 'endless' was cancelled after epoch 1")


class Blocked(LocalRuntime):
    """The first epoch waits until it is given up, as a query of Spark's does."""

    began = threading.Event()

    def __init__(self) -> None:
        super().__init__()
        self._given_up = threading.Event()

    def run_epoch(self, context: EpochContext) -> list[TaskReport]:
        self.began.set()
        assert self._given_up.wait(60)
        raise InfrastructureError("the query was interrupted")

    def cancel(self) -> None:
        self._given_up.set()


def test_during_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.client.submission.LocalRuntime", Blocked)
    client = endless()
    assert Blocked.began.wait(60)
    client.cancel().result(timeout=60)
    assert_cancelled(client, "after epoch 0")
    assert isinstance(client.get_job_execution_result().exception(), JobCancelledError)


@pytest.fixture
def always_failing(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """No epoch succeeds; set once one has failed."""
    failed = threading.Event()

    def run_epoch(self: LocalRuntime, context: EpochContext) -> list[TaskReport]:
        assert not failed.is_set(), "an epoch is not begun any more once the job is to end"
        failed.set()
        raise InfrastructureError("a node is gone")

    monkeypatch.setattr(LocalRuntime, "run_epoch", run_epoch)
    return failed


LONG_DELAY = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 h"}


def test_before_a_failed_epoch_is_run_again(always_failing: threading.Event) -> None:
    client = endless(**LONG_DELAY)
    assert always_failing.wait(60)
    client.cancel().result(timeout=60)
    assert_cancelled(client)


def test_a_stop_before_a_failed_epoch_is_run_again_is_a_clean_one(always_failing: threading.Event) -> None:
    client = endless(**LONG_DELAY)
    assert always_failing.wait(60)
    client.stop().result(timeout=60)
    assert client.get_job_execution_result().result(timeout=60).get_all_accumulator_results() == {}


def test_a_stop_is_no_cancellation() -> None:
    client = endless()
    wait_until(lambda: epochs(client))
    client.stop().result(timeout=60)
    assert client.get_job_execution_result().result(timeout=60).get_accumulator_result("numEpochs") >= 1


def test_a_job_that_has_ended_stays_as_it_is() -> None:
    configuration = Configuration.from_dict({"headrace.runtime": "local"})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.from_sequence(1, 3).filter(lambda number: False).print()
    client = env.execute_async()
    client.get_job_execution_result().result(timeout=60)
    client.cancel().result(timeout=60)
    assert client.get_job_status().result() is JobStatus.FINISHED


def test_the_last_line_says_so() -> None:
    job = JobProgress("numbers", "id", None, 1, time.monotonic)
    assert last_line(job, JobCancelledError("enough")).startswith("job 'numbers' was cancelled")


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_during_an_epoch_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    started = tmp_path / "started"

    def hang(number: int) -> int:
        started.touch()
        time.sleep(300)
        return number

    client = endless("spark", hang)
    wait_until(started.exists)
    begin = time.monotonic()
    client.cancel().result(timeout=120)
    assert time.monotonic() - begin < 60, "the query was not interrupted"
    assert_cancelled(client, "after epoch 0")
