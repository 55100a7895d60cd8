"""Both window operators against the model of Flink's rules, however the input is cut."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from window_harness import INPUT, Driver
from window_model import MAX, MIN, Model, Record

from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import Types
from headrace.common.types import Row
from headrace.datastream import aggregates as agg
from headrace.operators.window.columnar.accumulators import ColumnarWindowLayout
from headrace.operators.window.columnar.columnar_operator import columnar_window
from headrace.operators.window.columnar.time_windows import AlignedWindowOperator
from headrace.operators.window.general.ordered_operator import window_operator
from headrace.operators.window.general.window_operator import CalledWindows, FunctionWindowOperator
from headrace.state.keys import KeyCodec
from headrace.state.keys.hashing import hash_array
from headrace.windowing.assigners import SlidingEventTimeWindows
from headrace.windowing.definition import WindowDefinition, WindowFunctions
from headrace.windowing.intervals import AlignedWindows
from headrace.windowing.triggers import EventTimeTrigger
from tests.draws import draws

CODEC = KeyCodec.for_type(Types.LONG())
KEYS = [0, 1, 2, -7]
COLUMNAR = ColumnarWindowLayout.of(
    INPUT,
    CODEC,
    [
        agg.count(),
        agg.count("value"),
        agg.sum("value"),
        agg.min("value"),
        agg.max("value"),
        agg.first("value"),
        agg.last("value"),
        agg.collect_list("value"),
    ],
    ["key"],
)
RESULT = COLUMNAR.output_type


def ranks() -> dict[Any, int]:
    hashes = hash_array(pa.array(KEYS))
    return {key: int(h) for key, h in zip(KEYS, hashes, strict=True)}


class Everything:
    """An aggregate function that computes what the built-in aggregates do."""

    def create_accumulator(self) -> list:
        return []

    def add(self, value: Row, accumulator: list) -> list:
        accumulator.append(value["value"])
        return accumulator

    def get_result(self, accumulator: list) -> list:
        return accumulator


class Describe:
    """A window function over all elements, or over what :class:`Everything` made of them."""

    def apply(self, key: int, window: Any, elements: Any) -> list[Row]:
        elements = list(elements)
        values = elements[0] if isinstance(elements[0], list) else [row["value"] for row in elements]
        return [described(key, window.start, window.end, values)]


def described(key: int, start: int, end: int, values: Any) -> Row:
    present = [value for value in values if value is not None]
    first, last = (present[0], present[-1]) if present else (None, None)
    found = [
        len(values),
        len(present),
        math.fsum(present) if present else None,
        min(present, default=None),
        max(present, default=None),
        first,
        last,
        present or None,
    ]
    names = [a.name for a in COLUMNAR.aggregates]
    return Row(key=key, window_start=start, window_end=end, **dict(zip(names, found, strict=True)))


def columnar(windows: AlignedWindows, lateness: int, tag: str | None) -> AlignedWindowOperator:
    return columnar_window(COLUMNAR, windows, lateness, tag)


def assigner_of(windows: AlignedWindows) -> SlidingEventTimeWindows:
    return SlidingEventTimeWindows(windows.size, windows.slide, windows.offset)


def by_row(windows: AlignedWindows, lateness: int, tag: str | None, **functions: Any) -> FunctionWindowOperator:
    late_tag = None if tag is None else OutputTag(tag)
    definition = WindowDefinition(assigner_of(windows), EventTimeTrigger(), None, lateness, late_tag)
    called = WindowFunctions(window_function=Describe(), **functions)
    return window_operator(CalledWindows(definition, called, INPUT, RESULT, {"late": INPUT}))


def row_apply(windows: AlignedWindows, lateness: int, tag: str | None) -> FunctionWindowOperator:
    return by_row(windows, lateness, tag)


def row_fold(windows: AlignedWindows, lateness: int, tag: str | None) -> FunctionWindowOperator:
    accumulators = Types.LIST(Types.DOUBLE())
    return by_row(windows, lateness, tag, aggregate_function=Everything(), accumulator_type=accumulators)


@st.composite
def scenarios(draw: st.DrawFn) -> tuple[AlignedWindows, int, list[Record], list[int], list[int]]:
    size = draw(st.integers(1, 12))
    slide = draw(st.one_of(st.just(size), st.integers(1, 15)))
    offset = draw(st.integers(-slide + 1, slide - 1))
    lateness = draw(st.sampled_from([0, 0, 1, 5, 30, MAX]))
    count = draw(st.integers(0, 25))
    values = st.one_of(st.none(), st.sampled_from([0.1, -2.5, 1e16, 3.0, 1e-9]))
    records, watermark = [], MIN
    for _ in range(count):
        if draw(st.booleans()):
            watermark = max(watermark, draw(st.integers(-40, 60)))
        records.append(Record(draw(st.sampled_from(KEYS)), draw(values), draw(st.integers(-40, 60)), watermark))
    cuts = draw(st.lists(st.integers(0, max(count, 1)), max_size=6).map(sorted))
    kinds = draw(st.lists(st.integers(0, 1), min_size=len(cuts), max_size=len(cuts)))
    return AlignedWindows(size, slide, offset), lateness, records, cuts, kinds


def drive(driver: Driver, records: list[Record], cuts: list[int], kinds: list[int]) -> None:
    """Cuts the records into batches, and where the kind of a cut is 1 into epochs; then the input ends."""
    epoch: list[list[Record]] = []
    start = 0
    for cut, kind in [*zip(cuts, kinds, strict=True), (len(records), 1)]:
        epoch.append(records[start:cut])
        start = cut
        if kind:
            driver.run(epoch)
            epoch = []
    driver.run([], upto=MAX)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("make", [columnar, row_apply, row_fold])
@pytest.mark.parametrize("tag", [None, "late"])
@settings(max_examples=draws(60), deadline=None)
@given(scenario=scenarios())
def test_operator_equals_model(make: Any, tag: str | None, scenario: Any) -> None:
    windows, lateness, records, cuts, kinds = scenario
    model = Model(windows.size, windows.slide, windows.offset, lateness, ranks())
    for record in records:
        model.process(record)
    model.advance(MAX)
    driver = Driver(lambda: make(windows, lateness, tag))
    drive(driver, records, cuts, kinds)
    expected = [
        (f.watermark, f.end - 1, *described(f.key, f.end - windows.size, f.end, f.values)) for f in model.firings
    ]
    assert driver.out.rows == expected
    late = [(r.watermark, r.timestamp, r.key, r.value) for r in model.late]
    if tag:
        assert driver.out.side(tag) == late
    else:
        assert driver.counters.get("numLateRecordsDropped", 0) == len(late)
    assert not any(run.rows for run in driver.state.store("windows").runs)
