"""What the metrics of one operator come to in an epoch."""

from __future__ import annotations

import math
import sys
import threading
from decimal import Decimal
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from headrace.common.errors import InvalidTypeError
from headrace.metrics import Counter, Distribution, MetricGroup
from headrace.metrics.registry import Measurements, MetricRegistry, Summary

if TYPE_CHECKING:
    from collections.abc import Sequence


def taken(registry: MetricRegistry) -> Measurements:
    measured = registry.take()
    assert measured is not None
    return measured


def summed_up(values: Sequence[float]) -> Summary:
    distribution = Distribution()
    for value in values:
        distribution.update(value)
    summary = distribution.take()
    assert summary is not None
    return summary


def test_what_has_counted_nothing_is_told_once() -> None:
    registry = MetricRegistry()
    group = MetricGroup(registry)
    counter, meter = group.counter("c"), group.meter("m", 10)
    assert taken(registry) == Measurements(counters={"c": 0}, meters={"m": (0, 10)})
    group.counter("later")
    assert taken(registry) == Measurements(counters={"later": 0})
    counter.dec()
    meter.mark_event(3)
    assert taken(registry) == Measurements(counters={"c": -1}, meters={"m": (3, 10)})
    assert taken(registry) == Measurements()


def test_a_distribution_begins_anew_in_each_epoch() -> None:
    registry = MetricRegistry()
    sizes = MetricGroup(registry).distribution("sizes")
    sizes.update(5)
    sizes.update(2)
    assert taken(registry).distributions == {"sizes": Summary(2, 7, 2, 5)}
    sizes.update(9)
    assert taken(registry).distributions == {"sizes": Summary(1, 9, 9, 9)}
    assert taken(registry).distributions == {}


@pytest.mark.parametrize("values", list(permutations([1.0, math.nan, -2.0])))
def test_what_is_no_number_shows_whatever_the_order(values: Sequence[float]) -> None:
    inside, outside = summed_up(values), summed_up(values[:1]).and_of(summed_up(values[1:]))
    for summary in (inside, outside):
        assert summary.count == 3
        assert all(map(math.isnan, (summary.total, summary.mean, summary.least, summary.greatest)))


@pytest.mark.parametrize(
    ("given", "number"),
    [
        (True, 1),
        (np.bool_(True), 1),
        (np.int8(3), 3),
        (np.float32(0.5), 0.5),
        (Decimal("1.5"), 1.5),
        (10**400, 10**400),
    ],
)
def test_what_counts_as_a_number(given: Any, number: float) -> None:
    registry = MetricRegistry()
    group = MetricGroup(registry)
    group.gauge("g", lambda: given)
    group.distribution("d").update(given)
    measured = taken(registry)
    told = (measured.gauges["g"], measured.distributions["d"].total)
    assert told == (number, number)
    assert {type(each) for each in told} == {type(number)}


@pytest.mark.parametrize("given", [None, "7", 1 + 2j, [1]])
def test_a_gauge_without_a_number_is_named_with_its_line(given: Any) -> None:
    registry = MetricRegistry()
    MetricGroup(registry).add_group("http").gauge("open", lambda: given)
    with pytest.raises(InvalidTypeError, match=r"the gauge 'http\.open' has to give a number, not") as caught:
        registry.take()
    assert __file__ in str(caught.value)


def test_a_gauge_that_raises_is_named() -> None:
    registry = MetricRegistry()
    MetricGroup(registry).gauge("open", lambda: {}["connections"])
    with pytest.raises(KeyError) as caught:
        registry.take()
    assert caught.value.__notes__ == ["raised by the gauge 'open', which is read at the end of each epoch"]


def test_a_gauge_may_ask_for_metrics() -> None:
    registry = MetricRegistry()
    group = MetricGroup(registry)

    def asked() -> int:
        group.counter("asked").inc()
        return 1

    group.gauge("g", asked)
    assert taken(registry) == Measurements(gauges={"g": 1})
    assert taken(registry) == Measurements(counters={"asked": 1}, gauges={"g": 1})


def test_threads_count_together() -> None:
    """Those of ``asyncio.to_thread``, say."""
    counter, one = Counter(), np.int64(1)

    def count() -> None:
        for _ in range(5_000):
            counter.inc(one)
            counter.dec()
            counter.dec(one)

    threads = [threading.Thread(target=count) for _ in range(4)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert counter.get_count() == -20_000
