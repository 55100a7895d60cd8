"""Built-in aggregates in the operator that asks triggers element by element: as the model has it, and as columns do."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_any_window_against_model import ELEMENT, RANKS, run_driver, run_model
from window_harness import Driver
from window_model import Record

from headrace.common.errors import StateMigrationError
from headrace.common.typeinfo import Types
from headrace.datastream import aggregates as agg
from headrace.expressions import col
from headrace.operators.window.columnar.accumulators import ColumnarWindowLayout
from headrace.operators.window.columnar.columnar_operator import columnar_window
from headrace.operators.window.columnar.time_windows import UntimedWindowOperator
from headrace.operators.window.general.aggregating_operator import AggregatingWindowOperator
from headrace.state.keys import KeyCodec
from headrace.testing import JobHarness
from headrace.windowing.assigners import (
    CumulatingEventTimeWindows,
    MergingWindowAssigner,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from headrace.windowing.count_assigners import GlobalWindows
from headrace.windowing.definition import AccumulationMode
from headrace.windowing.intervals import AlignedWindows
from headrace.windowing.triggers import CountTrigger
from headrace.windowing.windows import window_serializer
from tests.draws import draws
from tests.windowing.model import Fired
from tests.windowing.scenarios import Epoch, Windows, inputs, windows

CODEC = KeyCodec.for_type(Types.LONG())
LATE = "late"
AGGREGATES = [agg.collect_list("value").alias("all"), agg.sum("value").alias("total"), agg.last("value").alias("last")]
MANY = [
    *AGGREGATES,
    agg.count(),
    agg.first("value"),
    agg.min("value"),
    agg.avg((col("value") * 2).alias("doubled")),
    agg.stddev_samp("value"),
    agg.count_distinct("value"),
    agg.collect_set("value"),
]


def layout(given: Windows, aggregates: list[Any]) -> ColumnarWindowLayout:
    names = window_serializer(given.assigner.get_window_serializer()).names
    return ColumnarWindowLayout.of(ELEMENT, CODEC, aggregates, ["key"], window_names=names)


def driver(
    given: Windows,
    aggregates: list[Any] = AGGREGATES,
    tag: str | None = LATE,
    mode: AccumulationMode = AccumulationMode.ACCUMULATING,
) -> Driver:
    side_types = {} if tag is None else {tag: ELEMENT}
    columns = layout(given, aggregates)
    make = partial(AggregatingWindowOperator, given.definition(tag, mode), ELEMENT, columns, side_types)
    return Driver(make, type=ELEMENT)


def expected(fired: Fired, serializer: Any) -> tuple[Any, ...]:
    values = [row["value"] for row in fired.values]
    window = serializer.values_of(fired.window)
    return (fired.stamp, fired.window.max_timestamp(), fired.key, *window, values, sum(values), values[-1])


def unordered(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A result without what depends on the order of records."""
    *window, values, total, _ = row
    return (*window, sorted(values), total)


@settings(max_examples=draws(20), deadline=None)
@given(given=windows(), epochs=inputs())
def test_results_are_those_of_the_model(given: Windows, epochs: list[Epoch]) -> None:
    model = given.model(rank=RANKS.__getitem__)
    run_model(model, epochs)
    run = driver(given)
    run_driver(run, epochs)
    serializer = window_serializer(given.assigner.get_window_serializer())
    # Where windows merge, lists of the model are in the order of merging, and those of aggregates in that of arrival.
    shown = unordered if isinstance(given.assigner, MergingWindowAssigner) else tuple
    # What an evictor has left nothing of shows nothing: there is no record to take a key from.
    wanted = [expected(fired, serializer) for fired in model.fired if fired.values]
    assert list(map(shown, run.out.rows)) == list(map(shown, wanted))
    assert [row[-1] for row in run.out.side(LATE)] == [row["value"] for row in model.late]


COLUMNAR = st.one_of(
    st.builds(TumblingEventTimeWindows.of, st.integers(1, 12)),
    st.builds(SlidingEventTimeWindows.of, st.integers(1, 12), st.integers(1, 5)),
    st.builds(
        lambda step, steps: CumulatingEventTimeWindows.of(step * steps, step), st.integers(1, 4), st.integers(1, 4)
    ),
)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("tag", [None, LATE])
@settings(max_examples=draws(45), deadline=None)
@given(assigner=COLUMNAR, lateness=st.sampled_from([0, 0, 1, 5, 30]), epochs=inputs())
def test_columns_give_what_records_give(tag: str | None, assigner: Any, lateness: int, epochs: list[Epoch]) -> None:
    one_by_one = driver(Windows(assigner, None, None, lateness), MANY, tag)
    columns = layout(Windows(assigner, None, None, lateness), MANY)
    by_columns = Driver(lambda: columnar_window(columns, assigner.regular, lateness, tag), type=ELEMENT)
    for run in (one_by_one, by_columns):
        run_driver(run, epochs)
    assert one_by_one.out.rows == by_columns.out.rows
    assert one_by_one.counters == by_columns.counters
    if tag:
        assert one_by_one.out.side(tag) == by_columns.out.side(tag)


