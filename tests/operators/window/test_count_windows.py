"""Count windows with built-in aggregates give in columns what they give record by record, however the input is cut."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_aggregating_operator import ELEMENT, MANY, driver, layout
from window_harness import Driver
from window_model import Record

from headrace.common.errors import StateMigrationError
from headrace.common.typeinfo import Types
from headrace.datastream.aggregates import count, listagg
from headrace.operators.window.columnar import count_windows
from headrace.operators.window.columnar.count_windows import CountWindowOperator
from headrace.testing import JobHarness
from headrace.windowing.count_assigners import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from headrace.windowing.intervals import CountPanes
from headrace.windowing.triggers import CountTrigger
from tests.draws import draws
from tests.first_epochs import first_epoch
from tests.windowing.scenarios import Epoch, Windows, inputs

NULLABLE = [None, *range(6)]
SIZES = st.one_of(
    st.builds(lambda size: (size, size), st.integers(1, 7)), st.tuples(st.integers(1, 9), st.integers(1, 9))
)


def by_records(size: int, slide: int) -> Driver:
    tumbling = CountTumblingWindowAssigner.of(size)
    assigner: Any = tumbling if size == slide else CountSlidingWindowAssigner.of(size, slide)
    return driver(Windows(assigner, None, None, 0), MANY)


def by_columns(size: int, slide: int) -> Driver:
    columns = layout(Windows(CountTumblingWindowAssigner.of(size), None, None, 0), MANY)
    return Driver(partial(CountWindowOperator, columns, CountPanes(size, slide)), type=ELEMENT)


@settings(max_examples=draws(45), deadline=None)
@given(sizes=SIZES, epochs=inputs(), one_key=st.booleans(), values=st.permutations(NULLABLE))
def test_columns_give_what_records_give(
    sizes: tuple[int, int], epochs: list[Epoch], one_key: bool, values: list[Any]
) -> None:
    one_by_one, columnar = by_records(*sizes), by_columns(*sizes)
    for run in (one_by_one, columnar):
        for epoch in epochs:
            batches = [
                [Record(e.key * (not one_key), values[e.value % 7], e.timestamp, e.watermark) for e in batch]
                for batch in epoch.batches
            ]
            run.run(batches, upto=epoch.watermark)
    assert one_by_one.out.rows == columnar.out.rows
    assert not columnar.counters
    full = {(row[2], row[3]) for row in one_by_one.out.rows}
    held = [held for held in one_by_one.held() if (held.key, held.window.id) not in full]
    assert sorted(map(repr, columnar.held())) == sorted(map(repr, held)), "what is full is not kept"


@given(size=st.integers(1, 30), slide=st.integers(1, 30))
@example(size=7, slide=3)
@settings(max_examples=draws(20), deadline=None)
def test_a_window_is_its_panes(size: int, slide: int) -> None:
    panes, windows = CountPanes(size, slide), [range(k * slide, k * slide + size) for k in range(4)]
    for number, window in enumerate(windows):
        first = number * panes.per_slide
        found = {int(panes.of(place)) for place in window}
        assert found == set(range(first, first + panes.per_window))
    for place in range(4 * slide):
        assert panes.are_in_window(place) == any(place in window for window in windows)
        open_windows = [number for number, window in enumerate(windows) if window[-1] >= place]
        if open_windows:
            assert panes.first_open(place) == open_windows[0]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("size", "slide"), [(3, 3), (5, 2), (4, 2), (2, 5)])
def test_cuts_change_nothing(size: int, slide: int, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [Record(i * i % 11, i % 5, i, i - 4) for i in range(200)]
    whole, apart = by_columns(size, slide), by_columns(size, slide)
    whole.run([records])
    monkeypatch.setattr(count_windows, "_WAITING_ROWS", 5)
    monkeypatch.setattr(count_windows, "FIRED_ROWS", 2)
    monkeypatch.setattr(count_windows, "_MERGED_ROWS", 4)
    for start in range(0, 200, 7):
        apart.run([records[start : start + 3], records[start + 3 : start + 7]])
    assert len(whole.out.rows) > 30
    assert whole.out.rows == apart.out.rows
    assert sorted(map(repr, whole.held())) == sorted(map(repr, apart.held()))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ((3, 3), (4, 4), "another size in records: stored 3, declared 4"),
        ((3, 2), (4, 2), "another size in records: stored 3, declared 4"),
        ((3, 2), (3, 1), "another slide in records: stored 2, declared 1"),
    ],
)
def test_windows_of_another_size_or_slide_are_refused(before: Any, after: Any, message: str) -> None:
    run = by_columns(*before)
    run.run([[Record(1, 1, 1)]])
    run.make = by_columns(*after).make
    with pytest.raises(StateMigrationError, match=message):
        run.run([[Record(1, 1, 1)]])


class Derived(CountTrigger):
    """The same, of which nobody knows: windows go record by record."""


EVENT = Types.TUPLE([Types.STRING(), Types.STRING()])


def build(job: JobHarness, trigger: CountTrigger | None = None, slide: int | None = 2) -> None:
    windows = job.add_source("visits", EVENT).key_by("f0").count_window(3, slide)
    if trigger is not None:
        windows = windows.trigger(trigger)
    job.add_sink("out", windows.aggregate(count(), listagg("f1")).uid("windows"))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ({"trigger": Derived(3)}, {}, "of their own, and now they are of a count, computed column by column"),
        ({}, {"trigger": Derived(3)}, "state of windows that are of a count, computed column by column"),
        ({}, {"slide": None}, "another slide in records: stored 2, declared 3"),
        ({"slide": None}, {}, "another slide in records: stored 3, declared 2"),
    ],
)
def test_what_others_have_stored_is_refused(before: Any, after: Any, message: str) -> None:
    with JobHarness(partial(build, **before)) as job:
        job.push("visits", ("a", "b"), 1)
        checkpoint = job.checkpoint()
    with pytest.raises(StateMigrationError, match=message):
        first_epoch(partial(build, **after), checkpoint)


def test_a_job_goes_on_at_another_parallelism() -> None:
    users = [f"user {number} ü" for number in range(50)]
    with JobHarness(build, parallelism=2) as job:
        for page in ("a", "b", "c", "d"):
            for user in users:
                job.push("visits", (user, page), 1)
            job.run_epoch()
        assert sorted(tuple(row) for row in job.results("out")) == [(user, 0, 3, "a,b,c") for user in sorted(users)]
        checkpoint = job.checkpoint()
    with JobHarness(build, parallelism=3, restore=checkpoint) as job:
        for user in users[::2]:
            job.push("visits", (user, "e"), 2)
        job.finish()
        assert sorted(tuple(row) for row in job.results("out")) == [
            (user, 1, 3, "c,d,e") for user in sorted(users[::2])
        ]
