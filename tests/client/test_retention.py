"""What becomes of checkpoints when a job ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.checkpoint.store import CheckpointStore
from headrace.client.job_client import JobClient
from headrace.common import Configuration, Types, WatermarkStrategy
from headrace.common.errors import JobSupersededError, UserFunctionError
from headrace.connectors.driver_sink import CollectSink
from headrace.connectors.ranges import DataGeneratorSource, RateLimiterStrategy
from headrace.datastream import StreamExecutionEnvironment
from headrace.runtime.local import LocalRuntime
from headrace.storage.folder import posix_folder
from tests.client.test_cancelling import epochs
from tests.reliability.support.file_sinks import KINDS
from tests.reliability.support.small_jobs import SmallJob, expected
from tests.reliability.test_passing_faults import Point, strike
from tests.waiting import PATIENCE, wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RETENTION = "execution.checkpointing.externalized-checkpoint-retention"
KEPT = {
    "RETAIN_ON_CANCELLATION": {"cancelled", "failed", "finished", "stopped"},
    "DELETE_ON_CANCELLATION": {"failed", "finished", "stopped"},
    "NO_EXTERNALIZED_CHECKPOINTS": {"stopped"},
}


def job(folder: Path, retention: str, runtime: str, count: int | None, fails_at: int = -1) -> JobClient:
    """A sum of numbers, fifty a second, or so many at once."""
    given = {"headrace.runtime": runtime, "parallelism.default": "1", "restart-strategy.type": "none"}
    given |= {"execution.checkpointing.dir": str(folder), "execution.checkpointing.data-inline-threshold": "1b"}
    given |= {RETENTION: retention} if retention else {}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(given))

    def fail(number: int) -> int:
        if fails_at == number:
            raise ValueError(number)
        return number

    limit = RateLimiterStrategy.per_second(50) if count is None else None
    source = DataGeneratorSource(lambda number: number, count, limit, Types.LONG())
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(fail, Types.LONG())
    numbers.key_by(lambda number: 0, Types.LONG()).sum().sink_to(CollectSink(lambda records: None))
    return env.execute_async("numbers")


def ended(client: JobClient) -> None:
    assert client.get_job_execution_result().exception(timeout=PATIENCE) is None


def cancelled(folder: Path, retention: str, runtime: str) -> None:
    client = job(folder, retention, runtime, None)
    wait_for(lambda: epochs(client) >= 2)
    client.cancel().result(timeout=PATIENCE)


def stopped(folder: Path, retention: str, runtime: str) -> None:
    client = job(folder, retention, runtime, None)
    wait_for(lambda: epochs(client) >= 2)
    client.stop().result(timeout=PATIENCE)
    ended(client)


def finished(folder: Path, retention: str, runtime: str) -> None:
    ended(job(folder, retention, runtime, 20))


def failed(folder: Path, retention: str, runtime: str) -> None:
    client = job(folder, retention, runtime, None, fails_at=20)
    with pytest.raises(UserFunctionError):
        client.get_job_execution_result().result(timeout=PATIENCE)
    assert epochs(client) >= 1


ENDINGS: list[Callable[[Path, str, str], None]] = [cancelled, failed, finished, stopped]


def files(folder: Path) -> list[str]:
    """All files of checkpoints in it; who has had it, and what it has failed with, stays."""
    stays = {"generations", "failures"}
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and path.parent.name not in stays)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.__name__)
@pytest.mark.parametrize("retention", KEPT)
def test_what_is_kept(retention: str, ending: Callable[[Path, str, str], None], tmp_path: Path) -> None:
    ending(tmp_path, retention, "local")
    assert bool(files(tmp_path)) == (ending.__name__ in KEPT[retention])


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.__name__)
def test_all_is_kept_unless_something_else_is_set(ending: Callable[[Path, str, str], None], tmp_path: Path) -> None:
    ending(tmp_path, "", "local")
    assert {"newest"} < set(files(tmp_path))


@pytest.mark.slow
@pytest.mark.spark
def test_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    cancelled(tmp_path, "DELETE_ON_CANCELLATION", "spark")
    assert not files(tmp_path)


def test_the_next_run_is_another_job_that_begins_anew(tmp_path: Path) -> None:
    kind, output = KINDS[1], tmp_path / "output"
    small = SmallJob(tmp_path, kind.make(output), {RETENTION: "NO_EXTERNALIZED_CHECKPOINTS"})
    store = posix_folder(tmp_path / "checkpoints")
    ids = []
    for _ in range(2):
        assert small.run().restored == [None]
        ids.append(CheckpointStore(store)._generations.job_id())
    assert len(set(ids)) == 2
    assert kind.records(output) == sorted(expected() * 2)


def test_a_job_that_fails_before_its_first_epoch_keeps_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(tmp_path, "", "local")
    strike(Point(LocalRuntime, "run_epoch", frozenset({1})), monkeypatch, after=False)
    client = job(tmp_path, "NO_EXTERNALIZED_CHECKPOINTS", "local", None)
    assert client.get_job_execution_result().exception(timeout=PATIENCE) is not None
    assert files(tmp_path)


def test_what_another_job_manager_has_taken_over_is_left_alone(tmp_path: Path, monkeypatch: Any) -> None:
    client = job(tmp_path, "NO_EXTERNALIZED_CHECKPOINTS", "local", None)
    wait_for(lambda: epochs(client) >= 2)
    other = CheckpointStore(posix_folder(tmp_path))
    newest = other.latest()
    assert newest is not None
    mine = other.take_over(newest)
    with pytest.raises(JobSupersededError):
        client.get_job_execution_result().result(timeout=PATIENCE)
    assert other.latest() is not None
    assert set(mine.state_files()) <= set(files(tmp_path))


def test_an_owner_that_was_superseded_deletes_nothing(tmp_path: Path) -> None:
    stopped(tmp_path, "", "local")
    first = CheckpointStore(posix_folder(tmp_path))
    newest = first.latest()
    assert newest is not None
    mine = first.take_over(newest)
    theirs = CheckpointStore(posix_folder(tmp_path)).take_over(mine)
    before = files(tmp_path)
    first.discard(mine, ())
    assert files(tmp_path) == before
    assert first.latest() == theirs


def test_what_a_run_without_a_checkpoint_has_left_goes_when_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = SmallJob(tmp_path, KINDS[1].make(tmp_path / "output"), {"restart-strategy.type": "none"})
    with monkeypatch.context() as patched:
        strike(Point(CheckpointStore, "write", frozenset({1})), patched, after=False)
        with pytest.raises(OSError, match="call 1 fails"):
            small.run()
    state = tmp_path / "checkpoints" / "state"
    left = {path.name for path in state.iterdir()}
    assert left
    assert small.run(stop_after=2).restored == [None]
    small.run(stop_after=2)
    assert not left & {path.name for path in state.iterdir()}
