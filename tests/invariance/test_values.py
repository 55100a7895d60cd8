"""What a function sees of values that it keeps does not depend on where epochs end."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.common.errors import UserFunctionError
from headrace.common.typeinfo import TypeInformation, Types
from headrace.datastream.functions import AggregateFunction, KeyedProcessFunction, RuntimeContext
from headrace.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from headrace.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from tests.invariance.driver import WHOLE, Cut, Event, Job, run

TEXT = Types.TUPLE([Types.STRING(), Types.STRING()])
SINGLE = Types.TUPLE([Types.STRING(), Types.FLOAT(), Types.LONG()])
ROW = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.DOUBLE()])
EVENTS = [("a", value, value) for value in range(4)]
CUTS = [WHOLE, Cut(shares=(1,)), Cut(shares=(2, 1))]

VALUES: list[tuple[TypeInformation, Any]] = [
    (Types.FLOAT(), 0.1),
    (Types.DOUBLE(), 0),
    (ROW, (1, 2)),
    (Types.TUPLE([Types.FLOAT()]), [0.1]),
    (Types.LIST(Types.DOUBLE()), (1, 2)),
]


class Keep:
    """As an aggregate function: the last value."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def create_accumulator(self) -> Any:
        return self._value

    def add(self, value: Any, accumulator: Any) -> Any:
        return value

    def get_result(self, accumulator: Any) -> Any:
        return accumulator


class Look(KeyedProcessFunction):
    """Shows what was kept, and keeps the value anew at each second record."""

    def __init__(self, info: TypeInformation, value: Any) -> None:
        self._info, self._value = info, value

    def open(self, runtime_context: RuntimeContext) -> None:
        info = self._info
        self._single = runtime_context.get_state(ValueStateDescriptor("value", info))
        self._list = runtime_context.get_list_state(ListStateDescriptor("list", info))
        self._map = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), info))
        self._reduced = runtime_context.get_reducing_state(ReducingStateDescriptor("reduced", lambda a, b: b, info))
        aggregate = AggregatingStateDescriptor("aggregated", Keep(self._value), info)
        self._aggregated = runtime_context.get_aggregating_state(aggregate)

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        if not value[1] % 2:
            self._single.update(self._value)
            self._list.add(self._value)
            self._map.put("x", self._value)
            self._reduced.add(self._value)
            self._aggregated.add(self._value)
        seen = (self._single.value(), self._list.get(), self._map.items(), self._reduced.get(), self._aggregated.get())
        yield value[0], repr(seen)


class Entries(KeyedProcessFunction):
    """Keeps something under a key of a map, and looks for it."""

    def __init__(self, info: TypeInformation | None, key: Callable[[], Any]) -> None:
        self._info, self._key = info, key

    def open(self, runtime_context: RuntimeContext) -> None:
        self._map = runtime_context.get_map_state(MapStateDescriptor("map", self._info, Types.LONG()))

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        before = self._map.get(self._key()), self._map.contains(self._key())
        self._map.put(self._key(), value[1])
        yield value[0], repr((before, self._map.items()))
        if value[1] == 2:
            self._map.remove(self._key())
            yield value[0], repr(self._map.items())


def outcome(build: Callable[[Job], None], cut: Cut) -> list[Any]:
    return run(build, cut)["out"]


def check(build: Callable[[Job], None]) -> list[Any]:
    whole, *others = (outcome(build, cut) for cut in CUTS)
    for other in others:
        assert other == whole
    return whole


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("info", "value"), VALUES, ids=str)
def test_states(info: TypeInformation, value: Any) -> None:
    def build(job: Job) -> None:
        keyed = job.source("events", [EVENTS], 0).key_by("f0")
        job.sink("out", job.keyed("look", keyed.process(Look(info, value), TEXT)))

    check(build)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("info", "key"),
    [
        (Types.FLOAT(), lambda: 0.1),
        (Types.DOUBLE(), lambda: 1),
        (ROW, lambda: (1, 2)),
        (Types.DOUBLE(), lambda: float("nan")),
        (None, lambda: float("nan")),
        (None, lambda: math.nan),
    ],
)
def test_keys_of_maps(info: TypeInformation | None, key: Callable[[], Any]) -> None:
    def build(job: Job) -> None:
        keyed = job.source("events", [EVENTS], 0).key_by("f0")
        job.sink("out", job.keyed("entries", keyed.process(Entries(info, key), TEXT)))

    (first, _), (second, _), *_ = check(build)
    assert first[1].startswith("((None, False), [(")
    assert second[1].startswith("((0, True), [(")


def test_a_rolling_sum_of_floats_of_32_bits() -> None:
    def build(job: Job) -> None:
        halves = job.source("events", [EVENTS], 0).map(lambda event: (event[0], event[1] / 10, event[2]), SINGLE)
        summed = job.keyed("sum", halves.key_by("f0").sum("f1"))
        job.sink("out", summed.map(lambda row: (row[0], repr(row[1])), TEXT))

    check(build)


class Total(AggregateFunction):
    """Sums in an accumulator of 32 bits."""

    def create_accumulator(self) -> float:
        return 0

    def add(self, value: Event, accumulator: float) -> float:
        return accumulator + value[1] / 10

    def get_result(self, accumulator: float) -> tuple[str, str]:
        return "a", repr(accumulator)

    def merge(self, acc_a: float, acc_b: float) -> float:
        return acc_a + acc_b


def test_a_window_with_an_accumulator_of_32_bits() -> None:
    def build(job: Job) -> None:
        windowed = job.source("events", [EVENTS], 0).key_by("f0").window(TumblingEventTimeWindows.of(10))
        results = windowed.aggregate(Total(), accumulator_type=Types.FLOAT(), output_type=TEXT)
        job.sink("out", job.keyed("total", results))

    check(build)


def larger(held: Any, row: Any) -> Any:
    """Gives the very element that it was given, and changes what it was given before."""
    held["a"] += 100
    return row if row["b"] > held["b"] else held


def test_an_element_of_several_windows_that_a_reduction_gives_back_belongs_to_none_of_them() -> None:
    def rows(event: Event) -> Any:
        return event[1], float(event[2])

    def build(job: Job) -> None:
        keyed = job.source("events", [EVENTS], 0).map(rows, ROW).key_by(lambda row: 0)
        results = job.keyed("windows", keyed.window(SlidingEventTimeWindows.of(4, 1)).reduce(larger))
        job.sink("out", results.map(lambda row: ("a", repr(row)), TEXT))

    assert all(int(record[1].split("=")[1].split(",")[0]) < 100 for record, _ in check(build))


def test_a_wrong_value_is_refused_where_it_is_kept() -> None:
    def build(job: Job) -> None:
        keyed = job.source("events", [EVENTS], 0).key_by("f0")
        job.sink("out", job.keyed("look", keyed.process(Look(Types.LONG(), "x"), TEXT)))

    with pytest.raises(UserFunctionError, match=r"(?s)operator 'KeyedProcess'.*got 'x' \(str\).*record: \('a', 0, 0\)"):
        outcome(build, WHOLE)
