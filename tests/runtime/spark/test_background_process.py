"""The process for work beside the epochs, without Spark around it."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.common.errors import InfrastructureError
from headrace.common.logs import LogSettings
from headrace.runtime.spark.background_process import NICENESS, BackgroundProcess
from tests.waiting import PATIENCE


class Job:
    """Says where it was entered."""

    def enter(self) -> Job:
        from pyspark import SparkFiles

        os.environ["ENTERED"] = SparkFiles.get("module.zip")
        return self

    @property
    def logs(self) -> LogSettings:
        return LogSettings()


def doubled(item: int) -> int:
    print("this is no outcome")
    if item < 0:
        raise ValueError(f"{item} is negative")
    return item * 2


def about(_: Any) -> dict[str, Any]:
    return {"pid": os.getpid(), "nice": os.nice(0), "entered": os.environ["ENTERED"]}


def note_and_sleep(place: str) -> None:
    Path(place).write_text(str(os.getpid()))
    time.sleep(1_000)


@pytest.fixture
def process() -> Iterator[BackgroundProcess]:
    made = BackgroundProcess("/unpacked")
    yield made
    made.end()


def run(process: BackgroundProcess, work: Any, *items: Any) -> list[Any]:
    outcomes = process.run(Job(), pickle.dumps(work), [pickle.dumps(item) for item in items])  # type: ignore[arg-type]
    return [pickle.loads(outcome) for outcome in outcomes]


@pytest.mark.slow
def test_outcomes_come_in_the_order_of_the_items_and_errors_are_outcomes(process: BackgroundProcess) -> None:
    first, second, third = run(process, doubled, 3, -1, 5)
    assert [first.result(), third.result()] == [6, 10]
    with pytest.raises(ValueError, match="-1 is negative"):
        second.result()


@pytest.mark.slow
def test_it_is_one_process_of_lower_priority_that_knows_the_job(process: BackgroundProcess) -> None:
    first, second = (run(process, about, None)[0].result() for _ in range(2))
    assert first == second
    assert first["pid"] != os.getpid()
    assert first["nice"] == os.nice(0) + NICENESS
    assert first["entered"] == "/unpacked/module.zip"


def test_one_that_dies_fails_what_it_was_at_and_is_replaced(process: BackgroundProcess, tmp_path: Path) -> None:
    place = tmp_path / "pid"
    killer = threading.Thread(target=kill_once_noted, args=(place,))
    killer.start()
    with pytest.raises(InfrastructureError, match="the process for work beside the epochs has ended"):
        run(process, note_and_sleep, str(place))
    killer.join()
    assert run(process, doubled, 1)[0].result() == 2


@pytest.mark.slow
def test_it_is_ended_whatever_it_does(process: BackgroundProcess, tmp_path: Path) -> None:
    place = tmp_path / "pid"
    failed: list[BaseException] = []

    def ask() -> None:
        try:
            run(process, note_and_sleep, str(place))
        except InfrastructureError as error:
            failed.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    pid = noted(place)
    process.end()
    asking.join(timeout=PATIENCE)
    assert len(failed) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def kill_once_noted(place: Path) -> None:
    os.kill(noted(place), signal.SIGKILL)


def noted(place: Path) -> int:
    while not place.exists() or not place.read_text():
        time.sleep(0.01)
    return int(place.read_text())
