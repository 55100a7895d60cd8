"""The merge of panes that moves on gives what merging the panes of each window gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_against_model import CODEC, COLUMNAR

from headrace.common.typeinfo import Types
from headrace.datastream import aggregates as agg
from headrace.operators.aggregates.aggregator import AggregatorList
from headrace.operators.window.columnar.accumulators import Accumulators, Chunk, ColumnarWindowLayout
from headrace.operators.window.columnar.pane_store import PaneStacks
from headrace.operators.window.columnar.panes import PaneTotals, Splice
from tests.draws import draws

ANY: AggregatorList = COLUMNAR.aggregators
REVERSIBLE: AggregatorList = ColumnarWindowLayout.of(
    Types.ROW_NAMED(["key", "value", "number"], [Types.LONG(), Types.DOUBLE(), Types.LONG()]),
    CODEC,
    [agg.count(), agg.count("value"), agg.sum("number"), agg.avg("number"), agg.sum("value"), agg.var_pop("value")],
    ["key"],
).aggregators
NUMBERS = [0, 1, -5, 2**62, 2**63 - 1, -(2**63)]
VALUES = [0.1, -0.0, 1e300, 1e-300, 3.0, 1e16, -1e16]
ODD = [None, float("nan"), float("inf")]
HASHES = st.sampled_from([2, 3, 1 << 20])


def panes_of(values: list[Any]) -> Any:
    record = st.tuples(st.integers(0, 6), st.sampled_from(values), st.sampled_from(NUMBERS))
    return st.lists(st.lists(record, max_size=8), min_size=1, max_size=9)


def pane(aggregators: AggregatorList, records: list, end: int, hashes: int, *, has_text: bool) -> Accumulators:
    """The accumulators of some records, with so many different hashes."""
    keys, values, integers = zip(*records, strict=True) if records else ((), (), ())
    numbers = np.array(keys, np.int64)
    chunk = Chunk(
        np.full(len(records), end, np.int64),
        (numbers * 5 % hashes).astype(np.uint64),
        pa.array([f"é{key}" for key in keys], pa.string()) if has_text else pa.array(numbers),
        {1: pa.array(values, pa.float64()), 2: pa.array(integers, pa.int64())},
        np.arange(8 * end, 8 * end + len(records)),
    )
    return Accumulators.of_chunk(aggregators, chunk)


def shown(aggregators: AggregatorList, rows: Accumulators) -> str:
    """The keys and the results, in order, NaN and -0.0 told apart."""
    results = aggregators.results(rows.columns).values()
    return repr([rows.keys.to_pylist(), *(column.to_pylist() for column in results)])


def merged_one_by_one(aggregators: AggregatorList, panes: list[Accumulators]) -> str:
    return shown(aggregators, Accumulators.regrouped(aggregators, [rows.at(99) for rows in panes]))


@pytest.mark.parametrize("has_text", [True, False])
@settings(max_examples=draws(20), deadline=None)
@given(records=panes_of(VALUES + ODD), size=st.integers(1, 5), hashes=HASHES)
def test_as_merged_one_by_one(has_text: bool, records: list, size: int, hashes: int) -> None:
    """Keys that come and go, that share hashes; values that are null, or need all of an exact sum."""
    panes = [pane(ANY, rows, end, hashes, has_text=has_text) for end, rows in enumerate(records)]
    nothing, ends = panes[0].slice(0, 0), list(enumerate(panes))
    stacks = PaneStacks(ANY, nothing, ends[:size], -1, size - 1)
    for last in range(size - 1, len(panes)):
        start = last - size
        if last >= size and not stacks.move_to(start, ends[last : last + 1]):
            stacks = PaneStacks(ANY, nothing, ends[start + 1 : last + 1], start, last)
        found = stacks.merged(99)
        assert shown(ANY, found) == merged_one_by_one(ANY, panes[start + 1 : last + 1])
        assert found.ends.tolist() == [99] * len(found)


@pytest.mark.parametrize("has_text", [True, False])
@settings(max_examples=draws(20), deadline=None)
@given(records=panes_of(VALUES), size=st.integers(1, 5), hashes=HASHES)
def test_panes_that_are_taken_back_leave_nothing(has_text: bool, records: list, size: int, hashes: int) -> None:
    """Sums beyond 64 bits, of values that differ by more digits than two doubles have."""
    panes = [pane(REVERSIBLE, rows, end, hashes, has_text=has_text) for end, rows in enumerate(records)]
    ends = list(enumerate(panes))
    totals = PaneTotals(REVERSIBLE, panes[0].slice(0, 0), ends[:size], -1)
    before: list[tuple[Accumulators, str]] = []
    for last in range(size - 1, len(panes)):
        start = last - size
        assert last < size or totals.move_to(start, ends[last : last + 1])
        found = totals.merged(99)
        before.append((found, merged_one_by_one(REVERSIBLE, panes[max(0, start + 1) : last + 1])))
        assert found.ends.tolist() == [99] * len(found)
    assert [shown(REVERSIBLE, found) for found, _ in before] == [expected for _, expected in before]


@pytest.mark.parametrize("odd", ODD)
def test_what_cannot_be_taken_back_is_not_taken(odd: float | None) -> None:
    ends = [
        (end, pane(REVERSIBLE, rows, end, 9, has_text=False))
        for end, rows in enumerate([[(1, 0.5, 7), (2, 0.25, 8)], [(1, 1.5, 9)], [(1, odd, 1), (3, 2.0, 2)]])
    ]
    totals = PaneTotals(REVERSIBLE, ends[0][1].slice(0, 0), ends[:2], -1)
    assert not totals.move_to(0, ends[2:])
    assert not totals.add_late(ends[2][1])
    assert shown(REVERSIBLE, totals.merged(99)) == merged_one_by_one(REVERSIBLE, [rows for _, rows in ends[:2]])
    assert totals.move_to(0, [])
    assert shown(REVERSIBLE, totals.merged(99)) == merged_one_by_one(REVERSIBLE, [ends[1][1]])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("make", ["totals", "stacks"])
@settings(max_examples=draws(20), deadline=None)
@given(records=panes_of(VALUES), late=panes_of(VALUES), size=st.integers(2, 4), hashes=HASHES)
@example(records=[[], []], late=[[(0, 0.1, 0), (0, 0.1, 0)]], size=2, hashes=2)  # late rows alone, of two panes
def test_late_rows(make: str, records: list, late: list, size: int, hashes: int) -> None:
    """Late rows of panes that are there are part of all windows that these are part of; of others, of none."""
    panes = [[pane(REVERSIBLE, rows, end, hashes, has_text=False)] for end, rows in enumerate(records)]
    nothing = panes[0][0].slice(0, 0)

    def new(start: int, end: int) -> PaneTotals | PaneStacks:
        ends = [(i, Accumulators.regrouped(REVERSIBLE, panes[i])) for i in range(max(start + 1, 0), end + 1)]
        if make == "totals":
            return PaneTotals(REVERSIBLE, nothing, ends, start)
        return PaneStacks(REVERSIBLE, nothing, ends, start, end)

    size = min(size, len(panes))
    merge = new(-1, size - 1)
    for last in range(size - 1, len(panes)):
        start = last - size
        if last >= size and not merge.move_to(start, [(last, panes[last][0])]):
            merge = new(start, last)
        if late:
            rows = late.pop()
            ends = [end for end in (last, last - 1, start) if end >= 0]
            parts = [rows[number :: len(ends)] for number in range(len(ends))]
            pieces = [
                pane(REVERSIBLE, part, end, hashes, has_text=False) for part, end in zip(parts, ends, strict=True)
            ]
            assert merge.add_late(Accumulators.concat(pieces))
            for piece, end in zip(pieces, ends, strict=True):
                panes[end].append(piece)
        expected = [rows for pieces in panes[max(start + 1, 0) : last + 1] for rows in pieces]
        assert shown(REVERSIBLE, merge.merged(99)) == merged_one_by_one(REVERSIBLE, expected)


def test_many_late_rows_have_stacks_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.operators.window.columnar.pane_store._LATE_ROWS", 3)
    rows = pane(ANY, [(1, 0.5, 0), (2, 0.5, 0)], 1, 9, has_text=False)
    stacks = PaneStacks(ANY, rows.slice(0, 0), [(1, rows)], 0, 1)
    assert [stacks.add_late(rows), stacks.add_late(rows)] == [True, False]


@settings(max_examples=draws(40), deadline=None)
@given(
    gone=st.lists(st.booleans(), max_size=7),
    places=st.lists(st.integers(0, 7), max_size=5),
    is_text=st.booleans(),
    has_null=st.booleans(),
)
def test_rows_go_and_come(gone: list[bool], places: list[int], is_text: bool, has_null: bool) -> None:
    total = len(gone)
    places = sorted(min(place, total) for place in places)
    expected: list[Any] = []
    for i in range(total + 1):
        expected += [100 + number for number, place in enumerate(places) if place == i]
        expected += [i for is_gone in gone[i : i + 1] if not is_gone]
    splice = Splice(total, np.flatnonzero(np.array(gone, np.bool_)), np.array(places, np.int64))
    added = np.arange(100, 100 + len(places))
    assert splice.numbers(np.arange(total), added).tolist() == expected

    def column(values: Any) -> pa.Array:
        shown = [None if has_null and value % 3 == 1 else value for value in values]
        return pa.array(shown, pa.int32()).cast(pa.string()) if is_text else pa.array(shown, pa.int32())

    assert splice.column(column(range(total)), column(added.tolist())).equals(column(expected))
