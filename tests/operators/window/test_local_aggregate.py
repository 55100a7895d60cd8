"""Aggregation before the shuffle gives what the receiver alone gives."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_against_model import CODEC, scenarios
from window_harness import INPUT, Collected, Driver, context
from window_model import MAX, Record

from headrace.common.constants import MIN_WATERMARK
from headrace.datastream import aggregates as agg
from headrace.expressions import col
from headrace.operators.aggregates.simple import MinOrMax
from headrace.operators.window.columnar import local_aggregate
from headrace.operators.window.columnar.accumulators import ColumnarWindowLayout
from headrace.operators.window.columnar.columnar_operator import columnar_window
from headrace.operators.window.columnar.local_aggregate import (
    ACCUMULATORS_INPUT,
    ACCUMULATORS_TAG,
    RECORDS_INPUT,
    LocalWindowAggregateOperator,
    expected_groups,
)
from headrace.windowing.intervals import AlignedWindows
from tests.draws import draws

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.operators.base import KeyedBatch

LAYOUT = ColumnarWindowLayout.of(
    INPUT, CODEC, [agg.count(), agg.sum("value"), agg.avg("value"), agg.min("value"), agg.max("value")], ["key"]
)
DISTINCT = ColumnarWindowLayout.of(
    INPUT,
    CODEC,
    [
        agg.var_samp("value"),
        agg.count_distinct("value"),
        agg.collect_multiset("value"),
        agg.approx_count_distinct("value"),
        agg.quantile("value", 0.3),
        agg.approx_quantile("value"),
        agg.top_n("value", 2),
        agg.bool_or(col("value") > 1.0).alias("any"),
    ],
    ["key"],
)
DEVIATIONS = ColumnarWindowLayout.of(
    INPUT, CODEC, [agg.stddev_pop("value"), agg.bool_and(col("value") > 0.0).alias("all")], ["key"]
)

LOWEST = -(2**62)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("layout", "examples"), [(LAYOUT, draws(80)), (DISTINCT, draws(30)), (DEVIATIONS, draws(60))])
def test_with_and_without_the_sender(layout: ColumnarWindowLayout, examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(scenario=scenarios(), lag=st.sampled_from([0, 3, 20]), copies=st.integers(1, 3))
    def check(scenario: Any, lag: int, copies: int) -> None:
        check_with_and_without_the_sender(layout, scenario, lag, copies)

    check()


def check_with_and_without_the_sender(layout: ColumnarWindowLayout, scenario: Any, lag: int, copies: int) -> None:
    windows, _, records, cuts, kinds = scenario
    records = [record for record in records for _ in range(copies)]
    alone, both = (Driver(lambda: columnar_window(layout, windows)) for _ in range(2))
    local = LocalWindowAggregateOperator(layout, windows)
    for epoch in epochs_of(records, [cut * copies for cut in cuts], kinds):
        run_epoch(alone, epoch, lag, None)
        run_epoch(both, epoch, lag, local)
    for driver in (alone, both):
        driver.run([], upto=MAX)
    assert [row[1:] for row in both.out.rows] == [row[1:] for row in alone.out.rows]
    assert both.counters == alone.counters


def epochs_of(records: list[Record], cuts: list[int], kinds: list[int]) -> Iterator[list[list[Record]]]:
    epoch: list[list[Record]] = []
    start = 0
    for cut, kind in [*zip(cuts, kinds, strict=True), (len(records), 1)]:
        epoch.append(records[start:cut])
        start = cut
        if kind:
            yield epoch
            epoch = []


def run_epoch(
    driver: Driver, batches: list[list[Record]], lag: int, local: LocalWindowAggregateOperator | None
) -> None:
    """One epoch of a receiver that another channel holds back by ``lag``; records may come by way of the sender."""
    operator = driver._begin()
    for records in filter(None, batches):
        batch = driver.batch([replace(record, watermark=max(record.watermark, LOWEST)) for record in records])
        batch = batch.with_watermarks(np.maximum.accumulate([max(r.watermark, LOWEST) for r in records]))
        for index, part in sent_by(local, batch) if local else [(RECORDS_INPUT, batch)]:
            met = np.maximum(part.watermarks, LOWEST) - lag
            operator.process(index, part.with_watermarks(np.maximum(met, driver.watermark)))
        driver.watermark = max(driver.watermark, int(batch.watermarks[-1]) - lag)
        operator.advance_watermark(driver.watermark)
    driver._end(operator)


def sent_by(local: LocalWindowAggregateOperator, batch: KeyedBatch) -> list[tuple[int, KeyedBatch]]:
    """What a sender makes of a batch: partial results for the second input, records for the first."""
    out = Collected()
    local.open(context(None), out)
    local.process(0, batch)
    local.advance_watermark(int(batch.watermarks[-1]))
    return [
        *((ACCUMULATORS_INPUT, b) for b in out.sides.get(ACCUMULATORS_TAG, [])),
        *((RECORDS_INPUT, b) for b in out.batches),
    ]


def test_records_that_do_not_become_fewer_travel_as_they_are() -> None:
    out = emitted([Record(i, 1.0, i) for i in range(10)])
    assert not out.sides
    assert sum(map(len, out.batches)) == 10


def test_records_that_become_fewer_are_summed_up() -> None:
    out = emitted([Record(i % 2, 0.5, 3, watermark=1) for i in range(10)])
    assert not out.batches
    (accumulators,) = out.sides[ACCUMULATORS_TAG]
    assert accumulators.columns.schema == LAYOUT.accumulator_schema
    assert accumulators.columns.column("records").to_pylist() == [5, 5]
    assert accumulators.watermarks.tolist() == [MIN_WATERMARK] * 2  # no other branch can be behind that
    assert sorted(accumulators.keys.values.to_pylist()) == [0, 1]


def test_records_with_a_late_window_travel_as_they_are() -> None:
    on_time = [Record(1, 1.0, 12, watermark=5)] * 4
    # Window [0, 10) is over, window [5, 15) is not: summed up here, the record could not be judged by the receiver.
    out = emitted([*on_time, Record(1, 1.0, 7, watermark=9)], AlignedWindows(10, 5))
    assert [row["value"] for batch in out.batches for row in batch.rows] == [1.0]
    assert out.batches[0].watermarks.tolist() == [9]


def emitted(records: list[Record], windows: AlignedWindows | None = None) -> Collected:
    driver = Driver(lambda: LocalWindowAggregateOperator(LAYOUT, windows or AlignedWindows(100, 100)))
    driver.run([records])
    return driver.out


def test_late_partial_results_are_counted_by_their_records() -> None:
    sent = emitted([Record(1, 1.0, 3)] * 6).sides[ACCUMULATORS_TAG][0]
    receiver = columnar_window(LAYOUT, AlignedWindows(100, 100))
    driver = Driver(lambda: receiver)
    driver.run([], upto=99)
    driver.fresh = False
    operator = driver._begin()
    operator.process(ACCUMULATORS_INPUT, sent.with_watermarks(np.full(len(sent), 99)))
    driver._end(operator)
    assert driver.counters == {"numLateRecordsDropped": 6}
    assert driver.out.rows == []


@pytest.mark.parametrize("aggregate", [agg.first("value"), agg.last("value")])
def test_aggregates_that_depend_on_order_say_so(aggregate: Any) -> None:
    assert ColumnarWindowLayout.of(INPUT, CODEC, [agg.count(), aggregate]).is_ordered
    assert not LAYOUT.is_ordered


def test_records_of_several_batches_are_summed_up_together() -> None:
    driver = Driver(lambda: LocalWindowAggregateOperator(LAYOUT, AlignedWindows(100, 100)))
    driver.run([[Record(i % 3, 1.0, 3 + 60 * batch) for i in range(30)] for batch in range(4)])
    (accumulators,) = driver.out.sides[ACCUMULATORS_TAG]
    assert [(row["window_end"], row["key"], row["records"]) for row in accumulators.rows] == [
        *((100, key, 20) for key in range(3)),
        *((200, key, 20) for key in range(3)),
    ]


def test_what_is_held_leaves_before_the_watermark_moves_on() -> None:
    driver = Driver(lambda: LocalWindowAggregateOperator(LAYOUT, AlignedWindows(100, 100)))
    operator = driver._begin()
    operator.process(0, driver.batch([Record(1, 1.0, 3)] * 6))
    assert not driver.out.sides
    operator.advance_watermark(2)
    assert driver.out.watermarks == [2]
    assert [len(batch) for batch in driver.out.sides[ACCUMULATORS_TAG]] == [1]
    operator.advance_watermark(3)
    assert len(driver.out.sides[ACCUMULATORS_TAG]) == 1


def test_what_was_found_of_a_large_batch_holds_for_the_next_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local_aggregate, "_MORE_TO_COME", 3)
    different, same = [Record(i, 1.0, 3) for i in range(20)], [Record(1, 1.0, 3)] * 20
    for fewest, passed in ((4096, 1), (19, 3)):
        monkeypatch.setattr(local_aggregate, "FEWEST_SAMPLED", fewest)
        monkeypatch.setattr(local_aggregate, "_SAMPLED_HASHES", np.uint64(2**64 - 1))
        monkeypatch.setattr(local_aggregate, "_SAMPLED_PART", 1)
        driver = Driver(lambda: LocalWindowAggregateOperator(LAYOUT, AlignedWindows(100, 100)))
        driver.run([different, same, same, same])
        assert [len(batch) for batch in driver.out.batches] == [20] * passed
        driver.run([same])  # the next epoch begins anew
        counts = [batch.columns.column("records").to_pylist() for batch in driver.out.sides[ACCUMULATORS_TAG]]
        assert counts == [[20 * (4 - passed)], [20]]


@pytest.mark.parametrize("key", range(12))
def test_a_large_batch_of_one_key_is_summed_up(key: int) -> None:
    """Keys are judged by a sample of their hashes, in which this one may be, or not."""
    out = emitted([Record(key, 1.0, 3)] * (local_aggregate.FEWEST_SAMPLED + 1))
    assert not out.batches
    (accumulators,) = out.sides[ACCUMULATORS_TAG]
    assert accumulators.columns.column("records").to_pylist() == [local_aggregate.FEWEST_SAMPLED + 1]


class OnlyTheLast:
    """Stamps of which nobody wants to see more."""

    last = 2

    @property
    def each(self) -> Any:
        raise AssertionError("watermarks were laid out")


def test_watermarks_are_not_laid_out_where_all_records_are_on_time() -> None:
    driver = Driver(lambda: LocalWindowAggregateOperator(LAYOUT, AlignedWindows(100, 100)))
    operator = driver._begin()
    batch = driver.batch([Record(1, 1.0, 3)] * 6)
    operator.process(0, batch.with_times(batch.timestamps, OnlyTheLast()))
    operator.finish()
    assert [len(batch) for batch in driver.out.sides[ACCUMULATORS_TAG]] == [1]


def test_no_more_than_so_many_records_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_aggregate, "_HELD_ROWS", 50)
    driver = Driver(lambda: LocalWindowAggregateOperator(LAYOUT, AlignedWindows(100, 100)))
    driver.run([[Record(i % 2, 1.0, 3) for i in range(20)] for _ in range(4)])
    counts = [batch.columns.column("records").to_pylist() for batch in driver.out.sides[ACCUMULATORS_TAG]]
    assert counts == [[30, 30], [10, 10]]


def test_aggregates_that_need_sorted_rows_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [Record(i % 3, float(i), 3) for i in range(30)]
    scattered = emitted(records).sides[ACCUMULATORS_TAG][0]
    monkeypatch.setattr(MinOrMax, "is_scatterable", False)
    grouped = emitted(records).sides[ACCUMULATORS_TAG][0]
    assert sorted(grouped.columns.to_pylist(), key=str) == sorted(scattered.columns.to_pylist(), key=str)


@given(groups=st.integers(1, 5000), times=st.floats(1, 8))
@settings(deadline=None)
def test_the_number_of_groups_is_foretold(groups: int, times: float) -> None:
    rows = 10_000
    met = groups * (1 - np.exp(-rows / groups))
    expected = groups * (1 - np.exp(-times * rows / groups))
    assert expected_groups(rows, round(met), times) == pytest.approx(expected, rel=0.01, abs=2)
    assert expected_groups(rows, rows, times) == rows * times
