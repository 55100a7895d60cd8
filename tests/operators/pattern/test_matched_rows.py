"""Values of the rows of matches, against what one match at a time gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Types
from headrace.common.logical_types import AtomicType, LogicalType, TypeRoot, bigint
from headrace.expressions import bind, col
from headrace.operators.aggregates.calls import AggregateOperation
from headrace.operators.pattern.matched_rows import AggregateOfMatch, MatchedRows, RowOfMatch, TimeOfMatch
from tests.draws import draws

INT, DOUBLE = AtomicType(TypeRoot.INTEGER), AtomicType(TypeRoot.DOUBLE)
EVENTS = Types.ROW_NAMED(["price", "name"], [Types.INT(), Types.STRING()])
OPERAND = Types.ROW_NAMED(["0"], [Types.INT()])

Match = list[tuple[int, int]]
"""The rows of a match, and the variable of each."""


def matched(events: list[tuple[int | None, str]], matches: list[Match]) -> MatchedRows:
    columns = [pa.array([event[0] for event in events], pa.int32()), pa.array([event[1] for event in events])]
    flat = [each for match in matches for each in match]
    return MatchedRows(
        pa.RecordBatch.from_arrays(columns, ["price", "name"]),
        np.array([row for row, _ in flat], np.int64),
        np.array([variable for _, variable in flat], np.int64),
        np.array([len(match) for match in matches], np.int64),
        np.arange(len(matches)),
        7,
    )


def aggregate(function: str, *variables: int, type_: LogicalType = INT) -> AggregateOfMatch:
    call = AggregateOperation(function, (0,), type_, "result")
    return AggregateOfMatch(variables, (bind(col("price") + 0, EVENTS),), call, OPERAND)


ROWS = st.lists(st.tuples(st.none() | st.integers(-9, 9), st.sampled_from("ab")), min_size=1, max_size=8)


@settings(max_examples=draws(60), deadline=None)
@given(events=ROWS, data=st.data())
def test_values_are_those_of_each_match(events: list[Any], data: st.DataObject) -> None:
    row = st.tuples(st.integers(0, len(events) - 1), st.integers(0, 2))
    matches = data.draw(st.lists(st.lists(row, min_size=1, max_size=6), min_size=1, max_size=5))
    rows = matched(events, matches)
    for variables in ((), (0,), (1,), (0, 2)):
        lists = [[events[row][0] for row, each in match if not variables or each in variables] for match in matches]
        for offset in (0, 1, 4):
            firsts = RowOfMatch(variables, 0, is_first=True, offset=offset).compute(rows).to_pylist()
            assert firsts == [each[offset] if offset < len(each) else None for each in lists]
            lasts = RowOfMatch(variables, 0, offset=offset).compute(rows).to_pylist()
            assert lasts == [each[-1 - offset] if offset < len(each) else None for each in lists]
        values = [[value for value in each if value is not None] for each in lists]
        assert aggregate("SUM", *variables).compute(rows).to_pylist() == [
            sum(each) if each else None for each in values
        ]
        assert aggregate("MAX", *variables).compute(rows).to_pylist() == [max(each, default=None) for each in values]
        counts = aggregate("COUNT", *variables, type_=bigint()).compute(rows).to_pylist()
        assert counts == [len(each) for each in values]


def test_operands_are_computed_of_the_rows_of_the_variable_alone() -> None:
    quotient = bind(col("price") // col("price"), EVENTS)
    call = AggregateOperation("SUM", (0,), INT, "result")
    rows = matched([(0, "a"), (3, "b")], [[(0, 0), (1, 1), (1, 1)]])
    assert AggregateOfMatch((1,), (quotient,), call, OPERAND).compute(rows).to_pylist() == [2]


@pytest.mark.parametrize(("is_clock", "expected"), [(True, [7, 7]), (False, [0, 1])])
def test_times_of_matches(is_clock: bool, expected: list[int]) -> None:
    rows = matched([(1, "a")], [[(0, 0)], [(0, 0)]])
    found = TimeOfMatch(is_clock, is_instant=False).compute(rows)
    assert found.cast(pa.timestamp("ms")).cast(pa.int64()).to_pylist() == expected
