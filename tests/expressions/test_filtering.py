"""Rows that meet a condition, whose parts are asked one after the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Types
from headrace.common.errors import EvaluationError
from headrace.expressions import Expression, bind, col, evaluate
from headrace.expressions.evaluation import Bound, BoundColumn, BoundLogic
from headrace.expressions.filtering import RowFilter
from tests.draws import draws

RECORD = Types.ROW_NAMED(["a", "b", "s"], [int, int, str])
PARTS: tuple[Expression, ...] = (
    col("a") > 3,
    col("b") == 1,
    col("a") < col("b"),
    col("s") == "x",
    col("s").is_null(),
    (col("a") > 5) | (col("b") == 0),
    col("a") == col("a"),
)


def batch_of(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    kinds = (pa.int64(), pa.int64(), pa.string())
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    return pa.RecordBatch.from_arrays(
        [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)], names=["a", "b", "s"]
    )


def rows_by_rows(row_filter: RowFilter, batch: pa.RecordBatch) -> list[int]:
    found = row_filter.rows(batch)
    return list(range(batch.num_rows)) if found is None else found.tolist()


@settings(max_examples=draws(60))
@given(
    st.lists(
        st.tuples(st.none() | st.integers(0, 9), st.none() | st.integers(0, 2), st.sampled_from(["x", "y", None]))
    ),
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=5),
)
def test_the_rows_are_those_of_which_the_whole_condition_is_true(
    rows: list[tuple[Any, ...]], parts: list[Expression]
) -> None:
    whole = parts[0]
    for part in parts[1:]:
        whole = whole & part
    condition, batch = bind(whole, RECORD), batch_of(rows)
    (met,) = evaluate([condition], batch)
    assert rows_by_rows(RowFilter(condition), batch) == np.flatnonzero(pc.fill_null(met, False)).tolist()


@dataclass(frozen=True, slots=True)
class Asked(Bound):
    """A condition that notes how many rows it is asked of."""

    inner: Bound
    counts: list[int] = field(default_factory=list, compare=False)

    def compute(self, batch: pa.RecordBatch) -> Any:
        self.counts.append(batch.num_rows)
        return self.inner.compute(batch)


def conjunction(*parts: Bound, is_ordered: bool = False) -> BoundLogic:
    return BoundLogic("AND", Types.BOOLEAN(), True, parts, is_ordered)


def asked(expression: Expression) -> Asked:
    inner = bind(expression, RECORD)
    return Asked(inner.text, inner.type, inner)


def test_dear_conditions_are_asked_of_the_rows_that_are_left() -> None:
    batch = batch_of([(number, number % 2, "x") for number in range(100)])
    dear, cheap = asked(col("s") == "x"), asked(col("a") < 10)
    assert rows_by_rows(RowFilter(conjunction(dear, cheap)), batch) == list(range(10))
    assert (cheap.counts, dear.counts) == ([100], [10])


def test_nothing_is_asked_where_no_row_is_left() -> None:
    batch = batch_of([(number, 1, "x") for number in range(100)])
    dear, cheap = asked(col("s") == "x"), asked(col("a") < 0)
    assert rows_by_rows(RowFilter(conjunction(dear, cheap)), batch) == []
    assert dear.counts == []


def test_what_gives_another_answer_each_time_is_asked_as_it_is_written() -> None:
    batch = batch_of([(number, 1, "x") for number in range(100)])
    dear, cheap = asked(col("s") == "x"), asked(col("a") < 10)
    assert rows_by_rows(RowFilter(conjunction(dear, cheap, is_ordered=True)), batch) == list(range(10))
    assert (dear.counts, cheap.counts) == ([100], [100])


def test_a_condition_without_a_value_is_an_error() -> None:
    batch = batch_of([(1, 0, "x")])
    with pytest.raises(EvaluationError):
        RowFilter(bind((col("a") // col("b") == 1) & (col("s") == "x"), RECORD)).rows(batch)


@pytest.mark.parametrize("part", [col("a") + 1 > 2, col("s").cast(Types.LONG()) == 1, col("a") // col("b") == 1])
def test_what_may_be_an_error_is_asked_of_those_that_it_would_be_asked_of_as_it_is_written(part: Expression) -> None:
    batch = batch_of([(number, 1, "1") for number in range(100)])
    dear, cheap = Asked("dear", Types.BOOLEAN(), bind(part, RECORD)), asked(col("a") < 2)
    RowFilter(conjunction(dear, cheap)).rows(batch)
    assert (dear.counts, cheap.counts) == ([100], [100])


def test_a_column_is_a_condition() -> None:
    batch = pa.record_batch({"ok": pa.array([True, None, False, True])})
    assert rows_by_rows(RowFilter(BoundColumn("ok", Types.BOOLEAN(), 0)), batch) == [0, 3]
