"""What Flink has and headrace has not: every such method says what to do instead."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

from headrace.common.errors import UnsupportedOperationError
from headrace.common.time import Time
from headrace.datastream.streams.other_names import (
    DATA_STREAM,
    KEYED_STREAM,
    WINDOWED_STREAM,
    WITHOUT_EFFECT,
    WITHOUT_EFFECT_ON_SINKS,
)
from headrace.datastream.window import TumblingEventTimeWindows
from headrace.time.watermark_strategy import WatermarkStrategy

if TYPE_CHECKING:
    from headrace.datastream import StreamExecutionEnvironment


@pytest.mark.parametrize("method", DATA_STREAM)
def test_streams(env: StreamExecutionEnvironment, method: str) -> None:
    stream = env.from_sequence(1, 2)
    for target in (stream, stream.key_by(lambda x: x)):
        with pytest.raises(UnsupportedOperationError, match=rf"DataStream\.{method}\(\) is not supported: \w"):
            getattr(target, method)(1, key=2)


@pytest.mark.parametrize("method", KEYED_STREAM)
def test_keyed_streams(env: StreamExecutionEnvironment, method: str) -> None:
    with pytest.raises(UnsupportedOperationError, match=rf"KeyedStream\.{method}\(\)"):
        getattr(env.from_sequence(1, 2).key_by(lambda x: x), method)(5)


@pytest.mark.parametrize("method", WINDOWED_STREAM)
def test_windowed_streams(env: StreamExecutionEnvironment, method: str) -> None:
    windows = env.from_sequence(1, 2).key_by(lambda x: x).window(TumblingEventTimeWindows.of(Time.seconds(1)))
    with pytest.raises(UnsupportedOperationError, match=rf"WindowedStream\.{method}\(\)"):
        getattr(windows, method)(None)


def test_sinks(env: StreamExecutionEnvironment) -> None:
    sink: Any = env.from_sequence(1, 2).print()
    with pytest.raises(UnsupportedOperationError, match=r"DataStreamSink\.set_uid_hash\(\)"):
        sink.set_uid_hash("x")


@pytest.mark.parametrize("method", WITHOUT_EFFECT)
def test_settings_of_streams_without_effect(env: StreamExecutionEnvironment, method: str) -> None:
    stream = env.from_sequence(1, 2)
    sink = stream.print()
    for target in (stream, sink) if method in WITHOUT_EFFECT_ON_SINKS else (stream,):
        with pytest.warns(UserWarning, match=rf"{method}\(\) has no effect: \w") as caught:
            assert getattr(target, method)("x") is target
        assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "method",
    [
        "add_source",
        "create_input",
        "register_cached_file",
        "add_classpaths",
    ],
)
def test_environments(env: StreamExecutionEnvironment, method: str) -> None:
    with pytest.raises(UnsupportedOperationError, match=rf"{method}\(\) is not supported"):
        getattr(env, method)("x")


def test_watermark_alignment() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    with pytest.raises(UnsupportedOperationError, match=r"group 'g'\) is not supported yet: leave .* out"):
        strategy.with_watermark_alignment("g", Time.seconds(5))


def test_methods_look_like_methods(env: StreamExecutionEnvironment) -> None:
    method = env.from_sequence(1, 2).rebalance  # type: ignore[attr-defined]
    assert method.__qualname__ == "DataStream.rebalance"
    assert inspect.getdoc(method).startswith("Not supported: the planner decides where records go")
