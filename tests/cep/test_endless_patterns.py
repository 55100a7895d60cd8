"""Patterns in a job that does not end: after a simulated day no more is kept than after its third hour."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace.cep import CEP, PatternProcessFunction, PatternRule
from headrace.common import Types
from headrace.datastream import DataStream
from headrace.state_processor import SavepointReader
from headrace.testing import JobHarness

HOUR: int = 3_600_000
EVENTS: int = 600
"""In each hour, of few cards; at three levels of load, as day and night have them."""

EVENT = Types.ROW_NAMED(["card", "amount"], [Types.STRING(), Types.DOUBLE()])
CONDITIONS = {"small": "amount < 10.0", "large": "amount > 95.0"}
PATTERNS = [
    "small followed_by large within 5 min",
    "small{2} not_followed_by large within 3 min",
    "small next large within 60 s",
]


class Count(PatternProcessFunction[Any, str]):
    def process_match(self, match: Any, ctx: PatternProcessFunction.Context) -> Any:
        yield f"{ctx.rule_id()}"


def watch(harness: JobHarness) -> None:
    events = harness.add_source("events", EVENT).key_by("card")
    found: DataStream = CEP.dynamic_patterns(events, harness.add_source("rules", str)).process(Count(), str)
    harness.add_sink("found", found.uid("patterns"))


def rule(number: int, version: int) -> str:
    return PatternRule(f"rule {number}", PATTERNS[number], CONDITIONS, version).to_json()


def rows_of(harness: JobHarness) -> dict[str, int]:
    """The rows of each kind of store; each version of a rule has some of its own."""
    checkpoint = harness.checkpoint()
    rows: dict[str, int] = {}
    for state in SavepointReader.read(str(checkpoint.directory)).states():
        kind = state.store.rstrip("0123456789-")
        rows[kind] = rows.get(kind, 0) + state.rows
    return rows


@pytest.mark.parametrize(("cards", "events"), [(50, EVENTS), pytest.param(1_000, 20 * EVENTS, marks=pytest.mark.slow)])
def test_a_day_leaves_no_more_than_its_third_hour(cards: int, events: int) -> None:
    """Cards come and go, and each hour one of the rules changes."""
    chance, most, counts = np.random.default_rng(5), {}, []
    with JobHarness(watch) as harness:
        for hour in range(24):
            start, number = hour * HOUR, hour % 3
            for each in range(3) if hour == 0 else (number,):
                harness.push("rules", rule(each, hour + 1), timestamp=start)
            count = events * (1 + hour % 3)
            times = np.sort(chance.integers(start, start + HOUR, count)).tolist()
            names = [f"card {card} of {hour // 2}" for card in chance.integers(0, cards, count).tolist()]
            amounts = chance.uniform(0, 100, count).tolist()
            harness.push_all("events", [*zip(names, amounts, strict=True)], times)
            for source in ("events", "rules"):
                harness.advance_watermark(source, start + HOUR - 1)
            harness.run_epoch()
            counts.append(len(harness.results("found")))
            if hour in (2, 23):
                most[hour] = rows_of(harness)
    assert np.diff(counts).min() > 0, "each hour finds something"
    assert most[2].keys() == most[23].keys()
    for store, rows in most[23].items():
        assert rows <= 2 * most[2][store] + 20, store
