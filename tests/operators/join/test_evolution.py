"""Joins go on with records whose fields are others now: added, left out, widened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from headrace.common import Row, Time, Types
from headrace.common.errors import StateMigrationError
from headrace.datastream import ProcessJoinFunction
from headrace.testing import JobHarness
from headrace.windowing.assigners import TumblingEventTimeWindows
from tests.first_epochs import first_epoch

Build = Callable[[JobHarness], None]


@dataclass
class Order:
    """As it was."""

    item: str
    amount: int


@dataclass
class LongerOrder:
    """With a field more, in another order."""

    amount: int
    item: str
    currency: str = "EUR"


class ShorterOrder(NamedTuple):
    """Of another class, with a field less."""

    item: str


WIDE = Types.ROW_NAMED(["item", "amount"], [Types.STRING(), Types.DOUBLE()])
OTHER = Types.ROW_NAMED(["item", "amount"], [Types.STRING(), Types.STRING()])
RIGHT = Types.TUPLE([Types.STRING(), Types.LONG()])


class Spelled(ProcessJoinFunction):
    """Both records."""

    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Any:
        yield spelled(left, right)


def spelled(left: Any, right: Any) -> str:
    return f"{left} {right and tuple(right)}"


def grouped(lefts: Any, rights: Any) -> Any:
    yield from (spelled(left, right) for left in lefts for right in rights)


KINDS: dict[str, Callable[[Any, Any], Any]] = {
    "interval": lambda left, right: (
        left.key_by("item").interval_join(right.key_by(0)).between(Time.milliseconds(-5), Time.milliseconds(5))
        .process(Spelled(), Types.STRING())
    ),
    "outer interval": lambda left, right: (
        left.key_by("item").interval_join(right.key_by(0), how="outer")
        .between(Time.milliseconds(-5), Time.milliseconds(5)).process(Spelled(), Types.STRING())
    ),
    "window": lambda left, right: (
        left.join(right).where("item").equal_to(0).window(TumblingEventTimeWindows.of(10))
        .apply(spelled, output_type=Types.STRING())
    ),
    "co-group": lambda left, right: (
        left.co_group(right).where("item").equal_to(0).window(TumblingEventTimeWindows.of(10))
        .apply(grouped, output_type=Types.STRING())
    ),
}  # fmt: skip


def job(kind: str, order: Any) -> Build:
    def build(harness: JobHarness) -> None:
        joined = KINDS[kind](harness.add_source("orders", order), harness.add_source("payments", RIGHT))
        harness.add_sink("out", joined.uid("join"))

    return build


CHANGES = {
    "longer": (LongerOrder, LongerOrder(1, "tea"), LongerOrder(2, "tea", "USD")),
    "shorter": (ShorterOrder, ShorterOrder("tea"), ShorterOrder("tea")),
    "wider": (WIDE, "Row(item='tea', amount=1.0)", Row(item="tea", amount=2.5)),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("kind", "change", "backend"),
    [
        (kind, change, ("hashmap", "rocksdb")[(row + column) % 2])
        for row, kind in enumerate(KINDS)
        for column, change in enumerate(CHANGES)
    ],
)
def test_what_is_kept_is_taken_over(kind: str, change: str, backend: str) -> None:
    settings = {"state.backend.type": backend}
    with JobHarness(job(kind, Order), parallelism=2, configuration=settings) as harness:
        harness.push("orders", Order("tea", 1), 4)
        harness.push("payments", ("pie", 7), 4)
        harness.run_epoch()
        checkpoint = harness.checkpoint()
    declared, kept, new = CHANGES[change]
    with JobHarness(job(kind, declared), restore=checkpoint, parallelism=3, configuration=settings) as harness:
        harness.push("orders", new, 6)
        harness.push("payments", ("tea", 9), 5)
        harness.run_epoch()
        again = harness.checkpoint()
        early = harness.results("out")
    with JobHarness(job(kind, declared), restore=again, configuration=settings) as harness:
        harness.finish()
        found = [*early, *harness.results("out")]
    assert f"{kept} ('tea', 9)" in found
    assert len([each for each in found if "('tea', 9)" in each]) == 2
    assert ("None ('pie', 7)" in found) is (kind == "outer interval")


@pytest.mark.parametrize("kind", KINDS)
def test_what_does_not_fit_is_told_field_by_field(kind: str) -> None:
    with JobHarness(job(kind, Order)) as harness:
        harness.push("orders", Order("tea", 1), 4)
        harness.run_epoch()
        checkpoint = harness.checkpoint()
    with pytest.raises(StateMigrationError, match=r"amount' was stored as Long and is declared as String"):
        first_epoch(job(kind, OTHER), checkpoint)
