"""Batch mode: all that is broadcast comes before the first record that meets it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.common import Configuration, Time, Types, WatermarkStrategy
from headrace.datastream import (
    BroadcastProcessFunction,
    DataStream,
    KeyedBroadcastProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from headrace.datastream.aggregates import sum as total
from headrace.datastream.state import MapStateDescriptor
from headrace.datastream.window import TumblingEventTimeWindows

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
SEEN = MapStateDescriptor("seen", Types.STRING(), Types.LONG())
LETTERS = [(letter, number) for number, letter in enumerate("abcdef")]

failed: list[str] = []


class Known(BroadcastProcessFunction):
    """Each record with how much was broadcast before it."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[str, int]]:
        yield value[0], sum(ctx.get_broadcast_state(SEEN).values())

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(SEEN).put(str(value[0]), value[1])


class KnownOfKey(KeyedBroadcastProcessFunction):
    """The same by key."""

    process_element = Known.process_element
    process_broadcast_element = Known.process_broadcast_element


class FailsOnce(Known):
    """Fails at the first record, when all that is broadcast is in a checkpoint."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[str, int]]:
        if not failed:
            failed.append(value[0])
            raise ConnectionError("away")
        return super().process_element(value, ctx)


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    """Reads two records of each source in an epoch."""
    failed.clear()
    options = {
        "headrace.runtime": "local",
        "headrace.epoch.max-records": 4,
        "headrace.epoch.target-duration": "60s",
        "execution.runtime-mode": "BATCH",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "1 ms",
    }
    made = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    made.set_parallelism(2)
    return made


def letters(env: StreamExecutionEnvironment) -> DataStream:
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda pair, _: pair[1])
    return env.from_collection(LETTERS, PAIR).assign_timestamps_and_watermarks(times)


def known(records: DataStream, broadcast: DataStream, function: BroadcastProcessFunction | None = None) -> DataStream:
    return records.connect(broadcast.broadcast(SEEN)).process(function or Known(), output_type=PAIR)


def results(stream: DataStream) -> list[Any]:
    return sorted(stream.execute_and_collect())


def test_records_wait_until_all_is_broadcast(env: StreamExecutionEnvironment) -> None:
    assert results(known(letters(env), letters(env))) == [(letter, 15) for letter in "abcdef"]


def test_records_of_keys_wait_too(env: StreamExecutionEnvironment) -> None:
    connected = letters(env).key_by(0).connect(letters(env).broadcast(SEEN))
    assert results(connected.process(KnownOfKey(), output_type=PAIR)) == [(letter, 15) for letter in "abcdef"]


def test_what_comes_at_the_end_of_the_broadcast_input_is_waited_for(env: StreamExecutionEnvironment) -> None:
    windows = letters(env).window_all(TumblingEventTimeWindows.of(Time.milliseconds(3)))
    sums = windows.aggregate(total("f1")).map(lambda row: (str(row[0]), row[2]), PAIR)
    assert results(known(letters(env), sums)) == [(letter, 15) for letter in "abcdef"]


def test_one_after_the_other(env: StreamExecutionEnvironment) -> None:
    assert results(known(letters(env), known(letters(env), letters(env)))) == [(letter, 90) for letter in "abcdef"]


def test_after_a_failure(env: StreamExecutionEnvironment) -> None:
    assert results(known(letters(env), letters(env), FailsOnce())) == [(letter, 15) for letter in "abcdef"]
    assert failed


def test_a_circle_does_not_wait_for_ever(env: StreamExecutionEnvironment) -> None:
    first, second, third = letters(env), letters(env), letters(env)
    around = known(first, second).union(known(second, first), known(first, first))
    behind = known(first.map(lambda pair: ("behind", 0), PAIR), third)  # this one can wait, and does
    found = results(around.union(behind))
    assert len(found) == 4 * len(LETTERS)
    assert [pair for pair in found if pair[0] == "behind"] == [("behind", 15)] * len(LETTERS)


def test_in_streaming_mode_nobody_waits(env: StreamExecutionEnvironment) -> None:
    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    assert min(number for _, number in results(known(letters(env), letters(env)))) < 15
