"""Gates: an operator's event time is that of the slowest of its inputs that are not idle."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.common.batch import Batch
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.typeinfo import Types
from headrace.operators.base import Operator
from headrace.plan.job_plan import PlannedEdge
from headrace.runtime.task.inputs import EXCHANGE, Inputs, Siblings
from headrace.runtime.task.wiring import Fanout, Gate


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
def gate() -> Gate:
    return Gate(Recorder())


def told(gate: Gate) -> list[Any]:
    assert isinstance(gate.operator, Recorder)
    found, gate.operator.told = gate.operator.told, []
    return found


def test_one_input_passes(gate: Gate) -> None:
    gate.begin({7: 5}, 5)
    gate.accept(7, edge(7), batch(("a", 5), ("b", 9)))
    gate.advance(7, 20)
    assert told(gate) == [("a", 5), ("b", 9), 20]
    assert (gate.watermark, gate.records) == (20, 2)


def test_the_slower_of_two_counts(gate: Gate) -> None:
    gate.begin({7: 5, EXCHANGE: 8}, 5)
    gate.accept(EXCHANGE, edge(1), batch(("a", 10), ("b", 30)))
    gate.advance(7, 20)
    gate.accept(EXCHANGE, edge(1), batch(("c", 40)))
    gate.accept(7, edge(7), batch(("d", 25), ("e", 50)))
    gate.advance(EXCHANGE, 60)
    gate.advance(7, MAX_WATERMARK)
    assert told(gate) == [("a", 5), ("b", 5), 20, ("c", 20), ("d", 25), ("e", 40), 50, 60]


def test_time_never_goes_back(gate: Gate) -> None:
    gate.begin({7: MIN_WATERMARK, 8: 100}, 90)
    gate.accept(7, edge(7), batch(("new", MIN_WATERMARK)))
    gate.accept(8, edge(8), batch(("old", 100)))
    gate.advance(7, 50)
    gate.advance(7, 95)
    assert told(gate) == [("new", 90), ("old", 90), 90, 95]


def test_an_idle_input_has_no_say(gate: Gate) -> None:
    gate.begin({8: 10}, 10)
    gate.accept(7, edge(7), batch(("a timer of an idle input", 3)))
    gate.advance(7, 3)
    gate.accept(8, edge(8), batch(("b", 12)))
    gate.advance(8, 30)
    gate.advance(7, 3)
    assert told(gate) == [("a timer of an idle input", 10), 10, ("b", 12), 30, 30]


def test_branches_of_several_origins_go_by_what_all_had_reached_before_the_round() -> None:
    gate = Gate(Recorder(), Inputs({7: "fast", 8: "slow"}))
    gate.begin({7: 1, 8: 0}, 0)
    for _ in range(2):
        gate.inputs.begin_round()
        gate.accept(8, edge(8), batch(("slow", 5), ("slow", 50)))
        gate.accept(7, edge(7), batch(("late in the fast one", 99), ("fast", 200)))
    gate.advance(8, 60)
    gate.advance(7, 300)
    assert told(gate) == [
        *[("slow", 0), ("slow", 0), ("late in the fast one", 0), ("fast", 0)],
        *[("slow", 5), ("slow", 50), ("late in the fast one", 50), ("fast", 50)],
        *[60, 60],
    ]


def test_edges_into_one_operator_behind_a_shuffle_hold_one_another_back() -> None:
    siblings = Siblings({1: 10, 2: 10, 3: 11}, {1: "fast", 2: "fast", 3: "slow"})
    siblings.begin({10: 4, 11: 0})

    def stamps(number: int, *watermarks: int) -> list[int]:
        held = siblings.hold_back(number, batch(*(("", watermark) for watermark in watermarks)))
        return held.watermarks.tolist()

    siblings.inputs.begin_round()
    assert stamps(3, 1, 9) == [1, 4]
    assert stamps(1, 7, 99) == [0, 0], "not what the sibling has reached in this round"
    siblings.inputs.begin_round()
    assert stamps(3, 20, 120) == [20, 99]
    assert stamps(2, 100, 101) == [9, 9]
    siblings.begin({10: 500})
    assert stamps(1, 501) == [501], "the other branch gets nothing of this split"


class Target:
    def __init__(self) -> None:
        self.told: list[Any] = []

    def accept(self, batch: Batch) -> None:
        self.told.extend(batch.rows)

    def advance(self, watermark: int) -> None:
        self.told.append(watermark)


def test_a_fanout_copies() -> None:
    fanout, main, twice, side = Fanout(), Target(), Target(), Target()
    fanout.add(None, main)
    fanout.add(None, twice)
    fanout.add("side", side)
    fanout.emit(batch(("a", 1)))
    fanout.emit_side("side", batch(("b", 1)))
    fanout.emit_side("nobody reads this", batch(("c", 1)))
    fanout.emit(batch())
    fanout.advance_watermark(9)
    assert [main.told, twice.told, side.told] == [["a", 9], ["a", 9], ["b", 9]]
    assert list(fanout.side_outputs()) == ["side"]
