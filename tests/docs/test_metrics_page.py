"""The example of the page on metrics shows what the page says."""

from __future__ import annotations

from typing import Any

from headrace.testing import JobHarness
from tests.docs.documents import DOCS, example


def test_the_example() -> None:
    names: dict[str, Any] = {}
    exec(example(DOCS / "metrics.md", "metrics"), names)

    def job(harness: JobHarness) -> None:
        parsed = harness.add_source("words", str).map(names["Parse"](), output_type=str).name("parse")
        harness.add_sink("parsed", parsed)

    with JobHarness(job) as harness:
        harness.push_all("words", ["tea", "", "coffee"])
        harness.run_epoch()
        metrics = harness.metrics()
    assert (metrics["parse.empty"], metrics["parse.parsed.count"], metrics["parse.0.longest"]) == (1, 3, 6)
    assert {name for name in metrics if name.startswith("parse.text.")} == {
        f"parse.text.lengths.{what}" for what in ("count", "sum", "mean", "min", "max")
    }
