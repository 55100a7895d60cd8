"""Faults that pass, and other numbers of subtasks, where writers of sinks have state: nothing is lost or twice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.client.running import submission_defaults
from headrace.common import Configuration, Types, WatermarkStrategy
from headrace.common.batch import Batch
from headrace.common.durable import write_file
from headrace.common.typeinfo import TypeInformation
from headrace.connectors.sink import (
    Committer,
    CommitterContext,
    Sink,
    StatefulSinkWriter,
    SupportsWriterState,
    WriterContext,
)
from headrace.datastream import StreamExecutionEnvironment
from headrace.runtime.local import LocalRuntime
from headrace.state.hashmap_backend import HashMapTaskStates
from tests.reliability.support.numbers import NumbersInSplits
from tests.reliability.support.small_jobs import Recorder
from tests.reliability.test_passing_faults import PATIENT, Point, strike

SPLITS, COUNT, EPOCHS = 4, 60, 12
STARTS = ((1, 3), (3, 7), (2, 11), (7, None))
"""With how many subtasks the job goes on, and after which epoch it is stopped."""

PACK = 7


class Packs(Sink[int], SupportsWriterState[int]):
    """Writes files of seven numbers; what is short of seven waits for another epoch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def writer_state_type(self) -> TypeInformation:
        return Types.LONG()

    def create_writer(self, context: WriterContext) -> _Packer:
        return _Packer([])

    def restore_writer(self, context: WriterContext, recovered_state: Sequence[int]) -> _Packer:
        assert recovered_state
        return _Packer(recovered_state)

    def create_committer(self, context: CommitterContext) -> Committer:
        return _Committer(self.folder)


class _Packer(StatefulSinkWriter[int]):
    def __init__(self, waiting: Sequence[int]) -> None:
        self._waiting = list(waiting)
        self._packs: list[list[int]] = []

    def write(self, batch: Batch) -> None:
        self._waiting += batch.rows
        while len(self._waiting) >= PACK:
            self._packs.append(self._waiting[:PACK])
            del self._waiting[:PACK]

    def flush(self, end_of_input: bool) -> None:
        if end_of_input and self._waiting:
            self._packs.append(self._waiting)
            self._waiting = []

    def prepare_commit(self) -> Sequence[list[int]]:
        packs, self._packs = self._packs, []
        return packs

    def snapshot_state(self, epoch: int) -> Sequence[int]:
        return self._waiting


class _Committer(Committer):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def commit(self, epoch: int, committables: Sequence[Any], processing_time: int) -> None:
        for number, pack in enumerate(committables):
            write_file(self._folder / f"{epoch:03}-{number}.json", [json.dumps(pack).encode()])


def run(folder: Path, parallelism: int, stop_after: int | None, *, is_keyed: bool) -> Recorder:
    """Run the job until an epoch is complete, or to the end."""
    settings = PATIENT | {
        "headrace.runtime": "local",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "headrace.epoch.max-records": str(SPLITS * COUNT // EPOCHS // parallelism),
        "headrace.epoch.target-duration": "60s",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.set_parallelism(parallelism)
    source = NumbersInSplits(SPLITS, COUNT)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    if is_keyed:
        numbers = numbers.key_by(lambda number: number, Types.LONG())
    numbers.sink_to(Packs(folder / "output")).uid("packs")
    recorder = Recorder(stop_after)
    with submission_defaults({}, recorder):
        env.execute("packing")
    return recorder


CASES = {
    "a task writes its state": (Point(HashMapTaskStates, "snapshot", frozenset({1, 4, 9, 21, 34})), False, True),
    "a task reads its state": (Point(HashMapTaskStates, "open", frozenset({1, 3, 8, 20})), True, False),
    "an epoch has run": (Point(LocalRuntime, "run_epoch"), False, True),
    "a commit": (Point(_Committer, "commit"), True, True),
}
"""What fails, whether the sink is behind a shuffle, and whether the call fails after it has done its work."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("point", "is_keyed", "after"), CASES.values(), ids=CASES)
def test_each_record_is_in_one_pack(
    point: Point, is_keyed: bool, after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "output").mkdir()
    faults = strike(point, monkeypatch, after=after)
    for parallelism, stop_after in STARTS:
        assert run(tmp_path, parallelism, stop_after, is_keyed=is_keyed).completed
    packs = [json.loads(path.read_text()) for path in sorted((tmp_path / "output").iterdir())]
    assert sorted(number for pack in packs for number in pack) == list(range(SPLITS * COUNT))
    assert sum(len(pack) < PACK for pack in packs) <= STARTS[-1][0], "only the last ones are short"
    assert set(faults.happened) == {visit for visit in point.visits if visit <= faults.calls}
    assert len(faults.happened) >= 2, "the test has tested something"
