"""The rows of a table by their keys, and when a table is read again."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.lookup.lookup_joins import TableIndex
from headrace.operators.lookup.table_readers import ReloadTrigger

HOUR = 3_600_000
PAIRS = st.lists(st.tuples(st.none() | st.integers(0, 3), st.none() | st.sampled_from(["", "a", "b"])), max_size=12)


def columns(keys: list[Any], width: int) -> list[pa.Array]:
    """The first columns of keys."""
    kinds = [pa.int64(), pa.string()]
    return [pa.array([key[place] for key in keys], kinds[place]) for place in range(width)]


@given(PAIRS, PAIRS, st.integers(0, 2))
def test_an_index_finds_all_rows_with_equal_keys(table: list[Any], keys: list[Any], width: int) -> None:
    parents, places = TableIndex(columns(table, width), len(table)).pairs(columns(keys, width), len(keys))
    expected = [
        (one, other)
        for one, key in enumerate(keys)
        for other, row in enumerate(table)
        if key[:width] == row[:width] and None not in key[:width]
    ]
    assert list(zip(parents.tolist(), places.tolist(), strict=True)) == expected


def test_floats_are_equal_as_in_other_joins() -> None:
    table, keys = pa.array([0.0, -0.0, float("nan"), None]), pa.array([-0.0, float("-nan"), None])
    parents, places = TableIndex([table], len(table)).pairs([keys], len(keys))
    assert [parents.tolist(), places.tolist()] == [[0, 0, 1], [0, 1, 2]]


@pytest.mark.parametrize(
    ("trigger", "read_at", "due"),
    [
        (ReloadTrigger(), 0, None),
        (ReloadTrigger(HOUR), 5, 5 + HOUR),
        (ReloadTrigger(24 * HOUR, at=10 * HOUR), 9 * HOUR, 10 * HOUR),
        (ReloadTrigger(24 * HOUR, at=10 * HOUR), 11 * HOUR, 34 * HOUR),
        (ReloadTrigger(48 * HOUR, at=10 * HOUR), 11 * HOUR, 58 * HOUR),
    ],
)
def test_a_table_is_read_again_when_it_is_time(trigger: ReloadTrigger, read_at: int, due: int | None) -> None:
    times = range(read_at, read_at + 60 * HOUR, 60_000) if due is None else (due - 1, due)
    found = [time for time in times if trigger.is_due(read_at, time)]
    assert found == ([] if due is None else [due])
