"""Known answers of Flink, from whole jobs: bids by the minute, in windows of every kind that its pages show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from headrace.common import Types
from headrace.datastream import ProcessWindowFunction
from headrace.datastream.window import (
    CumulatingEventTimeWindows,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from headrace.testing import JobHarness

MINUTE = 60_000
BID = Types.TUPLE([Types.STRING(), Types.DOUBLE()])
BIDS = [("all", 5, 4.0), ("all", 7, 2.0), ("all", 9, 5.0), ("all", 11, 3.0), ("all", 13, 1.0), ("all", 17, 6.0)]
BIDS_BY_ITEM = [("A", 7, 2.0), ("A", 6, 4.0), ("B", 9, 5.0), ("A", 8, 3.0), ("B", 17, 1.0)]


class Sum(ProcessWindowFunction):
    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Any:
        window = context.window()
        yield key, window.start // MINUTE, window.end // MINUTE, sum(price for _, price in elements)


def sums(assigner: Any, bids: list[tuple[str, int, float]], records_per_epoch: int) -> list[Any]:
    """Key, start, end and sum of each window, in the order of their ends."""

    def job(harness: JobHarness) -> None:
        windows = harness.add_source("bids", BID).key_by(lambda bid: bid[0], key_type=Types.STRING()).window(assigner)
        harness.add_sink("sums", windows.process(Sum(), Types.PICKLED_BYTE_ARRAY()))

    with JobHarness(job) as harness:
        for number, (item, minute, price) in enumerate(bids, 1):
            harness.push("bids", (item, price), minute * MINUTE)
            if number % records_per_epoch == 0:
                harness.run_epoch()
        harness.finish()
        return harness.results("sums")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("records_per_epoch", [1, 4, 100])
@pytest.mark.parametrize(
    ("assigner", "bids", "expected"),
    [
        (TumblingEventTimeWindows.of(10 * MINUTE), BIDS, [("all", 0, 10, 11), ("all", 10, 20, 10)]),
        (
            SlidingEventTimeWindows.of(10 * MINUTE, 5 * MINUTE),
            BIDS,
            [("all", 0, 10, 11), ("all", 5, 15, 15), ("all", 10, 20, 10), ("all", 15, 25, 6)],
        ),
        (
            CumulatingEventTimeWindows.of(10 * MINUTE, 2 * MINUTE),
            BIDS,
            [
                *(("all", 0, 6, 4), ("all", 0, 8, 6), ("all", 0, 10, 11), ("all", 10, 12, 3), ("all", 10, 14, 4)),
                *(("all", 10, 16, 4), ("all", 10, 18, 10), ("all", 10, 20, 10)),
            ],
        ),
        (
            EventTimeSessionWindows.with_gap(5 * MINUTE),
            BIDS_BY_ITEM,
            [("A", 6, 13, 9), ("B", 9, 14, 5), ("B", 17, 22, 1)],
        ),
    ],
    ids=["tumbling", "sliding", "cumulating", "sessions"],
)
def test_bids(assigner: Any, bids: Any, expected: list[Any], records_per_epoch: int) -> None:
    assert sums(assigner, bids, records_per_epoch) == expected


@pytest.mark.parametrize("records_per_epoch", [1, 100])
def test_sessions_that_touch_are_one(records_per_epoch: int) -> None:
    starts = [("1", 190), ("3", 190), ("2", 190), ("1", 220), ("1", 260), ("2", 210)]
    found = sums(EventTimeSessionWindows.with_gap(30 * MINUTE), [(*each, 1.0) for each in starts], records_per_epoch)
    assert sorted(found) == [("1", 190, 250, 2), ("1", 260, 290, 1), ("2", 190, 240, 2), ("3", 190, 220, 1)]
