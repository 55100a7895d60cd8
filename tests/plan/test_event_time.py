"""Windows of event time on records that can have no timestamps are refused before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.common.errors import InvalidProgramError
from headrace.common.typeinfo import Types
from headrace.connectors.source import Source
from headrace.datastream import KeyedProcessFunction, ProcessFunction, StreamExecutionEnvironment
from headrace.datastream.aggregates import count
from headrace.datastream.streams.data_stream import DataStream
from headrace.testing.pushed import ManualSource
from headrace.time.watermark_strategy import WatermarkStrategy
from headrace.windowing.assigners import TumblingEventTimeWindows
from headrace.windowing.count_assigners import CountTumblingWindowAssigner
from headrace.windowing.session_assigners import EventTimeSessionWindows, ProcessingTimeSessionWindows
from headrace.windowing.triggers import CountTrigger

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
WITHOUT_ASSIGNER: WatermarkStrategy[Any] = WatermarkStrategy.for_monotonous_timestamps()
TIMES: WatermarkStrategy[Any] = WITHOUT_ASSIGNER.with_timestamp_assigner("f1")


class Same(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        yield value


class Alarms(Same):
    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield "a", timestamp


class Each(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


@pytest.fixture
def untimed(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection([("a", 1)], PAIR).name("pairs")


Way = Callable[[DataStream], DataStream]
"""What lies between a source and the windows."""

WITHOUT_TIMES: dict[str, Way] = {
    "nothing": lambda stream: stream,
    "a strategy without assigner": lambda stream: stream.assign_timestamps_and_watermarks(WITHOUT_ASSIGNER),
    "stateless operators": lambda stream: stream.map(lambda pair: pair, PAIR).filter(bool).process(Each(), PAIR),
    "a process function without timers": lambda stream: stream.key_by("f0").process(Same(), PAIR),
    "a rolling aggregate": lambda stream: stream.key_by("f0").sum("f1"),
    "a union": lambda stream: stream.union(stream),
}

WITH_TIMES: dict[str, Way] = {
    "a strategy with an assigner": lambda stream: stream.assign_timestamps_and_watermarks(TIMES),
    "one of several that are united": lambda stream: stream.union(stream.assign_timestamps_and_watermarks(TIMES)),
    "a process function with timers": lambda stream: stream.key_by("f0").process(Alarms(), PAIR),
    "windows": lambda stream: stream.key_by("f0").count_window(2).reduce(lambda a, b: a),
}


@pytest.mark.parametrize("way", WITHOUT_TIMES.values(), ids=WITHOUT_TIMES)
def test_records_without_timestamps(env: StreamExecutionEnvironment, untimed: DataStream, way: Way) -> None:
    windows = way(untimed).key_by("f0").window(TumblingEventTimeWindows.of(10))
    windows.aggregate(count()).name("counts").print()
    for tell in (env.explain, env.execute):
        with pytest.raises(InvalidProgramError, match=r"'counts' has windows of event time, .* of 'pairs'") as told:
            tell()
        assert "test_event_time.py" in str(told.value)


def test_functions_over_windows(env: StreamExecutionEnvironment, untimed: DataStream) -> None:
    sessions = untimed.key_by("f0").window(EventTimeSessionWindows.with_gap(5)).trigger(CountTrigger.of(2))
    sessions.reduce(lambda a, b: a).print()
    with pytest.raises(InvalidProgramError, match=r'\.with_timestamp_assigner\("time"\), say; or use windows of proc'):
        env.explain()


@pytest.mark.parametrize("way", WITH_TIMES.values(), ids=WITH_TIMES)
def test_records_that_may_have_timestamps(env: StreamExecutionEnvironment, untimed: DataStream, way: Way) -> None:
    way(untimed).key_by("f0").window(TumblingEventTimeWindows.of(10)).aggregate(count()).print()
    assert "Window" in env.explain()


@pytest.mark.parametrize("windows", [ProcessingTimeSessionWindows.with_gap(5), CountTumblingWindowAssigner.of(2)])
def test_windows_that_need_no_timestamps(env: StreamExecutionEnvironment, untimed: DataStream, windows: Any) -> None:
    untimed.key_by("f0").window(windows).reduce(lambda a, b: a).print()
    assert "Window" in env.explain()


def test_a_source_with_timestamps_of_its_own(env: StreamExecutionEnvironment) -> None:
    source: Source[Any] = ManualSource(PAIR)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "given")
    stream.key_by("f0").window(TumblingEventTimeWindows.of(10)).aggregate(count()).print()
    assert "Window" in env.explain()
