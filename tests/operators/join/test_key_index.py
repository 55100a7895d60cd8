"""Rows by their keys: each pair of equal keys is found once, whatever the keys are."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.join.key_index import KeyIndex

KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "narrow": (pa.int64(), st.integers(-3, 3)),
    "wide": (pa.int64(), st.sampled_from([-(2**63), -1, 0, 5, 2**40, 2**63 - 1])),
    "texts": (pa.string(), st.sampled_from(["", "a", "b", "\N{OHM SIGN}"])),
    "decimals": (pa.decimal128(38, 2), st.sampled_from([Decimal(0), Decimal("1.50"), Decimal(10**30), Decimal(-1)])),
    "truths": (pa.bool_(), st.booleans()),
    "days": (pa.date32(), st.dates(max_value=date(2, 1, 1))),
}


@given(st.data())
def test_all_pairs_of_equal_keys_are_found(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(KINDS)), max_size=3))
    row = st.tuples(*(st.none() | KINDS[name][1] for name in names))
    table, keys = data.draw(st.lists(row, max_size=12)), data.draw(st.lists(row, max_size=12))
    index = KeyIndex(_columns(table, names), len(table))
    found = [
        (one, other)
        for some, others in index.pairs(_columns(keys, names), len(keys))
        for one, other in zip(some, others, strict=True)
    ]
    expected = [
        (one, other)
        for one, key in enumerate(keys)
        for other, row in enumerate(table)
        if key == row and None not in key
    ]
    assert found == expected
    there = index.have(_columns(keys, names), len(keys))
    assert np.flatnonzero(there).tolist() == sorted({one for one, _ in expected})


def _columns(rows: list[Any], names: list[str]) -> list[pa.Array]:
    return [pa.array([row[place] for row in rows], KINDS[name][0]) for place, name in enumerate(names)]


def test_there_is_one_zero_and_one_nan() -> None:
    table, keys = pa.array([0.0, -0.0, float("nan"), None]), pa.array([-0.0, float("-nan"), None])
    ((some, others),) = KeyIndex([table], len(table)).pairs([keys], len(keys))
    assert [some.tolist(), others.tolist()] == [[0, 0, 1], [0, 1, 2]]


@pytest.mark.parametrize("step", [1, 1_000_003])
def test_many_keys_are_found_in_chunks(step: int) -> None:
    values = np.repeat(np.arange(300) * step, 1000)
    chunks = list(KeyIndex([pa.array(values)], len(values)).pairs([pa.array(values[::1000])], 300))
    assert sum(len(some) for some, _ in chunks) == len(values)
    assert all((values[::1000][some] == values[others]).all() for some, others in chunks)


@pytest.mark.parametrize(("step", "is_exact"), [(5, True), (7, False)])
@pytest.mark.parametrize("copies", [1, 2])
def test_a_wide_range_takes_no_table_of_places(step: int, is_exact: bool, copies: int) -> None:
    values = np.repeat(np.arange(1_300_000) * step, copies)
    index = KeyIndex([pa.array(values)], len(values))
    assert index.is_exact is is_exact
    keys = np.arange(0, 7_000_000, 70_000)
    ((some, others),) = index.pairs([pa.array(keys)], len(keys))
    there = np.flatnonzero(keys < 1_300_000 * step)
    assert some.tolist() == np.repeat(there, copies).tolist()
    assert (values[others] == keys[some]).all()
    assert np.flatnonzero(index.have([pa.array(keys)], len(keys))).tolist() == there.tolist()
