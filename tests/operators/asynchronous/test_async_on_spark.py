"""Requests in workers of Spark: failures are told, and results are in order, and there once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.common import Configuration, Types
from headrace.common.errors import UserFunctionError
from headrace.datastream import AsyncDataStream, AsyncFunction, RuntimeContext, StreamExecutionEnvironment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

LONG = Types.LONG()


class Service(AsyncFunction):
    """Answers later records first; away once for number 50, if that is wanted, which it notes in a folder."""

    def __init__(self, folder: Path, *, is_away: bool = False) -> None:
        self._folder = folder
        self._is_away = is_away

    async def open(self, runtime_context: RuntimeContext) -> None:
        self._lock = asyncio.Lock()

    async def async_invoke(self, value: int) -> list[int]:
        async with self._lock:
            await asyncio.sleep(0)
        await asyncio.sleep(0.02 - value % 10 * 0.002)
        if self._is_away and value == 50 and not (self._folder / "away").exists():
            (self._folder / "away").touch()
            raise ConnectionError("the service is away")
        return [value]

    def timeout(self, value: int) -> list[int]:
        return [-value]


def numbers(**settings: Any) -> Any:
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"headrace.runtime": "spark", "parallelism.default": "1", **settings})
    )
    return env.from_sequence(1, 100)


def test_results_are_in_order_and_once_after_a_failure(spark: SparkSession, tmp_path: Path) -> None:
    settings = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "1 ms",
        "restart-strategy.fixed-delay.attempts": "3",
        "headrace.epoch.max-records": "25",
        "headrace.epoch.target-duration": "60s",
    }
    service = Service(tmp_path, is_away=True)
    found = AsyncDataStream.unordered_wait(numbers(**settings), service, 60_000, 10, LONG)
    with found.execute_and_collect() as results:
        assert list(results) == list(range(1, 101))
    assert (tmp_path / "away").exists()


def test_failures_name_the_record(tmp_path: Path) -> None:
    found = AsyncDataStream.unordered_wait(numbers(), Service(tmp_path, is_away=True), 60_000, 10, LONG)
    with (
        pytest.raises(UserFunctionError, match=r"(?s)the service is away.*record: 50"),
        found.execute_and_collect() as results,
    ):
        list(results)
