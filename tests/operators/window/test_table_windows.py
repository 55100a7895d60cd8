"""Windows over rows that have their time, or their window, in a column."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.common import Types
from headrace.common.logical_types import AtomicType, TypeRoot, bigint, string
from headrace.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows, TumblingProcessingTimeWindows
from headrace.graph.table_window_specs import TableWindowSpec, WindowRankSpec, WindowTableFunctionSpec
from headrace.operators.aggregates.calls import AggregateOperation
from headrace.operators.changelog.order import RankRange, SortField
from headrace.operators.window.table import firing_order
from headrace.operators.window.table.firing_order import TimerHeap
from headrace.operators.window.table.local_time import LocalTime
from headrace.windowing.definition import WindowDefinition
from headrace.windowing.intervals import AlignedWindows, GivenWindows, GrowingWindows, SessionGap
from headrace.windowing.triggers import EventTimeTrigger, ProcessingTimeTrigger
from tests.draws import draws
from tests.operators.changelog.driven import Driven, run

TIMESTAMP = AtomicType(TypeRoot.TIMESTAMP, 3)
BIDS = Types.ROW_NAMED(["id", "item", "ts"], [Types.INT(), Types.STRING(), Types.SQL_TIMESTAMP()])
EPOCH = datetime(1970, 1, 1)
CALLS = (
    AggregateOperation("COUNT", (), bigint(), "c"),
    AggregateOperation("LISTAGG", (1,), string(), "l"),
)


def at(second: float) -> datetime:
    return EPOCH + timedelta(seconds=second)


def window_spec(windows: Any, **more: Any) -> TableWindowSpec:
    assigner: Any = TumblingEventTimeWindows.of(10_000)
    if isinstance(windows, SessionGap):
        assigner = EventTimeSessionWindows.with_gap(windows.gap)
    definition = WindowDefinition(assigner, EventTimeTrigger())
    return TableWindowSpec(
        definition, more.pop("calls", CALLS), windows=windows, time_field=2, time_type=TIMESTAMP, **more
    )


def events(rows: list[tuple[str, int, str, float]], delay: float = 2) -> list[Any]:
    found: list[Any] = []
    for symbol, id_, item, second in rows:
        found += [(symbol, (id_, item, at(second))), int((second - delay) * 1000)]
    return [*found, 10**9]


def test_each_row_has_all_its_windows() -> None:
    hop = WindowTableFunctionSpec(windows=AlignedWindows(10_000, 5_000), time_field=2, time_type=TIMESTAMP)
    found = run(hop, BIDS, (), [("+I", (1, "a", at(7))), ("-D", (1, "a", at(7)))])
    assert [(kind, row[3:]) for kind, row in found] == [
        (kind, (at(start), at(start + 10), at(start + 9.999))) for kind in ("+I", "-D") for start in (5, 0)
    ]
    grow = WindowTableFunctionSpec(windows=GrowingWindows(10_000, 5_000), time_field=2, time_type=TIMESTAMP)
    assert [row[4] for _, row in run(grow, BIDS, (), [("+I", (1, "a", at(2)))])] == [at(5), at(10)]


def test_rows_that_are_taken_back_leave_their_window() -> None:
    rows = [
        ("+I", 1, "a", 1),
        ("+I", 2, "b", 2),
        ("-U", 1, "a", 1),
        ("+U", 1, "c", 3),
        ("-D", 9, "z", 14),
        ("+I", 9, "z", 14),
    ]
    found = run(window_spec(AlignedWindows(10_000, 10_000), retracts=True), BIDS, (), events(rows), cuts=[3, 5])
    assert found == [("+I", (2, "b,c", at(0), at(10), at(9.999)))]
    found = run(window_spec(AlignedWindows(10_000, 5_000), retracts=True), BIDS, (), events(rows[:4]), cuts=[3])
    assert [row[1] for _, row in found] == ["b,c", "b,c"]


@settings(max_examples=draws(10), deadline=None)
@given(
    rows=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 40), st.booleans()), max_size=25),
    cuts=st.lists(st.integers(0, 50), max_size=3),
)
@example(rows=[("a", 1, False), ("a", 3, False), ("a", 1, True), ("a", 30, False), ("a", 3, True)], cuts=[2, 6])
def test_sessions_of_rows_that_are_taken_back(rows: list[Any], cuts: list[int]) -> None:
    """A row that takes another one back belongs to a session as any row does; what is empty at the end is not shown."""
    calls = (
        AggregateOperation("COUNT", (), bigint(), "n"),
        AggregateOperation("SUM", (0,), Types.INT().logical_type, "s"),
        AggregateOperation("ARRAY_AGG", (0,), Types.LIST(Types.INT()).logical_type, "ids"),
    )
    as_added = [("+I", place, item, float(second)) for place, (item, second, _) in enumerate(rows)]
    whole = run(window_spec(SessionGap(5_000), calls=calls[2:]), BIDS, ("item",), events(as_added))
    expected = {}
    for _, (item, places, *bounds) in whole:
        signs = {place: -1 if rows[place][2] else 1 for place in places}
        if (count := sum(signs.values())) > 0:
            expected[item, *bounds] = count, sum(sign * place for place, sign in signs.items())
    changes = [("-D" if rows[place][2] else "+I", *row) for place, (_, *row) in enumerate(as_added)]
    spec = window_spec(SessionGap(5_000), calls=calls[:2], retracts=True)
    found = run(spec, BIDS, ("item",), events(changes), cuts)
    assert {(item, *bounds): (count, total) for _, (item, count, total, *bounds) in found} == expected


def test_windows_that_rows_say_themselves() -> None:
    spec = window_spec(GivenWindows(AlignedWindows(10_000, 5_000)), is_end=True)
    rows = [("+I", 1, "a", 15), ("+I", 2, "b", 10), ("+I", 3, "c", 15)]
    assert run(spec, BIDS, (), events(rows, 15)) == [
        ("+I", (1, "b", at(0), at(10), at(9.999))),
        ("+I", (2, "a,c", at(5), at(15), at(14.999))),
    ]


def test_first_rows_of_windows() -> None:
    spec = WindowRankSpec(
        end_field=2, order=(SortField(0, is_descending=True),), ranks=RankRange(1, 2, shows_rank=True)
    )
    rows = [("+I", 1, "a", 10), ("+I", 2, "a", 10), ("+I", 3, "b", 10), ("+I", 4, "a", 10), ("+I", 5, "a", 20)]
    found = run(spec, BIDS, ("item",), events(rows, 15), cuts=[5])
    assert [(row[0], row[3]) for _, row in found] == [(4, 1), (2, 2), (3, 1), (5, 1)]


@pytest.mark.parametrize(
    ("zone", "moment", "shown"),
    [
        ("Europe/Berlin", "2024-03-31T00:59:59", "2024-03-31T01:59:59"),
        ("Europe/Berlin", "2024-03-31T01:00:00", "2024-03-31T03:00:00"),
        ("Asia/Kolkata", "2024-01-01T00:00:00", "2024-01-01T05:30:00"),
        ("UTC", "2024-01-01T00:00:00", "2024-01-01T00:00:00"),
    ],
)
def test_what_the_clock_shows(zone: str, moment: str, shown: str) -> None:
    clock = LocalTime(zone)
    moments, local = (np.array([text], "M8[ms]").view(np.int64) for text in (moment, shown))
    assert clock.of(moments).tolist() == local.tolist()
    assert clock.back(local).tolist() == moments.tolist()


def test_windows_of_an_hour_that_the_clock_shows_twice_end_the_second_time() -> None:
    clock = LocalTime("Europe/Berlin")
    texts = ["2024-10-26T23:30", "2024-10-27T00:30", "2024-10-27T01:30"]
    watermarks = np.array(texts, "M8[ms]").view(np.int64)
    reached = clock.reached(watermarks).view("M8[ms]").astype(str).tolist()
    assert reached == ["2024-10-27T01:30:00.000", "2024-10-27T01:59:59.999", "2024-10-27T02:30:00.000"]


@settings(max_examples=draws(10), deadline=None)
@given(
    rows=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 40)), max_size=25),
    cuts=st.lists(st.integers(0, 50), max_size=3),
    size=st.sampled_from([5, 10]),
)
def test_aggregates_of_windows_of_each_key(rows: list[Any], cuts: list[int], size: int) -> None:
    watermark, expected = -(10**6), dict[Any, list[int]]()
    for place, (item, second) in enumerate(rows):
        for end in range(second // 5 * 5 + 5, second + size + 1, 5):
            if second >= end - size and end * 1000 - 1 > watermark:
                expected.setdefault((item, end), []).append(place)
        watermark = max(watermark, (second - 2) * 1000)
    calls = (AggregateOperation("ARRAY_AGG", (0,), Types.LIST(Types.INT()).logical_type, "ids"),)
    spec = window_spec(AlignedWindows(size * 1000, 5_000), calls=calls)
    given_rows = [("+I", place, item, float(second)) for place, (item, second) in enumerate(rows)]
    found = run(spec, BIDS, ("item",), events(given_rows), cuts)
    assert {(row[0], int((row[3] - EPOCH).total_seconds())): row[1] for _, row in found} == expected


def test_timers_of_one_time_leave_as_they_leave_a_heap() -> None:
    queue = TimerHeap[str]()
    for name in "abcda":
        queue.add(9, name)
    queue.add(3, "early")
    assert [queue.poll()[1] for _ in range(len(queue))] == ["early", "b", "d", "c", "a"]


@pytest.mark.parametrize("most", [4096, 3])
@settings(max_examples=draws(10), deadline=None)
@given(
    rows=st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 40)), max_size=30),
    cuts=st.lists(st.integers(0, 60), max_size=4),
    batch_size=st.integers(1, 8),
    windows=st.sampled_from(
        [AlignedWindows(5_000, 5_000), AlignedWindows(10_000, 5_000), GrowingWindows(10_000, 5_000)]
    ),
    waits=st.booleans(),
)
@example(
    rows=[("b", 7), ("a", 0), ("a", 12), ("a", 10)],
    cuts=[],
    batch_size=1,
    windows=AlignedWindows(10_000, 5_000),
    waits=False,
)
def test_the_order_of_results_does_not_depend_on_the_cut(
    most: int, rows: Any, cuts: list[int], batch_size: int, windows: Any, waits: bool
) -> None:
    given_rows = events([("+I", place, item, float(second)) for place, (item, second) in enumerate(rows)])
    spec = window_spec(windows, timers_wait=waits)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(firing_order, "MOST_TIMERS", most)
        whole = run(spec, BIDS, ("item",), given_rows)
        assert run(spec, BIDS, ("item",), given_rows, cuts, batch_size) == whole


@settings(max_examples=draws(10), deadline=None)
@given(
    rows=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 40)), max_size=30),
    cuts=st.lists(st.integers(0, 60), max_size=4),
    windows=st.sampled_from([AlignedWindows(5_000, 5_000), AlignedWindows(10_000, 5_000)]),
    zone=st.sampled_from([None, "Asia/Kolkata"]),
)
def test_what_senders_sum_up_makes_the_same_results(rows: Any, cuts: list[int], windows: Any, zone: str | None) -> None:
    given_rows = events([("+I", place, item, float(second)) for place, (item, second) in enumerate(rows)])
    calls = (AggregateOperation("COUNT", (), bigint(), "c"), AggregateOperation("SUM", (0,), bigint(), "s"))
    spec = window_spec(windows, calls=calls, zone=zone, has_two_phases=True)
    alone = run(spec, BIDS, ("item",), given_rows, cuts)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(firing_order, "MOST_TIMERS", 0)
        summed = run(spec, BIDS, ("item",), given_rows, cuts, sums_up=True)
    assert sorted(summed) == sorted(alone)


def test_windows_of_the_clock_come_out_when_it_has_passed_them() -> None:
    definition = WindowDefinition(TumblingProcessingTimeWindows.of(10_000), ProcessingTimeTrigger())
    spec = TableWindowSpec(
        definition, CALLS, windows=AlignedWindows(10_000, 10_000), time_field=None, time_type=TIMESTAMP
    )
    driven = Driven(spec, BIDS, ())
    for driven.now, item in ((1_000, "a"), (9_000, "b"), (12_000, "c"), (30_000, "d")):
        driven.epoch([("+I", (1, item, None))])
    assert driven.changes() == [
        ("+I", (2, "a,b", at(0), at(10), at(9.999))),
        ("+I", (1, "c", at(10), at(20), at(19.999))),
    ]
