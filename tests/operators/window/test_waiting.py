"""Records that wait for others, and rows that wait for their windows: all are taken once, in order, and copied once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.operators.window.columnar.accumulators import Accumulators, Chunk
from headrace.operators.window.columnar.windows_by_end import WaitingRows
from headrace.state.runs.merge_input import NO_TIME
from tests.draws import draws

LOWEST = -(2**63)
ENDS = st.one_of(st.integers(-3, 6), st.sampled_from([LOWEST, 2**63 - 1]))


def records_with(ends: list[int], first: int) -> Chunk:
    numbers = np.arange(first, first + len(ends))
    values = pa.array(numbers)
    return Chunk(np.array(ends, np.int64), numbers.astype(np.uint64), values.cast(pa.string()), {1: values}, numbers)


def accumulators_with(ends: list[int], first: int) -> Accumulators:
    numbers = np.arange(first, first + len(ends))
    return Accumulators(np.array(ends, np.int64), numbers.astype(np.uint64), pa.array(numbers), [pa.array(numbers)])


@pytest.mark.parametrize("rows_with", [records_with, accumulators_with])
@settings(max_examples=draws(100), deadline=None)
@given(steps=st.lists(st.one_of(st.lists(ENDS, min_size=1, max_size=8), ENDS), max_size=12))
def test_rows_are_taken_when_they_are_due(rows_with: Any, steps: list[Any]) -> None:
    """A step is rows that are added, or an end up to which rows are taken."""
    rows: WaitingRows[Any] = WaitingRows()
    expected: dict[int, int] = {}
    total = 0
    for step in steps:
        if isinstance(step, list):
            rows.add(rows_with(step, total))
            expected |= {total + i: end for i, end in enumerate(step)}
            total += len(step)
        else:
            pieces = rows.take(step)
            assert all(len(piece) for piece in pieces)
            taken = {int(piece.hashes[i]): int(piece.ends[i]) for piece in pieces for i in range(len(piece))}
            assert taken == {number: end for number, end in expected.items() if end <= step}
            for end in set(taken.values()):  # those of one window come as they came
                of_end = [number for number in taken if taken[number] == end]
                assert of_end == sorted(of_end)
            expected = {number: end for number, end in expected.items() if end > step}
        assert rows.first_end == min(expected.values(), default=NO_TIME)
        assert rows.held >= len(expected)
    assert sum(map(len, rows.take(2**63 - 1))) == len(expected)
    assert (rows.first_end, rows.held) == (NO_TIME, 0)


def test_columns_stay_with_their_rows() -> None:
    rows: WaitingRows[Chunk] = WaitingRows()
    rows.add(records_with([3, 1, 2, 1], 10))
    first, second = rows.take(1)[0], rows.take(2)[0]
    assert (first.keys.to_pylist(), first.columns[1].to_pylist()) == (["11", "13"], [11, 13])
    assert (second.keys.to_pylist(), second.arrivals.tolist()) == (["12"], [12])


def test_no_row_is_copied_twice_while_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = []
    take = Chunk.take
    monkeypatch.setattr(Chunk, "take", lambda self, rows: copied.append(len(rows)) or take(self, rows))
    rows: WaitingRows[Chunk] = WaitingRows()
    rows.add(records_with([4, 9, 5, 6, 8, 7] * 10, 0))  # due bit by bit
    rows.add(records_with([4, 4, 4], 60))  # due as a whole
    rows.add(records_with([5, 6, 7], 63))  # in order already
    assert [sum(map(len, rows.take(upto))) for upto in range(3, 11)] == [0, 13, 11, 11, 11, 10, 10, 0]
    assert copied == [60]


def test_rows_that_are_cut_off_count_while_they_are_in_memory() -> None:
    """Else a few records of a far future would keep any amount of memory, unnoticed."""
    rows: WaitingRows[Chunk] = WaitingRows()
    for first in range(0, 300, 100):
        rows.add(records_with([1] * 99 + [1000], first))
        rows.take(1)
    assert rows.held == 300
    assert [len(piece) for piece in rows.take(1000)] == [1, 1, 1]
