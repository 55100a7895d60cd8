"""Hashes never change: frozen values, XXH64 itself, and every layout that Arrow has for the same values."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from headrace.common.errors import InvalidTypeError
from headrace.state.keys.hashing import SCALAR_ROWS, hash_array, xxh64

GOLDEN_INTEGERS = {0: 0xE220A8397B1DCDAF, 1: 0x910A2DEC89025CC1, -1: 0xE4D971771B652C20}
GOLDEN_BYTES = {
    b"": 0xEF46DB3751D8E999,
    b"a": 0xD24EC4F1A98C6E5B,
    b"abc": 0x44BC2CF5AD770999,
    b"hello world": 0x45AB6734B21E6968,
}


def test_integers_keep_their_hashes() -> None:
    assert hash_array(pa.array(list(GOLDEN_INTEGERS))).tolist() == list(GOLDEN_INTEGERS.values())


def test_bytes_keep_their_hashes() -> None:
    assert hash_array(pa.array(list(GOLDEN_BYTES), pa.binary())).tolist() == list(GOLDEN_BYTES.values())
    assert [xxh64(data) for data in GOLDEN_BYTES] == list(GOLDEN_BYTES.values())


@pytest.mark.parametrize("rows", [1, SCALAR_ROWS, SCALAR_ROWS + 1, 400])
@pytest.mark.parametrize("longest", [0, 3, 7, 8, 31, 32, 33, 64, 300])
def test_many_at_once_are_as_one_by_one(rows: int, longest: int) -> None:
    source = random.Random(rows * 1000 + longest)
    values = [source.randbytes(source.randint(0, longest)) for _ in range(rows)]
    expected = [xxh64(value) for value in values]
    array = pa.array(values, pa.binary())
    assert hash_array(array).tolist() == expected
    assert hash_array(array.slice(1, max(0, rows - 2))).tolist() == expected[1:][: max(0, rows - 2)]


def test_it_is_xxh64() -> None:
    xxhash = pytest.importorskip("xxhash")
    source = random.Random(7)
    values = [source.randbytes(length) for length in range(200)]
    assert hash_array(pa.array(values, pa.binary())).tolist() == [xxhash.xxh64_intdigest(value) for value in values]


def test_every_layout_of_the_same_values_has_the_same_hashes() -> None:
    words = ["", "ä", "word", "日本語" * 20] * 5
    expected = hash_array(pa.array(words)).tolist()
    for layout in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        assert hash_array(pa.array(words).cast(layout)).tolist() == expected
    binary = pa.array([word.encode() for word in words], pa.binary())
    assert hash_array(binary).tolist() == expected
    assert hash_array(binary.cast(pa.large_binary())).tolist() == expected


@pytest.mark.parametrize("layout", [pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint64()])
def test_every_width_of_an_integer_has_the_same_hash(layout: pa.DataType) -> None:
    numbers = [0, 1, 100]
    assert hash_array(pa.array(numbers, layout)).tolist() == hash_array(pa.array(numbers)).tolist()


def test_what_cannot_be_hashed_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match="null"):
        hash_array(pa.array([1, None]))
    with pytest.raises(InvalidTypeError, match="uint64"):
        hash_array(pa.array([2**63], pa.uint64()))
    with pytest.raises(InvalidTypeError, match="double"):
        hash_array(pa.array([1.0]))


def test_nothing_has_no_hashes() -> None:
    assert hash_array(pa.array([], pa.string())).tolist() == []
    assert hash_array(pa.array([], pa.int64())).dtype == np.uint64
