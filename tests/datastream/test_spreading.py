"""How a program has records spread over the subtasks of the next operator."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from headrace.common import Configuration
from headrace.common.errors import InvalidProgramError, InvalidTypeError, UserFunctionError
from headrace.datastream import DataStream, MapFunction, Partitioner, RuntimeContext, StreamExecutionEnvironment

WAYS: dict[str, Callable[[DataStream[int]], DataStream[int]]] = {
    "REBALANCE": lambda stream: stream.rebalance(),
    "RESCALE": lambda stream: stream.rescale(),
    "SHUFFLE": lambda stream: stream.shuffle(),
    "GLOBAL": lambda stream: stream.global_(),
    "BROADCAST": lambda stream: stream.broadcast(),
    "CUSTOM": lambda stream: stream.partition_custom(lambda key, count: key % count, lambda number: number),
    "FORWARD": lambda stream: stream.forward(),
}


class WithSubtask(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def map(self, value: int) -> tuple[int, int]:
        return self.subtask, value


class ByDigits(Partitioner):
    def partition(self, key: str, num_partitions: int) -> int:
        return len(key) % num_partitions


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    settings = Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": "3"})
    return StreamExecutionEnvironment.get_execution_environment(settings)


def received(stream: DataStream[int], parallelism: int = 3) -> list[list[int]]:
    """What each subtask of the next operator gets."""
    found: list[list[int]] = [[] for _ in range(parallelism)]
    mapped = stream.map(WithSubtask(), output_type=tuple[int, int]).set_parallelism(parallelism)
    for subtask, number in mapped.execute_and_collect(limit=1000):
        found[subtask].append(number)
    return found


@pytest.mark.parametrize("way", WAYS)
def test_each_way(env: StreamExecutionEnvironment, way: str) -> None:
    numbers = [*range(60)]
    found = received(WAYS[way](env.from_collection(numbers, int)))
    copies = 3 if way == "BROADCAST" else 1
    assert sorted(number for part in found for number in part) == sorted(numbers * copies)
    if way == "GLOBAL":
        assert found[0] == numbers
    elif way == "CUSTOM":
        assert found == [numbers[start::3] for start in range(3)]
    elif way == "REBALANCE":
        assert [len(part) for part in found] == [20, 20, 20]
    elif way == "SHUFFLE":
        assert all(found)


@pytest.mark.parametrize("way", WAYS)
def test_plans_show_it(env: StreamExecutionEnvironment, way: str) -> None:
    WAYS[way](env.from_collection([1])).map(lambda number: number).print()
    nodes = json.loads(env.get_execution_plan())["nodes"]
    mapped = next(node for node in nodes if node["type"] == "Map")
    assert [edge["ship_strategy"] for edge in mapped["predecessors"]] == [way]


@pytest.mark.parametrize("way", sorted(set(WAYS) - {"BROADCAST"}))
def test_a_union_keeps_it(env: StreamExecutionEnvironment, way: str) -> None:
    stream = env.from_collection([1, 2, 3], int)
    found = received(WAYS[way](stream).union(stream))
    assert sorted(number for part in found for number in part) == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("way", WAYS)
def test_a_keyed_stream_is_spread_by_its_keys(env: StreamExecutionEnvironment, way: str) -> None:
    with pytest.raises(InvalidProgramError, match=r"spread by its keys(.|\n)*at .*test_spreading"):
        WAYS[way](env.from_collection([1], int).key_by(lambda number: number))


def test_forward_keeps_the_parallelism(env: StreamExecutionEnvironment) -> None:
    mapped = env.from_collection([1]).map(lambda number: number).set_parallelism(2)
    mapped.forward().map(lambda number: number).set_parallelism(4).print()
    with pytest.raises(InvalidProgramError, match=r"2 before it and 4 behind(.|\n)*at .*test_spreading"):
        env.get_execution_plan()


def test_a_partitioner(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([1, 10, 100, 2], int).partition_custom(ByDigits(), str)
    assert received(stream) == [[100], [1, 2], [10]]


@pytest.mark.parametrize("given", [7, -1, 1.0, None, True])
def test_a_partitioner_that_names_no_subtask(env: StreamExecutionEnvironment, given: Any) -> None:
    stream = env.from_collection([5], int).partition_custom(lambda key, count: given, lambda number: number)
    with pytest.raises(UserFunctionError, match="it has to be a number from 0 to 2") as found:
        received(stream)
    assert "partition_custom behind operator" in str(found.value)
    assert "record: 5" in str(found.value)
    assert "partition_custom called at" in str(found.value)


def test_a_partitioner_that_fails(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([5], int).partition_custom(lambda key, count: 1 // 0, lambda number: number)
    with pytest.raises(UserFunctionError, match="ZeroDivisionError"):
        received(stream)


def test_what_is_no_partitioner(env: StreamExecutionEnvironment) -> None:
    stream: Any = env.from_collection([5], int)
    with pytest.raises(InvalidTypeError, match="expected a Partitioner or a function"):
        stream.partition_custom(3, lambda number: number)
    with pytest.raises(InvalidTypeError, match=r"write a function of|write def partition|a function of \(key"):
        stream.partition_custom(lambda key: 1, lambda number: number)
    with pytest.raises(InvalidTypeError, match="expected a Partitioner or a function, got 'hash'"):
        stream.partition_custom("hash", lambda number: number)  # str has a method of that name
    with pytest.raises(InvalidTypeError, match=r"partition_custom\('no'\): records of type Long have no fields"):
        stream.partition_custom(lambda key, subtasks: 1, "no")


def test_one_subtask_whatever_the_parallelism(env: StreamExecutionEnvironment) -> None:
    mapped = env.from_collection([1, 2], int).rebalance().map(WithSubtask(), output_type=tuple[int, int])
    assert mapped.force_non_parallel().execute_and_collect(limit=9) == [(0, 1), (0, 2)]
