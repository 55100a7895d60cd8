"""The demo: nothing is lost, and what it finds is what was put in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import subprocess

EVENTS = 60_000
LOCAL = ("--runtime", "local", "-p", "2")
SPARK = ("--master", "local[2]", "-p", "2")

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Read = Callable[[Path], list[Any]]


@pytest.mark.parametrize(
    "options", [pytest.param(LOCAL, id="local"), pytest.param(SPARK, id="spark", marks=pytest.mark.spark)]
)
def test_every_payment_is_counted_once(
    options: tuple[str, ...], run_example: Run, read_records: Read, tmp_path: Path
) -> None:
    finished = run_example("card_fraud.py", "--events", EVENTS, "--output", "demo", options=options)
    totals, late = read_records(tmp_path / "demo/run-1/totals"), read_records(tmp_path / "demo/run-1/late")
    assert sum(total["payments"] for total in totals) + len(late) == EVENTS
    assert len(late) > 0
    assert len({(total["merchant"], total["window_start"]) for total in totals}) == len(totals)
    assert f"{EVENTS:>9,} payments" in finished.stdout


def test_alerts_are_the_planted_thefts(run_example: Run, read_records: Read, tmp_path: Path) -> None:
    run_example("card_fraud.py", "--events", EVENTS, "--output", "demo", options=LOCAL)
    alerts = read_records(tmp_path / "demo/run-1/alerts")
    by_amount: defaultdict[float, int] = defaultdict(int)
    for alert in alerts:
        by_amount[alert["amount"]] += 1
    # One theft in five thousand payments; where the card's owner paid in between, the rule does not see it
    assert 8 <= by_amount[899.0] <= EVENTS // 5_000
    assert len(alerts) - by_amount[899.0] <= 2


def test_a_run_that_has_ended_is_left_alone(run_example: Run, read_records: Read, tmp_path: Path) -> None:
    for _ in range(2):
        run_example("card_fraud.py", "--events", 10_000, "--output", "demo", options=LOCAL)
    first, second = ([*read_records(tmp_path / f"demo/run-{number}/totals")] for number in (1, 2))
    assert first
    assert first == second
