"""Streams that are taken for partitioned by key already: nothing is shuffled, and what is elsewhere is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.common import Configuration, Time, Types, WatermarkStrategy
from headrace.common.errors import InvalidProgramError, UserFunctionError
from headrace.datastream import DataStream, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from headrace.datastream.aggregates import count
from headrace.datastream.functions import ReduceFunction
from headrace.datastream.state import ValueStateDescriptor
from headrace.testing import JobHarness
from headrace.testing.stored_state import Checkpoint
from headrace.windowing.assigners import TumblingEventTimeWindows

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
KEYS = [f"key {number}" for number in range(20)]
Keyed = Callable[[DataStream[Any]], Any]


class Counting(KeyedProcessFunction):
    """The number of the record among those of its key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterator[tuple[str, int]]:
        self.count.update((self.count.value() or 0) + 1)
        yield value[0], self.count.value() or 0


class Longest(ReduceFunction):
    def reduce(self, value1: tuple[str, int], value2: tuple[str, int]) -> tuple[str, int]:
        return max(value1, value2)


def by_key(stream: DataStream[Any]) -> Any:
    return stream.key_by(0)


def reinterpreted(stream: DataStream[Any]) -> Any:
    return stream.reinterpret_as_keyed(0)


BEHIND: dict[str, Callable[[Any], DataStream[Any]]] = {
    "process": lambda keyed: keyed.process(Counting(), PAIR),
    "sum": lambda keyed: keyed.sum(1),
    "reduce": lambda keyed: keyed.reduce(Longest()),
    "window": lambda keyed: keyed.window(TumblingEventTimeWindows.of(Time.hours(1))).aggregate(count()),
}


def job(behind: str, keyed: Keyed) -> Callable[[JobHarness], None]:
    def build(harness: JobHarness) -> None:
        counted = harness.add_source("in", PAIR, splits=3).key_by(0).process(Counting(), PAIR).uid("first")
        harness.add_sink("out", BEHIND[behind](keyed(counted.filter(lambda pair: pair[1] != 3))).uid("second"))

    return build


def results(behind: str, keyed: Keyed) -> list[list[Any]]:
    """Over epochs and starts at other parallelisms."""
    found = []
    held: Checkpoint | None = None
    for start, parallelism in enumerate((3, 1, 4)):
        with JobHarness(job(behind, keyed), parallelism=parallelism, restore=held) as harness:
            for epoch in range(2):
                hour = (2 * start + epoch) * 3_600_000
                for split in range(3):
                    pairs = [(key, epoch) for key in KEYS[split:]]
                    harness.push_all("in", pairs, [hour] * len(pairs), split=split)
                harness.advance_watermark("in", hour)
                harness.run_epoch()
            held = harness.checkpoint()
            found.append(sorted(map(tuple, harness.take("out"))))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("behind", BEHIND)
def test_it_is_as_if_it_were_shuffled(behind: str) -> None:
    assert results(behind, reinterpreted) == results(behind, by_key)


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    settings = Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": "3"})
    return StreamExecutionEnvironment.get_execution_environment(settings)


def counted(env: StreamExecutionEnvironment) -> DataStream[Any]:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("f1")
    pairs = env.from_collection([(key, 0) for key in KEYS], PAIR).assign_timestamps_and_watermarks(strategy)
    return pairs.key_by(0).process(Counting(), PAIR)


@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize(("keyed", "stages"), [(by_key, 3), (reinterpreted, 2)])
def test_nothing_is_shuffled(env: StreamExecutionEnvironment, behind: str, keyed: Keyed, stages: int) -> None:
    BEHIND[behind](keyed(counted(env))).print()
    assert f"headrace job: {stages} stages" in env.explain()
    assert ("Local" in env.explain()) == (behind == "window" and keyed is by_key), "nothing is added up before it"


def test_a_key_that_belongs_elsewhere_is_refused(env: StreamExecutionEnvironment) -> None:
    moved = counted(env).map(lambda pair: ("another " + pair[0], pair[1]), PAIR).name("moving")
    with pytest.raises(UserFunctionError, match=r"its key belongs to subtask \d: the stream is not") as raised:
        moved.reinterpret_as_keyed(0).sum(1).execute_and_collect(limit=100)
    text = str(raised.value)
    assert "reinterpret_as_keyed behind operator 'moving'" in text
    assert "record: ('another key" in text
    assert "reinterpret_as_keyed called at" in text
    assert "test_reinterpreting" in text


def test_streams_that_are_merged_behind_a_shuffle(env: StreamExecutionEnvironment) -> None:
    """Records of several operators are merged by event time; they stay in their subtasks all the same."""
    both = counted(env).union(counted(env))
    sums = both.reinterpret_as_keyed(0).sum(1).execute_and_collect(limit=100)
    assert sorted(map(tuple, sums)) == sorted((key, number) for key in KEYS for number in (1, 2))
    moved = counted(env).map(lambda pair: ("another " + pair[0], pair[1]), PAIR).name("moving")
    with pytest.raises(UserFunctionError, match=r"behind operator 'moving' (.|\n)*its key belongs to subtask \d"):
        counted(env).union(moved).reinterpret_as_keyed(0).sum(1).execute_and_collect(limit=100)


def test_other_numbers_of_key_groups_show(env: StreamExecutionEnvironment) -> None:
    behind = counted(env).reinterpret_as_keyed(0).sum(1).set_max_parallelism(4)
    with pytest.raises(UserFunctionError, match="the stream is not partitioned by this key"):
        behind.execute_and_collect(limit=100)


def test_another_parallelism_is_refused(env: StreamExecutionEnvironment) -> None:
    counted(env).reinterpret_as_keyed(0).sum(1).set_parallelism(2).print()
    with pytest.raises(InvalidProgramError, match=r"reinterpret_as_keyed\(...\) before .*3 before it and 2 behind"):
        env.explain()


def test_nothing_is_partitioned_before_a_shuffle(env: StreamExecutionEnvironment) -> None:
    env.from_collection([("a", 1)], PAIR).filter(bool).reinterpret_as_keyed(0).sum(1).print()
    with pytest.raises(InvalidProgramError, match=r"nothing has partitioned the records of operator 'Filter'"):
        env.explain()


@pytest.mark.parametrize("spread", [lambda stream: stream.rebalance(), lambda stream: stream.key_by(1)])
def test_a_stream_that_is_spread_anew_is_refused(env: StreamExecutionEnvironment, spread: Any) -> None:
    with pytest.raises(InvalidProgramError, match=r"these are spread anew before(.|\n)*at .*test_reinterpreting"):
        spread(counted(env)).reinterpret_as_keyed(0)
