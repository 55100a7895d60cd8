"""Conditions on the current row and rows matched before, asked one by one, and answered for all rows at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Types
from headrace.common.errors import EvaluationError
from headrace.common.logical_types import AtomicType, TypeRoot
from headrace.expressions import bind, col
from headrace.operators.aggregates.calls import AggregateOperation
from headrace.operators.pattern import iterative_conditions
from headrace.operators.pattern.iterative_conditions import ConditionResults, RowCondition, RowTable
from headrace.operators.pattern.match_values import AggregateOfMatch, MatchExpressions, RowOfMatch, Variables
from tests.draws import draws

INT = AtomicType(TypeRoot.INTEGER)
ROW = Types.ROW_NAMED(["price"], [Types.INT()])
VALUES = Types.ROW_NAMED(["now", "before", "first", "most"], [Types.INT()] * 4)

MOST = AggregateOfMatch(
    (0, 1),
    (bind(col("price"), ROW),),
    AggregateOperation("MAX", (0,), INT, "most"),
    Types.ROW_NAMED(["0"], [Types.INT()]),
)
CONDITION = RowCondition(
    MatchExpressions(
        (RowOfMatch((1,), 0), RowOfMatch((1,), 0, offset=1), RowOfMatch((), 0, is_first=True), MOST),
        (bind((col("now") > col("before")) | (col("first") + 2 < col("most")), VALUES),),
    ),
    variable=1,
)


def table_of(prices: list[int | None], keys: list[int]) -> RowTable:
    starts = np.array([keys.index(key) for key in keys], np.int64)
    return RowTable(pa.RecordBatch.from_arrays([pa.array(prices, pa.int32())], ["price"]), starts)


def expected(prices: list[Any], row: int, taken: dict[int, list[int]]) -> bool:
    own = [*taken[1], row]
    before = prices[own[-2]] if len(own) > 1 else None
    first = prices[min([*taken[0], *taken[1], row])]
    known = [prices[each] for each in [*taken[0], *own] if prices[each] is not None]
    is_more = prices[row] is not None and before is not None and prices[row] > before
    return is_more or (first is not None and bool(known) and first + 2 < max(known))


@settings(max_examples=draws(80), deadline=None)
@given(data=st.data(), worth=st.sampled_from([0, 40, 1 << 20]))
def test_answers_are_those_of_each_match(data: st.DataObject, worth: int) -> None:
    keys = sorted(data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=12)))
    prices = data.draw(st.lists(st.none() | st.integers(0, 9), min_size=len(keys), max_size=len(keys)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(iterative_conditions, "_ONE", worth)
        results = ConditionResults(CONDITION, table_of(prices, keys))
        for row in data.draw(st.lists(st.integers(0, len(keys) - 1), max_size=12)):
            before = list(range(keys.index(keys[row]), row))
            chosen = data.draw(st.lists(st.sampled_from(before), unique=True)) if before else []
            taken = {0: sorted(chosen[: len(chosen) // 2]), 1: sorted(chosen[len(chosen) // 2 :])}
            found = results.holds(row, lambda variables, taken=taken: _rows(taken, variables))
            assert found == expected(prices, row, taken)


def _rows(taken: dict[int, list[int]], variables: Variables) -> list[int]:
    return sorted(row for variable in variables or (0, 1) for row in taken[variable])


def test_a_row_that_nobody_asks_for_may_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iterative_conditions, "_ONE", 1 << 20)
    quotient = bind(12 // col("now") > 2, Types.ROW_NAMED(["now"], [Types.INT()]))
    results = ConditionResults(
        RowCondition(MatchExpressions((RowOfMatch((0,), 0),), (quotient,)), 0), table_of([3, 0, 6], [0, 0, 0])
    )
    assert [results.holds(row, lambda _: []) for row in (0, 2, 0)] == [True, False, True]
    with pytest.raises(EvaluationError):
        results.holds(1, lambda _: [])
