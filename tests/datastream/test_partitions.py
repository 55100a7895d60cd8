"""``full_window_partition``: all records of a key, or of a subtask, when the input has ended."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Configuration, Types
from headrace.common.errors import InvalidTypeError, UnsupportedOperationError, UserFunctionError
from headrace.datastream import (
    AggregateFunction,
    MapPartitionFunction,
    Order,
    PartitionWindowedStream,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from headrace.datastream.aggregates import count
from headrace.datastream.streams.data_stream import DataStream
from headrace.datastream.streams.partition_windowed_stream import sorted_rows
from headrace.testing import JobHarness
from tests.draws import draws

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
PAIRS = [("a", 3), ("b", 1), ("a", 1), ("c", 2), ("b", 9), ("a", 2)]


class Sizes(MapPartitionFunction):
    """How many records, and their values in order; opened like any other function."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.opened = True

    def map_partition(self, values: Iterable[Any]) -> Iterator[tuple[int, str]]:
        assert self.opened
        found = list(values)
        yield len(found), ",".join(str(value[1]) for value in found)


class Total(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + value[1]

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


@pytest.fixture(params=["STREAMING", "BATCH"])
def env(request: pytest.FixtureRequest) -> StreamExecutionEnvironment:
    given = {"headrace.runtime": "local", "execution.runtime-mode": request.param, "parallelism.default": "2"}
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(given))


@pytest.fixture
def by_key(env: StreamExecutionEnvironment) -> PartitionWindowedStream:
    return env.from_collection(PAIRS, PAIR).key_by(0).full_window_partition()


@pytest.fixture
def by_subtask(env: StreamExecutionEnvironment) -> PartitionWindowedStream:
    return env.from_collection(PAIRS, PAIR).set_parallelism(1).full_window_partition()


def rows(stream: DataStream) -> list[Any]:
    return list(stream.execute_and_collect(limit=100))


def test_keys(by_key: PartitionWindowedStream) -> None:
    assert sorted(rows(by_key.map_partition(Sizes()))) == [(1, "2"), (2, "1,9"), (3, "3,1,2")]
    assert sorted(rows(by_key.reduce(lambda a, b: (a[0], a[1] + b[1])))) == [("a", 6), ("b", 10), ("c", 2)]
    assert sorted(rows(by_key.aggregate(Total()))) == [2, 6, 10]
    in_order = rows(by_key.sort_partition(1))
    assert [pair for pair in in_order if pair[0] == "a"] == [("a", 1), ("a", 2), ("a", 3)]


def test_subtasks(by_subtask: PartitionWindowedStream) -> None:
    assert rows(by_subtask.map_partition(Sizes())) == [(6, "3,1,1,2,9,2")]
    assert rows(by_subtask.map_partition(lambda values: [len(list(values))])) == [6]
    assert rows(by_subtask.reduce(lambda a, b: (a[0] + b[0], a[1] + b[1]))) == [("abacba", 18)]
    assert rows(by_subtask.aggregate(Total(), Types.LONG(), Types.LONG())) == [18]


def test_order(by_subtask: PartitionWindowedStream) -> None:
    """Equal records stay as they are, whichever the order."""
    assert rows(by_subtask.sort_partition("f1")) == [("b", 1), ("a", 1), ("c", 2), ("a", 2), ("a", 3), ("b", 9)]
    assert rows(by_subtask.sort_partition(0, Order.DESCENDING)) == [
        *[("c", 2), ("b", 1), ("b", 9), ("a", 3), ("a", 1), ("a", 2)]
    ]
    assert rows(by_subtask.sort_partition(lambda pair: (pair[0], -pair[1]))) == [
        *[("a", 3), ("a", 2), ("a", 1), ("b", 9), ("b", 1), ("c", 2)]
    ]


