"""Faults that pass, in jobs with operator lists, unions and broadcast maps: what subtasks hold is as without faults."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from headrace.checkpoint.store import CheckpointStore
from headrace.client.running import submission_defaults
from headrace.common import Configuration, Types, WatermarkStrategy
from headrace.common.batch import Batch
from headrace.common.constants import MAX_WATERMARK, NO_TIMESTAMP
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.streams.data_stream import DataStream
from headrace.graph.specs import OperatorParameters, PassingSpec
from headrace.jobmanager import compaction
from headrace.operators.base import Operator, OperatorContext, Output
from headrace.runtime.local import LocalRuntime
from headrace.state import hashmap_backend
from headrace.state.descriptors import ListStateDescriptor, MapStateDescriptor
from headrace.state.hashmap_backend import HashMapTaskStates
from headrace.state.protocols import StateKind, StateKinds
from tests.reliability.support.file_sinks import KINDS
from tests.reliability.support.numbers import NumbersInSplits
from tests.reliability.support.small_jobs import RECORD, Recorder
from tests.reliability.test_passing_faults import PATIENT, Point, strike

SPLITS, COUNT, EPOCHS = 4, 60, 12
STARTS = ((1, 3), (3, 7), (2, 11), (7, None))
"""With how many subtasks the job goes on, and after which epoch it is stopped."""

RULES = 5


@dataclass(frozen=True, slots=True)
class BookkeeperSpec(PassingSpec):
    """Lists, unions and maps of its subtasks."""

    kind: ClassVar[str] = "Bookkeeper"
    state_kinds: ClassVar[StateKinds] = frozenset({StateKind.LIST, StateKind.UNION, StateKind.BROADCAST})

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        return Bookkeeper()


class Bookkeeper(Operator):
    """Gives back each number as it passed, and at its end what its lists hold; each number is in exactly one of them.

    - ``added`` grows,
    - ``replaced`` is written anew in every epoch,
    - of ``claimed`` each subtask keeps after a start what is its own.
    """

    def open(self, context: OperatorContext, output: Output) -> None:
        super().open(context, output)
        store = context.state.operator_state_store
        self._added = store.list_state(ListStateDescriptor("added", Types.LONG()))
        self._replaced = store.list_state(ListStateDescriptor("replaced", Types.LONG()))
        self._claimed = store.union_list_state(ListStateDescriptor("claimed", Types.LONG()))
        self._rules = store.broadcast_state(MapStateDescriptor("rules", Types.LONG(), Types.LONG()))
        if store.is_restored:
            of_all, parallelism = self._claimed.get(), self.context.parallelism
            assert len(set(of_all)) == len(of_all), "a union has each element once"
            self._claimed.update([number for number in of_all if number % parallelism == self.context.subtask])
            assert {rule for rule, _ in self._rules.items()} <= set(range(RULES))
        if self._rules.is_empty():  # here, since all subtasks have to change it alike
            self._rules.put_all({rule: rule * rule for rule in range(RULES)})

    def process(self, input_index: int, batch: Batch) -> None:
        numbers = list(batch.rows)
        self._added.add_all(numbers)
        self._replaced.update([*self._replaced.get(), *numbers])
        self._claimed.add_all(numbers)
        rows = [(number, PASSED) for number in numbers]
        self.output.emit(batch.replaced(RECORD, rows=rows, sources=np.arange(len(rows))))

    def finish(self) -> None:
        lists = (self._added, self._replaced, self._claimed)
        rows = [(number, mark) for mark, held in enumerate(lists, ADDED) for number in held.get()]
        rows += [(square, RULE) for _, square in self._rules.items()]
        if rows:
            self.output.emit(Batch.of_rows(RECORD, rows, [NO_TIMESTAMP] * len(rows), [MAX_WATERMARK] * len(rows)))


PASSED, ADDED, REPLACED, CLAIMED, RULE = range(1, 6)


def expected() -> list[tuple[int, int]]:
    """Each number once as it passed, and once in each kind of list; the rules in each subtask."""
    marks = (PASSED, ADDED, REPLACED, CLAIMED)
    numbers = [(number, mark) for number in range(SPLITS * COUNT) for mark in marks]
    return sorted(numbers + [(rule * rule, RULE) for rule in range(RULES)] * STARTS[-1][0])


def run(folder: Path, parallelism: int, stop_after: int | None, *, is_keyed: bool) -> Recorder:
    """Run the job until an epoch is complete, or to the end."""
    settings = PATIENT | {
        "headrace.runtime": "local",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "execution.checkpointing.data-inline-threshold": "1b",
        "execution.checkpointing.num-retained": "2",
        "headrace.epoch.max-records": str(SPLITS * COUNT // EPOCHS // parallelism),
        "headrace.epoch.target-duration": "60s",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.set_parallelism(parallelism)
    source = NumbersInSplits(SPLITS, COUNT)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    if is_keyed:
        numbers = numbers.key_by(lambda number: number, Types.LONG())
    kept = DataStream._apply(numbers, BookkeeperSpec(), "Bookkeeper").uid("bookkeeper")
    kept.sink_to(KINDS[1].make(folder / "output")).uid("files")
    recorder = Recorder(stop_after)
    with submission_defaults({}, recorder):
        env.execute("bookkeeping")
    return recorder


POINTS = [
    Point(CheckpointStore, "write"),
    Point(CheckpointStore, "collect_garbage"),
    Point(CheckpointStore, "restart", frozenset({1, 2, 4})),
    Point(HashMapTaskStates, "open", frozenset({1, 3, 8, 20, 33})),
    Point(HashMapTaskStates, "snapshot", frozenset({1, 4, 9, 21, 34})),
    Point(HashMapTaskStates, "adopt", frozenset({1, 3})),
    Point(hashmap_backend, "plan_compaction"),
    Point(LocalRuntime, "run_background"),
    Point(LocalRuntime, "run_epoch"),
]


ALWAYS = {
    "CheckpointStore.write": 0,
    "HashMapTaskStates.open": 1,
    "HashMapTaskStates.snapshot": 0,
    "LocalRuntime.run_epoch": 1,
}
"""The points that are tried whenever tests run, each at one of the places; all are at both when slow tests run."""

PLACES = {"stage 0, after": (False, True), "behind a shuffle, before": (True, False)}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("point", "is_keyed", "after"),
    [
        pytest.param(
            point, *place, marks=() if ALWAYS.get(str(point)) == number else pytest.mark.slow, id=f"{point}-{name}"
        )
        for point in POINTS
        for number, (name, place) in enumerate(PLACES.items())
    ],
)
def test_nothing_is_lost_or_dealt_out_twice(
    point: Point, is_keyed: bool, after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "EPOCHS_BETWEEN_LOOKS", 1)
    for module in ("compaction", "runs.merging"):
        monkeypatch.setattr(f"headrace.state.{module}.INLINE_ROWS", 0)
    if point.name == "restart":
        strike(Point(LocalRuntime, "run_epoch", frozenset({1, 2, 4, 6, 9})), monkeypatch, after=True)
    faults = strike(point, monkeypatch, after=after)
    for parallelism, stop_after in STARTS:
        assert run(tmp_path, parallelism, stop_after, is_keyed=is_keyed).completed
    assert KINDS[1].records(tmp_path / "output") == expected()
    assert set(faults.happened) == {visit for visit in point.visits if visit <= faults.calls}
    assert len(faults.happened) >= 2, "the test has tested something"
