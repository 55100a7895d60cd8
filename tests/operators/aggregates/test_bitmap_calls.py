"""Aggregates of bitmaps, over the different values of each group."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.common.bitmaps import packed, unpacked
from headrace.operators.aggregates.calls.collected import COMBINES, bitmap, cardinality

SETS = [packed([1, 2, 3]), packed([2, 3, 4])]


@pytest.mark.parametrize(
    ("word", "counts", "members"),
    [("AND", [1, 1], [2, 3]), ("OR", [1, 1], [1, 2, 3, 4]), ("XOR", [1, 1], [1, 4]), ("XOR", [1, 2], [1, 2, 3])],
)
def test_bitmaps_are_combined(word: str, counts: list[int], members: list[int]) -> None:
    groups = pa.array([{"values": SETS, "counts": counts}, {"values": [], "counts": []}])
    first, second = bitmap(COMBINES[word], [groups]).to_pylist()
    assert unpacked(first).tolist() == members
    assert second is None
    assert cardinality(COMBINES[word], [groups]).to_pylist() == [len(members), None]


def test_integers_become_a_bitmap() -> None:
    groups = pa.array([{"values": [5, 3], "counts": [2, 1]}])
    assert unpacked(bitmap(COMBINES["BUILD"], [groups])[0].as_py()).tolist() == [3, 5]
