"""How much a join keeps, beside the raw size of what can still match: that is found in the input alone, by numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data import OUT_OF_ORDER_MILLIS
from benchmarks.truth import HALF_WINDOW_MILLIS, NEAR_MILLIS, WINDOW_MILLIS, WrongResultError

Longs = npt.NDArray[np.int64]


class Kept(NamedTuple):
    """What there was at the end of an epoch.

    Attributes:
        records: how many records had been read.
        watermark: how far the event time of the join had come, in milliseconds.
        size: the bytes of state that the manifest needs, in files and in itself.
    """

    records: int
    watermark: int
    size: int


def _near(times: Longs) -> list[Longs]:
    return [times + NEAR_MILLIS]


def _in_minutes(times: Longs) -> list[Longs]:
    return [_end(times, WINDOW_MILLIS)]


def _in_two_windows(times: Longs) -> list[Longs]:
    first = _end(times, HALF_WINDOW_MILLIS)
    return [first, first + HALF_WINDOW_MILLIS]


def _end(times: Longs, size: int) -> Longs:
    """The largest timestamp of the window that each is in."""
    return times // size * size + size - 1


ENDS: Mapping[str, Callable[[Longs], Sequence[Longs]]] = {
    "interval": _near,
    "outer": _near,
    "alone": _near,
    "window": _in_minutes,
    "sliding": _in_two_windows,
}
"""By join the watermarks at which a record can match no more: as many as it has windows, in each of which it counts."""


def largest_ratio(source: Path, join: str, kept: Sequence[Kept]) -> float:
    """How many times the fields of what can still match was kept, where that was most in the second half of the input.

    Args:
        source: the folder with the input, which was read in the order of its files.
        join: one of :data:`ENDS`.
        kept: what the program saw, epoch by epoch.

    Raises:
        WrongResultError: when event time was not where these records bring it.
    """
    input_ = pa.concat_tables(map(pq.read_table, sorted(source.glob("*.parquet"))))
    times = input_.column("ts").cast(pa.int64()).to_numpy() // 1_000
    ends = ENDS[join](times)
    matching = {}
    for each in kept:
        if len(times) // 2 <= each.records < len(times):  # with the last record event time comes to its end
            _check_watermark(each, times)
            matching[each] = sum(int((end[: each.records] > each.watermark).sum()) for end in ends)
    fields = sum(field.type.bit_width for field in input_.schema) // 8
    return max(each.size / (count * fields) for each, count in matching.items())


def _check_watermark(kept: Kept, times: Longs) -> None:
    expected = int(times[: kept.records].max()) - OUT_OF_ORDER_MILLIS - 1
    if kept.watermark != expected:
        raise WrongResultError(f"after {kept.records} records the watermark is {kept.watermark}, should be {expected}")
