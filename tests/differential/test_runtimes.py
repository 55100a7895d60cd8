"""The same job with the same input on both runtimes: the same records, in the same order where there is one."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from headrace.common import options
from headrace.common.configuration import Configuration
from headrace.common.errors import UserFunctionError
from headrace.common.options import RuntimeExecutionMode
from headrace.common.typeinfo import Types
from headrace.connectors.driver_sink import CollectSink
from headrace.datastream import StreamExecutionEnvironment
from tests.differential.jobs import BATCH_JOBS, IN_ORDER, JOBS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headrace.datastream.streams.data_stream import DataStream

pytestmark = pytest.mark.spark

PARALLELISM = 2
EPOCHS = 3
"""About so many epochs a job; that its input is cut differently must not show."""

SLOW = {"any_windows", "dataclass_records", "expressions", "generators", "joins", "rolling", "row_windows", "sessions"}
"""Jobs with operators of other kinds: they reach Spark as those of the other jobs do."""

SLOW_IN_BATCH_MODE = {"joins", "pickled_records", "rolling", "three_shuffles"}


def configuration(runtime: str, mode: RuntimeExecutionMode, records: int) -> Configuration:
    settings = Configuration()
    settings.set(options.RUNTIME, runtime)
    settings.set(options.RUNTIME_MODE, mode)
    settings.set(options.PARALLELISM, PARALLELISM)
    settings.set(options.EPOCH_MAX_RECORDS, records)
    settings.set(options.EPOCH_TARGET_DURATION, 60_000)
    return settings


def outputs(
    build: Callable[[StreamExecutionEnvironment], dict[str, DataStream]], settings: Configuration
) -> dict[str, list[Any]]:
    """What reaches the end of each stream of a job."""
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    collected: dict[str, list[Any]] = {}
    for name, stream in build(env).items():
        collected[name] = []
        stream.sink_to(CollectSink(collected[name].extend)).name(name)
    env.execute()
    return collected


def marked(names: Iterable[str], slow: set[str]) -> list[Any]:
    return [pytest.param(name, marks=[pytest.mark.slow] if name in slow else []) for name in names]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", marked(JOBS, SLOW))
def test_streaming(name: str, spark: SparkSession) -> None:
    local = outputs(JOBS[name], configuration("local", RuntimeExecutionMode.STREAMING, 333))
    on_spark = outputs(
        JOBS[name], configuration("spark", RuntimeExecutionMode.STREAMING, 2000 // EPOCHS // PARALLELISM)
    )
    compare(local, on_spark, IN_ORDER.get(name, set()))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", marked(BATCH_JOBS, SLOW_IN_BATCH_MODE))
def test_batch(name: str, spark: SparkSession) -> None:
    local = outputs(BATCH_JOBS[name], configuration("local", RuntimeExecutionMode.BATCH, 777))
    on_spark = outputs(BATCH_JOBS[name], configuration("spark", RuntimeExecutionMode.BATCH, 1000))
    compare(local, on_spark, IN_ORDER.get(name, set()))


def compare(local: dict[str, list[Any]], on_spark: dict[str, list[Any]], in_order: set[str]) -> None:
    assert local.keys() == on_spark.keys()
    assert any(local.values()), "the job gave nothing, so nothing was compared"
    for name, records in local.items():
        assert sorted(map(repr, records)) == sorted(map(repr, on_spark[name])), name
        if name in in_order:
            assert by_key(records) == by_key(on_spark[name]), name


def by_key(records: list[Any]) -> dict[Any, list[Any]]:
    grouped = defaultdict(list)
    for record in records:
        grouped[key_of(record)].append(record)
    return dict(grouped)


def key_of(record: Any) -> Any:
    if isinstance(record, int):
        return None
    return record[0] if isinstance(record, tuple) else getattr(record, "owner", None) or record.symbol


@pytest.mark.parametrize("runtime", ["local", "spark"])
def test_a_failing_function_is_told_the_same_way(runtime: str, spark: SparkSession, tmp_path: Path) -> None:
    def fails(number: int) -> int:
        return 1 // (number - 700)

    def build(env: StreamExecutionEnvironment) -> dict[str, DataStream]:
        keyed = env.from_sequence(1, 1000).key_by(lambda number: number % 3, Types.LONG())
        summed = keyed.sum().map(lambda number: number, Types.LONG()).key_by(lambda number: number, Types.LONG())
        return {"out": env.from_sequence(1, 1000).map(fails, Types.LONG()).name("divide").uid("d1"), "sums": summed}

    with pytest.raises(UserFunctionError) as caught:
        outputs(build, configuration(runtime, RuntimeExecutionMode.STREAMING, 10_000))
    message = str(caught.value)
    assert "'divide' (uid d1" in message
    assert "ZeroDivisionError" in message
    assert "test_runtimes.py" in message
    assert "record: 700" in message
