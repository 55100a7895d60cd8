"""The example that brings a Kafka of its own."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

EVENTS = 3000


def sum_of_amounts() -> int:
    """What the example draws."""
    draw = random.Random(7)
    return sum([draw.randrange(1000), draw.randrange(5), draw.randrange(1, 200)][2] for _ in range(EVENTS))


pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("--runtime", "local", "-p", "2"), id="local"),
        pytest.param(("--master", "local[2]", "-p", "2"), id="spark", marks=[pytest.mark.spark, pytest.mark.slow]),
    ],
)
def test_every_payment_is_in_one_total(
    options: tuple[str, ...], run_example: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    for library in ("confluent_kafka", "jgo"):
        pytest.importorskip(library)
    finished = run_example("kafka_totals.py", "--events", EVENTS, options=options)
    totals = [json.loads(line) for line in finished.stdout.splitlines()]
    assert Counter(each["merchant"] for each in totals) == {f"merchant-{number}": 5 for number in range(5)}  # minutes
    assert sum(each["payments"] for each in totals) == EVENTS, finished.stderr
    assert sum(each["total"] for each in totals) == sum_of_amounts()
