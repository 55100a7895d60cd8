"""Bitmaps are Roaring bitmaps in the portable format."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from headrace.common.bitmaps import packed, unpacked, unsigned


@pytest.mark.parametrize(
    "values", [[], [0], [3, 1, 2, 70000], [-1, 5], list(range(5000)), list(range(0, 200_000, 7)), [2**31 - 1, -(2**31)]]
)
def test_integers_come_back_in_the_order_of_unsigned_ones(values: list[int]) -> None:
    expected = sorted(set(values), key=lambda value: value & 0xFFFF_FFFF)
    assert unpacked(packed(values)).tolist() == expected
    assert (np.diff(unsigned(packed(values)).astype(np.int64)) > 0).all()


def test_the_bytes_are_those_of_other_implementations() -> None:
    assert packed([1, 2, 3, 70000]).hex() == "3a300000020000000000020001000000180000001e0000000100020003007011"


def test_containers_of_runs_are_read() -> None:
    runs = struct.pack("<IBHHHHHHH", 12347, 1, 0, 5, 2, 10, 2, 100, 2)
    assert unpacked(runs).tolist() == [10, 11, 12, 100, 101, 102]


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x3a\x30\x00\x00\x05\x00\x00\x00", b"nonsense"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="no bitmap"):
        unpacked(data)
