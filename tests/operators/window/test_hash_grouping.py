"""Grouping by a hash table gives the groups that sorting gives, and reduces them alike."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.operators.aggregates.exact_sum import round_sums, rounded, sum_integers, sum_values
from headrace.state.keys.hashing import hash_array
from headrace.state.runs import grouping
from headrace.state.runs.grouping import group_rows
from headrace.state.runs.key_dictionary import HashGroups, Runs
from tests.draws import draws

ROWS = st.lists(st.tuples(st.integers(-3, 3) | st.integers(-(2**62), 2**62), st.integers(0, 5)), min_size=1)
TYPES = (pa.int64(), pa.string(), pa.binary())


@settings(deadline=None)
@given(rows=ROWS, cuts=st.lists(st.integers(0, 20)), key_type=st.sampled_from(TYPES))
def test_the_groups_are_those_of_sorting(rows: list[tuple[int, int]], cuts: list[int], key_type: pa.DataType) -> None:
    times = np.array([time for time, _ in rows])
    keys = pa.array([key if key_type == pa.int64() else f"clé-{key}".encode() for _, key in rows]).cast(key_type)
    bounds = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    found = HashGroups.of(Runs.of(times), [keys.slice(start, stop - start) for start, stop in pairwise(bounds)])
    members: dict[tuple[int, object], list[int]] = {}
    for row, group in enumerate(found.segments.ids.tolist()):
        members.setdefault((found.times[group].item(), found.keys[group].as_py()), []).append(row)
    sorting = group_rows(times, hash_array(keys), keys)
    expected = {(times[r].item(), keys[int(r)].as_py()) for r in sorting.first_rows}
    assert set(members) == expected
    assert len(found.segments) == len(expected)
    assert all((times[row].item(), keys[row].as_py()) == group for group, own in members.items() for row in own)
    assert np.array_equal(found.times, np.sort(found.times))
    assert {own[0] for own in members.values()} == set(found.segments.first_rows.tolist())


@settings(deadline=None)
@given(
    values=st.lists(st.tuples(st.integers(0, 4), st.floats(width=64)), min_size=1),
    ufunc=st.sampled_from([np.fmin, np.maximum]),
)
def test_reductions_are_those_of_sorted_rows(values: list[tuple[int, float]], ufunc: np.ufunc) -> None:
    keys = pa.array([key for key, _ in values])
    numbers = np.array([value for _, value in values]) + 0.0
    times = np.zeros(len(values), np.int64)
    scattered = HashGroups.of(Runs.of(times), [keys])
    grouped = group_rows(times, hash_array(keys), keys)
    place = {keys[int(row)].as_py(): group for group, row in enumerate(grouped.first_rows)}
    order = [place[key] for key in scattered.keys.to_pylist()]
    in_order = numbers[grouped.order]
    assert np.array_equal(scattered.segments.counts, grouped.segments.counts[order])
    assert np.array_equal(
        scattered.segments.reduce(ufunc, numbers), grouped.segments.reduce(ufunc, in_order)[order], equal_nan=True
    )
    mine, theirs = sum_values(numbers, scattered.segments), sum_values(in_order, grouped.segments)
    assert np.array_equal(round_sums(mine), round_sums(theirs)[order], equal_nan=True)


WIDE = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([1.0, 2.0**-53, 2.0**-54, -(2.0**-53), 0.1])


@settings(deadline=None, max_examples=draws(60))
@given(values=st.lists(st.tuples(st.integers(0, 2), WIDE), min_size=1, max_size=30), rows=st.integers(1, 8))
def test_sums_of_rows_that_are_taken_in_stretches_are_exact(values: list[tuple[int, float]], rows: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping, "BLOCK_ROWS", rows)
        groups = HashGroups.of(Runs.of(np.zeros(len(values), np.int64)), [pa.array([key for key, _ in values])])
        sums = round_sums(sum_values(np.array([value for _, value in values]), groups.segments)).tolist()
    for key, found in zip(groups.keys.to_pylist(), sums, strict=True):
        exact = sum((Fraction(value) for own, value in values if own == key), Fraction(0))
        assert found == rounded(exact)


@pytest.mark.parametrize("lowest", [-(2**63), -3, 2**63 - 101])
def test_integers_close_to_each_other_number_themselves(lowest: int) -> None:
    keys = [lowest + number % 101 for number in range(0, 1000, 2)]
    pieces = [pa.array(keys[:200]), pa.array(keys[200:200], pa.int64()), pa.array(keys[200:])]
    groups = HashGroups.of(Runs.of(np.array([20] * 300 + [10] * 200)), pieces)
    assert list(zip(groups.times.tolist(), groups.keys.to_pylist(), groups.segments.counts.tolist(), strict=True)) == [
        (time, key, own.count(key)) for time, own in ((10, keys[300:]), (20, keys[:300])) for key in sorted({*own})
    ]


def test_integers_from_end_to_end_are_numbered_by_a_table() -> None:
    keys = [2**63 - 1, -(2**63), 0] * 2
    groups = HashGroups.of(Runs.of(np.zeros(6, np.int64)), [pa.array(keys)])
    assert dict(zip(groups.keys.to_pylist(), groups.segments.counts.tolist(), strict=True)) == dict.fromkeys(keys, 2)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1))
def test_runs_are_the_times_of_the_rows(pieces: list[tuple[int, int]]) -> None:
    columns = [np.broadcast_to(np.int64(time), length) for time, length in pieces]
    times = np.concatenate(columns)
    for runs in (Runs.of_all(columns), Runs.of_all([column.copy() for column in columns]), Runs.of(times)):
        assert runs.total == len(times)
        assert np.array_equal(runs.each(), times)


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63)])
def test_integers_beyond_64_bits_are_carried(value: int) -> None:
    groups = HashGroups.of(Runs.of(np.zeros(4, np.int64)), [pa.array([1, 2, 1, 1])])
    low, carries = sum_integers(np.array([value, 7, value, value]), groups.segments)
    assert carries is not None
    assert [int(a) + (int(b) << 64) for a, b in zip(low, carries, strict=True)] == [3 * value, 7]


def test_many_times_with_many_keys_do_not_make_large_tables() -> None:
    count = 20_000
    times, keys = np.arange(count), pa.array(np.arange(count) % 5_000)  # places for 100 million groups otherwise
    groups = HashGroups.of(Runs.of(times), [keys])
    assert len(groups.segments) == count
    assert np.array_equal(groups.times, times)
    assert groups.keys.equals(keys)
