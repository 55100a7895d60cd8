"""Records that wait for event time go on with other fields."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from headrace.common import Types, WatermarkStrategy
from headrace.common.errors import StateMigrationError
from headrace.datastream import CoProcessFunction, KeyedCoProcessFunction
from headrace.testing import JobHarness
from tests.first_epochs import first_epoch

OTHER = Types.ROW_NAMED(["item", "price"], [Types.STRING(), Types.STRING()])
ORDER = Types.TUPLE([Types.STRING(), Types.LONG()])
TIMES = WatermarkStrategy.for_monotonous_timestamps()


@dataclass
class Price:
    """As it was."""

    item: str
    price: int


@dataclass
class LongerPrice:
    """With a field more."""

    item: str
    price: int
    currency: str = "EUR"


class Keyed(KeyedCoProcessFunction):
    """Shows prices."""

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[str]:
        yield str(value)

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> list[str]:
        return []


class Keyless(CoProcessFunction):
    """The same without keys."""

    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[str]:
        yield str(value)

    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> list[str]:
        return []


def job(price: Any, is_keyed: bool) -> Any:
    def build(harness: JobHarness) -> None:
        prices = harness.add_source("prices", price, watermarks=TIMES)
        orders = harness.add_source("orders", ORDER, watermarks=TIMES)
        both = prices.connect(orders)
        both = both.key_by("item", 0) if is_keyed else both
        shown = both.in_event_time_order().process(Keyed() if is_keyed else Keyless(), Types.STRING())
        harness.add_sink("out", shown.uid("order"))

    return build


@pytest.mark.parametrize("is_keyed", [True, False])
def test_what_waits_is_taken_over_or_refused(is_keyed: bool) -> None:
    with JobHarness(job(Price, is_keyed)) as harness:
        harness.push("prices", Price("tea", 3), 100)
        harness.run_epoch()
        checkpoint = harness.checkpoint()
    with JobHarness(job(LongerPrice, is_keyed), restore=checkpoint, parallelism=2) as harness:
        harness.push("prices", LongerPrice("pie", 4, "USD"), 101)
        harness.finish()
        assert sorted(harness.results("out")) == [str(LongerPrice("pie", 4, "USD")), str(LongerPrice("tea", 3))]
    with pytest.raises(StateMigrationError, match=r"price' was stored as Long and is declared as String"):
        first_epoch(job(OTHER, is_keyed), checkpoint)
