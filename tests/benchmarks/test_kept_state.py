"""What a join may keep, found in the input alone."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks.data import OUT_OF_ORDER_MILLIS, RandomKeys, dataset
from benchmarks.kept_state import ENDS, Kept, largest_ratio
from benchmarks.truth import HALF_WINDOW_MILLIS, NEAR_MILLIS, WINDOW_MILLIS, WrongResultError

FIELDS = 24
"""Bytes: key, time and value."""

FILES, EACH = 10, 400


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return dataset(RandomKeys(FILES, EACH, 50), tmp_path)


def times_of(source: Path) -> list[int]:
    files = sorted(source.glob("*.parquet"))
    return [round(row["ts"].timestamp() * 1000) for path in files for row in pq.read_table(path).to_pylist()]


def watermark_after(times: list[int], records: int) -> int:
    return max(times[:records]) - OUT_OF_ORDER_MILLIS - 1


def can_match(join: str, time: int, watermark: int) -> int:
    """How often a record counts."""
    if join in ("interval", "outer", "alone"):
        return time + NEAR_MILLIS > watermark
    slide = WINDOW_MILLIS if join == "window" else HALF_WINDOW_MILLIS
    starts = range(time // slide * slide, time - WINDOW_MILLIS, -slide)
    return sum(start + WINDOW_MILLIS - 1 > watermark for start in starts)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("join", ENDS)
def test_the_largest_ratio_is_that_of_a_loop(join: str, source: Path) -> None:
    times, size = times_of(source), 1 << 20
    kept = [Kept(read, watermark_after(times, read), size) for read in range(EACH, len(times), EACH)]
    counts = [sum(can_match(join, time, each.watermark) for time in times[: each.records]) for each in kept]
    of_second_half = [count for each, count in zip(kept, counts, strict=True) if each.records >= len(times) // 2]
    ratio = largest_ratio(source, join, [*kept, Kept(len(times), 1 << 62, 0)])
    assert ratio == pytest.approx(size / min(of_second_half) / FIELDS)
    assert len(set(counts)) > 3


def test_records_that_were_read_in_another_order_are_told(source: Path) -> None:
    read = (FILES - 1) * EACH
    wrong = watermark_after(times_of(source), read) + 1
    with pytest.raises(WrongResultError, match=f"after {read} records the watermark is {wrong}, should be {wrong - 1}"):
        largest_ratio(source, "interval", [Kept(read, wrong, 1)])
