"""A fault that passes, at every call between two manifests: the job begins again by itself, and the output is exact."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from headrace.checkpoint.directory import Generations
from headrace.checkpoint.store import CheckpointStore, TemporaryStore
from headrace.client import running, submission
from headrace.client.job_client import JobClient
from headrace.client.running import submission_defaults
from headrace.common.configuration import Configuration
from headrace.common.errors import CheckpointError, InfrastructureError, JobExecutionError, JobSupersededError
from headrace.common.time import Duration
from headrace.connectors.driver_sink import CollectSink
from headrace.connectors.file_system.committer import FileCommitter
from headrace.connectors.file_system.sink import FileSink
from headrace.connectors.file_system.source import FileSource
from headrace.connectors.ranges import RangeEnumerator
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import StreamFormat
from headrace.jobmanager import compaction
from headrace.jobmanager.events import EpochFailed, JobEvent
from headrace.jobmanager.status import JobSnapshot
from headrace.runtime.local import LocalRuntime
from headrace.state import hashmap_backend
from headrace.storage.folder import posix_folder
from headrace.time.watermark_strategy import WatermarkStrategy
from tests.reliability.support import numbers
from tests.reliability.support.file_sinks import KINDS
from tests.reliability.support.numbers import NumbersInSplits
from tests.reliability.support.small_jobs import EPOCHS, SmallJob, expected
from tests.reliability.support.storages import CheckpointDirectory
from tests.waiting import PATIENCE

PATIENT = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "100"} | {
    "restart-strategy.fixed-delay.delay": "1 ms"
}
VISITS = {1, 2, 5, 6, 9}


@dataclass
class Faults:
    """Raises at some of the calls of a method, before it does anything or when it has done everything."""

    visits: Collection[int]
    after: bool
    calls: int = 0
    happened: list[int] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def around(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **named: Any) -> Any:
            with self.lock:
                self.calls += 1
                call = self.calls
            strikes = call in self.visits
            if strikes and not self.after:
                self._raise(call)
            result = method(*arguments, **named)
            if strikes:
                self._raise(call)
            return result

        return called

    def _raise(self, call: int) -> None:
        self.happened.append(call)
        raise OSError(5, f"call {call} fails")


@dataclass(frozen=True)
class Point:
    """A call that may fail.

    Attributes:
        where: the class or module that has it.
        name: its name.
        visits: which of the calls fail.
    """

    where: Any
    name: str
    visits: frozenset[int] = frozenset(VISITS)

    def __str__(self) -> str:
        return f"{getattr(self.where, '__name__', self.where)}.{self.name}"


POINTS = [
    Point(CheckpointStore, "write"),
    Point(CheckpointStore, "collect_garbage"),
    Point(CheckpointStore, "is_owned_by"),
    Point(CheckpointStore, "remove_leftovers", frozenset({1, 2, 4})),
    Point(CheckpointStore, "restart", frozenset({1, 2, 4})),
    Point(Generations, "renew", frozenset({1, 2, 4})),
    Point(numbers._Enumerator, "discover"),
    Point(numbers._Enumerator, "plan"),
    Point(RangeEnumerator, "initial_position", frozenset({1, 3})),
    Point(RangeEnumerator, "is_finished"),
    Point(RangeEnumerator, "snapshot"),
    Point(RangeEnumerator, "checkpoint_completed"),
    Point(NumbersInSplits, "create_enumerator", frozenset({1, 2, 4})),
    Point(FileSink, "create_committer", frozenset({1, 2, 4})),
    Point(FileCommitter, "recover", frozenset({1, 2, 4})),
    Point(FileCommitter, "finish", frozenset({1, 2})),
    Point(FileCommitter, "close", frozenset({1, 2})),
    Point(hashmap_backend, "plan_compaction"),
    Point(LocalRuntime, "run_background"),
    Point(LocalRuntime, "run_epoch"),
]
IN_A_RESTART = {"remove_leftovers", "restart", "renew", "create_enumerator", "create_committer", "recover", "close"}
"""Calls that come again only when something else has failed."""

POINTS_AT_ONCE = [tuple(POINTS[first::4]) for first in range(4)]
"""Whenever tests run, a quarter of the points fails in one job; each alone, and on S3, when slow tests run."""

SIDES = {"before": False, "after": True}
ON_S3 = Point(CheckpointStore, "write"), "before"
"""What is tried on S3 whenever tests run."""

CASES = [
    *(
        pytest.param("posix", points, after, id=f"{points[0]}-and-others-{side}")
        for points in POINTS_AT_ONCE
        for side, after in SIDES.items()
    ),
    *(
        pytest.param(storage, (point,), after, id=f"{storage}-{point}-{side}", marks=marks)
        for point in POINTS
        for side, after in SIDES.items()
        for storage in ("posix", "s3")
        for marks in [() if storage == "s3" and (point, side) == ON_S3 else pytest.mark.slow]
    ),
]

STOPPED = [
    pytest.param(*case.values, marks=case.marks or (() if case.values[2] else pytest.mark.slow), id=case.id)
    for case in CASES
]
"""The same where the job is stopped as well; whenever tests run, after the call, when something has been done."""


def strike(point: Point, monkeypatch: pytest.MonkeyPatch, *, after: bool) -> Faults:
    faults = Faults(point.visits, after)
    monkeypatch.setattr(point.where, point.name, faults.around(getattr(point.where, point.name)))
    return faults


def strike_all(points: Sequence[Point], monkeypatch: pytest.MonkeyPatch, *, after: bool) -> dict[Point, Faults]:
    names = {point.name for point in points}
    if names & IN_A_RESTART and "run_epoch" not in names:
        strike(Point(LocalRuntime, "run_epoch", frozenset({2, 4, 6, 9})), monkeypatch, after=True)
    return {point: strike(point, monkeypatch, after=after) for point in points}


@pytest.fixture(autouse=True)
def busy_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "EPOCHS_BETWEEN_LOOKS", 2)
    for module in ("compaction", "runs.merging"):
        monkeypatch.setattr(f"headrace.state.{module}.INLINE_ROWS", 0)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("checkpoints", "points", "after"), CASES, indirect=["checkpoints"])
def test_a_fault_that_passes_costs_nothing(
    points: Sequence[Point],
    after: bool,
    checkpoints: CheckpointDirectory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind, output = KINDS[1], tmp_path / "output"
    struck = strike_all(points, monkeypatch, after=after)
    settings = PATIENT | checkpoints.settings | {"execution.checkpointing.num-retained": "2"}
    recorder = SmallJob(tmp_path, kind.make(output), settings).run()
    assert kind.records(output) == expected()
    for point, faults in struck.items():
        assert set(faults.happened) == {visit for visit in point.visits if visit <= faults.calls}
        assert len(faults.happened) >= min(2, len(point.visits)), f"{point} has failed"
    assert len(recorder.completed) <= EPOCHS, "an epoch of which the manifest exists is not run again"
    assert recorder.restored == [None], "the job has started once"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["run_epoch", "collect_garbage", "checkpoint_completed", "commit"])
def test_without_a_checkpoint_directory(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = {
        "run_epoch": LocalRuntime,
        "collect_garbage": TemporaryStore,
        "checkpoint_completed": RangeEnumerator,
        "commit": FileCommitter,
    }
    monkeypatch.setattr(submission, "open_store", lambda configuration: TemporaryStore())
    monkeypatch.setattr("headrace.jobmanager.sinks._ATTEMPTS", 1)
    kind, output = KINDS[1], tmp_path / "output"
    faults = strike(Point(where[name], name), monkeypatch, after=True)
    SmallJob(tmp_path, kind.make(output), PATIENT).run()
    assert kind.records(output) == expected()
    assert len(faults.happened) >= 3


@dataclass
class Impatient:
    """Stops the job whenever something has failed."""

    failed: int = 0

    def __call__(self, event: JobEvent, job: JobSnapshot) -> None:
        if isinstance(event, EpochFailed):
            self.failed += 1
            running.stop_all()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("checkpoints", "points", "after"), STOPPED, indirect=["checkpoints"])
def test_a_job_that_is_stopped_after_a_fault_goes_on(
    points: Sequence[Point],
    after: bool,
    checkpoints: CheckpointDirectory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Stopping waits for sinks and writes a last manifest, which must not say more than what was done."""
    kind, output = KINDS[0], tmp_path / "output"
    strike_all(points, monkeypatch, after=after)
    settings = PATIENT | checkpoints.settings | {"restart-strategy.fixed-delay.delay": "10 ms"}
    job = SmallJob(tmp_path, kind.make(output), settings)
    listeners: list[Impatient] = []
    for _ in range(60):
        listener = Impatient()
        listeners.append(listener)
        try:
            with submission_defaults({}, listener):
                job.environment().execute("small")
        except (OSError, InfrastructureError):
            continue  # what has to be done before a job can end failed once more
        if not listener.failed:
            break
    assert len(listeners) > 1
    assert kind.records(output) == expected()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["write", "collect_garbage", "is_owned_by"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_what_only_the_living_driver_can_show_is_shown_once(
    name: str, after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Any] = []
    faults = strike(Point(CheckpointStore, name), monkeypatch, after=after)
    SmallJob(tmp_path, CollectSink(found.extend), PATIENT).run()
    assert sorted((row["number"], row["seen"]) for row in found) == expected()
    assert len(faults.happened) >= 3


def test_a_commit_that_fails_for_long_makes_the_job_begin_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.jobmanager.sinks._ATTEMPTS", 2)
    monkeypatch.setattr("headrace.jobmanager.sinks._FIRST_RETRY_SECONDS", 0.001)
    kind, output = KINDS[1], tmp_path / "output"
    faults = strike(Point(FileCommitter, "commit", frozenset(range(3, 8))), monkeypatch, after=False)
    SmallJob(tmp_path, kind.make(output), PATIENT).run()
    assert kind.records(output) == expected()
    assert faults.happened == [3, 4, 5, 6, 7]


def test_the_strategy_gives_up_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = PATIENT | {"restart-strategy.fixed-delay.attempts": "3"}
    faults = strike(Point(CheckpointStore, "write", frozenset(range(100))), monkeypatch, after=False)
    kind, output = KINDS[1], tmp_path / "output"
    with pytest.raises(OSError, match="call 4 fails"):
        SmallJob(tmp_path, kind.make(output), few).run()
    assert faults.happened == [1, 2, 3, 4]
    monkeypatch.undo()
    SmallJob(tmp_path, kind.make(output), few).run()
    assert kind.records(output) == expected()


@pytest.mark.parametrize("told", [False, True], ids=["raw", "as a connector tells it"])
@pytest.mark.parametrize("error", [FileNotFoundError, PermissionError, NotADirectoryError])
def test_what_is_missing_when_a_job_starts_is_a_mistake(
    error: type[OSError], told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def plan(*arguments: Any) -> None:
        calls.append(1)
        if told:
            raise InfrastructureError("the source") from error()
        raise error("the source")

    monkeypatch.setattr(numbers._Enumerator, "plan", plan)
    with pytest.raises((error, InfrastructureError), match="the source"):
        SmallJob(tmp_path, KINDS[0].make(tmp_path / "output"), PATIENT).run()
    assert len(calls) == 1


def test_a_watched_folder_that_is_missing_when_a_job_goes_on_is_a_mistake(tmp_path: Path) -> None:
    folder, read, restarts = tmp_path / "in", threading.Event(), Impatient()
    folder.mkdir()
    (folder / "a").write_text("a\n")

    def job() -> JobClient:
        settings = {"headrace.runtime": "local", "execution.checkpointing.dir": str(tmp_path / "checkpoints")} | PATIENT
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
        watched = FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder)
        source = watched.monitor_continuously(Duration.of_millis(1)).build()
        lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines").uid("lines")
        lines.sink_to(CollectSink(lambda _: read.set())).uid("out")
        with submission_defaults({}, restarts):
            return env.execute_async()

    first = job()
    assert read.wait(PATIENCE)
    first.stop().result()
    folder.rename(tmp_path / "away")
    with pytest.raises(InfrastructureError, match="in, which the source watches, is gone"):
        job().get_job_execution_result().result()
    assert not restarts.failed


def test_what_is_missing_later_may_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, calls = numbers._Enumerator.plan, []

    def plan(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) in (7, 8):
            raise FileNotFoundError("the volume is away")
        return original(*arguments)

    monkeypatch.setattr(numbers._Enumerator, "plan", plan)
    kind, output = KINDS[0], tmp_path / "output"
    SmallJob(tmp_path, kind.make(output), PATIENT).run()
    assert kind.records(output) == expected()
    assert len(calls) > 8


def test_a_job_that_was_taken_over_does_not_take_over_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = LocalRuntime.run_epoch
    epochs = []

    def run_epoch(self: LocalRuntime, context: Any) -> Any:
        epochs.append(context.epoch)
        if len(epochs) == 3:
            other = CheckpointStore(posix_folder(tmp_path / "checkpoints"))
            found = other.latest()
            assert found is not None
            other.take_over(found)
            raise OSError("and the connection is gone")
        return original(self, context)

    monkeypatch.setattr(LocalRuntime, "run_epoch", run_epoch)
    with pytest.raises(JobSupersededError):
        SmallJob(tmp_path, KINDS[0].make(tmp_path / "output"), PATIENT).run()
    assert len(epochs) == 3


def test_damage_is_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = CheckpointStore.write

    def write(self: CheckpointStore, manifest: Any) -> None:
        original(self, manifest)
        if manifest.epoch == 3:
            path = Path(str(self.storage)) / "manifests" / f"{manifest.epoch:012d}.json"
            path.write_bytes(path.read_bytes()[:-7])
            raise OSError("the disk is bad")

    monkeypatch.setattr(CheckpointStore, "write", write)
    with pytest.raises(CheckpointError, match=r"000003\.json is damaged"):
        SmallJob(tmp_path, KINDS[0].make(tmp_path / "output"), PATIENT).run()


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
@pytest.mark.parametrize("where", [numbers._Enumerator, FileCommitter])
def test_what_would_end_whoever_waits_is_an_error_of_the_job(
    raised: BaseException, where: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise raised

    monkeypatch.setattr(where, "commit" if where is FileCommitter else "plan", fails)
    with pytest.raises(JobExecutionError, match=f"raised {type(raised).__name__}"):
        SmallJob(tmp_path, KINDS[0].make(tmp_path / "output"), PATIENT).run()
