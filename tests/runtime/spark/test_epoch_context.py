"""How what an epoch starts from reaches its tasks: along with them, or in the query when it is big."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace.common import options
from headrace.common.configuration import Configuration
from headrace.connectors.collect import CollectSink
from headrace.datastream import StreamExecutionEnvironment
from headrace.runtime.spark import runtime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NUMBERS = 900
EPOCHS = 3


def sums_per_key() -> list[Any]:
    settings = Configuration()
    settings.set(options.RUNTIME, "spark")
    settings.set(options.PARALLELISM, 2)
    settings.set(options.EPOCH_MAX_RECORDS, NUMBERS // EPOCHS // 2)
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    collected: list[Any] = []
    numbers = env.from_collection([(number % 7, number) for number in range(NUMBERS)])
    numbers.key_by(lambda pair: pair[0]).sum(1).sink_to(CollectSink(collected.extend))
    env.execute()
    return sorted(collected)


def test_a_big_context_takes_the_other_way_and_changes_nothing(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = sums_per_key()
    built: list[bytes | None] = []
    build = runtime.SparkRuntime._build

    def counting(self: runtime.SparkRuntime, context: bytes | None) -> Any:
        built.append(context)
        return build(self, context)

    monkeypatch.setattr(runtime.SparkRuntime, "_build", counting)
    assert sums_per_key() == shipped
    assert built == [None]  # one query for all epochs
    monkeypatch.setattr(runtime, "SHIPPED_CONTEXT_BYTES", 0)
    built.clear()
    assert sums_per_key() == shipped
    assert len(built) >= EPOCHS
    assert None not in built


def test_no_setting_is_left_behind(spark: SparkSession) -> None:
    sums_per_key()
    assert [key for key in spark.conf.getAll if key.startswith("spark.headrace.headrace-")] == []
