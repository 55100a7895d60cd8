"""Outcomes are kept for a while, and a process that ends waits for who has yet to hear one."""

from __future__ import annotations

import threading
import time

import pytest

from headrace.common.completable_future import CompletableFuture
from headrace.server.errors import RestError
from headrace.server.operations import Operations
from headrace.time.clock import ManualClock
from tests.waiting import PATIENCE


def test_outcomes_are_forgotten_after_a_while() -> None:
    clock = ManualClock(0)
    operations = Operations(10.0, lambda: clock.now() / 1000)
    outcome: CompletableFuture[str] = CompletableFuture()
    trigger = operations.begin("savepoint", "job", None, lambda: outcome)
    clock.set(60_000)
    assert not operations.get("savepoint", "job", trigger).done()
    outcome.set_result("place")
    clock.set(69_000)
    assert operations.get("savepoint", "job", trigger).result() == "place"
    with pytest.raises(RestError, match="There is no checkpoint with"):
        operations.get("checkpoint", "job", trigger)
    clock.set(71_000)
    with pytest.raises(RestError, match="was forgotten"):
        operations.get("savepoint", "job", trigger)


def test_an_outcome_is_waited_with_until_it_is_asked_for() -> None:
    operations = Operations(60.0)
    trigger = operations.begin("savepoint", "job", None, lambda: CompletableFuture.completed("place"))
    asking = threading.Timer(0.3, lambda: operations.get("savepoint", "job", trigger))
    begun = time.monotonic()
    asking.start()
    operations.wait_until_reported(2 * PATIENCE)
    assert 0.2 < time.monotonic() - begun < PATIENCE
    operations.wait_until_reported(2 * PATIENCE)  # nobody waits any more


def test_nobody_waits_for_what_was_never_asked_for() -> None:
    clock = ManualClock(0)
    operations = Operations(600.0, lambda: clock.now() / 1000)
    operations.begin("savepoint", "job", None, lambda: CompletableFuture.completed("place"))
    clock.set(3_000_000)
    begun = time.monotonic()
    operations.wait_until_reported(2 * PATIENCE)
    assert time.monotonic() - begun < PATIENCE
