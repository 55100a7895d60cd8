"""Decimals of all precisions and scales give what Python's give, also where all of them are 0 or NULL."""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.table.evaluation import BoundDecimals, ExpressionCompiler
from headrace.table.functions.kernels.casts import cast
from headrace.table.functions.kernels.decimals import EXACT, fitted
from headrace.table.functions.kernels.kernel import Invocation
from headrace.table.functions.table import kernel_of
from headrace.table.functions.types import BOOLEAN, added, decimal, multiplied
from headrace.table.logical.scalars import Call, InputRef, Scalar

Digits = tuple[int, int]
Column = tuple[Digits, list[int | None]]

ARITHMETIC: dict[str, tuple[Callable[[Digits, Digits], Any], Callable[[Decimal, Decimal], Decimal]]] = {
    "+": (added, EXACT.add),
    "-": (added, EXACT.subtract),
    "*": (multiplied, EXACT.multiply),
}
COMPARISONS = {"=": operator.eq, "<": operator.lt, ">=": operator.ge}


@st.composite
def columns(draw: st.DrawFn, rows: int) -> Column:
    """The digits of a type, and some integers of as many digits: often all of them 0, or all of them NULL."""
    precision = draw(st.integers(1, 38))
    limit = 10**precision - 1
    few, any_number = st.integers(-min(limit, 99), min(limit, 99)), st.integers(-limit, limit)
    values = draw(st.sampled_from([st.just(0), st.none(), st.none() | few, st.none() | st.just(limit) | any_number]))
    return (precision, draw(st.integers(0, precision))), draw(st.lists(values, min_size=rows, max_size=rows))


PAIRS = st.integers(0, 4).flatmap(lambda rows: st.tuples(columns(rows), columns(rows)))


def values_of(column: Column) -> list[Decimal | None]:
    (_, scale), numbers = column
    return [None if number is None else Decimal(number).scaleb(-scale, EXACT) for number in numbers]


def array_of(column: Column) -> pa.Array:
    return pa.array(values_of(column), pa.decimal128(*column[0]))


def called(name: str, left: Column, right: Column, result: Any) -> tuple[list[Any], list[Any]]:
    """What an operator gives of two columns, and of a column and the first value of the other one."""
    kernel, call = kernel_of(name), Invocation((decimal(*left[0]), decimal(*right[0])), result)
    assert kernel is not None
    one, other = array_of(left), array_of(right)
    return kernel(call, one, other).to_pylist(), kernel(call, one, other[0]).to_pylist() if len(other) else []


def expected(compute: Callable[[Any, Any], Any], left: Column, right: Column) -> tuple[list[Any], list[Any]]:
    def of(one: Decimal | None, other: Decimal | None) -> Any:
        return None if one is None or other is None else compute(one, other)

    lefts, rights = values_of(left), values_of(right)
    return list(map(of, lefts, rights)), [of(one, rights[0]) for one in lefts]


@given(PAIRS)
@example((((10, 0), [0, None]), ((21, 20), [0, 0])))
@example((((38, 0), [0]), ((38, 38), [None])))
@example((((30, 30), [10**30 - 1]), ((31, 0), [10**31 - 1])))  # Arrow's quotient of 256 bits is one too small
def test_arithmetic_is_exact(pair: tuple[Column, Column]) -> None:
    left, right = pair
    for name, (type_of, compute) in ARITHMETIC.items():
        result = type_of(left[0], right[0])

        def computed(one: Decimal, other: Decimal, compute: Any = compute, result: Any = result) -> Decimal | None:
            return fitted(compute(one, other), result.arrow_type)

        assert called(name, left, right, result) == expected(computed, left, right), name


@given(PAIRS, st.sampled_from("+-*"), st.sampled_from("+-*"), st.booleans())
@example((((15, 2), [0, None, 10**15 - 1]), ((15, 2), [7, 8, 9])), "*", "-", True)
@example((((38, 0), [10**38 - 1, 1]), ((38, 38), [None, 1])), "+", "*", False)
def test_nested_arithmetic_is_that_of_one_function_after_the_other(
    pair: tuple[Column, Column], inner: str, outer: str, is_left: bool
) -> None:
    one, other = (InputRef(at, type=decimal(*column[0])) for at, column in enumerate(pair))
    first = Call(inner, (one, other), type=ARITHMETIC[inner][0](*(column[0] for column in pair)))
    operands = (first, one) if is_left else (one, first)
    kinds = [each.type.arrow_type for each in operands]
    whole = Call(outer, operands, type=ARITHMETIC[outer][0](*((kind.precision, kind.scale) for kind in kinds)))
    batch = pa.record_batch([array_of(column) for column in pair], ["one", "other"])

    def by_function(scalar: Scalar) -> pa.Array:
        if not isinstance(scalar, Call):
            assert isinstance(scalar, InputRef)
            return batch.column(scalar.index)
        kernel = kernel_of(scalar.function)
        assert kernel is not None
        call = Invocation(tuple(each.type for each in scalar.operands), scalar.type)
        return kernel(call, *map(by_function, scalar.operands))

    found = ExpressionCompiler(str).compile(whole)
    assert isinstance(found, BoundDecimals)
    assert found.column(batch).to_pylist() == by_function(whole).to_pylist()


@given(PAIRS)
def test_comparisons_are_exact(pair: tuple[Column, Column]) -> None:
    for name, compare in COMPARISONS.items():
        assert called(name, *pair, BOOLEAN) == expected(compare, *pair), name


@given(st.integers(0, 4).flatmap(columns), columns(0))
@example(((30, 0), [0, None]), ((38, 20), []))
@example(((30, 0), [None]), ((38, 20), []))
@example(((38, 38), [10**38 - 1]), ((38, 0), []))
def test_casts_round_half_up_and_give_null_for_too_many_digits(column: Column, other: Column) -> None:
    source, result = decimal(*column[0]), decimal(*other[0])
    call = Invocation((source,), result)
    wanted = [None if value is None else fitted(value, result.arrow_type) for value in values_of(column)]
    assert cast(call, array_of(column)).to_pylist() == wanted
    assert [cast(call, value).as_py() for value in array_of(column)] == wanted
