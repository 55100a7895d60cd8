"""Faults that pass, in jobs whose functions hold records back in the state of their subtask: each comes out once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.client.running import submission_defaults
from headrace.common import Configuration, Types, WatermarkStrategy
from headrace.datastream import (
    CheckpointedFunction,
    FlatMapFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from headrace.datastream.state import ListStateDescriptor
from headrace.jobmanager import compaction
from headrace.runtime.local import LocalRuntime
from headrace.state.hashmap_backend import HashMapTaskStates
from tests.reliability.support.file_sinks import KINDS
from tests.reliability.support.numbers import NumbersInSplits
from tests.reliability.support.small_jobs import RECORD, Recorder
from tests.reliability.test_passing_faults import PATIENT, Point, strike

SPLITS, COUNT, EPOCHS = 4, 60, 12
STARTS = ((1, 3), (4, 7), (3, None))
"""With how many subtasks the job goes on, and after which epoch it is stopped."""

POINTS = [
    Point(HashMapTaskStates, "open", frozenset({1, 3, 8, 12})),
    Point(HashMapTaskStates, "snapshot", frozenset({1, 4, 9, 14})),
    Point(LocalRuntime, "run_epoch"),
]


class InTens(FlatMapFunction, CheckpointedFunction):
    """Lets numbers through ten at a time; says in a file which ones wait at the end of an epoch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        waiting = ListStateDescriptor("waiting", Types.LONG())
        self.stored = context.get_operator_state_store().get_list_state(waiting)
        self.waiting = list(self.stored.get())

    def open(self, runtime_context: RuntimeContext) -> None:
        self.file = self.folder / f"waiting-{runtime_context.get_index_of_this_subtask()}"

    def flat_map(self, value: int) -> Iterator[tuple[int, int]]:
        self.waiting.append(value)
        if len(self.waiting) == 10:
            yield from ((number, 0) for number in self.waiting)
            self.waiting.clear()

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.stored.update(self.waiting)
        self.file.write_text(json.dumps(self.waiting))


def run(folder: Path, parallelism: int, stop_after: int | None, *, is_spread: bool) -> Recorder:
    """Run the job until an epoch is complete, or to the end; nobody waits yet of whom the last start knows nothing."""
    for file in folder.glob("waiting-*"):
        file.unlink()
    settings = PATIENT | {
        "headrace.runtime": "local",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "execution.checkpointing.data-inline-threshold": "1b",
        "headrace.epoch.max-records": str(SPLITS * COUNT // EPOCHS // parallelism),
        "headrace.epoch.target-duration": "60s",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.set_parallelism(parallelism)
    source = NumbersInSplits(SPLITS, COUNT)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    numbers = numbers.rebalance() if is_spread else numbers
    numbers.flat_map(InTens(folder), RECORD).uid("tens").sink_to(KINDS[1].make(folder / "output")).uid("files")
    recorder = Recorder(stop_after)
    with submission_defaults({}, recorder):
        env.execute("in tens")
    return recorder


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("point", "is_spread", "after"),
    [
        pytest.param(point, is_spread, not is_spread, marks=() if number % 2 == is_spread else pytest.mark.slow)
        for number, point in enumerate(POINTS)
        for is_spread in (False, True)
    ],
)
def test_each_number_comes_out_once_or_waits(
    point: Point, is_spread: bool, after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "EPOCHS_BETWEEN_LOOKS", 1)
    faults = strike(point, monkeypatch, after=after)
    for parallelism, stop_after in STARTS:
        assert run(tmp_path, parallelism, stop_after, is_spread=is_spread).completed
    waiting = [number for file in tmp_path.glob("waiting-*") for number in json.loads(file.read_text())]
    shown = [number for number, _ in KINDS[1].records(tmp_path / "output")]
    assert sorted(shown + waiting) == list(range(SPLITS * COUNT))
    assert shown
    assert len(faults.happened) >= 2, "the test has tested something"
