"""Numbers, sizes and times as people read them."""

from __future__ import annotations

import pytest

from headrace.common import wording
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 00 s"),
        (185, "3 min 05 s"),
        (7800, "2 h 10 min"),
        (1_047_600, "12 d 3 h"),
    ],
)
def test_spans_of_time(seconds: float, text: str) -> None:
    assert wording.span(seconds) == text


@pytest.mark.parametrize(
    ("per_second", "text"),
    [
        (0.0, "0 records/s"),
        (0.04, "0.0 records/s"),
        (0.4, "0.4 records/s"),
        (0.97, "1 record/s"),
        (1.2, "1 record/s"),
        (4321.0, "4,321 records/s"),
    ],
)
def test_rates(per_second: float, text: str) -> None:
    assert wording.rate(per_second) == text


def test_one_is_no_plural() -> None:
    assert [wording.count(amount, "record") for amount in (0, 1, 1000)] == ["0 records", "1 record", "1,000 records"]


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 kB"), (5 << 20, "5.0 MB"), (3 << 30, "3.0 GB"), (5 << 50, "5120.0 TB")],
)
def test_sizes(size: int, text: str) -> None:
    assert wording.size(size) == text


@pytest.mark.parametrize(
    ("millis", "lag", "text"),
    [
        (MIN_WATERMARK, None, "none yet"),
        (MAX_WATERMARK, None, "end of input"),
        (1_431_857_103_000, None, "2015-05-17 10:05:03 UTC"),
        (1_431_857_103_250, 12_500, "2015-05-17 10:05:03.250 UTC (12.5 s behind)"),
        (1_431_857_103_000, -60_000, "2015-05-17 10:05:03 UTC (1 min 00 s ahead)"),
        (-1, None, "1969-12-31 23:59:59.999 UTC"),
        (MAX_WATERMARK - 1, None, "9223372036854775806 ms"),
    ],
)
def test_watermarks(millis: int, lag: int | None, text: str) -> None:
    assert wording.watermark(millis, lag) == text
