"""``cache()``: the first job that finishes keeps the records of a stream, later jobs of the environment read them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.common import Configuration, Row, RowKind, Time, Types, WatermarkStrategy
from headrace.common.errors import InvalidProgramError, UserFunctionError
from headrace.connectors.ranges import DataGeneratorSource, RateLimiterStrategy
from headrace.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment
from headrace.datastream.aggregates import count
from headrace.datastream.data_stream import CachedDataStream
from headrace.windowing.assigners import TumblingEventTimeWindows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NUMBERS = list(range(10))


def environment(mode: str = "STREAMING", **settings: str) -> StreamExecutionEnvironment:
    given = {"headrace.runtime": "local", "parallelism.default": "2", "execution.runtime-mode": mode} | settings
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(given))


@pytest.fixture
def calls(tmp_path: Path) -> Callable[[], int]:
    """How often :func:`noted` was called since it was asked last."""

    def asked() -> int:
        file = tmp_path / "calls"
        number = len(file.read_text()) if file.exists() else 0
        file.write_text("")
        return number

    return asked


def noted(folder: Path) -> Callable[[Any], Any]:
    def note(value: Any) -> Any:
        with (folder / "calls").open("a") as file:
            file.write("x")
        return value

    return note


def sums(stream: Any) -> list[int]:
    return sorted(stream.map(lambda number: number + 1, Types.LONG()).execute_and_collect())


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
def test_it_is_computed_once(mode: str, calls: Callable[[], int], tmp_path: Path) -> None:
    env = environment(mode)
    cached = env.from_collection(NUMBERS, Types.LONG()).map(noted(tmp_path), Types.LONG()).name("noted").cache()
    assert isinstance(cached, CachedDataStream)
    expected = [number + 1 for number in NUMBERS]
    assert (sums(cached), calls()) == (expected, 10)
    assert (sums(cached), calls()) == (expected, 0)
    cached.map(str).print()
    assert "noted" in env.explain()
    assert "Collection Source" not in env.explain()
    env.close()
    cached.invalidate()
    assert (sums(cached), calls()) == (expected, 10)
    assert (sums(cached), calls()) == (expected, 0)


@pytest.mark.spark
def test_on_spark(spark: SparkSession, calls: Callable[[], int], tmp_path: Path) -> None:
    env = environment(**{"headrace.runtime": "spark"})
    cached = env.from_collection(NUMBERS, Types.LONG()).map(noted(tmp_path), Types.LONG()).cache()
    for expected in (10, 0):
        assert (sums(cached), calls()) == ([number + 1 for number in NUMBERS], expected)


def test_several_streams_of_one_job(calls: Callable[[], int], tmp_path: Path) -> None:
    """One that is made of another, beside one that was not kept."""
    env = environment()
    first = env.from_collection(NUMBERS, Types.LONG()).map(noted(tmp_path), Types.LONG()).cache()
    second = first.map(noted(tmp_path), Types.LONG()).cache()
    other = env.from_collection(NUMBERS, Types.LONG())
    assert sums(second.union(other)) == sorted([number + 1 for number in NUMBERS] * 2)
    assert calls() == 20
    assert sums(first.union(second, other)) == sorted([number + 1 for number in NUMBERS] * 3)
    assert calls() == 0
    second.invalidate()
    assert sums(second) == [number + 1 for number in NUMBERS]
    assert calls() == 10, "the first one is still there"


def test_a_job_that_fails_keeps_nothing(calls: Callable[[], int], tmp_path: Path) -> None:
    env = environment()
    cached = env.from_collection(NUMBERS, Types.LONG()).map(noted(tmp_path), Types.LONG()).cache()

    def fail(number: int) -> int:
        raise ValueError("no")

    cached.map(fail, Types.LONG()).print()
    with pytest.raises(UserFunctionError, match="no"):
        env.execute()
    assert calls()
    assert (sums(cached), calls()) == ([number + 1 for number in NUMBERS], 10)


def test_event_time_and_kinds_come_back() -> None:
    env = environment()
    row = Types.ROW_NAMED(["time", "name"], [Types.LONG(), Types.STRING()])
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("time")
    rows = [Row(time=hour * 3_600_000, name="x") for hour in (0, 0, 1, 2, 2, 2)]
    cached = env.from_collection(rows, row).assign_timestamps_and_watermarks(strategy).cache()
    counted = cached.key_by("name").window(TumblingEventTimeWindows.of(Time.hours(1))).aggregate(count().alias("n"))
    found = [sorted(result.n for result in counted.execute_and_collect()) for _ in range(2)]
    assert found == [[1, 2, 3], [1, 2, 3]]

    changed = Row(time=1, name="y")
    changed.set_row_kind(RowKind.UPDATE_AFTER)
    changes = env.from_collection([*rows[:1], changed], row).cache()
    for _ in range(2):
        assert [record.get_row_kind() for record in changes.execute_and_collect()] == [
            RowKind.INSERT,
            RowKind.UPDATE_AFTER,
        ]


class Parted(ProcessFunction):
    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Any:
        yield value
        if value % 2:
            yield OutputTag("odd", Types.LONG()), value


def test_a_side_output_and_objects_without_a_type(calls: Callable[[], int], tmp_path: Path) -> None:
    env = environment()
    parted = env.from_collection(NUMBERS, Types.LONG()).map(noted(tmp_path)).process(Parted())
    odd = parted.get_side_output(OutputTag("odd", Types.LONG())).cache()
    objects = parted.map(lambda number: {number}).cache()
    for expected in (10, 0):
        assert sorted(odd.execute_and_collect()) == [1, 3, 5, 7, 9]
        assert sorted(map(sorted, objects.execute_and_collect())) == [[number] for number in NUMBERS]
        assert calls() == expected


def test_a_key_that_was_there_is_there_again() -> None:
    env = environment()
    pairs = env.from_collection([(str(number), 1) for number in NUMBERS], Types.TUPLE([Types.STRING(), Types.LONG()]))
    cached = pairs.key_by(0).sum(1).cache()
    for _ in range(2):
        again = cached.reinterpret_as_keyed(0).sum(1)
        assert sorted(again.execute_and_collect()) == [(str(number), 1) for number in NUMBERS]


@pytest.mark.parametrize("way", ["key_by", "union", "rebalance"])
def test_what_is_no_operators_output_is_refused(way: str) -> None:
    stream = environment().from_collection(NUMBERS, Types.LONG())
    made = {"key_by": lambda: stream.key_by(lambda n: n), "union": lambda: stream.union(stream)}
    with pytest.raises(InvalidProgramError, match=r"cache\(\) is for what an operator makes(.|\n)*test_caching"):
        made.get(way, stream.rebalance)().cache()


def test_a_stream_without_an_end_is_refused() -> None:
    source = DataGeneratorSource(abs, None, RateLimiterStrategy.per_second(1), Types.LONG())
    stream = environment().from_source(source, WatermarkStrategy.no_watermarks(), "endless")
    with pytest.raises(InvalidProgramError, match="source 'endless' is unbounded"):
        stream.cache()


def test_a_job_of_another_program_could_go_on(tmp_path: Path) -> None:
    env = environment(**{"execution.checkpointing.dir": str(tmp_path)})
    with pytest.raises(InvalidProgramError, match="keeps records in this program alone"):
        env.from_collection(NUMBERS).cache()
