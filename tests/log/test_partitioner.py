"""Keys go where Kafka's own clients send them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log.accumulator import DefaultPartitioner, murmur2
from tests.draws import draws


def kafkas(data: bytes) -> int:
    """``org.apache.kafka.common.utils.Utils.murmur2``, byte by byte."""
    mask, factor = 0xFFFFFFFF, 0x5BD1E995
    h = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * factor & mask
        k = (k ^ k >> 24) * factor & mask
        h = h * factor & mask ^ k
    rest = data[whole:]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * factor & mask
    h = (h ^ h >> 13) * factor & mask
    return h ^ h >> 15


@pytest.mark.parametrize(
    ("text", "expected"),
    [  # of Kafka's UtilsTest
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_kafkas_own_examples(text: str, expected: int) -> None:
    assert murmur2(pa.array([text.encode()])).astype(np.int32).tolist() == [expected]


@settings(deadline=None, max_examples=draws(200))
@given(st.lists(st.binary(max_size=20), max_size=20), st.integers(0, 5))
def test_many_at_once_are_like_one_by_one(keys: list[bytes], start: int) -> None:
    assert murmur2(pa.array(keys, pa.binary()).slice(start)).tolist() == [kafkas(key) for key in keys[start:]]


def test_records_without_a_key_take_turns() -> None:
    partitioner = DefaultPartitioner(1)
    chosen = partitioner.partition(pa.nulls(40_000, pa.binary()), 3)
    assert np.unique(chosen[:16_384]).tolist() == [1]
    assert sorted(np.unique(chosen)) == [0, 1, 2]
    assert partitioner.partition(pa.nulls(1, pa.binary()), 3).tolist() == [1]


def test_keys_and_no_keys_in_one_batch() -> None:
    chosen = DefaultPartitioner(0).partition(pa.array([b"abc", None, b"21"]), 5)
    assert chosen.tolist() == [(479470107 & 0x7FFFFFFF) % 5, 0, (-973932308 & 0x7FFFFFFF) % 5]
