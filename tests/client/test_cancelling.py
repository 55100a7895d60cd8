"""A job that is cancelled or stopped: between epochs, during one, and while one waits to be run again."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.client.progress import JobProgress, last_line
from headrace.common import Configuration, JobStatus, Types, WatermarkStrategy
from headrace.common.errors import InfrastructureError, JobCancelledError
from headrace.connectors.ranges import DataGeneratorSource, RateLimiterStrategy
from headrace.connectors.sink import Committer, Sink, SinkWriter
from headrace.datastream import StreamExecutionEnvironment
from headrace.jobmanager.epoch_plan import EpochPlanner
from headrace.jobmanager.events import JobEnd
from headrace.jobmanager.status import JobStatusStore
from headrace.runtime.local import LocalRuntime
from headrace.runtime.task.messages import EpochContext, TaskReport
from tests.waiting import PATIENCE, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from headrace.client.job_client import JobClient
    from headrace.common.batch import Batch
    from headrace.connectors.sink import CommitterContext, WriterContext

"""Seconds after which a job hangs, also on a machine that has a lot else to do."""


def endless(runtime: str = "local", function: Callable[[int], int] = abs, **settings: str) -> JobClient:
    """A job that would never end: fifty numbers a second through a function."""
    configuration = Configuration.from_dict({"headrace.runtime": runtime, "parallelism.default": "1"} | settings)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    source = DataGeneratorSource(lambda number: number, None, RateLimiterStrategy.per_second(50), Types.LONG())
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "endless").map(function, Types.LONG())
    numbers.filter(lambda number: number < 0).print()
    return env.execute_async("endless")


def epochs(client: JobClient) -> int:
    return int(client.get_accumulators().result().get("numEpochs", 0))


def assert_cancelled(client: JobClient, match: str = r"job 'endless' was cancelled after epoch \d+") -> None:
    with pytest.raises(JobCancelledError, match=match):
        client.get_job_execution_result().result(timeout=PATIENCE)
    assert client.get_job_status().result() is JobStatus.CANCELED


def test_between_epochs() -> None:
    client = endless(**{"headrace.epoch.min-interval": "1 h"})
    wait_for(lambda: epochs(client) == 1)
    client.cancel().result(timeout=PATIENCE)
    assert_cancelled(client, "job 'endless' was cancelled after epoch 1")


class Blocked(LocalRuntime):
    """The first epoch waits until it is given up, as a query of Spark's does."""

    began = threading.Event()

    def __init__(self) -> None:
        super().__init__()
        self._interrupted = threading.Event()

    def run_epoch(self, context: EpochContext) -> list[TaskReport]:
        self.began.set()
        assert self._interrupted.wait(PATIENCE)
        raise InfrastructureError("the query was interrupted")

    def cancel(self) -> None:
        self._interrupted.set()


