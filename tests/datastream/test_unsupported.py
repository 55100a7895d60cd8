"""What Flink has and headrace has not: every such method says what to do instead."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

from headrace.common.errors import UnsupportedOperationError
from headrace.common.time import Time
from headrace.datastream.streams.other_names import DATA_STREAM, KEYED_STREAM, WINDOWED_STREAM
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


@pytest.mark.parametrize("method", ["set_uid_hash", "disable_chaining", "slot_sharing_group"])
def test_sinks(env: StreamExecutionEnvironment, method: str) -> None:
    with pytest.raises(UnsupportedOperationError, match=rf"DataStreamSink\.{method}\(\)"):
        getattr(env.from_sequence(1, 2).print(), method)("x")


@pytest.mark.parametrize(
    "method",
    [
        "add_source",
        "create_input",
        "register_cached_file",
        "add_classpaths",
        "set_default_savepoint_directory",
    ],
)
def test_environments(env: StreamExecutionEnvironment, method: str) -> None:
    with pytest.raises(UnsupportedOperationError, match=rf"{method}\(\) is not supported"):
        getattr(env, method)("x")


@pytest.mark.parametrize(
    "method", ["set_buffer_timeout", "disable_operator_chaining", "enable_changelog_state_backend"]
)
def test_settings_of_environments_without_effect(env: StreamExecutionEnvironment, method: str) -> None:
    with pytest.warns(UserWarning, match=rf"StreamExecutionEnvironment\.{method}\(\) has no effect: "):
        assert getattr(env, method)(1) is env


def test_execution_config_settings_without_effect(env: StreamExecutionEnvironment) -> None:
    config: Any = env.get_config()
    with pytest.warns(UserWarning, match="a watermark is in force from the record on"):
        assert config.set_auto_watermark_interval(100) is config


def test_watermark_alignment() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    with pytest.raises(UnsupportedOperationError, match=r"group 'g'\) is not supported yet: leave .* out"):
        strategy.with_watermark_alignment("g", Time.seconds(5))


def test_methods_look_like_methods(env: StreamExecutionEnvironment) -> None:
    method = env.from_sequence(1, 2).rebalance  # type: ignore[attr-defined]
    assert method.__qualname__ == "DataStream.rebalance"
    assert inspect.getdoc(method).startswith("Not supported: the planner decides where records go")
