"""The window operator for every assigner, trigger and evictor is as Flink's rules, written as a plain program, say."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from window_harness import Driver
from window_model import Record

from headrace.common.constants import MAX_WATERMARK
from headrace.common.typeinfo import Types
from headrace.common.types import Row
from headrace.datastream import AggregateFunction, ProcessWindowFunction
from headrace.operators.window.general.ordered_operator import window_operator
from headrace.operators.window.general.window_operator import CalledWindows
from headrace.state.keys.hashing import hash_array
from headrace.windowing.definition import WindowFunctions
from tests.draws import draws
from tests.windowing.model import Fired, WindowModel
from tests.windowing.scenarios import FIRST_CLOCK, KEYS, Epoch, Windows, inputs, windows

ELEMENT = Types.ROW_NAMED(["key", "value"], [Types.LONG(), Types.LONG()])
ANY = Types.PICKLED_BYTE_ARRAY()
RANKS = dict(zip(KEYS, map(int, hash_array(pa.array(KEYS))), strict=True))


class Show(ProcessWindowFunction):
    """Emits what it sees, and at the end which window has gone."""

    cleared: list[Any]

    def process(self, key: int, context: Any, elements: Iterable[Any]) -> Any:
        yield key, context.window(), list(elements)

    def clear(self, context: Any) -> None:
        self.cleared.append(context.window())


class Values(AggregateFunction):
    """The values, in a list that is changed in place."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: Row, accumulator: list[int]) -> list[int]:
        accumulator.append(value["value"])
        return accumulator

    def get_result(self, accumulator: list[int]) -> list[int]:
        return list(accumulator)

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return acc_a + acc_b


def listed(values: list[int]) -> list[Any]:
    return values


def aggregated(values: list[int]) -> list[Any]:
    return [values]


def summed(a: Row, b: Row) -> Row:
    return Row(key=a["key"], value=a["value"] + b["value"])


def reduced(values: list[int]) -> list[Any]:
    """The sum; nothing of no elements, for which the function is not called."""
    return [sum(values)] if values else []


def driver(given: Windows, shown: Show, **functions: Any) -> Driver:
    called = WindowFunctions(window_function=shown, **functions)
    make = partial(window_operator, CalledWindows(given.definition("late"), called, ELEMENT, ANY, {"late": ELEMENT}))
    return Driver(make, type=ELEMENT)


def run_driver(run: Driver, epochs: list[Epoch]) -> None:
    for epoch in epochs:
        run.epoch = epoch.clock - FIRST_CLOCK
        batches = [[Record(e.key, e.value, e.timestamp, e.watermark) for e in batch] for batch in epoch.batches]
        run.run(batches, upto=epoch.watermark)


def run_model(model: WindowModel, epochs: list[Epoch]) -> None:
    for epoch in epochs:
        model.advance_processing_time(epoch.clock)
        for element in (element for batch in epoch.batches for element in batch):
            model.advance_watermark(element.watermark)
            model.element(element.key, Row(key=element.key, value=element.value), element.timestamp)
        model.advance_watermark(epoch.watermark)


def expected(fired: Fired, contents: Any) -> tuple[Any, ...]:
    values = [row["value"] for row in fired.values]
    return (fired.stamp, fired.window.max_timestamp(), fired.key, fired.window, contents(values))


def shown(row: tuple[Any, ...]) -> tuple[Any, ...]:
    stamp, timestamp, key, window, elements = row
    return (stamp, timestamp, key, window, [each["value"] if isinstance(each, Row) else each for each in elements])


FUNCTIONS = pytest.mark.parametrize(
    ("functions", "contents"),
    [({}, listed), ({"aggregate_function": Values()}, aggregated), ({"reduce_function": summed}, reduced)],
    ids=["listed", "aggregated", "reduced"],
)


@pytest.mark.sampled(1)
@FUNCTIONS
@settings(max_examples=draws(30), deadline=None)
@given(given=windows(), epochs=inputs())
def test_operator_equals_model(functions: Any, contents: Any, given: Windows, epochs: list[Epoch]) -> None:
    model = given.model(rank=RANKS.__getitem__)
    run_model(model, epochs)
    function = Show()
    function.cleared = []
    run = driver(given, function, **functions)
    run_driver(run, epochs)
    fired = [each for each in model.fired if each.values or contents is not reduced]
    assert [shown(row) for row in run.out.rows] == [expected(each, contents) for each in fired]
    assert [row[-1] for row in run.out.side("late")] == [row["value"] for row in model.late]
    assert function.cleared == [window for _, window in model.cleared]


@pytest.mark.sampled(1)
@FUNCTIONS
@settings(max_examples=draws(20), deadline=None)
@given(given=windows(), epochs=inputs())
def test_what_windows_hold_between_epochs_is_that_of_the_model(
    functions: Any, contents: Any, given: Windows, epochs: list[Epoch]
) -> None:
    model, function = given.model(rank=RANKS.__getitem__), Show()
    function.cleared = []
    run = driver(given, function, **functions)
    folded = listed if given.evictor is not None else contents
    for epoch in epochs:
        run_model(model, [epoch])
        run_driver(run, [epoch])
        found = [(*held[:2], shown((0, 0, *held))[-1]) for held in run.held()]
        wanted = [(key, window, folded([row["value"] for row in rows])) for key, window, rows in model.held]
        if epoch.watermark == MAX_WATERMARK:  # what Flink keeps beyond the end of time is let go
            break
        assert sorted(found, key=repr) == sorted(wanted, key=repr)
