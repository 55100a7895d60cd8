"""Key groups divide the range of hashes, in order, and belong to one partition each."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.common.errors import InvalidProgramError
from headrace.state.keys.hashing import (
    HASH_END,
    are_within,
    hash_bounds,
    hash_bounds_of_partition,
    key_groups,
    partitions_of_hashes,
    range_of_partition,
)

sizes = st.integers(1, 200).flatmap(lambda most: st.tuples(st.integers(1, most), st.just(most)))
hashes = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20)


@given(hashes, st.integers(1, 32768))
def test_groups_rise_with_the_hash(values: list[int], max_parallelism: int) -> None:
    groups = key_groups(np.array(sorted(values), dtype=np.uint64), max_parallelism)
    assert (np.diff(groups) >= 0).all()
    assert groups.min() >= 0
    assert groups.max() < max_parallelism


@given(sizes)
def test_partitions_share_out_all_groups_and_hashes(size: tuple[int, int]) -> None:
    parallelism, max_parallelism = size
    ranges = [range_of_partition(partition, parallelism, max_parallelism) for partition in range(parallelism)]
    assert [group for groups in ranges for group in groups] == list(range(max_parallelism))
    bounds = [hash_bounds_of_partition(partition, parallelism, max_parallelism) for partition in range(parallelism)]
    assert [bounds[0][0], bounds[-1][1]] == [0, HASH_END]
    assert all(left[1] == right[0] for left, right in pairwise(bounds))


@given(sizes, hashes)
def test_a_hash_is_within_the_bounds_of_its_partition_and_group(size: tuple[int, int], values: list[int]) -> None:
    parallelism, max_parallelism = size
    column = np.array(values, dtype=np.uint64)
    owners = partitions_of_hashes(column, parallelism, max_parallelism).tolist()
    groups = key_groups(column, max_parallelism)
    for value, owner, group in zip(values, owners, groups.tolist(), strict=True):
        assert group in range_of_partition(owner, parallelism, max_parallelism)
        for low, high in (
            hash_bounds_of_partition(owner, parallelism, max_parallelism),
            hash_bounds(range(group, group + 1), max_parallelism),
        ):
            assert low <= value < high
            assert are_within(column, (low, high)).tolist() == [low <= other < high for other in values]


@pytest.mark.parametrize(("parallelism", "max_parallelism"), [(0, 1), (2, 1), (1, 0), (1, 32769)])
def test_impossible_parallelism_is_refused(parallelism: int, max_parallelism: int) -> None:
    with pytest.raises(InvalidProgramError):
        range_of_partition(0, parallelism, max_parallelism)
