"""Values of the rows of matches, against what one match at a time gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Types
from headrace.common.logical_types import AtomicType, LogicalType, TypeRoot, bigint
from headrace.expressions import bind, col
from headrace.operators.aggregates.calls import AggregateOperation
from headrace.operators.pattern import match_values
from headrace.operators.pattern.match_values import AggregateOfMatch, Extents, MatchedRows, RowOfMatch, TimeOfMatch
from tests.draws import draws

INT, DOUBLE = AtomicType(TypeRoot.INTEGER), AtomicType(TypeRoot.DOUBLE)
EVENTS = Types.ROW_NAMED(["price", "name"], [Types.INT(), Types.STRING()])
OPERAND = Types.ROW_NAMED(["0"], [Types.INT()])

Match = list[tuple[int, int]]
"""The rows of a match, and the variable of each."""


def matched(events: list[tuple[int | None, str]], matches: list[Match], *, all_rows: bool = False) -> MatchedRows:
    columns = [pa.array([event[0] for event in events], pa.int32()), pa.array([event[1] for event in events])]
    flat = [each for match in matches for each in match]
    ends = np.cumsum([len(match) for match in matches])
    owners = np.repeat(np.arange(len(matches)), [len(match) if all_rows else 1 for match in matches])
    starts, stops = (ends - [len(match) for match in matches])[owners], ends[owners]
    shown = np.arange(len(flat)) if all_rows else ends - 1
    rows = np.array([row for row, _ in flat], np.int64)
    return MatchedRows(
        pa.RecordBatch.from_arrays(columns, ["price", "name"]),
        rows,
        np.array([variable for _, variable in flat], np.int64),
        Extents(starts, starts, shown + 1, stops),
        rows[shown],
        np.arange(len(owners)),
        7,
    )


def aggregate(function: str, *variables: int, type_: LogicalType = INT) -> AggregateOfMatch:
    call = AggregateOperation(function, (0,), type_, "result")
    return AggregateOfMatch(variables, (bind(col("price") + 0, EVENTS),), call, OPERAND)


ROWS = st.lists(st.tuples(st.none() | st.integers(-9, 9), st.sampled_from("ab")), min_size=1, max_size=8)


def check_values(rows: MatchedRows, events: list[Any], matches: list[Match], *, is_final: bool) -> None:
    for variables in ((), (0,), (1,), (0, 2)):
        lists = [[events[row][0] for row, each in match if not variables or each in variables] for match in matches]
        for offset in (0, 1, 4):
            firsts = RowOfMatch(variables, 0, is_first=True, offset=offset, is_final=is_final).compute(rows).to_pylist()
            assert firsts == [each[offset] if offset < len(each) else None for each in lists]
            lasts = RowOfMatch(variables, 0, offset=offset, is_final=is_final).compute(rows).to_pylist()
            assert lasts == [each[-1 - offset] if offset < len(each) else None for each in lists]
        values = [[value for value in each if value is not None] for each in lists]
        for function, compute in (
            ("SUM", lambda each: sum(each) if each else None),
            ("MAX", lambda each: max(each, default=None)),
        ):
            asked = replace(aggregate(function, *variables), is_final=is_final)
            assert asked.compute(rows).to_pylist() == [compute(each) for each in values]
        counts = replace(aggregate("COUNT", *variables, type_=bigint()), is_final=is_final).compute(rows).to_pylist()
        assert counts == [len(each) for each in values]


@settings(max_examples=draws(60), deadline=None)
@given(events=ROWS, data=st.data())
def test_values_are_those_of_each_match(events: list[Any], data: st.DataObject) -> None:
    row = st.tuples(st.integers(0, len(events) - 1), st.integers(0, 2))
    matches = data.draw(st.lists(st.lists(row, min_size=1, max_size=6), min_size=1, max_size=5))
    check_values(matched(events, matches), events, matches, is_final=False)
    of_rows = matched(events, matches, all_rows=True)
    with patch.object(match_values, "_MOST_ROWS", data.draw(st.sampled_from([1, 4, 100]))):
        running = [match[: number + 1] for match in matches for number in range(len(match))]
        check_values(of_rows, events, running, is_final=False)
        check_values(of_rows, events, [match for match in matches for _ in match], is_final=True)


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
