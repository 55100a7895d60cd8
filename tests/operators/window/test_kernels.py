"""Grouping, assignment and block-wise merging against plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.operators.window.columnar.accumulators import Accumulators
from headrace.operators.window.columnar.windows_by_end import merge_blocks
from headrace.operators.window.lateness import cleaned_end, cleanup_times, passed_end
from headrace.state.keys.hashing import hash_array
from headrace.state.runs.grouping import Groups, Segments, group_rows, group_times
from headrace.windowing.intervals import AlignedWindows
from tests.draws import draws

LOW_BITS = 1 << 63  # hashes that agree in all but their lowest bits land in one prefix

hashes = st.one_of(st.integers(0, 3), st.integers(0, 3).map(lambda n: LOW_BITS + n), st.integers(0, 2**64 - 1))


@st.composite
def keyed_rows(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, list[Any]]:
    """Rows whose hashes collide: a small hash for each key, not necessarily its own."""
    kind = draw(st.sampled_from([st.integers(-5, 5), st.sampled_from(["", "a", "b", "ab", "é"])]))
    keys = draw(st.lists(kind, min_size=1, max_size=40))
    hash_of = {key: draw(hashes) for key in sorted(set(keys))}
    ends = draw(st.lists(st.sampled_from([-7, 0, 5, 10]), min_size=len(keys), max_size=len(keys)))
    return np.array(ends, np.int64), np.array([hash_of[key] for key in keys], np.uint64), keys


def expected_order(ends: Any, hashes: Any, keys: list[Any]) -> list[int]:
    return sorted(range(len(keys)), key=lambda i: (int(ends[i]), int(hashes[i]), keys[i], i))


def check_groups(groups: Groups, ends: Any, hashes: Any, keys: list[Any]) -> None:
    order = groups.order.tolist()
    assert order == expected_order(ends, hashes, keys)
    pairs = [(int(ends[i]), keys[i]) for i in order]
    starts = [i for i in range(len(pairs)) if i == 0 or pairs[i] != pairs[i - 1]]
    assert groups.segments.starts.tolist() == starts
    assert groups.segments.total == len(keys)


@settings(max_examples=draws(150), deadline=None)
@given(keyed_rows())
def test_groups_are_those_of_a_sort(rows: Any) -> None:
    ends, hashed, keys = rows
    check_groups(group_rows(ends, hashed, pa.array(keys)), ends, hashed, keys)


@settings(max_examples=draws(100), deadline=None)
@given(keyed_rows(), st.data())
def test_namespaces_tell_rows_of_a_key_apart(rows: Any, data: st.DataObject) -> None:
    ends, hashed, keys = rows
    names = data.draw(st.lists(st.sampled_from([b"", b"a", b"ab"]), min_size=len(keys), max_size=len(keys)))
    check_groups(
        group_rows(ends, hashed, pa.array(keys), pa.array(names)), ends, hashed, [*zip(keys, names, strict=True)]
    )


def test_many_rows_and_windows_take_the_other_sort() -> None:
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 3, 5000)
    ends = rng.permutation(np.arange(5000) * 2**33)
    keys_array = pa.array(keys)
    few_bits = group_rows(ends, hash_array(keys_array), keys_array)
    assert few_bits.order.tolist() == np.argsort(ends).tolist()
    assert few_bits.segments.are_single


def test_real_hashes_at_scale() -> None:
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 20_000, 100_000)
    ends = rng.integers(0, 5, 100_000) * 60
    hashed = hash_array(pa.array(keys))
    groups = group_rows(ends, hashed, pa.array(keys))
    assert groups.order.tolist() == np.lexsort((np.arange(len(keys)), hashed, ends)).tolist()
    assert len(groups.segments) == len(set(zip(ends.tolist(), keys.tolist(), strict=True)))
    pieces = list(groups.blocks(1000))
    assert np.concatenate([piece.order for piece in pieces]).tolist() == groups.order.tolist()
    assert sum(len(piece.segments) for piece in pieces) == len(groups.segments)


def test_no_rows() -> None:
    groups = group_rows(np.empty(0, np.int64), np.empty(0, np.uint64), pa.array([], pa.int64()))
    assert len(groups.segments) == 0
    assert group_times(np.empty(0, np.int64))[1].tolist() == [0]


@pytest.mark.parametrize(
    ("sizes", "values", "sums"),
    [([1, 1], [3, 4], [3, 4]), ([2, 1], [3, 4, 5], [7, 5]), ([3], [1, 2, 3], [6])],
)
def test_segments_reduce(sizes: list[int], values: list[int], sums: list[int]) -> None:
    segments = Segments(np.cumsum([0, *sizes])[:-1], sum(sizes))
    assert segments.reduce(np.add, np.array(values)).tolist() == sums
    assert segments.counts.tolist() == sizes
    assert segments.ids.tolist() == [i for i, size in enumerate(sizes) for _ in range(size)]


@settings(max_examples=draws(100), deadline=None)
@given(
    size=st.integers(1, 50),
    slide=st.integers(1, 60),
    offset=st.integers(-59, 59),
    timestamps=st.lists(st.integers(-200, 200), max_size=20),
)
def test_assignment_is_that_of_the_assigner(size: int, slide: int, offset: int, timestamps: list[int]) -> None:
    windows = AlignedWindows(size, slide, offset)
    pairs = windows.assign(np.array(timestamps, np.int64))
    expected = [(i, w.end) for i, timestamp in enumerate(timestamps) for w in windows.windows_of(timestamp)]
    assert list(zip(pairs.records.tolist(), pairs.ends.tolist(), strict=True)) == expected


@pytest.mark.parametrize("timestamps", [[-(2**63) + 70, 2**63 - 70], [2**63 - 70] * 2, [-5, -1], [-1, 0], [5, 60_004]])
def test_together_timestamps_have_the_windows_that_each_has_alone(timestamps: list[int]) -> None:
    windows = AlignedWindows(60_000, 60_000, 5)
    alone = [windows.assign(np.array([timestamp])).ends[0] for timestamp in timestamps]
    for times in (1, 4096):
        together = windows.assign(np.repeat(timestamps, times))
        assert together.is_identity
        assert np.array_equal(together.ends, np.repeat(alone, times))


def test_cleanup_never_overflows() -> None:
    ends = np.array([0, 10, MAX_WATERMARK - 2])
    assert cleanup_times(ends, 0).tolist() == [-1, 9, MAX_WATERMARK - 3]
    assert cleanup_times(ends, 5).tolist() == [4, 14, MAX_WATERMARK]
    assert cleanup_times(ends, MAX_WATERMARK).tolist() == [MAX_WATERMARK - 1, MAX_WATERMARK, MAX_WATERMARK]


def test_the_last_window_that_has_fired_or_gone() -> None:
    ends = np.array([MIN_WATERMARK + 1, -3, 0, 10, MAX_WATERMARK - 5, MAX_WATERMARK])
    watermarks = (MIN_WATERMARK, MIN_WATERMARK + 3, -4, 0, 9, 14, MAX_WATERMARK - 6, MAX_WATERMARK - 1, MAX_WATERMARK)
    for watermark in watermarks:
        assert (ends <= passed_end(watermark)).tolist() == (ends - 1 <= watermark).tolist()
        for lateness in (0, 5, MAX_WATERMARK):
            gone = [end <= cleaned_end(watermark, lateness) for end in ends.tolist()]
            assert gone == (cleanup_times(ends, lateness) <= watermark).tolist()


@pytest.mark.parametrize("rows", [1, 7, 64, 100_000])
def test_blocks_hold_all_rows_in_order(rows: int) -> None:
    rng = np.random.default_rng(2)
    tables = [sorted_table(rng, count) for count in (0, 10, 500, 3000)]
    blocks = list(merge_blocks(tables, rows))
    seen: list[tuple[int, int]] = []
    for block in blocks:
        pairs = sorted(
            (e, h) for piece in block for e, h in zip(piece.ends.tolist(), piece.hashes.tolist(), strict=True)
        )
        assert not seen or not pairs or pairs[0] > seen[-1], "a key and window is in one block only"
        seen += pairs
    assert len(seen) == sum(map(len, tables))
    assert seen == sorted(seen)


def sorted_table(rng: np.random.Generator, count: int) -> Accumulators:
    keys = rng.permutation(5000)[:count]
    ends = rng.choice([10, 20, 20, 20, 30], count)
    hashed = hash_array(pa.array(keys))
    order = np.lexsort((hashed, ends))
    return Accumulators(ends[order], hashed[order], pa.array(keys[order]), [pa.array(np.ones(count)[order])])
