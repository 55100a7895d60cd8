"""Aggregates of one's own: called for many groups at a time, merged without the program, taken back, and told of."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from folding import Folding
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Configuration, Time, WatermarkStrategy
from headrace.common.errors import InvalidProgramError, InvalidTypeError, UserFunctionError
from headrace.common.typeinfo import Types
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.aggregates import ArrowAggregateFunction
from headrace.datastream.window import (
    CountTrigger,
    EndOfStreamTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    TumblingEventTimeWindows,
)
from headrace.state.runs.grouping import Segments
from tests.draws import draws


def sums(columns: Any, groups: Segments) -> list[pa.Array]:
    return [pa.array(groups.reduce(np.add, column.to_numpy())) for column in columns]


class WeightedSum(ArrowAggregateFunction):
    """The sum of products, and null where there is none."""

    accumulator_types = (Types.LONG(), Types.LONG())
    result_type = Types.LONG()

    def create(self, count: int) -> list[pa.Array]:
        return [pa.array(np.zeros(count, np.int64))] * 2

    def add(self, accumulators: Any, columns: Any, groups: Segments) -> list[pa.Array]:
        products = pc.multiply(columns[0], columns[1])
        parts = products.fill_null(0), products.is_valid().cast(pa.int64())
        return [pc.add(*pair) for pair in zip(accumulators, sums(parts, groups), strict=True)]

    def retract(self, accumulators: Any, columns: Any, groups: Segments) -> list[pa.Array]:
        return [pc.negate(column) for column in self.add(accumulators, columns, groups)]

    def merge(self, accumulators: Any, groups: Segments) -> list[pa.Array]:
        return sums(accumulators, groups)

    def result(self, accumulators: Any) -> pa.Array:
        total, count = accumulators
        return pc.if_else(pc.equal(count, 0), None, total)


class Forgetful(WeightedSum):
    retract = ArrowAggregateFunction.retract


TWO = [Types.LONG(), Types.LONG()]
small = st.one_of(st.none(), st.integers(-100, 100))
records = st.lists(st.tuples(st.integers(0, 3), small, small), max_size=12)


def expected(given: list[Any]) -> dict[int, Any]:
    products: dict[int, list[int]] = {}
    for group, value, weight in given:
        products.setdefault(group, []).extend([] if None in (value, weight) else [value * weight])
    return {group: sum(found) if found else None for group, found in products.items()}


@settings(max_examples=draws(30), deadline=None)
@given(st.lists(records, min_size=1, max_size=5), st.data())
def test_any_cut_gives_the_same(parts: list[list[Any]], data: st.DataObject) -> None:
    folding = Folding(WeightedSum().of("v", "w"), TWO)
    for part in parts:
        folding.add(*part)
        if folding.pieces and data.draw(st.booleans()):
            folding.merge(data.draw(st.integers(0, len(folding.pieces) - 1)))
    assert folding.results() == expected([record for part in parts for record in part])


@settings(max_examples=draws(30), deadline=None)
@given(records, records)
def test_what_is_taken_back_was_never_there(kept: list[Any], gone: list[Any]) -> None:
    folding = Folding(WeightedSum().of("v", "w"), TWO, retracts=True)
    results = folding.add(*gone, takes_back=True).add(*kept).merge().add(*gone).results()
    assert results == dict.fromkeys([group for group, *_ in gone]) | expected(kept)


def test_without_retract_it_is_refused() -> None:
    with pytest.raises(InvalidProgramError, match=r"Forgetful\(\) cannot take records back.*no retract\(\)"):
        Folding(Forgetful().of("v", "w"), TWO, retracts=True)


def test_runs_are_merged_without_the_program_and_read_with_it() -> None:
    folding = Folding(WeightedSum().of("v", "w").alias("total"), TWO)
    folding.add((0, 1, 2), (1, 3, 4)).add((0, 5, 6)).merge()
    assert [len(parts) for parts in folding.pieces[0][0].to_pylist()] == [2, 1]
    assert folding.list.to_json() == [{"kind": "UserDefined", "name": "total = WeightedSum(v, w)", "width": 2}]
    assert folding.results() == {0: 32, 1: 12}


def test_who_knows_the_function_keeps_one_part() -> None:
    folding = Folding(WeightedSum().of("v", "w"), TWO).add((0, 1, 2)).add((0, 5, 6))
    columns = [pa.concat_arrays(parts) for parts in zip(*folding.pieces, strict=True)]
    assert folding.list.merge(columns, Segments(np.array([0]), 2))[0].to_pylist() == [[32]]


def test_what_arrow_raises_is_shown_at_the_line_of_the_program() -> None:
    broken = type("Broken", (WeightedSum,), {"add": lambda _, empty, columns, groups: [pc.add(columns[0], "x")]})
    with pytest.raises(UserFunctionError, match=r"ArrowNotImplementedError[\s\S]*at .*test_user_defined.py:\d+"):
        Folding(broken().of("v", "w"), TWO).add((0, 1, 2))


SECONDS = TumblingEventTimeWindows.of(Time.seconds(1))
SESSIONS = EventTimeSessionWindows.with_gap(Time.seconds(1))


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("windows", "trigger"),
    [
        (SECONDS, EventTimeTrigger()),
        (SECONDS, CountTrigger.of(1)),
        (SESSIONS, EventTimeTrigger()),
        (GlobalWindows.create(), EndOfStreamTrigger()),
    ],
    ids=["columns", "count", "sessions", "untimed"],
)
@pytest.mark.parametrize("method", ["add", "result"])
@pytest.mark.parametrize("parallelism", [1, 2])
def test_the_operator_is_named(windows: Any, trigger: Any, method: str, parallelism: int) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": str(parallelism)})
    )

    def fail(*_: Any) -> Any:
        return 1 // 0

    fail.__name__ = method
    broken = type("Broken", (WeightedSum,), {method: staticmethod(fail)})
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row[0])
    rows = env.from_collection([(1, 2), (1, 3)], Types.ROW_NAMED(["v", "w"], TWO))
    windowed = rows.assign_timestamps_and_watermarks(times).key_by("v").window(windows).trigger(trigger)
    windowed.aggregate(broken().of("v", "w").alias("x")).name("sums").uid("sums-1").print()
    with pytest.raises(UserFunctionError) as told:
        env.execute()
    lines = str(told.value).splitlines()
    assert re.fullmatch(r"operator '(Local )?sums' \(uid sums-1(/local-0)?, subtask \d\) failed", lines[0])
    assert lines[1] == f"  x = Broken(v, w): {method}() failed"
    assert lines[2] == "  ZeroDivisionError: integer division or modulo by zero"
    assert lines[3].startswith(f"  at {__file__}:")
    assert lines[4].startswith(f"  operator defined at {__file__}:")


def test_a_field_that_is_not_there_is_refused_at_once() -> None:
    with pytest.raises(InvalidTypeError, match="no field 'u'"):
        Folding(WeightedSum().of("v", "u"), TWO)


@pytest.mark.parametrize(
    ("method", "returned", "told"),
    [
        ("create", lambda *_: [], r"int64\[1\], int64\[1\], not nothing"),
        ("add", lambda *_: [pa.array([1.5])] * 2, r"not double\[1\], double\[1\]"),
        ("merge", lambda *_: [pa.array([1, 2])] * 2, r"not int64\[2\], int64\[2\]"),
        ("result", lambda *_: [1], "not list"),
        ("add", lambda *_: 1 // 0, r"ZeroDivisionError: .*\n  at .*test_user_defined.py:\d+"),
        ("create", lambda *_: None, "TypeError"),
    ],
)
def test_what_goes_wrong_names_aggregate_and_method(method: str, returned: Any, told: str) -> None:
    broken = type("Broken", (WeightedSum,), {method: staticmethod(returned)})
    folding = Folding(broken().of("v", "w").alias("x"), TWO)
    with pytest.raises(UserFunctionError, match=rf"x = Broken\(v, w\): .*\(\) failed[\s\S]*{told}"):
        folding.add((0, 1, 2)).add((0, 1, 2)).results()