def test_during_an_epoch(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("headrace.client.submission.LocalRuntime", Blocked)
    client = endless()
    assert Blocked.began.wait(PATIENCE)
    client.cancel().result(timeout=PATIENCE)
    assert_cancelled(client, "after epoch 0")
    assert isinstance(client.get_job_execution_result().exception(), JobCancelledError)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert not [message for message in warnings if "epoch" in message], "that an epoch was given up is no news"


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
    assert always_failing.wait(PATIENCE)
    wait_for(lambda: client.get_job_status().result() is JobStatus.RESTARTING)
    assert repr(client) == "JobClient('endless', RESTARTING)"
    client.cancel().result(timeout=PATIENCE)
    assert_cancelled(client)


def test_a_job_that_has_begun_again_is_running(monkeypatch: pytest.MonkeyPatch) -> None:
    original, failed = LocalRuntime.run_epoch, threading.Event()

    def run_epoch(self: LocalRuntime, context: EpochContext) -> list[TaskReport]:
        if not failed.is_set():
            failed.set()
            raise InfrastructureError("a node is gone")
        return original(self, context)

    monkeypatch.setattr(LocalRuntime, "run_epoch", run_epoch)
    client = endless(**LONG_DELAY | {"restart-strategy.fixed-delay.delay": "10 ms"})
    wait_for(lambda: epochs(client))
    assert client.get_job_status().result() is JobStatus.RUNNING
    client.cancel().result(timeout=PATIENCE)


def test_a_stop_before_a_failed_epoch_is_run_again_is_a_clean_one(always_failing: threading.Event) -> None:
    client = endless(**LONG_DELAY)
    assert always_failing.wait(PATIENCE)
    client.stop().result(timeout=PATIENCE)
    assert client.get_job_execution_result().result(timeout=PATIENCE).get_all_accumulator_results() == {}


def test_a_stop_is_no_cancellation() -> None:
    client = endless()
    wait_for(lambda: epochs(client))
    client.stop().result(timeout=PATIENCE)
    assert client.get_job_execution_result().result(timeout=PATIENCE).get_accumulator_result("numEpochs") >= 1


def test_a_job_that_has_ended_stays_as_it_is() -> None:
    configuration = Configuration.from_dict({"headrace.runtime": "local"})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.from_sequence(1, 3).filter(lambda number: False).print()
    client = env.execute_async()
    client.get_job_execution_result().result(timeout=PATIENCE)
    client.cancel().result(timeout=PATIENCE)
    assert client.get_job_status().result() is JobStatus.FINISHED


def test_the_last_line_says_so() -> None:
    job = JobProgress(JobStatusStore("numbers").snapshot)
    assert last_line(job, JobEnd(1, False, JobCancelledError("enough"))).startswith("job 'numbers' was cancelled")


def test_while_an_epoch_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    planning, cancelled = threading.Event(), threading.Event()
    original = EpochPlanner.plan

    def plan(*arguments: Any, **named: Any) -> Any:
        planned = original(*arguments, **named)
        if planned is not None:
            planning.set()
            assert cancelled.wait(PATIENCE)
        return planned

    monkeypatch.setattr(EpochPlanner, "plan", plan)
    begun: list[EpochContext] = []
    monkeypatch.setattr(LocalRuntime, "run_epoch", lambda _, context: begun.append(context))
    client = endless()
    assert planning.wait(PATIENCE)
    ended = client.cancel()
    cancelled.set()
    ended.result(timeout=PATIENCE)
    assert_cancelled(client, "after epoch 0")
    assert begun == []


class Deaf(LocalRuntime):
    """Has not begun its query when it is told to give up for the first time, so it does not notice."""

    began = threading.Event()
    told = 0

    def run_epoch(self, context: EpochContext) -> list[TaskReport]:
        self.began.set()
        wait_for(lambda: self.told >= 5)
        raise InfrastructureError("the query was interrupted")

    def cancel(self) -> None:
        self.told += 1


def test_a_query_is_interrupted_until_it_has_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.client.submission.LocalRuntime", Deaf)
    client = endless()
    assert Deaf.began.wait(PATIENCE)
    client.cancel().result(timeout=PATIENCE)
    assert_cancelled(client, "after epoch 0")


def test_an_epoch_that_takes_too_long_is_interrupted_until_it_has_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.client.submission.LocalRuntime", Deaf)
    client = endless(**{"execution.checkpointing.timeout": "10 ms", "restart-strategy.type": "none"})
    with pytest.raises(InfrastructureError, match=r"has not ended within execution\.checkpointing\.timeout"):
        client.get_job_execution_result().result(timeout=PATIENCE)


def busy(number: int) -> int:
    _entered.set()
    while True:
        pass


def stubborn(number: int) -> int:
    _entered.set()
    for _ in range(10):
        with contextlib.suppress(BaseException):
            while True:
                pass
    return number


def asleep(number: int) -> int:
    _entered.set()
    _woken.wait(PATIENCE)
    return number


_entered, _woken = threading.Event(), threading.Event()


@pytest.mark.slow
@pytest.mark.parametrize("function", [busy, stubborn])
def test_a_function_that_never_returns_is_interrupted(function: Callable[[int], int]) -> None:
    _entered.clear()
    client = endless("local", function)
    assert _entered.wait(PATIENCE)
    client.cancel().result(timeout=PATIENCE)
    assert_cancelled(client)
    client._thread.join(PATIENCE)
    assert not client._thread.is_alive()


def test_a_function_that_cannot_be_interrupted_is_left_behind(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setattr("headrace.client.job_client.CANCEL_SECONDS", 0.2)
    _entered.clear()
    _woken.clear()
    client = endless("local", asleep, **{"execution.checkpointing.dir": str(tmp_path)})
    assert _entered.wait(PATIENCE)
    client.cancel().result(timeout=PATIENCE)
    assert_cancelled(client, r"job 'endless' was cancelled and has not ended within 0\.2 s: .* left behind, at .*:\d+")
    assert client._thread.is_alive()
    assert "left behind" in caplog.text
    _woken.set()
    client._thread.join(PATIENCE)
    assert list((tmp_path / "manifests").glob("*.json")) == [], "it writes nothing when it wakes up"
    assert_cancelled(client, "left behind")


class Hanging(Sink):
    """Its first commit hangs."""

    def __init__(self, hangs: str) -> None:
        self.hangs = hangs
        self.entered, self.over = threading.Event(), threading.Event()

    def __reduce__(self) -> tuple[Any, ...]:
        return Hanging, (self.hangs,)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _Writer()

    def create_committer(self, context: CommitterContext) -> Committer:
        return _HangingCommitter(self)


class _Writer(SinkWriter):
    def write(self, batch: Batch) -> None:
        pass

    def prepare_commit(self) -> list[str]:
        return ["something"]


class _HangingCommitter(Committer):
    def __init__(self, sink: Hanging) -> None:
        self.sink = sink

    def commit(self, epoch: int, committables: Sequence[Any], processing_time: int) -> None:
        if committables:
            self._at("commit")

    def finish(self) -> None:
        self._at("finish")

    def _at(self, where: str) -> None:
        if where == self.sink.hangs:
            self.sink.entered.set()
            assert self.sink.over.wait(PATIENCE)


@pytest.mark.parametrize("hangs", ["commit", "finish"])
@pytest.mark.parametrize("stops_first", [False, True])
def test_a_commit_that_hangs_is_left_behind(
    hangs: str, stops_first: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("headrace.jobmanager.sinks.CLOSE_SECONDS", 0.2)
    sink = Hanging(hangs)
    configuration = Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": "1"})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.from_sequence(1, 3).sink_to(sink).name("stuck").uid("stuck-sink")
    client = env.execute_async("endless")
    assert sink.entered.wait(PATIENCE)
    if stops_first:
        client.stop()
        assert not client.get_job_execution_result().done(), "a job that is stopped waits for its sinks"
    client.cancel().result(timeout=PATIENCE)
    assert_cancelled(client)
    what = "the commit of sink 'stuck' (uid stuck-sink), epoch 1" if hangs == "commit" else "clean-up of sink"
    assert f"{what}" in caplog.text
    assert "left behind" in caplog.text
    sink.over.set()


@pytest.mark.spark
def test_before_spark_has_begun_the_query(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.runtime.spark.runtime import SparkRuntime

    client: list[JobClient] = []
    original = SparkRuntime._query

    def query(self: SparkRuntime, context: EpochContext) -> Any:
        wait_for(lambda: client)
        client[0].cancel()
        return original(self, context)

    monkeypatch.setattr(SparkRuntime, "_query", query)
    client.append(endless("spark", lambda number: time.sleep(1_000) or number))  # longer than PATIENCE
    assert_cancelled(client[0], "after epoch 0")
    client[0]._thread.join(PATIENCE)
    assert not client[0]._thread.is_alive(), "the query was interrupted after all"


@pytest.mark.spark
def test_during_an_epoch_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    started = tmp_path / "started"

    def hang(number: int) -> int:
        started.touch()
        time.sleep(1_000)  # longer than PATIENCE
        return number

    client = endless("spark", hang)
    wait_for(started.exists)
    client.cancel().result(timeout=PATIENCE)
    assert_cancelled(client, "after epoch 0")
