"""Windows of any kind that take back what they have shown before: what is left is what they would have shown last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from test_any_window_against_model import ELEMENT, run_driver
from window_harness import Driver, Record

from headrace.common import Row, RowKind, Time, Types, WatermarkStrategy
from headrace.common.errors import UserFunctionError
from headrace.datastream import OutputTag, ProcessWindowFunction
from headrace.datastream.aggregates import count, sum
from headrace.datastream.window import (
    AccumulationMode,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    Evictor,
    GlobalWindows,
    MergingWindowAssigner,
    TumblingEventTimeWindows,
)
from headrace.operators.window.columnar.accumulators import ColumnarWindowLayout
from headrace.operators.window.general.aggregating_operator import AggregatingWindowOperator
from headrace.operators.window.general.ordered_operator import window_operator
from headrace.operators.window.general.window_operator import CalledWindows
from headrace.state.keys import KeyCodec
from headrace.testing import JobHarness
from headrace.windowing.definition import WindowFunctions
from headrace.windowing.windows import window_serializer
from tests.draws import draws
from tests.windowing.scenarios import Epoch, Windows, inputs, windows

ODD_OR_EVEN = Types.ROW_NAMED(["key", "window", "is_odd", "values"], [int, str, int, list[int]])
TAKEN_BACK = (RowKind.UPDATE_BEFORE, RowKind.DELETE)
RETRACTING = AccumulationMode.ACCUMULATING_AND_RETRACTING


class OddAndEven(ProcessWindowFunction):
    """The odd values of a window, and the even ones: no result, one or two."""

    def process(self, key: int, context: Any, elements: Iterable[Row]) -> Iterator[Row]:
        values = [element["value"] for element in elements]
        for is_odd in (0, 1):
            if chosen := [value for value in values if value % 2 == is_odd]:
                yield Row(key, str(context.window()), is_odd, chosen)


def mode_of(takes_back: bool) -> AccumulationMode:
    return RETRACTING if takes_back else AccumulationMode.ACCUMULATING


def by_function(given: Windows, *, takes_back: bool) -> Driver:
    functions = WindowFunctions(window_function=OddAndEven())
    definition = given.definition(mode=mode_of(takes_back))
    return Driver(
        partial(window_operator, CalledWindows(definition, functions, ELEMENT, ODD_OR_EVEN, {})), type=ELEMENT
    )


def by_aggregates(given: Windows, *, takes_back: bool) -> Driver:
    names = window_serializer(given.assigner.get_window_serializer()).names
    codec = KeyCodec.for_type(Types.LONG())
    columns = ColumnarWindowLayout.of(ELEMENT, codec, [count(), sum("value")], ["key"], window_names=names)
    definition = given.definition(mode=mode_of(takes_back))
    return Driver(partial(AggregatingWindowOperator, definition, ELEMENT, columns, {}), type=ELEMENT)


def results(run: Driver) -> list[tuple[RowKind, tuple[Any, ...]]]:
    rows = [row for batch in run.out.batches for row in batch.rows]
    return [(row.get_row_kind(), shown) for row, shown in zip(rows, run.out.rows, strict=True)]


def left_of(changes: list[tuple[RowKind, tuple[Any, ...]]]) -> Counter[str]:
    """The rows that are left; nothing is taken back that was not there."""
    table: Counter[str] = Counter()
    for kind, (_, _, *row) in changes:
        table[repr(row)] += -1 if kind in TAKEN_BACK else 1
        assert table[repr(row)] >= 0
    return +table


@pytest.mark.sampled(1)
@pytest.mark.parametrize("make", [by_function, by_aggregates])
@settings(max_examples=draws(20), deadline=None)
@given(given=windows(), epochs=inputs())
def test_what_is_left_is_what_windows_show_last(make: Any, given: Windows, epochs: list[Epoch]) -> None:
    plain, changing = make(given, takes_back=False), make(given, takes_back=True)
    for run in (plain, changing):
        run_driver(run, epochs)
    changes = results(changing)
    assert [shown for kind, shown in changes if kind not in TAKEN_BACK] == plain.out.rows
    left = left_of(changes)
    # By the clock a window may be over, and begin anew within its last millisecond.
    is_lasting = given.assigner.is_event_time() and not isinstance(given.assigner, MergingWindowAssigner)
    if make is by_aggregates and is_lasting:
        last = {tuple(row[:-2]): repr(row) for _, _, *row in plain.out.rows}
        assert left == Counter(last.values())


# --- known answers ---------------------------------------------------------------------------------------------------

VISIT = Types.ROW_NAMED(["user", "pages"], [str, int])
NOTES = OutputTag("notes", Types.STRING())


class Summary(ProcessWindowFunction):
    """A row for each window, and a note of it on the side."""

    def process(self, key: str, context: Any, elements: Iterable[Row]) -> Iterator[Any]:
        window = context.window()
        pages = [element.pages for element in elements]
        yield NOTES, f"{key} {pages}"
        yield Row(key, window.start, window.end, pages)


SUMMARY = Types.ROW_NAMED(["user", "start", "end", "pages"], [str, int, int, list[int]])


def changes(build: Any, visits: list[tuple[int, int]], cut: int = 1) -> list[tuple[Any, ...]]:
    """Kind and fields of all results; of visits, each with its time and its pages."""

    def job(harness: JobHarness) -> None:
        times = WatermarkStrategy.for_monotonous_timestamps()
        stream = harness.add_source("visits", VISIT).assign_timestamps_and_watermarks(times)
        harness.add_sink("out", build(stream.key_by("user")))

    with JobHarness(job) as harness:
        for start in range(0, len(visits), cut):
            for time, pages in visits[start : start + cut]:
                harness.push("visits", Row("ann", pages), time)
            harness.run_epoch()
        harness.finish()
        return [(str(row.get_row_kind()), *list(row)[1:]) for row in harness.results("out")]


@pytest.mark.parametrize("cut", [1, 2, 10])
def test_a_session_takes_back_those_that_it_is_made_of(cut: int) -> None:
    def build(keyed: Any) -> Any:
        sessions = keyed.window(EventTimeSessionWindows.with_gap(10)).allowed_lateness(100)
        return sessions.accumulation_mode(RETRACTING).process(Summary(), SUMMARY)

    assert changes(build, [(0, 1), (15, 2), (40, 3), (8, 4)], cut) == [
        ("+I", 0, 10, [1]),
        ("+I", 15, 25, [2]),
        ("-U", 0, 10, [1]),
        ("-D", 15, 25, [2]),
        ("+U", 0, 25, [1, 2, 4]),
        ("+I", 40, 50, [3]),
    ]


@pytest.mark.parametrize("cut", [1, 2, 10])
def test_windows_that_fire_early_take_back_what_they_have_shown(cut: int) -> None:
    def build(keyed: Any) -> Any:
        windows = keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(2)).accumulation_mode(RETRACTING)
        return windows.aggregate(count(), sum("pages"))

    assert changes(build, [(time, time) for time in range(1, 8)], cut) == [
        ("+I", 2, 3),
        ("-U", 2, 3),
        ("+U", 4, 10),
        ("-U", 4, 10),
        ("+U", 6, 21),
    ]


def test_reduced_rows_are_taken_back_over_fixed_windows() -> None:
    def build(keyed: Any) -> Any:
        windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(10))).allowed_lateness(100)
        return windows.accumulation_mode(RETRACTING).reduce(lambda a, b: Row(a.user, a.pages + b.pages))

    assert changes(build, [(0, 1), (15, 2), (3, 4)]) == [("+I", 1), ("-U", 1), ("+U", 5), ("+I", 2)]


class OddNumbers(Evictor):
    """Leaves nothing of an even number of elements."""

    def evict_before(self, elements: list[Any], size: int, window: Any, ctx: Any) -> list[Any]:
        return elements if size % 2 else []

    def evict_after(self, elements: list[Any], size: int, window: Any, ctx: Any) -> list[Any]:
        return elements


class Size(ProcessWindowFunction):
    """How many elements a window holds, if any."""

    def process(self, key: int, context: Any, elements: Iterable[Row]) -> Iterator[Row]:
        if size := len(list(elements)):
            yield Row(key=key, value=size)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "build",
    [
        lambda windows: windows.aggregate(sum("value").alias("value")),
        lambda windows: windows.reduce(lambda a, b: Row(key=a["key"], value=a["value"] + b["value"])),
        lambda windows: windows.process(Size(), ELEMENT),
    ],
    ids=["aggregates", "reduced", "process"],
)
@pytest.mark.parametrize("cut", [1, 4])
def test_what_an_evictor_leaves_nothing_of_is_taken_back(build: Any, cut: int) -> None:
    def job(harness: JobHarness) -> None:
        windows = harness.add_source("numbers", ELEMENT).key_by("key").window(TumblingEventTimeWindows.of(10))
        windows.trigger(CountTrigger.of(1)).evictor(OddNumbers()).accumulation_mode(RETRACTING)
        harness.add_sink("out", build(windows))

    with JobHarness(job) as harness:
        for start in range(0, 4, cut):
            harness.push_all("numbers", [Row(key=1, value=1)] * cut, range(start, start + cut))
            harness.run_epoch()
        harness.finish()
        told = [(str(row.get_row_kind()), row["value"]) for row in harness.results("out")]
    assert told == [("+I", 1), ("-D", 1)] * 2  # what an evictor drops is gone for good


def test_a_result_that_is_a_change_itself_is_told_of_the_function() -> None:
    class Deletes(ProcessWindowFunction):
        def process(self, key: int, context: Any, elements: Iterable[Row]) -> Iterator[Row]:
            yield Row.of_kind(RowKind.DELETE, key, "w", 0, [])

    definition = Windows(TumblingEventTimeWindows.of(10), EventTimeTrigger.create(), None, 0).definition(
        mode=RETRACTING
    )
    functions = WindowFunctions(window_function=Deletes())
    run = Driver(partial(window_operator, CalledWindows(definition, functions, ELEMENT, ODD_OR_EVEN, {})), type=ELEMENT)
    with pytest.raises(
        UserFunctionError, match=r"the result: got .* expected an INSERT row(.|\n)*test_former_results.py"
    ):
        run.run([[Record(1, 1, 1)]], upto=50)