UNTIMED = st.one_of(
    st.builds(TumblingProcessingTimeWindows.of, st.integers(1, 12), st.just(0)),
    st.builds(SlidingProcessingTimeWindows.of, st.integers(1, 12), st.integers(1, 15)),
    st.just(GlobalWindows.create_with_end_of_stream_trigger()),
)


@settings(max_examples=draws(20), deadline=None)
@given(assigner=UNTIMED, epochs=inputs())
def test_columns_without_times_give_what_records_give(assigner: Any, epochs: list[Epoch]) -> None:
    given = Windows(assigner, None, None, 0)
    one_by_one, columns = driver(given), layout(given, AGGREGATES)
    by_columns = Driver(lambda: UntimedWindowOperator(columns, assigner.regular), type=ELEMENT)
    for run in (one_by_one, by_columns):
        run_driver(run, epochs)
    assert one_by_one.out.rows == by_columns.out.rows


def test_windows_of_the_clock_wake_the_job_up() -> None:
    windows = AlignedWindows(10, 5)
    columns = layout(Windows(SlidingProcessingTimeWindows.of(10, 5), None, None, 0), AGGREGATES)
    run = Driver(lambda: UntimedWindowOperator(columns, windows), type=ELEMENT)
    wanted = []
    for clock, records in ((3, [Record(1, 7, 0)]), (4, []), (9, [Record(2, 8, 0)]), (20, []), (21, [])):
        run.epoch = clock  # after 1000
        run.run([records])
        assert run.operator is not None
        wanted.append(run.operator.wake_up_time())
    assert wanted == [1004, 1009, 1009, None, None]
    assert [row[2:5] for row in run.out.rows] == [(1, 995, 1005), (1, 1000, 1010), (2, 1000, 1010), (2, 1005, 1015)]


def test_no_record_needs_a_timestamp() -> None:
    def job(harness: JobHarness) -> None:
        records = harness.add_source("records", ELEMENT)
        tens = records.key_by("key").window(TumblingProcessingTimeWindows.of(10))
        harness.add_sink("by the clock", tens.aggregate(agg.count(), agg.sum("value").alias("total")))
        at_end = records.window_all(GlobalWindows.create_with_end_of_stream_trigger())
        harness.add_sink("at the end", at_end.aggregate(agg.count(), agg.sum("value").alias("total")))

    with JobHarness(job, parallelism=2, processing_time=0) as harness:
        for value in range(6):
            harness.push("records", (value % 2, value))
        harness.run_epoch()
        harness.push("records", (1, 100))
        harness.advance_processing_time(9)
        harness.run_epoch()
        by_clock = [(0, 0, 10, 3, 6), (1, 0, 10, 3, 9)]
        assert sorted(map(tuple, harness.results("by the clock"))) == by_clock
        harness.advance_processing_time(1)
        harness.run_epoch()
        assert list(map(tuple, harness.results("by the clock")))[2:] == [(1, 0, 10, 1, 100)]
        harness.finish()
        assert list(map(tuple, harness.results("at the end"))) == [(7, 115)]


def test_cuts_change_nothing() -> None:
    records = [Record(i % 3, i, i, i - 4) for i in range(60)]
    given = Windows(GlobalWindows.create(), CountTrigger.of(4), None, 0)
    whole, apart = driver(given, MANY), driver(given, MANY)
    whole.run([records])
    for start in range(0, 60, 7):
        apart.run([records[start : start + 3], records[start + 3 : start + 7]])
    assert len(whole.out.rows) == 15
    assert whole.out.rows == apart.out.rows


def test_other_aggregates_are_refused() -> None:
    given = Windows(GlobalWindows.create(), CountTrigger.of(4), None, 0)
    run = driver(given)
    run.run([[Record(1, 1, 1)]])
    run.make = driver(given, [agg.min("value")]).make
    with pytest.raises(StateMigrationError, match="what windows hold was stored with another type"):
        run.run([[Record(1, 1, 1)]])


def test_a_sum_beyond_64_bits_is_an_error_when_it_is_shown() -> None:
    run = driver(Windows(GlobalWindows.create(), CountTrigger.of(2), None, 0))
    run.run([[Record(1, 2**62, 1)]])
    with pytest.raises(Exception, match="sum"):
        run.run([[Record(1, 2**62, 1)]])
