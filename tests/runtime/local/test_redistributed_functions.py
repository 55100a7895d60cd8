"""What functions with state of their subtask find after starts at other parallelisms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Types
from headrace.datastream import (
    BroadcastProcessFunction,
    CheckpointedFunction,
    FlatMapFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from headrace.datastream.state import ListStateDescriptor
from headrace.testing import JobHarness
from headrace.testing.stored_state import Checkpoint
from tests.draws import draws
from tests.runtime.checkpointed_ledger import RULES, Ledger

SPLITS = 4


class BufferingSink(FlatMapFunction, CheckpointedFunction):
    """The sink of Flink's page "Working with State": what it has is sent once there are so many elements."""

    def __init__(self, threshold: int) -> None:
        self.threshold = threshold
        self.buffered: list[tuple[str, int]] = []

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        elements = Types.TUPLE([Types.STRING(), Types.INT()])
        descriptor = ListStateDescriptor("buffered-elements", elements)
        self.checkpointed_state = context.get_operator_state_store().get_list_state(descriptor)
        if context.is_restored():
            for element in self.checkpointed_state.get():
                self.buffered.append(element)

    def flat_map(self, value: tuple[str, int]) -> Iterator[list[tuple[str, int]]]:
        self.buffered.append(value)
        if len(self.buffered) >= self.threshold:
            yield list(self.buffered)
            self.buffered.clear()

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.checkpointed_state.update(self.buffered)


def buffering(job: JobHarness) -> None:
    pairs = job.add_source("in", Types.TUPLE([Types.STRING(), Types.INT()]), splits=SPLITS)
    job.add_sink("out", pairs.flat_map(BufferingSink(4)).uid("buffer"))


def test_the_buffering_sink_of_flinks_documentation() -> None:
    """At parallelism 2 each instance holds (test1, 2) and (test2, 2), or its half of them after another start."""
    with JobHarness(buffering) as job:
        job.push_all("in", [("test1", 2), ("test2", 2)])
        job.run_epoch()
        checkpoint = job.checkpoint()
        assert job.take("out") == []
    with JobHarness(buffering, parallelism=2, restore=checkpoint) as job:
        for split in range(2):
            job.push_all("in", [(f"more{split}", number) for number in range(3)], split=split)
        job.run_epoch()
        more = [[(f"more{split}", number) for number in range(3)] for split in range(2)]
        assert job.take("out") == [[("test1", 2), *more[0]], [("test2", 2), *more[1]]]


def ledger(job: JobHarness) -> None:
    job.add_sink("out", job.add_source("in", Types.LONG(), splits=SPLITS).flat_map(Ledger()).uid("ledger"))


def behind_a_shuffle(job: JobHarness) -> None:
    numbers = job.add_source("in", Types.LONG(), splits=SPLITS).rebalance()
    job.add_sink("out", numbers.flat_map(Ledger()).uid("ledger"))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("build", [ledger, behind_a_shuffle])
@settings(max_examples=draws(24), deadline=None)
@given(
    starts=st.lists(st.integers(1, SPLITS), min_size=1, max_size=4),
    epochs=st.lists(st.lists(st.lists(st.integers(0, 50), max_size=5), max_size=SPLITS), min_size=4, max_size=4),
)
def test_nothing_is_lost_at_any_parallelism(
    build: Callable[[JobHarness], object], starts: list[int], epochs: list[list[list[int]]]
) -> None:
    held: Checkpoint | None = None
    pushed: Counter[int] = Counter()
    for parallelism, epoch in zip(starts, epochs, strict=False):
        with JobHarness(build, parallelism=parallelism, restore=held) as job:
            for split, numbers in enumerate(epoch):
                job.push_all("in", numbers, split=split)
                pushed.update(numbers)
            job.run_epoch()
            for split in range(SPLITS):
                job.push_all("in", [-1] * SPLITS, split=split)
            job.run_epoch()
            shown = {row[0]: row for row in job.take("out")}
            held = job.checkpoint()
        assert Counter(number for _, added, _, _, _ in shown.values() for number in added) == pushed
        assert Counter(number for _, _, claimed, _, _ in shown.values() for number in claimed) == pushed
        assert len(shown) == parallelism


class Noting(BroadcastProcessFunction, CheckpointedFunction):
    """Has a list of its subtask beside the state that all subtasks have alike."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        numbers = ListStateDescriptor("numbers", Types.LONG())
        self.numbers = context.get_operator_state_store().get_list_state(numbers)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Everything is in state already."""

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        if value < 0:
            yield self.numbers.get(), dict(ctx.get_broadcast_state(RULES).items())
        else:
            self.numbers.add(value)

    def process_broadcast_element(self, value: int, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(str(value), value)


@pytest.mark.parametrize("now", [2, 3])
def test_lists_beside_broadcast_state(now: int) -> None:
    def build(job: JobHarness) -> None:
        numbers, rules = job.add_source("in", Types.LONG(), splits=SPLITS), job.add_source("rules", Types.LONG())
        job.add_sink("out", numbers.connect(rules.broadcast(RULES)).process(Noting()).uid("noting"))

    with JobHarness(build, parallelism=3) as job:
        job.push("rules", 7)
        for epoch in range(3):
            for split in range(SPLITS):
                first = 10 * epoch + split
                job.push_all("in", range(first, 10 * epoch + 10, SPLITS), split=split)
            job.run_epoch()
        held = job.checkpoint()
    with JobHarness(build, parallelism=now, restore=held) as job:
        for split in range(SPLITS):
            job.push_all("in", [-1] * SPLITS, split=split)
        job.run_epoch()
        shown = {tuple(numbers): rules for numbers, rules in job.take("out")}
    assert sorted(number for numbers in shown for number in numbers) == list(range(30))
    assert list(shown.values()) == [{"7": 7}] * now


def test_what_an_instance_is_told() -> None:
    told = []
    held: Checkpoint | None = None
    for _ in range(2):
        with JobHarness(ledger, restore=held) as job:
            for _ in range(2):
                job.push("in", -1)
                job.run_epoch()
            told += [row[-1] for row in job.take("out")]
            held = job.checkpoint()
    assert told == [(False, False), (True, False), (True, True), (True, False)]
