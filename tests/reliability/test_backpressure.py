"""A slow sink holds the job back, and its checkpoints stay as they are: nothing is under way when an epoch ends.

Nothing here asserts how long anything takes: what checkpoints hold is compared, and to which part of an epoch the time
of a slow sink is counted, by a clock that only such a sink moves. How long checkpoints take behind one,
``python -m benchmarks --only backpressure`` shows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.client.running import submission_defaults
from headrace.common import Configuration, Types
from headrace.common.batch import Batch
from headrace.connectors.sink import Committer, CommitterContext, Sink, SinkWriter, WriterContext
from headrace.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from headrace.datastream.state import ValueStateDescriptor
from headrace.jobmanager.events import EpochStatistics, JobEvent
from headrace.jobmanager.sinks import MAX_PENDING_EPOCHS, CommitCoordinator
from headrace.jobmanager.status import JobSnapshot

RECORDS, EACH, SUBTASKS = 2_000, 50, 2
_CLOCK_DIGITS = 64
"""A manifest has a few readings of the clock, whose last digits may be zeros that are not written."""


class Pace(Sink):
    """Drops everything, as slowly as it is told to.

    Args:
        write: seconds for a batch, within the epoch.
        behind: each epoch is committed only when so many more are complete, or all are.
        folder: the checkpoint directory.
        epochs: how many epochs there are.
    """

    def __init__(self, write: float = 0.0, behind: int = 0, folder: Path = Path(), epochs: int = 0) -> None:
        self.write = write
        self.behind = behind
        self.manifests = folder / "manifests"
        self.epochs = epochs

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _Writer(self.write)

    def create_committer(self, context: CommitterContext) -> Committer:
        return _Committer(self)


class _Writer(SinkWriter):
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def write(self, batch: Batch) -> None:
        time.sleep(self._seconds)

    def prepare_commit(self) -> Sequence[Any]:
        return ["a committable"]


class _Committer(Committer):
    def __init__(self, pace: Pace) -> None:
        self._pace = pace

    def commit(self, epoch: int, committables: Sequence[Any], processing_time: int) -> None:
        wanted = min(epoch + self._pace.behind, self._pace.epochs)
        while self._pace.behind and wanted > max(int(path.stem) for path in self._pace.manifests.glob("0*.json")):
            time.sleep(0.005)


class Count(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[int]:
        self.count.update((self.count.value() or 0) + 1)
        yield value


@dataclass(frozen=True)
class Checkpoint:
    """What there is to say of the checkpoint of an epoch."""

    records: int
    state_bytes: int
    manifest_bytes: int
    pending: int
    running: float
    checkpointing: float
    waiting: float


class Checkpoints:
    def __init__(self, folder: Path) -> None:
        self._manifests = folder / "manifests"
        self.found: list[Checkpoint] = []

    def __call__(self, event: JobEvent, job: JobSnapshot) -> None:
        if isinstance(event, EpochStatistics):
            self._epoch_completed(event)

    def _epoch_completed(self, statistics: EpochStatistics) -> None:
        size = (self._manifests / f"{statistics.epoch:012d}.json").stat().st_size
        self.found.append(
            Checkpoint(
                statistics.records,
                statistics.state_bytes,
                size,
                statistics.pending_commits,
                statistics.running,
                statistics.checkpointing,
                statistics.waiting,
            )
        )


def run(folder: Path, sink: Pace) -> list[Checkpoint]:
    """The checkpoints of a job with that sink."""
    settings = {
        "headrace.runtime": "local",
        "parallelism.default": str(SUBTASKS),
        "execution.checkpointing.dir": str(folder),
        "headrace.epoch.max-records": str(EACH),
        "headrace.epoch.first-records": str(EACH),
        "headrace.epoch.target-duration": "10 min",
    }
    configuration = Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    numbers = environment.from_collection(list(range(RECORDS)), Types.LONG()).uid("numbers")
    counted = numbers.key_by(lambda number: number % 100, Types.LONG()).process(Count(), Types.LONG()).uid("counts")
    counted.sink_to(sink).uid("out")
    checkpoints = Checkpoints(folder)
    with submission_defaults({}, checkpoints):
        environment.execute()
    assert sum(checkpoint.records for checkpoint in checkpoints.found) == RECORDS
    return checkpoints.found


@pytest.fixture(scope="module")
def unhindered(tmp_path_factory: pytest.TempPathFactory) -> list[Checkpoint]:
    return run(tmp_path_factory.mktemp("fast"), Pace())


@pytest.mark.slow
def test_a_slow_writer_changes_no_checkpoint(unhindered: list[Checkpoint], tmp_path: Path) -> None:
    slow = run(tmp_path, Pace(write=0.01))
    assert [each.records for each in slow] == [each.records for each in unhindered]
    assert [each.state_bytes for each in slow] == [each.state_bytes for each in unhindered]
    steady = [each.manifest_bytes for each in unhindered if each.pending <= SUBTASKS]
    assert max(each.manifest_bytes for each in slow) <= max(steady) + _CLOCK_DIGITS


def test_behind_a_slow_committer_so_many_epochs_wait_and_no_more(unhindered: list[Checkpoint], tmp_path: Path) -> None:
    """Checkpoints name what is not committed yet, of the few epochs that wait, and hold nothing else besides."""
    slow = run(tmp_path, Pace(behind=MAX_PENDING_EPOCHS, folder=tmp_path, epochs=len(unhindered)))
    assert [each.state_bytes for each in slow] == [each.state_bytes for each in unhindered]
    held_back = slow[MAX_PENDING_EPOCHS:]
    assert {each.pending for each in held_back} == {MAX_PENDING_EPOCHS + 1}
    sizes = [each.manifest_bytes for each in held_back[:-1]]  # the last one says that the job has finished
    assert max(sizes) <= min(sizes) + _CLOCK_DIGITS


class ClockOfSinks:
    """Stands for ``time`` where epochs are timed: time goes by while sinks write or hold back, and then alone."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def time_ns(self) -> int:
        return int(self.now * 1_000_000_000)

    def pass_by(self, seconds: float) -> None:
        self.now += seconds


def test_what_slow_sinks_take_is_counted_to_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ClockOfSinks()
    drain = CommitCoordinator.drain

    def held_back(self: CommitCoordinator, most: int = 0) -> None:
        drain(self, most)
        clock.pass_by(100.0)

    for module in ("epoch_plan", "epochs"):
        monkeypatch.setattr(f"headrace.jobmanager.{module}.time", clock)
    monkeypatch.setattr(CommitCoordinator, "drain", held_back)
    monkeypatch.setattr(_Writer, "write", lambda self, batch: clock.pass_by(1.0))
    epochs = run(tmp_path, Pace())
    assert {epoch.checkpointing for epoch in epochs} == {0.0}
    assert {epoch.waiting for epoch in epochs} == {100.0}
    assert min(epoch.running for epoch in epochs if epoch.records) >= 1.0
