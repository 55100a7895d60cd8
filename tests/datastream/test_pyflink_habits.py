"""What programs that were written for PyFlink rely on, from beginning to end on the local runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace.common import Configuration, Row, Time, Types, WatermarkStrategy
from headrace.datastream import (
    ExternalizedCheckpointRetention,
    KeyedProcessFunction,
    OutputTag,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    TimeWindow,
)
from headrace.datastream.window import TumblingEventTimeWindows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.datastream import DataStream

STRING, INT, LONG = Types.STRING(), Types.INT(), Types.LONG()
LATE = OutputTag("late", Types.TUPLE([STRING, INT, LONG]))


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    configuration = Configuration().set_string("headrace.runtime", "local").set_string("parallelism.default", "1")
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def collected(stream: DataStream) -> list[Any]:
    with stream.execute_and_collect() as records:
        return list(records)


@pytest.mark.parametrize(
    ("elements", "reduce", "results"),
    [
        ([("a", 1), ("a", 2)], lambda x, y: (x[0], (x[1] + y[1]) / 2), [("a", 1), ("a", 1.5)]),
        ([1, 2, 3], lambda x, y: f"{x}{y}", [1, "12", "123"]),
        ([{"v": 1}, {"v": 2}], lambda x, y: {"v": x["v"] + y["v"], "n": 2}, [{"v": 1}, {"v": 3, "n": 2}]),
        ([Row(1, "a"), Row(2, "a")], lambda x, y: Row(x[0] / y[0], "b"), [Row(1, "a"), Row(0.5, "b")]),
    ],
)
def test_reduce_may_change_what_records_are(
    env: StreamExecutionEnvironment, elements: list[Any], reduce: Callable[[Any, Any], Any], results: list[Any]
) -> None:
    assert collected(env.from_collection(elements).key_by(lambda _: 0).reduce(reduce)) == results


def test_so_may_reduce_in_windows(env: StreamExecutionEnvironment) -> None:
    assert collected(_windows(env).reduce(lambda x, y: (x[0], f"{x[1]}{y[1]}", y[2]))) == [
        ("a", "12", 900),
        ("b", 0, 5000),
    ]


def test_late_records_become_what_their_tag_says(env: StreamExecutionEnvironment) -> None:
    stream = _windows(env).side_output_late_data(LATE).reduce(lambda x, y: (x[0], str(y), y[2]))
    assert collected(stream.get_side_output(LATE)) == [("a", 3, 100)]


class _Contents(ProcessWindowFunction):  # type: ignore[type-arg]
    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        yield key, list(elements)


def test_window_functions_get_what_reduce_made(env: StreamExecutionEnvironment) -> None:
    stream = _windows(env).reduce(lambda x, y: (x[0], [x[1], y[1]]), window_function=_Contents())
    assert collected(stream) == [("a", [("a", [1, 2])]), ("b", [("b", 0, 5000)])]


def test_a_union_of_anything(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_collection([1, 2])
    together = numbers.union(numbers.map(lambda x: (x,)), env.from_collection(["a"]))
    assert sorted(collected(together), key=str) == [(1,), (2,), 1, 2, "a"]


class _Keys(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        yield repr(ctx.get_current_key()), repr(value), value.f1, value["f0"], value.as_dict()


def test_rows_without_names_have_those_of_flink(env: StreamExecutionEnvironment) -> None:
    rows = env.from_collection([("a", Row(1))], Types.ROW([STRING, Types.ROW([INT])]))
    keyed = rows.key_by(lambda row: Row(row[0]), key_type=Types.ROW([STRING]))
    fields = {"f0": "a", "f1": Row(f0=1)}
    assert collected(keyed.process(_Keys())) == [
        ("Row(f0='a')", "Row(f0='a', f1=Row(f0=1))", Row(f0=1), "a", fields),
    ]


def test_the_largest_text(env: StreamExecutionEnvironment) -> None:
    pairs = env.from_collection([("a", "x"), ("a", "z"), ("a", "y")], Types.TUPLE([STRING, STRING]))
    assert collected(pairs.key_by(lambda pair: pair[0]).max(1)) == [("a", "x"), ("a", "z"), ("a", "z")]


def test_keyword_arguments_are_called_as_in_pyflink() -> None:
    assert Types.LIST(element_type_info=INT) == Types.LIST(INT)
    assert Types.MAP(key_type_info=STRING, value_type_info=INT) == Types.MAP(STRING, INT)
    env = StreamExecutionEnvironment.get_execution_environment()
    config = env.get_checkpoint_config()
    config.set_externalized_checkpoint_retention(retention_mode=ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)
    assert env.get_checkpointing_consistency_mode() is env.get_checkpointing_mode()


@pytest.mark.parametrize(("timestamp", "offset", "start"), [(7, 0, 5), (-1, 0, -5), (7, 3, 3), (2, 3, -2)])
def test_the_start_of_a_window(timestamp: int, offset: int, start: int) -> None:
    assert TimeWindow.get_window_start_with_offset(timestamp, offset, 5) == start


def _windows(env: StreamExecutionEnvironment) -> Any:
    events = [("a", 1, 500), ("a", 2, 900), ("b", 0, 5000), ("a", 3, 100)]
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda event, _: event[2])
    stream = env.from_collection(events).assign_timestamps_and_watermarks(times)
    return stream.key_by(lambda event: event[0]).window(TumblingEventTimeWindows.of(Time.seconds(1)))
