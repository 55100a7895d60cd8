"""Sums that do not depend on the cut, against exact rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.common.errors import HeadraceError
from headrace.operators.aggregates.exact_sum import (
    Expansion,
    IntegerOverflowError,
    merge_sums,
    round_sums,
    sum_integers,
    sum_values,
)
from headrace.state.runs.grouping import Segments
from tests.draws import draws

numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-1000, 1000),
    st.sampled_from([1e308, -1e308, 1.7976931348623157e308, 5e-324, -5e-324, 2.0**960, 0.1, -0.0, 1e16, 1.0]),
)


def segments_of(sizes: list[int]) -> Segments:
    return Segments(np.cumsum([0, *sizes])[:-1], sum(sizes))


def exact(values: list[float]) -> float:
    total = sum(map(Fraction, values), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


@settings(max_examples=draws(150), deadline=None)
@given(st.lists(st.lists(numbers, min_size=1, max_size=12), min_size=1, max_size=6))
@example([[1e308, 1e308, -1e308], [1.0, 2.0**-60, 2.0**-120, 2.0**-180]])
def test_sums_are_rounded_once(groups: list[list[float]]) -> None:
    values = np.array([value for group in groups for value in group])
    sums = sum_values(values, segments_of(list(map(len, groups))))
    assert round_sums(sums).tolist() == list(map(exact, groups))


@settings(max_examples=draws(150), deadline=None)
@given(st.lists(numbers, min_size=1, max_size=30), st.data())
def test_any_cut_and_order_gives_the_same_double(values: list[float], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(values))
    assert cut_sum(shuffled, data) == exact(values)


def cut_sum(values: list[float], data: st.DataObject) -> float:
    """Sums pieces, then pieces of the sums, and so on."""
    sums = sum_values(np.array(values), segments_of(data.draw(sizes_of(len(values)))))
    while len(sums.hi) > 1:
        sums = merge_sums(sums, segments_of(data.draw(sizes_of(len(sums.hi)))))
    return float(round_sums(sums)[0])


@st.composite
def sizes_of(draw: st.DrawFn, total: int) -> list[int]:
    """Positive numbers that add up to the total, at least one of them above one."""
    sizes = []
    while total:
        least = 2 if total > 1 and not sizes else 1
        sizes.append(draw(st.integers(least, total)))
        total -= sizes[-1]
    return sizes


@settings(max_examples=draws(100), deadline=None)
@given(
    st.lists(st.one_of(numbers, st.sampled_from([math.inf, -math.inf, math.nan])), min_size=1, max_size=12),
    st.data(),
)
def test_infinities_and_nan(values: list[float], data: st.DataObject) -> None:
    infinite = {value for value in values if math.isinf(value)}
    got = cut_sum(values, data)
    if any(map(math.isnan, values)) or len(infinite) == 2:
        assert math.isnan(got)
    elif infinite:
        assert got == infinite.pop()
    else:
        assert got == exact(values)


def test_large_groups_equal_fsum() -> None:
    rng = np.random.default_rng(3)
    values = rng.standard_normal(200_000) * 10.0 ** rng.integers(-12, 12, 200_000)
    sizes = [100_000, 1, 99_999]
    sums = sum_values(values, segments_of(sizes))
    pieces = np.split(values, np.cumsum(sizes)[:-1])
    assert round_sums(sums).tolist() == [math.fsum(piece.tolist()) for piece in pieces]
    whole = merge_sums(sums, segments_of([3]))
    assert round_sums(whole).tolist() == [math.fsum(values.tolist())]


def test_ordinary_values_need_no_list() -> None:
    rng = np.random.default_rng(4)
    sums = sum_values(rng.random(10_000) * 100, segments_of([10] * 1000))
    assert sums.rest is None


def test_minus_zero_is_zero() -> None:
    for sums in (sum_values(np.array([-0.0]), segments_of([1])), sum_values(np.array([-0.0, -0.0]), segments_of([2]))):
        assert math.copysign(1, round_sums(sums)[0]) == 1


def test_partial_sums_may_leave_the_range_and_return() -> None:
    beyond = sum_values(np.array([1e308] * 3), segments_of([3]))
    assert round_sums(beyond).tolist() == [math.inf]
    back = sum_values(np.array([-1e308] * 3), segments_of([3]))
    joined = Expansion(
        np.concatenate([beyond.hi, back.hi]),
        np.concatenate([beyond.lo, back.lo]),
        None if beyond.rest is None or back.rest is None else pa.concat_arrays([beyond.rest, back.rest]),
    )
    assert round_sums(merge_sums(joined, segments_of([2]))).tolist() == [0.0]


@settings(max_examples=draws(100), deadline=None)
@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=8), min_size=1, max_size=4))
def test_integers_are_exact_with_their_carry(groups: list[list[int]]) -> None:
    values = np.array([value for group in groups for value in group], np.int64)
    sums = [sum(group) for group in groups]
    low, carries = sum_integers(values, segments_of(list(map(len, groups))))
    carried = [0] * len(groups) if carries is None else carries.tolist()
    assert [part + carry * 2**64 for part, carry in zip(low.tolist(), carried, strict=True)] == sums


def test_the_overflow_error_is_doubled() -> None:
    assert issubclass(IntegerOverflowError, ArithmeticError)
    assert issubclass(IntegerOverflowError, HeadraceError)
