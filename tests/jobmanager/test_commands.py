"""What a running job is asked to do, and work beside its epochs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from headrace.client import running
from headrace.client.job_client import JobClient
from headrace.common import Configuration, Types, WatermarkStrategy
from headrace.common.errors import JobExecutionError
from headrace.connectors.ranges import DataGeneratorSource, RateLimiterStrategy
from headrace.datastream import StreamExecutionEnvironment
from headrace.runtime.local import LocalRuntime
from tests.waiting import PATIENCE


@pytest.fixture(autouse=True)
def nothing_left_running() -> Iterator[None]:
    yield
    running.cancel_all()


def started(rate: int, count: int | None = None, **settings: str) -> JobClient:
    options = {"headrace.runtime": "local", "parallelism.default": "1"} | settings
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    source = DataGeneratorSource(lambda number: number, count, RateLimiterStrategy.per_second(rate), Types.LONG())
    env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").filter(lambda number: False).print()
    return env.execute_async()


def test_a_command_runs_between_epochs_in_the_thread_of_the_job() -> None:
    client = started(5000)

    def look() -> tuple[str, int, int]:
        manifest = client._manager.manifest
        assert manifest is not None
        return threading.current_thread().name, manifest.epoch, manifest.counters.get("numRecordsRead", 0)

    seen = [client._manager.request(look).result(timeout=PATIENCE) for _ in range(20)]
    client.stop().result(timeout=PATIENCE)
    assert {name for name, _, _ in seen} == {client._thread.name}
    assert seen == sorted(seen)


def test_commands_are_carried_out_in_the_order_in_which_they_were_asked_for() -> None:
    client, order = started(5000), list[int]()
    asked = [client._manager.request(partial(order.append, number)) for number in range(50)]
    for outcome in asked:
        outcome.result(timeout=PATIENCE)
    client.stop().result(timeout=PATIENCE)
    assert order == [*range(50)]


def test_who_asks_without_pause_keeps_no_job_from_its_end() -> None:
    client, asked = started(5000), list[int]()

    def ask_again() -> None:
        asked.append(1)
        if len(asked) < 100_000:
            client._manager.request(ask_again)

    client._manager.request(ask_again).result(timeout=PATIENCE)
    client.stop().result(timeout=PATIENCE)
    assert len(asked) < 100_000


def test_what_a_command_raises_goes_to_whoever_has_asked() -> None:
    client = started(5000)

    def fail() -> None:
        raise LookupError("no such thing")

    with pytest.raises(LookupError, match="no such thing"):
        client._manager.request(fail).result(timeout=PATIENCE)
    assert client._manager.request(lambda: "alive").result(timeout=PATIENCE) == "alive"
    client.stop().result(timeout=PATIENCE)


def test_a_job_that_waits_for_input_is_woken() -> None:
    client = started(1, **{"headrace.source.poll-interval": "1 h"})
    client._manager.request(lambda: None).result(timeout=PATIENCE)
    asked = client._manager.request(lambda: "awake")
    assert asked.result(timeout=PATIENCE) == "awake"
    client.stop().result(timeout=PATIENCE)


def test_a_job_that_has_ended_refuses() -> None:
    client = started(10**6, count=10)
    client.get_job_execution_result().result(timeout=PATIENCE)
    with pytest.raises(JobExecutionError, match="has ended before"):
        client._manager.request(lambda: None).result(timeout=PATIENCE)


def test_what_waits_when_a_job_fails_is_told() -> None:
    client = started(5000)
    entered = threading.Event()

    def hold() -> None:
        entered.set()
        client._manager.cancel()

    first, second = client._manager.request(hold), None
    assert entered.wait(PATIENCE)
    first.result(timeout=PATIENCE)
    client.cancel().result(timeout=PATIENCE)
    second = client._manager.request(lambda: None)
    with pytest.raises(JobExecutionError, match="has ended before"):
        second.result(timeout=PATIENCE)


def test_work_beside_the_epochs_gives_its_results_in_the_order_of_the_items() -> None:
    results: list[Any] = LocalRuntime().run_background(lambda item: item * 2, [3, 1, 2]).result(timeout=PATIENCE)
    assert results == [6, 2, 4]


def test_who_has_asked_for_what_ends_the_job_is_told_of_its_end() -> None:
    client = started(5000)

    def leave() -> None:
        raise SystemExit(3)

    asked = client._manager.request(leave)
    with pytest.raises(JobExecutionError, match="has ended before"):
        asked.result(timeout=PATIENCE)
    with pytest.raises(JobExecutionError):
        client.get_job_execution_result().result(timeout=PATIENCE)
