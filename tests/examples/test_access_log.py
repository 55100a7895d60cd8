"""The access log example against an independent computation, with a bound that loses nothing and one that does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.examples.access_log_oracle import Oracle
from tests.processes import Ended

LOG = Path(__file__).parents[2] / "examples" / "data" / "apache_access.log.gz"
LOCAL = ("--runtime", "local", "-p", "2")
SPARK = ("--master", "local[2]", "-p", "2")

Run = Callable[..., Ended]
Read = Callable[[Path], list[Any]]


def in_any_order(records: list[dict[str, Any]]) -> list[list[tuple[str, Any]]]:
    return sorted(sorted(record.items()) for record in records)


@pytest.mark.parametrize(
    ("bound", "options"),
    [
        pytest.param(60, LOCAL, id="nothing-late", marks=pytest.mark.slow),
        pytest.param(10, LOCAL, id="late-data"),
        pytest.param(10, SPARK, id="late-data-on-spark", marks=[pytest.mark.spark, pytest.mark.slow]),
    ],
)
def test_all_results_are_exact(
    bound: int,
    options: tuple[str, ...],
    run_example: Run,
    read_records: Read,
    read_lines: Read,
    tmp_path: Path,
) -> None:
    finished = run_example("access_log.py", "--bound", bound, "--output", tmp_path / "results", options=options)
    expected = Oracle(LOG, bound)
    assert read_lines(tmp_path / "results" / "bad-lines") == expected.bad_lines
    for name, records in (
        ("sessions", expected.sessions()),
        ("top-pages", expected.top_pages()),
        ("error-rates", expected.error_rates()),
        ("late-requests", expected.late_requests()),
    ):
        assert in_any_order(read_records(tmp_path / "results" / name)) == in_any_order(records), name
    assert f"{expected.dropped():>8,}  requests came too late for a window" in finished.output


def test_the_two_bounds_are_worth_testing() -> None:
    exact, hasty = Oracle(LOG, 60), Oracle(LOG, 10)
    assert (len(exact.seen), len(exact.bad_lines)) == (9999, 1)
    assert exact.late_requests() == []
    assert exact.dropped() == 0
    assert len(hasty.late_requests()) > 1000
    assert hasty.dropped() > 100
    assert len(exact.sessions()) > 1000
