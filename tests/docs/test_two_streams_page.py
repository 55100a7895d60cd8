"""The examples of the page on two streams work."""

from __future__ import annotations

from typing import Any

from headrace.common import Row, Types
from headrace.testing import JobHarness
from tests.docs.documents import DOCS, example

ORDER = Types.ROW_NAMED(["order"], [str])
PAYMENT = Types.ROW_NAMED(["card", "country", "amount"], [str, str, float])
LIMIT = Types.ROW_NAMED(["country", "limit"], [str, float])
PRICE = Types.ROW_NAMED(["item", "price"], [str, float])
BOUGHT = Types.ROW_NAMED(["item", "id"], [str, int])
HOUR = 3_600_000


def stream_of(name: str, **streams: Any) -> Any:
    """The stream of an example."""
    names: dict[str, Any] = {**streams, "__name__": "__main__"}
    source, last = example(DOCS / "two-streams.md", name).rsplit("\n\n", 1)
    exec(compile(source, "two-streams.md", "exec", dont_inherit=True), names)
    return eval(compile(last.strip(), "two-streams.md", "eval", dont_inherit=True), names)


def test_two_streams() -> None:
    def job(harness: JobHarness) -> None:
        sources = {name: harness.add_source(name, ORDER) for name in ("orders", "payments")}
        harness.add_sink("unpaid", stream_of("two-streams", **sources))

    with JobHarness(job) as harness:
        harness.push_all("orders", [Row(order="a"), Row(order="b")], [0, 0])
        harness.push("payments", Row(order="a"), timestamp=HOUR // 2)
        for source in ("orders", "payments"):
            harness.advance_watermark(source, HOUR)
        harness.run_epoch()
        assert harness.results("unpaid") == ["b is not paid for"]


def test_a_stream_for_every_subtask() -> None:
    def job(harness: JobHarness) -> None:
        payments, limits = harness.add_source("payments", PAYMENT), harness.add_source("limits", LIMIT)
        harness.add_sink("above", stream_of("broadcast", payments=payments, limits=limits))

    with JobHarness(job, parallelism=2) as harness:
        harness.push("limits", Row(country="AT", limit=10.0))
        harness.run_epoch()
        harness.push_all("payments", [Row(card="x", country=country, amount=11.0) for country in ("AT", "DE")])
        harness.run_epoch()
        assert harness.results("above") == ["x: 11.0 > 10.0"]


def test_in_event_time_order() -> None:
    def job(harness: JobHarness) -> None:
        prices, orders = harness.add_source("prices", PRICE), harness.add_source("orders", BOUGHT)
        harness.add_sink("priced", stream_of("in-order", prices=prices, orders=orders))

    with JobHarness(job, parallelism=2) as harness:
        harness.push("orders", Row(item="tea", id=1), timestamp=15)
        harness.run_epoch()
        harness.push_all("prices", [Row(item="tea", price=price) for price in (2.0, 3.0)], [10, 20])
        harness.finish()
        assert harness.results("priced") == [(1, 2.0)]
