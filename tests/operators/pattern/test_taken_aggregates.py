"""What is brought forward from step to step is what columns of the same rows give, to the last bit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.typeinfo import Types
from headrace.expressions import avg_of, count_of, max_of, min_of, sum_of
from headrace.operators.aggregates.exact_sum import IntegerOverflowError
from headrace.operators.pattern.iterative_conditions import row_condition
from headrace.operators.pattern.match_values import (
    AggregateOfMatch,
    NoPlainValueError,
    RowLists,
    TakenAggregate,
    stepwise_aggregate,
)
from headrace.operators.pattern.shared_buffer import Step
from tests.draws import draws

WHOLE, REAL = Types.ROW_NAMED(["n"], [Types.LONG()]), Types.ROW_NAMED(["n"], [Types.DOUBLE()])
MAKERS = {"sum": sum_of, "avg": avg_of, "min": min_of, "max": max_of}


def aggregate(function: str, type_: Any) -> AggregateOfMatch:
    """The only value of a condition."""
    value = count_of("a") if function == "count" else MAKERS[function]("a", "n")
    condition = row_condition(value.is_null(), type_, ("a", "b"))
    (found,) = (each for each in condition.expressions.values if isinstance(each, AggregateOfMatch))
    return found


def chain(takers: Sequence[int]) -> list[Step]:
    """The steps of a partial match, each of which has taken the event with its number."""
    steps: list[Step] = []
    for number, taker in enumerate(takers):
        steps.append((taker, (number, number), number, steps[-1] if steps else None))
    return steps


numbers = st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9)
floats = st.none() | st.floats() | st.floats(-9, 9) | st.sampled_from([0.1, 1e16, -1e16, 1e300, -0.0])


@settings(max_examples=draws(150), deadline=None)
@given(
    function=st.sampled_from(["count", *MAKERS]),
    rows=st.one_of(
        st.tuples(st.just(WHOLE), st.lists(st.tuples(numbers, st.integers(0, 1)), min_size=1, max_size=12)),
        st.tuples(st.just(REAL), st.lists(st.tuples(floats, st.integers(0, 1)), min_size=1, max_size=12)),
    ),
)
def test_steps_give_what_columns_give(function: str, rows: tuple[Any, list[tuple[Any, int]]]) -> None:
    type_, taken = rows
    value = aggregate(function, type_)
    column = pa.array([number for number, _ in taken], type_.field_types[0].storage_type)
    operand = None if function == "count" else column.type
    fold = stepwise_aggregate(value, operand)
    assert fold is not None
    operands = None if operand is None else column.to_pylist()
    read = TakenAggregate(fold, [True, False], operands, has_current=False).read
    steps = chain([taker for _, taker in taken])
    for last in [len(steps) // 2, len(steps) - 1, 0]:
        places = np.array([row for row in range(last + 1) if not taken[row][1]], np.int64)
        events = pa.record_batch([column], ["n"])
        try:
            found = read(0, steps[last])
        except NoPlainValueError:
            assert not all(number is None or abs(number) < 1e200 for number, _ in taken) or type_ is WHOLE
            continue
        try:
            (wanted,) = value.of_lists(events, RowLists.of(places, np.array([len(places)]))).to_pylist()
        except IntegerOverflowError:
            pytest.fail(f"{found} is no result of columns")
        assert found == wanted or (math.isnan(found) and math.isnan(wanted))


def test_what_does_not_fit_is_left_to_columns() -> None:
    value = aggregate("sum", WHOLE)
    fold = stepwise_aggregate(value, pa.int64())
    assert fold is not None
    read = TakenAggregate(fold, [True], [2**62, 2**62, -1], has_current=False).read
    steps = chain([0, 0, 0])
    assert read(0, steps[0]) == 2**62
    with pytest.raises(NoPlainValueError):
        read(0, steps[1])
    assert read(0, steps[2]) == 2**63 - 1, "sums may leave 64 bits and return"


def test_the_current_row_counts_where_it_would_be_taken() -> None:
    fold = stepwise_aggregate(aggregate("max", WHOLE), pa.int64())
    assert fold is not None
    read = TakenAggregate(fold, [True], [3, 1, 7], has_current=True).read
    assert (read(2, None), read(1, chain([0])[0]), read(2, chain([0])[0])) == (7, 3, 7)


@pytest.mark.parametrize(("function", "type_"), [("sum", Types.BIG_DEC()), ("max", Types.STRING())])
def test_other_types_are_left_to_columns(function: str, type_: Any) -> None:
    value = aggregate(function, Types.ROW_NAMED(["n"], [type_]))
    assert stepwise_aggregate(value, type_.storage_type) is None
