"""What PyFlink's own tests of streams ask for, of what is here; ``yardstick.py`` says which test asks for what."""

from __future__ import annotations

import datetime
import json
import shutil
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from headrace.common import Row, Time, Types, WatermarkStrategy
from headrace.common.errors import FunctionRefusedError, InvalidProgramError, UserFunctionError
from headrace.datastream import (
    DataStream,
    FilterFunction,
    FlatMapFunction,
    MapFunction,
    OutputTag,
    ProcessWindowFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from headrace.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows
from tests.pyflink.jobs import BY_SECOND, INT, LONG, PAIR, STRING, SecondField, collected, environment, texts


def nodes(env: StreamExecutionEnvironment) -> list[dict[str, Any]]:
    return json.loads(env.get_execution_plan())["nodes"]  # type: ignore[no-any-return]


# --- functions -------------------------------------------------------------------------------------------------------


class _Even(FlatMapFunction):  # type: ignore[type-arg]
    def flat_map(self, value: Any) -> Iterator[Any]:
        if value[1] % 2 == 0:
            yield value


class _Longer(FilterFunction):  # type: ignore[type-arg]
    def filter(self, value: Any) -> bool:
        return bool(value[1] > 2)


class _More(MapFunction):  # type: ignore[type-arg]
    def map(self, value: Any) -> Any:
        return Row(value[0], value[1] + 1, value[2])


def test_functions_of_classes_and_lambdas_in_a_chain(env: StreamExecutionEnvironment) -> None:
    words = [(word, Row(word[0], Decimal(number))) for number, word in enumerate(("ab", "bdc", "cfgs", "deeefg"), 1)]
    ds = env.from_collection(words, Types.TUPLE([STRING, Types.ROW([STRING, Types.BIG_DEC()])]))
    fields = [STRING, INT, Types.BIG_DEC()]
    ds = ds.map(lambda i: (i[0], len(i[0]), i[1][1]), output_type=Types.TUPLE(fields))
    ds = ds.flat_map(_Even(), output_type=Types.TUPLE(fields)).filter(_Longer())
    assert sorted(collected(ds.map(_More(), output_type=Types.ROW(fields))), key=str) == [
        Row(f0="cfgs", f1=5, f2=Decimal(3)),
        Row(f0="deeefg", f1=7, f2=Decimal(4)),
    ]


class _Number:
    def __init__(self, name: str, times: int) -> None:
        self.name, self.times = name, times


def test_objects_of_any_class_between_functions(env: StreamExecutionEnvironment) -> None:
    ds = env.from_collection([("a", 0), ("b", 1), ("c", 2)], PAIR).map(lambda row: _Number(row[0], row[1]))
    assert texts(ds.flat_map(lambda number: [number.name for _ in range(number.times)])) == ["b", "c", "c"]


def test_a_failing_function_ends_the_job(streaming: StreamExecutionEnvironment) -> None:
    def fail(_: Any) -> Iterator[Any]:
        raise ValueError("flat_map_func error")
        yield

    streaming.from_collection([("a", 0)], PAIR).key_by(SecondField(), key_type=INT).flat_map(fail).print()
    with pytest.raises(UserFunctionError, match="flat_map_func error"):
        streaming.execute("fails")


def test_all_kinds_of_values(streaming: StreamExecutionEnvironment) -> None:
    row = (
        *(1, None, 1, True, 32767, -2147483648, 1.25, 1.98932, bytearray(b"flink"), "pyflink"),
        *(datetime.date(2014, 9, 13), datetime.time(12, 0, 0, 123000), datetime.datetime(2018, 3, 11, 3, 0, 0, 123000)),
        *([1, 2, 3], Decimal("1000000000000000000.05"), Decimal("1000000000000000000.05999999999999999899999999999")),
    )
    nested = (row, [["pyflink", "datastream"], ["execute", "collect"]])
    assert collected(streaming.from_collection([nested])) == [nested]
    kinds = [
        *(LONG, LONG, Types.SHORT(), Types.BOOLEAN(), Types.SHORT(), INT, Types.FLOAT(), Types.DOUBLE()),
        *(Types.PICKLED_BYTE_ARRAY(), STRING, Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP()),
        *(Types.BASIC_ARRAY(LONG), Types.BIG_DEC(), Types.BIG_DEC()),
    ]
    (found,) = collected(streaming.from_collection([row], Types.ROW(kinds)))
    assert tuple(found) == row


def test_arrays(streaming: StreamExecutionEnvironment) -> None:
    numbers = [[1, 2, 3], [4, 5]]
    assert collected(streaming.from_collection(numbers, Types.PRIMITIVE_ARRAY(INT))) == numbers
    pairs = [(["test", "test"], [0.0, 0.0]), ([None], [0.0, 0.0])]
    kind = Types.TUPLE([Types.OBJECT_ARRAY(STRING), Types.OBJECT_ARRAY(Types.DOUBLE())])
    assert collected(streaming.from_collection(pairs, kind)) == pairs


def test_collections_and_times_in_a_row(env: StreamExecutionEnvironment) -> None:
    when = datetime.datetime(2021, 1, 9, 12, 0, 0, 11000)
    row = (1, [1.5, 1.25], [None, "hi", "flink"], when.date(), when.time().replace(microsecond=0), when, [1, 2, 3])
    kinds = [INT, Types.PRIMITIVE_ARRAY(Types.FLOAT()), Types.BASIC_ARRAY(STRING), Types.SQL_DATE(), Types.SQL_TIME()]
    kind = Types.ROW([*kinds, Types.SQL_TIMESTAMP(), Types.LIST(INT)])
    (found,) = collected(env.from_collection([row], kind).map(lambda x: x, output_type=kind))
    assert tuple(found) == row


# --- rolling aggregates ----------------------------------------------------------------------------------------------


def test_a_chain_of_sums() -> None:
    env = environment()
    env.set_parallelism(1)
    rows = env.from_collection([(1, 1), (1, 2), (1, 3), (2, 5), (2, 1)], Types.ROW_NAMED(["v1", "v2"], [INT, INT]))
    sums = rows.key_by(lambda x: x[0]).sum("v2").key_by(lambda x: x[0]).sum(1)
    swapped = sums.map(lambda x: (x[1], x[0]), output_type=Types.TUPLE([INT, INT]))
    assert sorted(collected(swapped.key_by(lambda x: x[1]).sum())) == [(1, 1), (5, 1), (5, 2), (15, 1), (16, 2)]


def test_a_chain_of_minima_and_maxima() -> None:
    env = environment()
    env.set_parallelism(1)
    kind = Types.ROW_NAMED(["v1", "v2", "v3"], [STRING, INT, INT])
    rows = env.from_collection([("a", 3, 0), ("a", 1, 1), ("b", 5, 0), ("b", 3, 1)], kind)
    smallest = rows.key_by(lambda x: x[0]).min_by("v2")
    tuples = smallest.map(lambda x: (x[0], x[1], x[2]), output_type=Types.TUPLE([STRING, INT, INT]))
    chain = tuples.key_by(lambda x: x[2]).max(1).key_by(lambda x: x[2]).min().map(lambda x: x[0], output_type=STRING)
    assert collected(chain.key_by(lambda x: x).max_by()) == ["a"] * 4


def _each(data: Iterable[Any]) -> Iterator[Any]:
    yield from data


def test_a_chain_of_sums_of_whole_input() -> None:
    env = environment(RuntimeExecutionMode.BATCH)
    env.set_parallelism(1)
    rows = env.from_collection([(1, 1), (1, 2), (1, 3), (5, 1), (5, 5)], Types.ROW_NAMED(["v1", "v2"], [INT, INT]))
    sums = rows.key_by(lambda x: x[0]).sum("v2").key_by(lambda x: x[1]).sum()
    pairs = sums.flat_map(lambda data: [(12, i) for i in data], output_type=Types.TUPLE([INT, INT]))
    assert collected(pairs.key_by(lambda x: x[0]).sum(1).flat_map(_each, INT).key_by(lambda x: x).sum()) == [24]


def test_minima_and_maxima_of_whole_input() -> None:
    """With a tuple for a key, where PyFlink's test has a list."""
    env = environment(RuntimeExecutionMode.BATCH)
    env.set_parallelism(1)
    kind = Types.ROW_NAMED(["v1", "v2", "v3"], [INT, STRING, INT])
    rows = env.from_collection([(1, "9", 0), (1, "5", 1), (1, "6", 2), (5, "5", 0), (5, "3", 1)], kind)
    smallest = rows.key_by(lambda x: x[0]).min_by("v2")
    tuples = smallest.map(lambda x: (x[0], x[1], x[2]), output_type=Types.TUPLE([INT, STRING, INT]))
    largest = tuples.key_by(lambda x: x[2]).max(0)
    pairs = largest.flat_map(lambda data: [(int(i), 1) for i in data], output_type=Types.TUPLE([INT, INT]))
    assert collected(pairs.key_by(lambda x: (1,)).min_by().flat_map(_each, INT).key_by(lambda x: x).max_by()) == [1]


def test_a_list_is_no_key_without_its_type(streaming: StreamExecutionEnvironment) -> None:
    keyed = streaming.from_collection([(1, 2), (3, 4)], Types.TUPLE([INT, INT])).key_by(lambda x: [1])
    with pytest.raises(FunctionRefusedError, match=r"\[1\] of type list cannot be a key.*Types.TUPLE\(\[Types.LONG"):
        collected(keyed.sum())


# --- keyed streams and plans -----------------------------------------------------------------------------------------


def test_a_stream_is_keyed_again(env: StreamExecutionEnvironment) -> None:
    rows = env.from_collection([("a", 0), ("b", 0), ("c", 1)], PAIR)
    assert sorted(map(tuple, collected(rows.key_by(SecondField(), key_type=INT).key_by(lambda x: x[0])))) == [
        *(("a", 0), ("b", 0), ("c", 1))
    ]


def test_a_keyed_stream_has_no_name_and_is_not_spread(streaming: StreamExecutionEnvironment) -> None:
    keyed = streaming.from_collection([("ab", 1)]).key_by(lambda x: x[1])
    with pytest.raises(InvalidProgramError, match="a keyed stream is no operator"):
        keyed.name("keyed stream")
    for method in ("shuffle", "rebalance", "rescale", "broadcast", "forward"):
        with pytest.raises(InvalidProgramError, match="spread by its keys"):
            getattr(keyed, method)()


def test_records_of_a_keyed_stream_come_without_their_keys(streaming: StreamExecutionEnvironment) -> None:
    pairs = [("pyflink", 1), ("datastream", 2), ("pyflink", 1)]
    keyed = streaming.from_collection(pairs, Types.TUPLE([STRING, INT])).key_by(lambda i: i[0], STRING)
    assert sorted(collected(keyed)) == sorted(pairs)
    assert list(streaming.from_collection([1, 2, 3, 4]).execute_and_collect(limit=3)) == [1, 2, 3]


def test_names_and_parallelism_in_the_plan(streaming: StreamExecutionEnvironment) -> None:
    source = streaming.from_collection([("a", 0)], PAIR)
    source.name("From Collection")
    assert source.get_name() == "From Collection"
    mapped = source.key_by(lambda x: x[1], key_type=INT).map(lambda x: x).name("Plus Two").set_parallelism(3)
    mapped.map(lambda x: x).name("Add").print().name("Test Sink").set_parallelism(4)
    found = [
        (node["type"], node["pact"], node["parallelism"], *(edge["ship_strategy"] for edge in node["predecessors"]))
        for node in nodes(streaming)
        if "predecessors" in node
    ]
    assert found == [
        ("Plus Two", "Operator", 3, "HASH"),
        ("Add", "Operator", 3, "FORWARD"),
        ("Test Sink", "Data Sink", 4, "REBALANCE"),
    ]


def test_unions_in_the_plan(streaming: StreamExecutionEnvironment) -> None:
    one, two = streaming.from_collection([1, 2, 3]), streaming.from_collection([4, 5, 6])
    one.union(two).map(lambda x: x + 1).print()
    one.key_by(lambda x: x).union(two.key_by(lambda x: x)).print()
    plan = nodes(streaming)
    sources = [node["id"] for node in plan if node["pact"] == "Data Source"]
    merging = [node for node in plan if len(node.get("predecessors", ())) == 2]
    assert [[edge["id"] for edge in node["predecessors"]] for node in merging] == [sources, sources]


def test_a_projection_in_the_plan(streaming: StreamExecutionEnvironment) -> None:
    ds = streaming.from_collection([[1, 2, 3, 4], [5, 6, 7, 8]], Types.TUPLE([INT] * 4))
    ds.project(1, 3).map(lambda x: (x[0], x[1] + 1)).print()
    assert nodes(streaming)[1]["type"] == "Projection: 1, 3"


# --- windows ---------------------------------------------------------------------------------------------------------


class _Counts(ProcessWindowFunction):  # type: ignore[type-arg]
    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterable[Any]:
        return [(key, len(list(elements)))]

    def clear(self, context: ProcessWindowFunction.Context) -> None:
        """PyFlink's test has one that does nothing."""


@pytest.mark.parametrize(
    ("assigner", "counts"),
    [
        (TumblingEventTimeWindows.of(Time.milliseconds(5)), [4, 3, 1]),
        (SlidingEventTimeWindows.of(Time.milliseconds(5), Time.milliseconds(2)), [2, 4, 4, 3, 2, 2, 1, 1]),
    ],
    ids=["tumbling", "sliding"],
)
def test_windows_of_event_time(env: StreamExecutionEnvironment, assigner: Any, counts: list[int]) -> None:
    pairs = [("hi", 1), ("hi", 2), ("hi", 3), ("hi", 4), ("hi", 5), ("hi", 8), ("hi", 9), ("hi", 15)]
    ds = env.from_collection(pairs, Types.TUPLE([STRING, INT])).assign_timestamps_and_watermarks(BY_SECOND)
    windows = ds.key_by(lambda x: x[0], key_type=STRING).window(assigner)
    assert collected(windows.process(_Counts(), Types.TUPLE([STRING, INT]))) == [("hi", count) for count in counts]


def test_windows_by_a_tuple_and_a_function_behind_them(env: StreamExecutionEnvironment) -> None:
    first, second = 1676461680000, 1676461740000
    clicks = [(first, "a1", "b1"), (first, "a1", "b1"), (first, "a2", "b2"), (first, "a1", "b2"), (second, "a1", "b1")]
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda click, _: click[0])
    ds = env.from_collection([(*click, 1) for click in clicks]).assign_timestamps_and_watermarks(times)
    windows = ds.key_by(lambda x: (x[0], x[1], x[2])).window(TumblingEventTimeWindows.of(Time.minutes(1)))
    sums = windows.reduce(lambda x, y: (*x[:3], x[3] + y[3]), output_type=Types.TUPLE([LONG, STRING, STRING, INT]))
    counts = sums.map(lambda x: (x[0], x[1], x[3]), output_type=Types.TUPLE([LONG, STRING, INT]))
    assert sorted(collected(counts)) == [(first, "a1", 1), (first, "a1", 2), (first, "a2", 1), (second, "a1", 1)]