def test_plain_values(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_collection([3, 1, 2]).set_parallelism(1).full_window_partition()
    assert rows(numbers.sort_partition(0)) == [1, 2, 3]
    assert rows(numbers.reduce(lambda a, b: f"{a}{b}")) == ["312"]


def test_integers_beyond_64_bits_are_ordered(by_subtask: PartitionWindowedStream) -> None:
    large = by_subtask.sort_partition(lambda pair: None if pair[0] == "c" else pair[1] << 64, Order.DESCENDING)
    assert rows(large) == [("b", 9), ("a", 3), ("a", 2), ("b", 1), ("a", 1), ("c", 2)]


def test_each_subtask_is_a_partition(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_sequence(1, 100).set_parallelism(2)
    shares = rows(numbers.full_window_partition().map_partition(lambda values: [sorted(values)]))
    assert 1 <= len(shares) <= 2
    assert sorted(number for share in shares for number in share) == list(range(1, 101))


def _totals(harness: JobHarness, *, is_keyed: bool) -> None:
    pairs = harness.add_source("pairs", PAIR)
    partitions = (pairs.key_by(0) if is_keyed else pairs).full_window_partition()
    harness.add_sink("out", partitions.map_partition(Sizes(), Types.TUPLE([Types.INT(), Types.STRING()])).uid("sizes"))


@pytest.mark.parametrize(
    ("is_keyed", "found"), [(True, [(1, "2"), (2, "1,9"), (3, "3,1,2")]), (False, [(6, "3,1,1,2,9,2")])]
)
def test_records_are_kept_from_epoch_to_epoch_and_over_restarts(is_keyed: bool, found: list[Any]) -> None:
    job = partial(_totals, is_keyed=is_keyed)
    with JobHarness(job) as harness:
        for pair in PAIRS[:4]:
            harness.push("pairs", pair)
            harness.run_epoch()
        assert harness.take("out") == []
        checkpoint = harness.checkpoint()
    with JobHarness(job, restore=checkpoint) as harness:
        harness.push_all("pairs", PAIRS[4:])
        harness.finish()
        assert sorted(harness.take("out")) == found


def test_what_does_not_fit(by_key: PartitionWindowedStream, by_subtask: PartitionWindowedStream) -> None:
    for partitions in (by_key, by_subtask):
        with pytest.raises(InvalidTypeError, match=r"sort_partition\('f7'\)"):
            partitions.sort_partition("f7")
        with pytest.raises(InvalidTypeError, match=r"sort_partition takes an? Order"):
            partitions.sort_partition(1, "ascending")  # type: ignore[arg-type]
        with pytest.raises(UnsupportedOperationError, match="built-in aggregates take windows"):
            partitions.aggregate(count())
        with pytest.raises(InvalidTypeError, match="MapPartitionFunction"):
            partitions.map_partition(3)


def test_keys_without_an_order(by_subtask: PartitionWindowedStream) -> None:
    with pytest.raises((InvalidTypeError, UserFunctionError), match="records cannot be ordered by keys such as"):
        rows(by_subtask.sort_partition(lambda pair: pair[1] if pair[0] == "a" else "text"))
    with pytest.raises((InvalidTypeError, UserFunctionError), match="records cannot be ordered by keys such as"):
        rows(by_subtask.sort_partition(lambda pair: (pair[1],) * pair[1]))


numbers = st.one_of(st.none(), st.integers(-3, 3).map(float), st.sampled_from([math.nan, -0.0, math.inf]))


@settings(max_examples=draws(50), deadline=None)
@given(keys=st.lists(st.tuples(st.integers(0, 2), numbers), min_size=1, max_size=20), order=st.sampled_from(Order))
def test_sorting(keys: list[tuple[int, float | None]], order: Order) -> None:
    sign = 1 if order is Order.ASCENDING else -1

    def rank(row: int) -> tuple[Any, ...]:
        first, second = keys[row]
        if second is None or math.isnan(second):
            return sign * first, 1 if second is not None else 2, 0.0
        return sign * first, 0, sign * second

    assert sorted_rows(keys, order) == sorted(range(len(keys)), key=rank)
