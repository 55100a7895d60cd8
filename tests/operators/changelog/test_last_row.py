"""The last and the first row of each key, by arrival."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Types
from headrace.expressions import bind, col
from headrace.graph.changelog_specs import ChangelogNormalizeSpec, DeduplicateSpec
from tests.draws import draws
from tests.operators.changelog.driven import Driven, run

PX = Types.ROW_NAMED(["id", "item", "price"], [Types.INT(), Types.STRING(), Types.INT()])


def test_upserts_become_updates_and_tombstones_deletions() -> None:
    events: list[Any] = [
        ("+I", (1, "a", 10)), ("+U", (1, "a", 10)), ("+U", (1, "b", 11)), ("-D", (1, None, None)),
        ("-D", (7, "z", 1)), ("+U", (1, "a", 1)),
    ]  # fmt: skip
    assert run(ChangelogNormalizeSpec(), PX, ("id",), events, cuts=[2, 4]) == [
        ("+I", (1, "a", 10)), ("-U", (1, "a", 10)), ("+U", (1, "b", 11)), ("-D", (1, "b", 11)), ("+I", (1, "a", 1)),
    ]  # fmt: skip


def test_the_last_row_of_each_key_in_a_mini_batch_counts() -> None:
    events: list[Any] = [
        ("+I", (1, "a", 10)), ("+U", (1, "b", 11)), ("+U", (1, "c", 12)), ("+U", (1, "b", 11)), ("+U", (1, "d", 1)),
        ("-D", (1, None, None)), ("+U", (2, "e", 2)),
    ]  # fmt: skip
    found = run(ChangelogNormalizeSpec(mini_batch=(2, (0,))), PX, ("id",), events)
    assert found == [("+I", (1, "b", 11)), ("-D", (1, "b", 11)), ("+I", (2, "e", 2))]


def test_a_row_that_no_longer_holds_the_condition_is_deleted() -> None:
    spec = ChangelogNormalizeSpec(condition=bind(col("price") > 5, PX), update_before=False)
    events: list[Any] = [
        ("+I", (1, "a", 10)),
        ("+U", (1, "a", 12)),
        ("+U", (1, "a", 2)),
        ("+U", (1, "a", 3)),
        ("+U", (1, "a", 9)),
    ]
    assert run(spec, PX, ("id",), events) == [
        ("+I", (1, "a", 10)), ("+U", (1, "a", 12)), ("-D", (1, "a", 12)), ("+I", (1, "a", 9)),
    ]  # fmt: skip


def test_what_has_not_been_written_for_long_is_forgotten() -> None:
    driven = Driven(ChangelogNormalizeSpec(ttl=100), PX, ("id",))
    for driven.now, symbol in ((0, "+I"), (99, "+U"), (198, "+U"), (298, "+U")):
        driven.epoch([(symbol, (1, "a", 10))])
    assert [symbol for symbol, _ in driven.changes()] == ["+I", "-U", "+U", "-U", "+U", "+I"]


@pytest.mark.parametrize("keeps_last", [False, True])
@settings(max_examples=draws(10), deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["a", None]), st.integers(0, 3)), max_size=20),
    cuts=st.lists(st.integers(0, 20), max_size=3),
    by_time=st.booleans(),
)
def test_the_first_and_the_last_row(keeps_last: bool, rows: list[Any], cuts: list[int], by_time: bool) -> None:
    expected: list[Any] = []
    held: dict[Any, Any] = {}
    for row in rows:
        old = held.get(row[0])
        if old is None:
            expected.append(("+I", row))
        elif keeps_last and (row[2] >= old[2] if by_time else row != old):  # by arrival, equal rows are no update
            expected += [("-U", old), ("+U", row)]
        else:
            continue
        held[row[0]] = row
    spec = DeduplicateSpec(keeps_last=keeps_last, time_field=2 if by_time and keeps_last else None)
    assert run(spec, PX, ("id",), [("+I", row) for row in rows], cuts) == expected


@settings(max_examples=draws(10), deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["a", None]), st.integers(0, 9)), max_size=25),
    cuts=st.lists(st.integers(0, 40), max_size=3),
    delay=st.integers(0, 3),
)
def test_the_earliest_row_comes_once_the_watermark_passes_it(rows: list[Any], cuts: list[int], delay: int) -> None:
    events: list[Any] = []
    watermark, emitted, waiting, expected = -1, set(), [], []
    for row in [*rows, (9, None, 99)]:
        events += [("+I", row), max(watermark, row[2] - delay)]
        if row[2] > watermark:
            waiting.append(row)
        watermark = max(watermark, row[2] - delay)
        for due in sorted((each for each in waiting if each[2] <= watermark), key=lambda each: each[2]):
            waiting.remove(due)
            if due[0] not in emitted:
                emitted.add(due[0])
                expected.append(("+I", due))
    spec = DeduplicateSpec(keeps_last=False, time_field=2)
    found = run(spec, TIMES, ("id",), events, cuts)
    assert found == run(spec, TIMES, ("id",), events)
    assert [row[2] for _, row in found] == [row[2] for _, row in expected]
    assert sorted(found) == sorted(expected)  # rows of one time come in the order of Flink's timers


TIMES = Types.ROW_NAMED(["id", "item", "time"], [Types.INT(), Types.STRING(), Types.LONG()])
