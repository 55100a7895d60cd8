"""The example with Kafka: with one that is there, and with one that it brings itself."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.processes import Ended

if TYPE_CHECKING:
    from headrace.broker import KafkaCluster

EVENTS = 3000


def sum_of_amounts() -> int:
    """What the example draws."""
    draw = random.Random(7)
    return sum([draw.randrange(1000), draw.randrange(5), draw.randrange(1, 200)][2] for _ in range(EVENTS))


pytestmark = pytest.mark.integration


Run = Callable[..., Ended]


def test_every_payment_is_in_one_total(run_example: Run, kafka: KafkaCluster) -> None:
    check(run_example, "--runtime", "local", "-p", "2", servers=("--bootstrap-servers", kafka.bootstrap_servers))


@pytest.mark.spark
@pytest.mark.slow
def test_so_it_is_on_spark_with_a_kafka_of_its_own(run_example: Run) -> None:
    for library in ("confluent_kafka", "jgo"):
        pytest.importorskip(library)
    check(run_example, "--master", "local[2]", "-p", "2")


def check(run_example: Run, *options: str, servers: tuple[str, ...] = ()) -> None:
    finished = run_example("kafka_totals.py", "--events", EVENTS, *servers, options=options)
    totals = [json.loads(line) for line in finished.output.splitlines()]
    assert Counter(each["merchant"] for each in totals) == {f"merchant-{number}": 5 for number in range(5)}  # minutes
    assert sum(each["payments"] for each in totals) == EVENTS, finished.errors
    assert sum(each["total"] for each in totals) == sum_of_amounts()
