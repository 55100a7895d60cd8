"""What the settings of checkpoints do to a job that runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.checkpoint.store import CheckpointStore
from headrace.client import submission
from headrace.common import Configuration, Types
from headrace.common.errors import CheckpointFailedError
from headrace.connectors.driver_sink import CollectSink
from headrace.datastream import StreamExecutionEnvironment
from headrace.jobmanager.events import EpochStatistics
from headrace.jobmanager.job_manager import JobManager
from headrace.jobmanager.settings import PlannedJob
from tests.jobmanager.test_settings import settings
from tests.reliability.support.file_sinks import KINDS
from tests.reliability.support.small_jobs import SmallJob, expected
from tests.reliability.support.unwritable_state import UnwritableState
from tests.reliability.test_passing_faults import Point, strike

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_RESTARTS = {"restart-strategy.type": "none"}
TOLERABLE = "execution.checkpointing.tolerable-failed-checkpoints"
RUNTIMES = [pytest.param("local"), pytest.param("spark", marks=pytest.mark.spark)]


@pytest.fixture
def session(request: pytest.FixtureRequest, runtime: str) -> SparkSession | None:
    """The session of the tests, where one is needed."""
    return request.getfixturevalue("spark") if runtime == "spark" else None


# --- failures of checkpoints -----------------------------------------------------------------------------------------


def test_manifests_that_cannot_be_written_are_tolerated_while_there_are_not_too_many_in_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = strike(Point(CheckpointStore, "write", frozenset({2, 3, 5, 6, 9})), monkeypatch, after=False)
    kind, output = KINDS[1], tmp_path / "output"
    SmallJob(tmp_path, kind.make(output), NO_RESTARTS | {TOLERABLE: "2"}).run()
    assert kind.records(output) == expected()
    assert len(faults.happened) == 5


def test_one_failed_checkpoint_too_many_is_a_failure_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strike(Point(CheckpointStore, "write", frozenset({2, 3, 4})), monkeypatch, after=False)
    job = SmallJob(tmp_path, KINDS[1].make(tmp_path / "output"), NO_RESTARTS | {TOLERABLE: "2"})
    with pytest.raises(OSError, match="call 4 fails"):
        job.run()


def test_other_failures_are_not_tolerated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    strike(Point(submission.LocalRuntime, "run_epoch", frozenset({2})), monkeypatch, after=False)
    job = SmallJob(tmp_path, KINDS[1].make(tmp_path / "output"), NO_RESTARTS | {TOLERABLE: "2"})
    with pytest.raises(OSError, match="call 2 fails"):
        job.run()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("tolerated", [1, 0])
def test_state_that_a_task_cannot_write(
    session: SparkSession | None, runtime: str, tolerated: int, tmp_path: Path
) -> None:
    counts = tmp_path / "counts"
    counts.mkdir()
    given = {"headrace.runtime": runtime, "parallelism.default": "1", TOLERABLE: str(tolerated)} | NO_RESTARTS
    given |= {"execution.checkpointing.dir": str(tmp_path / "checkpoints")}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(given))
    sums = env.from_sequence(1, 4).key_by(lambda number: 0, Types.LONG()).sum()
    found: list[int] = []
    sums.map(UnwritableState(counts, 1), Types.LONG()).sink_to(CollectSink(found.extend))
    if tolerated:
        env.execute()
        assert found == [1, 3, 6, 10]
    else:
        with pytest.raises(CheckpointFailedError, match="No space left on device"):
            env.execute()
    assert len(list(counts.iterdir())) == 1


class Slow:
    """A function that does not come back the first time it is called."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __call__(self, value: int) -> int:
        if not self._marker.exists():
            self._marker.touch()
            while True:
                pass
        return value


@pytest.mark.parametrize("runtime", ["local", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])])
def test_an_epoch_that_takes_too_long_is_given_up_and_run_again(
    session: SparkSession | None, runtime: str, tmp_path: Path
) -> None:
    given = {"headrace.runtime": runtime, "parallelism.default": "1", TOLERABLE: "1000"} | NO_RESTARTS
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(given))
    env.get_checkpoint_config().set_checkpoint_timeout(500 if runtime == "local" else 3_000)
    found: list[int] = []
    env.from_sequence(1, 3).map(Slow(tmp_path / "marker"), Types.LONG()).sink_to(CollectSink(found.extend))
    env.execute()
    assert found == [1, 2, 3]


# --- pauses ----------------------------------------------------------------------------------------------------------


def test_epochs_aim_at_the_pause_between_checkpoints() -> None:
    found = settings(execution_checkpointing_min__pause="30 s", execution_checkpointing_interval="5 s")
    assert (found.limits.target_seconds, found.min_pause_seconds) == (30.0, 30.0)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("worked", "pause"), [(0.0, 2.0), (0.5, 1.5), (2.0, 0.0), (7.0, -5.0)], ids=["idle", "short", "exact", "long"]
)
def test_what_an_epoch_falls_short_of_the_pause_the_next_one_waits(worked: float, pause: float, tmp_path: Path) -> None:
    env = SmallJob(tmp_path, KINDS[1].make(tmp_path / "output")).environment()
    configuration = env.get_configuration()
    plan = submission.plan_graph(env.transformations.take_next_job(), configuration, "small", 1)
    store = submission.open_store(configuration)
    given = replace(submission.job_settings(configuration, plan), min_pause_seconds=2.0)
    job = PlannedJob(plan, submission.blob_of(plan, store.storage), given)
    manager = JobManager(job, submission.LocalRuntime(), store)
    manager.open()
    epoch = EpochStatistics(1, 5, 0.0, worked, 99.0, 0, 0, 0)
    assert manager._pause_after(epoch) == pause
    while manager.manifest is None or not manager.manifest.finished:
        manager.run_epoch()
    assert manager._pause_after(epoch) == 0, "nothing comes after the last epoch"
    manager.wait_for_commits()
    manager.close()


# --- how many are kept -----------------------------------------------------------------------------------------------


def test_so_many_checkpoints_are_kept_over_restarts_as_well(tmp_path: Path) -> None:
    job = SmallJob(tmp_path, KINDS[1].make(tmp_path / "output"), {"execution.checkpointing.num-retained": "3"})
    for stop_after in (4, 8):
        job.run(stop_after=stop_after)
        store = CheckpointStore(submission.open_store(job.environment().get_configuration()).storage)
        kept = [store._manifests.read(number) for number in job.epochs()]
        assert len(kept) == 3
        assert len({manifest.counters["numEpochs"] for manifest in kept}) >= 2, "not only copies of the newest"
        needed = {name for manifest in kept for name in manifest.state_files()}
        assert needed
        assert needed <= set(store.state.names())


def test_fewer_are_kept_once_fewer_are_asked_for(tmp_path: Path) -> None:
    sink = KINDS[1].make(tmp_path / "output")
    SmallJob(tmp_path, sink, {"execution.checkpointing.num-retained": "5"}).run(stop_after=7)
    fewer = SmallJob(tmp_path, sink, {"execution.checkpointing.num-retained": "1"})
    fewer.run()
    assert len(fewer.epochs()) == 1
    assert KINDS[1].records(tmp_path / "output") == expected()
