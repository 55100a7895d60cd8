"""Valves: an operator's event time is that of the slowest of its inputs that are not idle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace.common.batch import Batch
from headrace.common.call_site import UNKNOWN_CALL_SITE
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.typeinfo import Types
from headrace.operators.base import Operator, OperatorContext
from headrace.plan.job_plan import PlannedEdge
from headrace.runtime.task.outputs import (
    EXCHANGE,
    BroadcastingOutput,
    ChainingOutput,
    ChainMerge,
    Fork,
    WatermarkLog,
    WatermarkValve,
)

CONTEXT = OperatorContext("merging", "merging", 0, 1, 128, UNKNOWN_CALL_SITE)


class Recorder(Operator):
    """Writes down what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Any] = []

    def process(self, input_index: int, batch: Batch) -> None:
        self.told.extend(zip(batch.rows, batch.watermarks.tolist(), strict=True))

    def advance_watermark(self, watermark: int) -> None:
        self.told.append(watermark)


def edge(number: int) -> PlannedEdge:
    return PlannedEdge(number, 0, 1, 0, None, Types.STRING(), None, False, "FORWARD", 1, 1)


def batch(*records: tuple[str, int]) -> Batch:
    return Batch.of_rows(Types.STRING(), [row for row, _ in records], [0] * len(records), [w for _, w in records])


@pytest.fixture
def valve() -> WatermarkValve:
    return WatermarkValve(Recorder())


def told(valve: WatermarkValve) -> list[Any]:
    assert isinstance(valve.operator, Recorder)
    found, valve.operator.told = valve.operator.told, []
    return found


def test_one_input_passes(valve: WatermarkValve) -> None:
    valve.begin({7: 5}, 5, 5)
    valve.accept(7, edge(7), batch(("a", 5), ("b", 9)))
    valve.advance(7, 20)
    assert told(valve) == [("a", 5), ("b", 9), 20]
    assert (valve.watermark, valve.records) == (20, 2)


def test_the_slower_of_two_counts(valve: WatermarkValve) -> None:
    valve.begin({7: 5, EXCHANGE: 8}, 5, 5)
    valve.accept(EXCHANGE, edge(1), batch(("a", 10), ("b", 30)))
    valve.advance(7, 20)
    valve.accept(EXCHANGE, edge(1), batch(("c", 40)))
    valve.accept(7, edge(7), batch(("d", 25), ("e", 50)))
    valve.advance(EXCHANGE, 60)
    valve.advance(7, MAX_WATERMARK)
    assert told(valve) == [("a", 5), ("b", 5), 20, ("c", 20), ("d", 25), ("e", 40), 50, 60]


def test_event_time_behind_that_of_the_inputs() -> None:
    """It neither falls below where it was, nor is the end of the input put off."""
    valve = WatermarkValve(Recorder(), lag=1)
    valve.begin({7: MIN_WATERMARK}, MIN_WATERMARK, MIN_WATERMARK)
    valve.accept(7, edge(7), batch(("a", MIN_WATERMARK), ("b", MIN_WATERMARK + 1), ("c", 5)))
    valve.advance(7, 9)
    assert (told(valve), valve.watermark) == ([("a", MIN_WATERMARK), ("b", MIN_WATERMARK), ("c", 4), 8], 9)
    valve.begin({7: 9}, 9, 9)  # as a checkpoint has it of a time before there was a lag
    valve.accept(7, edge(7), batch(("d", 9), ("e", 10), ("f", 11), ("g", MAX_WATERMARK)))
    valve.advance(7, MAX_WATERMARK)
    assert told(valve) == [("d", 9), ("e", 9), ("f", 10), ("g", MAX_WATERMARK), MAX_WATERMARK]


def test_time_never_goes_back(valve: WatermarkValve) -> None:
    valve.begin({7: MIN_WATERMARK, 8: 100}, 90, 90)
    valve.accept(7, edge(7), batch(("new", MIN_WATERMARK)))
    valve.accept(8, edge(8), batch(("old", 100)))
    valve.advance(7, 50)
    valve.advance(7, 95)
    assert told(valve) == [("new", 90), ("old", 90), 90, 95]


def test_an_idle_input_has_no_say(valve: WatermarkValve) -> None:
    valve.begin({8: 10}, 10, 10)
    valve.accept(7, edge(7), batch(("a timer of an idle input", 3)))
    valve.advance(7, 3)
    valve.accept(8, edge(8), batch(("b", 12)))
    valve.advance(8, 30)
    valve.advance(7, 3)
    assert told(valve) == [("a timer of an idle input", 10), 10, ("b", 12), 30, 30]


class Branch(ChainingOutput):
    """A branch whose watermarks are the timestamps of its records so far."""

    def __init__(self, valve: WatermarkValve, number: int) -> None:
        super().__init__(valve, edge(number), CONTEXT)
        self.log = WatermarkLog(lambda: self.watermark)
        self.watermark = 0

    def send(self, batch: Batch) -> None:
        stamps = []
        for row in batch.rows:
            stamps.append(self.watermark)
            self.watermark = max(self.watermark, int(row.split(":")[self.edge.id]))
        stamped = batch.with_watermarks(np.array(stamps))
        self.log.add(stamped)
        super().send(stamped)


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_branches_that_merge_go_by_what_all_had_reached_at_each_record(valve: WatermarkValve, size: int) -> None:
    """However the records are cut into batches."""
    output = BroadcastingOutput(CONTEXT)
    branches = [Branch(valve, 0), Branch(valve, 1)]
    merge = ChainMerge(valve, {branch: [branch.log] for branch in branches})
    output.forks[None] = Fork(WatermarkLog(lambda: 0), [branch.log for branch in branches], [merge])
    for branch in branches:
        output.add(None, branch)
    valve.begin({0: 0, 1: 0}, 0, 0)
    records = ["5:1", "9:2", "3:30", "3:30", "20:40", "0:0"]
    for start in range(0, len(records), size):
        output.emit(batch(*((record, 0) for record in records[start : start + size])))
    output.advance_watermark(99)
    met = [0, 1, 2, 9, 9, 20]
    each = [pair for record, watermark in zip(records, met, strict=True) for pair in [(record, watermark)] * 2]
    assert told(valve) == [*each, 40, 99]
    assert valve.records == len(each)


def target(number: int) -> ChainingOutput:
    output = ChainingOutput(WatermarkValve(Recorder()), edge(number), CONTEXT)
    output.valve.begin({number: 0}, 0, 0)
    return output


def test_a_fanout_copies() -> None:
    output = BroadcastingOutput(CONTEXT)
    main, twice, side = targets = [target(number) for number in range(3)]
    output.add(None, main)
    output.add(None, twice)
    output.add("side", side)
    output.emit(batch(("a", 1)))
    output.emit_side("side", batch(("b", 1)))
    output.emit_side("nobody reads this", batch(("c", 1)))
    output.emit(batch())
    output.advance_watermark(9)
    assert [told(each.valve) for each in targets] == [[("a", 1), 9], [("a", 1), 9], [("b", 1), 9]]
