"""Windows that are shown at intervals before they end: in columns as record by record, however the input is cut."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_aggregating_operator import ELEMENT, MANY, layouts
from test_any_window_against_model import run_driver
from window_harness import Driver

from headrace.common.constants import MAX_WATERMARK
from headrace.operators.window.columnar.continuous.continuous_window import (
    ContinuousClockOperator,
    ContinuousEventTimeOperator,
)
from headrace.operators.window.columnar.continuous.early_windows import EarlyWindowLayout
from headrace.operators.window.general.aggregating_operator import AggregatingWindowOperator
from headrace.operators.window.general.layout import GeneralWindowLayout
from headrace.windowing.accumulation_mode import AccumulationMode
from headrace.windowing.assigners.cumulating import CumulatingEventTimeWindows
from headrace.windowing.assigners.sliding import SlidingEventTimeWindows, SlidingProcessingTimeWindows
from headrace.windowing.assigners.tumbling import TumblingEventTimeWindows, TumblingProcessingTimeWindows
from headrace.windowing.triggers.continuous import ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger
from headrace.windowing.triggers.purging import PurgingTrigger
from tests.windowing.scenarios import Epoch, Windows, inputs

EVENT_WINDOWS = st.one_of(
    st.builds(TumblingEventTimeWindows.of, st.integers(1, 30), st.just(0)),
    st.builds(SlidingEventTimeWindows.of, st.integers(1, 20), st.integers(1, 9)),
    st.builds(
        lambda step, steps: CumulatingEventTimeWindows.of(step * steps, step), st.integers(1, 6), st.integers(1, 4)
    ),
)
CLOCK_WINDOWS = st.one_of(
    st.builds(TumblingProcessingTimeWindows.of, st.integers(1, 30), st.just(0)),
    st.builds(SlidingProcessingTimeWindows.of, st.integers(1, 20), st.integers(1, 9)),
)


def told(run: Driver) -> list[Any]:
    """Results: kind, watermark, timestamp and row."""
    return [
        (str(row.get_row_kind()), watermark, timestamp, tuple(row))
        for batch in run.out.batches
        for watermark, timestamp, row in zip(
            batch.watermarks.tolist(), batch.timestamps.tolist(), batch.rows, strict=True
        )
    ]


def by_records(windows: Windows, mode: AccumulationMode, tag: str | None) -> Driver:
    parts, columns = layouts(windows, MANY, tag)
    trigger = PurgingTrigger.of(parts.trigger) if mode is AccumulationMode.DISCARDING else parts.trigger
    fields = {name: getattr(parts, name) for name in GeneralWindowLayout.__dataclass_fields__}
    layout = GeneralWindowLayout(**fields | {"trigger": trigger, "takes_results_back": mode.retracts})
    return Driver(partial(AggregatingWindowOperator, layout, columns), type=ELEMENT)


def by_columns(windows: Windows, mode: AccumulationMode, tag: str | None) -> Driver:
    _, columns = layouts(windows, MANY, tag)
    regular, trigger = windows.assigner.regular, windows.trigger
    layout = EarlyWindowLayout(columns, regular, trigger.interval, windows.lateness, tag, mode)  # type: ignore
    if isinstance(trigger, ContinuousEventTimeTrigger):
        return Driver(partial(ContinuousEventTimeOperator, layout), type=ELEMENT)
    is_event_time = windows.assigner.is_event_time()
    return Driver(partial(ContinuousClockOperator, layout, is_event_time=is_event_time), type=ELEMENT)


def check(windows: Windows, mode: AccumulationMode, tag: str | None, epochs: list[Epoch]) -> None:
    one_by_one, columnar = by_records(windows, mode, tag), by_columns(windows, mode, tag)
    for epoch in epochs:
        for run in (one_by_one, columnar):
            run_driver(run, [epoch])
        assert sorted(map(repr, columnar.held())) == sorted(map(repr, one_by_one.held()))
    assert told(columnar) == told(one_by_one)
    assert columnar.counters == one_by_one.counters
    if tag:
        assert columnar.out.side(tag) == one_by_one.out.side(tag)


MODES = pytest.mark.parametrize("mode", AccumulationMode)
LATENESS = st.sampled_from([0, 0, 1, 5, 30, MAX_WATERMARK])


@MODES
@settings(max_examples=40, deadline=None)
@given(
    assigner=EVENT_WINDOWS,
    interval=st.integers(1, 12),
    lateness=LATENESS,
    tag=st.sampled_from([None, "late"]),
    epochs=inputs(),
)
def test_event_time(
    mode: AccumulationMode, assigner: Any, interval: int, lateness: int, tag: str | None, epochs: list[Epoch]
) -> None:
    check(Windows(assigner, ContinuousEventTimeTrigger.of(interval), None, lateness), mode, tag, epochs)


@MODES
@settings(max_examples=40, deadline=None)
@given(assigner=CLOCK_WINDOWS, interval=st.integers(1, 12), epochs=inputs())
def test_windows_of_the_clock(mode: AccumulationMode, assigner: Any, interval: int, epochs: list[Epoch]) -> None:
    check(Windows(assigner, ContinuousProcessingTimeTrigger.of(interval), None, 0), mode, None, epochs)


@MODES
@settings(max_examples=40, deadline=None)
@given(assigner=EVENT_WINDOWS, interval=st.integers(1, 12), lateness=LATENESS, epochs=inputs())
def test_windows_of_event_time_by_the_clock(
    mode: AccumulationMode, assigner: Any, interval: int, lateness: int, epochs: list[Epoch]
) -> None:
    near = [replace(epoch, clock=epoch.clock - 1010) for epoch in epochs]
    for given_epochs in (epochs, near):
        check(
            Windows(assigner, ContinuousProcessingTimeTrigger.of(interval), None, lateness), mode, "late", given_epochs
        )
