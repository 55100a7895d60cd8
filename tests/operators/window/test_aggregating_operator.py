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
from headrace.operators.window.aggregating_operator import AggregatingWindowOperator
from headrace.operators.window.layout import WindowLayout
from headrace.operators.window.paned import columnar_window
from headrace.operators.window.window_layout import WindowOperatorLayout
from headrace.state.keys import KeyCodec
from headrace.windowing.assigners.cumulating import CumulatingEventTimeWindows
from headrace.windowing.assigners.global_windows import GlobalWindows
from headrace.windowing.assigners.sliding import SlidingEventTimeWindows
from headrace.windowing.assigners.tumbling import TumblingEventTimeWindows
from headrace.windowing.serializers import window_serializer
from headrace.windowing.triggers.count import CountTrigger
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


def layouts(given: Windows, aggregates: list[Any], tag: str | None) -> tuple[WindowOperatorLayout, WindowLayout]:
    names = window_serializer(given.assigner.get_window_serializer()).names
    columns = WindowLayout.of(ELEMENT, CODEC, aggregates, ["key"], window_names=names)
    parts = WindowOperatorLayout(
        assigner=given.assigner,
        trigger=given.trigger or given.assigner.get_default_trigger(None),
        evictor=given.evictor,
        input_type=ELEMENT,
        output_type=columns.output_type,
        lateness=given.lateness,
        late_tag=tag,
        side_types={} if tag is None else {tag: ELEMENT},
    )
    return parts, columns


def driver(given: Windows, aggregates: list[Any] = AGGREGATES, tag: str | None = LATE) -> Driver:
    return Driver(partial(AggregatingWindowOperator, *layouts(given, aggregates, tag)), type=ELEMENT)


def expected(fired: Fired, serializer: Any) -> tuple[Any, ...]:
    values = [row["value"] for row in fired.values]
    window = serializer.values_of(fired.window)
    return (fired.stamp, fired.window.max_timestamp(), fired.key, *window, values, sum(values), values[-1])


@settings(max_examples=60, deadline=None)
@given(given=windows(), epochs=inputs())
def test_results_are_those_of_the_model(given: Windows, epochs: list[Epoch]) -> None:
    model = given.model(rank=RANKS.__getitem__)
    run_model(model, epochs)
    run = driver(given)
    run_driver(run, epochs)
    serializer = window_serializer(given.assigner.get_window_serializer())
    # What an evictor has left nothing of shows nothing: there is no record to take a key from.
    assert run.out.rows == [expected(fired, serializer) for fired in model.fired if fired.values]
    assert [row[-1] for row in run.out.side(LATE)] == [row["value"] for row in model.late]


COLUMNAR = st.one_of(
    st.builds(TumblingEventTimeWindows.of, st.integers(1, 12)),
    st.builds(SlidingEventTimeWindows.of, st.integers(1, 12), st.integers(1, 5)),
    st.builds(
        lambda step, steps: CumulatingEventTimeWindows.of(step * steps, step), st.integers(1, 4), st.integers(1, 4)
    ),
)


@pytest.mark.parametrize("tag", [None, LATE])
@settings(max_examples=25, deadline=None)
@given(assigner=COLUMNAR, lateness=st.sampled_from([0, 0, 1, 5, 30]), epochs=inputs())
def test_columns_give_what_records_give(tag: str | None, assigner: Any, lateness: int, epochs: list[Epoch]) -> None:
    one_by_one = driver(Windows(assigner, None, None, lateness), MANY, tag)
    _, columns = layouts(Windows(assigner, None, None, lateness), MANY, tag)
    by_columns = Driver(lambda: columnar_window(columns, assigner.regular, lateness, tag), type=ELEMENT)
    for run in (one_by_one, by_columns):
        run_driver(run, epochs)
    assert one_by_one.out.rows == by_columns.out.rows
    assert one_by_one.counters == by_columns.counters
    if tag:
        assert one_by_one.out.side(tag) == by_columns.out.side(tag)


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
    with pytest.raises(StateMigrationError, match="window-contents"):
        run.run([[Record(1, 1, 1)]])


def test_a_sum_beyond_64_bits_is_an_error_when_it_is_shown() -> None:
    run = driver(Windows(GlobalWindows.create(), CountTrigger.of(2), None, 0))
    run.run([[Record(1, 2**62, 1)]])
    with pytest.raises(Exception, match="sum"):
        run.run([[Record(1, 2**62, 1)]])
