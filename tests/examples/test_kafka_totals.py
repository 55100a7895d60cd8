"""The example that brings a Kafka of its own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

EVENTS = 3000

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
    totals = [int(each) for each in re.findall(r"payments=(\d+)", finished.stdout)]
    assert len(totals) == 25  # five merchants, five minutes
    assert sum(totals) == EVENTS
