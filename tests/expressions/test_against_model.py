"""Over any batch an expression gives what plain Python computes record by record, nulls and errors included."""

from __future__ import annotations

import math
import pickle
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.common import Row
from headrace.common.columns import array_to_values, layout_of
from headrace.common.errors import EvaluationError
from headrace.expressions import Expression, bind, coalesce, col, concat, evaluate, lit, when
from tests.expressions.reference import RECORD, TYPES, NoValueError, value_of

LONGS = st.integers(-4, 4) | st.sampled_from([-(2**63), 2**63 - 1, 2**53 + 1, 2**31]) | st.integers(-(2**63), 2**63 - 1)
INTS = st.integers(-4, 4) | st.integers(-(2**31), 2**31 - 1)
DOUBLES = st.sampled_from([0.0, -0.0, 1.5, -2.5, 2.0**53, 1e300]) | st.floats()
TEXTS = st.text("aAzZéÉ😀 \t%", max_size=5)


@st.composite
def records(draw: st.DrawFn) -> list[Row]:
    values = [LONGS, INTS, DOUBLES, st.floats(width=32), TEXTS, TEXTS, st.booleans(), st.booleans()]
    count = draw(st.integers(0, 8))
    columns = [draw(st.lists(st.none() | value, min_size=count, max_size=count)) for value in values]
    return [Row(**dict(zip(TYPES, record, strict=True))) for record in zip(*columns, strict=True)]