def test_late_records_of_windows() -> None:
    """PyFlink's test needs a generator in Java for a watermark behind each record; here each record has one."""
    env = environment()
    env.set_parallelism(1)
    late = OutputTag("late-data", PAIR)

    def windows() -> DataStream:
        ds = env.from_collection([("a", 0), ("a", 8), ("a", 4), ("a", 6)], PAIR)
        keyed = ds.assign_timestamps_and_watermarks(BY_SECOND).key_by(lambda e: e[0])
        five = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(5))).allowed_lateness(0)
        return five.side_output_late_data(late).process(_Counts(), Types.TUPLE([STRING, INT]))

    assert collected(windows()) == [("a", 1), ("a", 2)]
    assert collected(windows().get_side_output(late)) == [Row(f0="a", f1=4)]


# --- what a job brings along -----------------------------------------------------------------------------------------


def test_an_archive_by_its_relative_path(streaming: StreamExecutionEnvironment, tmp_path: Path) -> None:
    (tmp_path / "content").mkdir()
    (tmp_path / "content" / "data.txt").write_text("2")
    archive = shutil.make_archive(str(tmp_path / "archive"), "zip", tmp_path / "content")
    streaming.add_python_archive(archive, "data")
    ds = streaming.from_collection([1, 2, 3]).map(lambda i: i + int(Path("data/data.txt").read_text()))
    assert sorted(collected(ds)) == [3, 4, 5]
