"""What built-in aggregates show when windows fire again, by the mode of accumulation, against the model."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from test_against_model import COLUMNAR, described, drive, ranks, scenarios
from window_harness import Driver
from window_model import MAX, Model

from headrace.common import Row, RowKind, Types, WatermarkStrategy
from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.datastream.aggregates import count, max, sum
from headrace.datastream.window import (
    AccumulationMode,
    CumulatingEventTimeWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from headrace.operators.window.columnar.columnar_operator import columnar_window
from headrace.testing import JobHarness
from tests.draws import draws

if TYPE_CHECKING:
    from headrace.datastream import DataStream

Told = tuple[RowKind, int, int, Row]
"""A result: its kind, watermark and timestamp, and the row as an insertion."""


def modelled(scenario: Any, *, purges: bool = False) -> list[Told]:
    windows, lateness, records, _, _ = scenario
    model = Model(windows.size, windows.slide, windows.offset, lateness, ranks(), purges=purges)
    for record in records:
        model.process(record)
    model.advance(MAX)
    return [
        (RowKind.INSERT, f.watermark, f.end - 1, described(f.key, f.end - windows.size, f.end, f.values))
        for f in model.firings
    ]


def results(scenario: Any, mode: AccumulationMode) -> list[Told]:
    windows, lateness, records, cuts, kinds = scenario
    driver = Driver(lambda: columnar_window(COLUMNAR, windows, lateness, None, mode))
    drive(driver, records, cuts, kinds)
    assert not any(run.rows for run in driver.state.store("windows").runs)
    return [
        (row.get_row_kind(), watermark, timestamp, insertion(row))
        for batch in driver.out.batches
        for watermark, timestamp, row in zip(
            batch.watermarks.tolist(), batch.timestamps.tolist(), batch.rows, strict=True
        )
    ]


def insertion(row: Row) -> Row:
    return Row(**row.as_dict())


@settings(max_examples=draws(20), deadline=None)
@given(scenario=scenarios())
def test_a_window_that_discards_shows_what_is_new(scenario: Any) -> None:
    assert results(scenario, AccumulationMode.DISCARDING) == modelled(scenario, purges=True)


@settings(max_examples=draws(20), deadline=None)
@given(scenario=scenarios())
def test_a_window_that_retracts_takes_back_what_it_has_shown(scenario: Any) -> None:
    shown: dict[tuple[int, int], Row] = {}
    expected: list[Told] = []
    for _, *stamps, row in modelled(scenario):
        former = shown.get((row.key, row.window_end))
        if former is not None:
            expected.append((RowKind.UPDATE_BEFORE, *stamps, former))
        expected.append((RowKind.INSERT if former is None else RowKind.UPDATE_AFTER, *stamps, row))
        shown[row.key, row.window_end] = row
    assert results(scenario, AccumulationMode.ACCUMULATING_AND_RETRACTING) == expected


@settings(max_examples=draws(30), deadline=None)
@given(scenario=scenarios())
def test_a_table_of_all_changes_is_what_windows_show_last(scenario: Any) -> None:
    table: Counter[str] = Counter()
    for kind, _, _, row in results(scenario, AccumulationMode.ACCUMULATING_AND_RETRACTING):
        table[repr(row)] += -1 if kind is RowKind.UPDATE_BEFORE else 1
    last = {(row.key, row.window_end): row for *_, row in modelled(scenario)}
    assert +table == Counter(map(repr, last.values()))
    assert not -table


# --- in jobs ---------------------------------------------------------------------------------------------------------

CLICK = Types.ROW_NAMED(["page", "weight"], [str, int])
RETRACTING = AccumulationMode.ACCUMULATING_AND_RETRACTING
LATE = [(1, 5), (11, 1), (2, 7), (3, 4), (25, 1), (4, 9)]
"""Timestamps and weights: the third and fourth are late but allowed, the last one is too late."""


def clicks(harness: JobHarness, name: str = "clicks") -> DataStream:
    times = WatermarkStrategy.for_monotonous_timestamps()
    return harness.add_source(name, CLICK).assign_timestamps_and_watermarks(times)


def shown(assigner: Any, mode: AccumulationMode, cut: int = 1) -> list[tuple[str, int, int, int]]:
    def job(harness: JobHarness) -> None:
        windows = clicks(harness).key_by("page").window(assigner)
        windows.allowed_lateness(10).accumulation_mode(mode)
        harness.add_sink("out", windows.aggregate(count(), max("weight")).uid("windows"))

    with JobHarness(job) as harness:
        for start in range(0, len(LATE), cut):
            for time, weight in LATE[start : start + cut]:
                harness.push("clicks", Row(page="a", weight=weight), time)
            harness.run_epoch()
        harness.finish()
        return [(str(row.get_row_kind()), row.window_end, row.count, row.max_weight) for row in harness.results("out")]


@pytest.mark.parametrize("cut", [1, 3, 10])
def test_tumbling_windows(cut: int) -> None:
    windows = TumblingEventTimeWindows.of(10)
    assert shown(windows, RETRACTING, cut) == [
        ("+I", 10, 1, 5),
        ("-U", 10, 1, 5),
        ("+U", 10, 2, 7),
        ("-U", 10, 2, 7),
        ("+U", 10, 3, 7),
        ("+I", 20, 1, 1),
        ("+I", 30, 1, 1),
    ]
    assert shown(windows, AccumulationMode.DISCARDING, cut) == [
        ("+I", 10, 1, 5),
        ("+I", 10, 1, 7),
        ("+I", 10, 1, 4),
        ("+I", 20, 1, 1),
        ("+I", 30, 1, 1),
    ]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("assigner", [SlidingEventTimeWindows.of(20, 5), CumulatingEventTimeWindows.of(20, 5)], ids=str)
def test_windows_that_share_panes_retract_alike_however_the_input_is_cut(assigner: Any) -> None:
    whole = shown(assigner, RETRACTING, 10)
    assert whole == shown(assigner, RETRACTING, 1) == shown(assigner, RETRACTING, 4)
    accumulating = shown(assigner, AccumulationMode.ACCUMULATING)
    assert [row[1:] for row in whole if row[0] != "-U"] == [row[1:] for row in accumulating]
    assert len(whole) > len(accumulating)


@pytest.mark.parametrize(
    ("assigner", "ends"),
    [(TumblingEventTimeWindows.of(10), [10, 10, 10, 20, 30]), (EventTimeSessionWindows.with_gap(10), [21, 21, 35])],
    ids=str,
)
def test_windows_of_any_kind_discard(assigner: Any, ends: list[int]) -> None:
    def job(harness: JobHarness) -> None:
        for name, build in builders.items():
            windows = clicks(harness, name).key_by("page").window(assigner)
            windows.allowed_lateness(10).accumulation_mode(AccumulationMode.DISCARDING)
            harness.add_sink(f"of {name}", build(windows))

    builders: dict[str, Any] = {
        "aggregates": lambda windows: windows.aggregate(count(), sum("weight")),
        "trigger": lambda windows: windows.trigger(EventTimeTrigger.create()).aggregate(count(), sum("weight")),
        "function": lambda windows: windows.reduce(lambda a, b: Row(page="a", weight=a.weight + b.weight)),
    }
    weights = []
    with JobHarness(job) as harness:
        for name in builders:
            harness.push_all(name, [("a", weight) for _, weight in LATE], [time for time, _ in LATE])
        harness.finish()
        for name in list(builders)[:2]:
            results = harness.results(f"of {name}")
            assert [row.window_end for row in results] == ends
            weights.append([row.sum_weight for row in results])
        weights.append([row.weight for row in harness.results("of function")])
    assert weights[0] == weights[1] == weights[2]


def test_results_that_are_taken_back_are_rows() -> None:
    def job(harness: JobHarness) -> None:
        windows = clicks(harness).key_by("page").window(TumblingEventTimeWindows.of(10))
        windows.accumulation_mode(RETRACTING).apply(lambda key, window, clicks: [key], output_type=Types.STRING())

    with pytest.raises(
        InvalidTypeError, match="results that are taken back are rows, which alone have a kind, not Str"
    ):
        JobHarness(job)


def test_windows_of_so_many_records_have_nothing_to_take_back() -> None:
    def job(harness: JobHarness) -> None:
        clicks(harness).key_by("page").count_window(2).accumulation_mode(RETRACTING)

    with pytest.raises(InvalidProgramError, match="are shown once, when they are full: there is nothing to take back"):
        JobHarness(job)


def test_a_mode_is_one_of_three() -> None:
    def job(harness: JobHarness) -> None:
        clicks(harness).key_by("page").window(TumblingEventTimeWindows.of(10)).accumulation_mode("retracting")  # type: ignore[arg-type]

    with pytest.raises(InvalidTypeError, match="accumulation_mode takes an AccumulationMode, not 'retracting'"):
        JobHarness(job)


def _windows(harness: JobHarness) -> DataStream:
    windows = clicks(harness).key_by("page").window(TumblingEventTimeWindows.of(10))
    return windows.allowed_lateness(10).accumulation_mode(RETRACTING).aggregate(sum("weight"))


def test_what_retracts_is_refused_where_insertions_alone_are_taken() -> None:
    def again(harness: JobHarness) -> None:
        _windows(harness).key_by("page").sum("sum_weight")

    with pytest.raises(
        InvalidProgramError, match=r"operator 'Sum' takes insertions alone \(.*\), but its records may be upda"
    ):
        JobHarness(again)


def test_the_mode_may_change_between_two_runs() -> None:
    def job(mode: AccumulationMode) -> Any:
        def build(harness: JobHarness) -> None:
            windows = clicks(harness).key_by("page").window(TumblingEventTimeWindows.of(10))
            windows.allowed_lateness(10).accumulation_mode(mode)
            harness.add_sink("out", windows.aggregate(count()).uid("windows"))

        return build

    with JobHarness(job(AccumulationMode.ACCUMULATING)) as harness:
        harness.push_all("clicks", [("a", 1), ("a", 1)], [1, 12])
        harness.run_epoch()
        checkpoint = harness.checkpoint()
    with JobHarness(job(RETRACTING), restore=checkpoint) as harness:
        harness.push_all("clicks", [("a", 1)], [2])
        harness.run_epoch()
        assert [(str(row.get_row_kind()), row.count) for row in harness.results("out")][-2:] == [("-U", 1), ("+U", 2)]
