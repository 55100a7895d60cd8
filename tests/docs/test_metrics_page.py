"""The example of the page on metrics shows what the page says, and its tables are those of the code."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.metrics.registry import OWN_NAMES
from headrace.reporters.sampler import OPERATOR_METRICS
from headrace.testing import JobHarness
from tests.docs import metrics_table
from tests.docs.documents import DOCS, between, example


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


@pytest.mark.parametrize("name", metrics_table.LISTS)
def test_the_tables_are_up_to_date(name: str) -> None:
    page = metrics_table.PAGE.read_text()
    assert between(page, name) == metrics_table.LISTS[name](), "run `python -m tests.docs.metrics_table`"


def test_what_operators_tell_is_in_the_tables() -> None:
    assert OPERATOR_METRICS.keys() >= OWN_NAMES