@cache
def numbers(depth: int) -> st.SearchStrategy[Expression]:
    leaves = st.sampled_from([col("i"), col("j"), col("x"), col("f")]) | (LONGS | DOUBLES).map(lit)
    if depth == 0:
        return leaves
    smaller, two = numbers(depth - 1), st.tuples(numbers(depth - 1), numbers(depth - 1))
    return st.one_of(
        leaves,
        two.map(lambda pair: pair[0] + pair[1]),
        two.map(lambda pair: pair[0] - pair[1]),
        two.map(lambda pair: pair[0] * pair[1]),
        two.map(lambda pair: pair[0] / pair[1]),
        two.map(lambda pair: pair[0] // pair[1]),
        two.map(lambda pair: pair[0] % pair[1]),
        two.map(lambda pair: coalesce(*pair)),
        smaller.map(lambda number: -number),
        smaller.map(lambda number: number.abs()),
        smaller.map(lambda number: number.floor()),
        smaller.map(lambda number: number.ceil()),
        smaller.map(lambda number: number.round()),
        texts(depth - 1).map(lambda text: text.length()),
        st.tuples(conditions(depth - 1), smaller, smaller).map(lambda of: when(of[0]).then(of[1]).otherwise(of[2])),
    )


@cache
def texts(depth: int) -> st.SearchStrategy[Expression]:
    leaves = st.sampled_from([col("s"), col("t")]) | TEXTS.map(lit)
    if depth == 0:
        return leaves
    smaller, parts = texts(depth - 1), st.text("aZé😀", min_size=1, max_size=2)
    return st.one_of(
        leaves,
        smaller.map(lambda text: text.upper()),
        smaller.map(lambda text: text.lower()),
        smaller.map(lambda text: text.strip()),
        st.tuples(smaller, parts, TEXTS).map(lambda of: of[0].replace(of[1], of[2])),
        st.tuples(smaller, st.integers(-4, 4), st.none() | st.integers(0, 4)).map(lambda of: of[0].substring(*of[1:])),
        st.tuples(smaller, smaller).map(lambda pair: pair[0] + pair[1]),
        st.tuples(smaller, smaller).map(lambda pair: concat(*pair, "|")),
        st.tuples(conditions(depth - 1), smaller).map(lambda of: when(of[0]).then(of[1])),
    )


@cache
def conditions(depth: int) -> st.SearchStrategy[Expression]:
    leaves = st.sampled_from([col("b"), col("c")]) | st.booleans().map(lit)
    if depth == 0:
        return leaves
    number, text, smaller = numbers(depth - 1), texts(depth - 1), conditions(depth - 1)
    alike = st.one_of(st.tuples(number, number, number), st.tuples(text, text, text))
    return st.one_of(
        leaves,
        alike.map(lambda of: of[0] == of[1]),
        alike.map(lambda of: of[0] != of[1]),
        alike.map(lambda of: of[0] < of[1]),
        alike.map(lambda of: of[0] <= of[1]),
        alike.map(lambda of: of[0] > of[1]),
        alike.map(lambda of: of[0] >= of[1]),
        alike.map(lambda of: of[0].between(of[1], of[2])),
        alike.map(lambda of: of[0].is_null()),
        alike.map(lambda of: of[0].is_not_null()),
        st.tuples(text, st.lists(TEXTS, max_size=3)).map(lambda of: of[0].is_in(of[1])),
        st.lists(st.integers(-4, 4), max_size=3).map(lambda values: col("j").is_in(values)),
        st.lists(DOUBLES, max_size=3).map(lambda values: col("x").is_in(values)),
        text.map(lambda value: value.is_in([col("s"), col("t")])),
        st.tuples(smaller, smaller).map(lambda pair: pair[0] & pair[1]),
        st.tuples(smaller, smaller).map(lambda pair: pair[0] | pair[1]),
        smaller.map(lambda condition: ~condition),
        number.map(lambda value: value.is_nan()),
        st.tuples(text, st.text("aZé", max_size=2)).map(lambda of: of[0].contains(of[1])),
        st.tuples(text, st.text("aZé", max_size=2)).map(lambda of: of[0].starts_with(of[1])),
        st.tuples(text, st.text("aZé", max_size=2)).map(lambda of: of[0].ends_with(of[1])),
    )


@cache
def anything(depth: int) -> st.SearchStrategy[Expression]:
    return numbers(depth) | texts(depth) | conditions(depth)


@st.composite
def expressions(draw: st.DrawFn, depth: int) -> Expression:
    """Drawn by a function, since the text of such large strategies would be enormous."""
    return draw(anything(depth))


@settings(deadline=None)
@given(expression=expressions(3), rows=records())
@example(  # a zero that has a sign
    expression=lit(1.0) / (-col("f")).ceil(),
    rows=[Row(i=1, j=1, x=1.0, f=0.0, s="", t="", b=True, c=True)],
)
def test_as_in_plain_python(expression: Expression, rows: list[Row]) -> None:
    expected: list[Any] = []
    failing = None
    for row in rows:
        try:
            expected.append(value_of(expression, row.as_dict()))
        except NoValueError:
            failing = len(expected)
            break
    bound = bind(expression, RECORD)
    columns = layout_of(RECORD).rows_to_columns(rows)
    if failing is not None:
        with pytest.raises(EvaluationError) as raised:
            evaluate((bound,), columns)
        assert raised.value.row == failing
        return
    found = array_to_values(bound.type, evaluate((bound,), columns)[0])
    assert len(found) == len(expected)
    assert all(map(same, found, expected)), (found, expected)
    half = len(rows) // 2
    assert (
        evaluate((bound,), columns.slice(half))[0]
        .cast(pa.string())
        .equals(evaluate((bound,), columns)[0].slice(half).cast(pa.string()))
    )


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, float) and math.isnan(expected):
        return isinstance(found, float) and math.isnan(found)
    return bool(found == expected) and (found is None) == (expected is None)


@settings(deadline=None)
@given(expression=expressions(2))
def test_the_text_of_an_expression_is_the_expression(expression: Expression) -> None:
    names = {"col": col, "lit": lit, "when": when, "coalesce": coalesce, "concat": concat, "nan": math.nan}
    assert repr(eval(repr(expression), {**names, "inf": math.inf})) == repr(expression)


@settings(deadline=None)
@given(expression=expressions(2))
def test_bound_expressions_are_data(expression: Expression) -> None:
    bound = bind(expression, RECORD)
    assert repr(pickle.loads(pickle.dumps(bound))) == repr(bound)
    assert hash(bound) == hash(bind(expression, RECORD))
