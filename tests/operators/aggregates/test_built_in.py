"""Every built-in aggregate against plain Python: whatever the cut, and with values that are taken back."""

from __future__ import annotations

import datetime as dt
import math
import statistics
import sys
from collections import Counter
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from folding import Folding
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.common.logical_types import AtomicType, TypeRoot
from headrace.common.typeinfo import Types
from headrace.common.typeinfo.types import type_of_logical
from headrace.common.types import Row
from headrace.datastream import aggregates as agg
from headrace.operators.aggregates.aggregator import merged_pairs
from headrace.operators.aggregates.exact_sum import NotFiniteError
from tests.draws import draws

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.common.typeinfo import TypeInformation

LONGS = st.one_of(
    st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1), st.sampled_from([2**63 - 1, -(2**63), 2**53 + 1])
)
SMALL = st.integers(-5, 5)
DOUBLES = st.one_of(
    st.floats(),
    st.floats(-10, 10),
    st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1e308, -1e308, 1e16, 0.1, 5e-324, 1e-200, 1e150]),
)
TAME = st.one_of(st.floats(-1e6, 1e6), st.sampled_from([1e9, 1e9 + 1, 1e9 + 2, 1e-9, 0.1]))
TEXTS = st.text(max_size=2)
BOOLEANS = st.booleans()
NARROW = st.decimals(-(10**8) + 1, 10**8 - 1, places=2)
WIDE = st.one_of(NARROW, st.decimals(-(10**35), 10**35, places=2))
DECIMALS = st.one_of(
    st.decimals(-1000, 1000, places=2),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**45), max_value=10**45, places=30),
    st.sampled_from([Decimal(text) for text in ("0", "-0.00", "1E+3", "1E-12", "0.00000001", "9" * 70, "-0.5")]),
)


def ordered(value: Any) -> Any:
    """What values are ordered by: NaN is the largest."""
    return (math.isnan(value), value) if isinstance(value, float) else (False, value)


def _decimal(digits: int) -> TypeInformation:
    return type_of_logical(AtomicType(TypeRoot.DECIMAL, size=digits, scale=2))


def smallest(values: list[Any]) -> Any:
    return min(map(_one_zero, values), key=ordered, default=None)


def largest(values: list[Any]) -> Any:
    return max(map(_one_zero, values), key=ordered, default=None)


def exact_sum(values: list[Any]) -> Any:
    if not values or isinstance(values[0], int):
        return sum(values) if values else None
    if not all(map(math.isfinite, values)):
        found = {value for value in values if not math.isfinite(value)}
        return found.pop() if len(found) == 1 else math.nan
    return _rounded(sum(map(Fraction, values), Fraction(0)))


def three_largest(values: list[Any]) -> Any:
    return sorted(map(_one_zero, values), key=ordered, reverse=True)[:3] or None


def decimal_sum(values: list[Decimal]) -> Decimal | None:
    with localcontext(prec=200):
        return sum(values) if values else None


def decimal_average(values: list[Decimal]) -> Decimal | None:
    total = decimal_sum(values)
    return None if total is None else Context(prec=38, rounding=ROUND_HALF_UP).divide(total, Decimal(len(values)))


def part_of(values: list[Any], numerator: int, denominator: int) -> Any:
    ranked = sorted(map(_one_zero, values), key=ordered)
    return ranked[max(-(-len(ranked) * numerator // denominator), 1) - 1] if ranked else None


def nine_bits(value: float) -> float:
    """Rounded to 9 significant bits, half away from zero; numbers below the normal ones to as many places."""
    if not math.isfinite(value) or value == 0:
        return value
    exponent = max(math.frexp(value)[1] - 9, -1022 - 8)
    whole = math.floor(abs(Fraction(value)) / Fraction(2) ** exponent + Fraction(1, 2))
    try:
        rounded = float(whole * Fraction(2) ** exponent)
    except OverflowError:
        rounded = float(511 * Fraction(2) ** 1015)
    return math.copysign(rounded, value)


def average(values: list[Any]) -> Any:
    if not values:
        return None
    return float(exact_sum(values)) / len(values)


def distinct(values: list[Any]) -> list[Any]:
    by_identity = {repr(value): value for value in map(_one_zero, values)}
    return sorted(by_identity.values(), key=ordered)


def multiset(values: list[Any]) -> dict[Any, int] | None:
    return dict(Counter(values)) or None


def variance(values: list[Any], fewest: int) -> Any:
    if len(values) < fewest:
        return None
    if not all(abs(value) < 2.0**500 for value in values):
        return math.nan
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    return _rounded(sum((value - mean) ** 2 for value in exact)) / (len(exact) - fewest + 1)


def deviation(values: list[Any], fewest: int) -> Any:
    found = variance(values, fewest)
    return None if found is None else math.sqrt(found)


CASES: dict[str, tuple[Callable[..., agg.Aggregate], TypeInformation, Any, Callable[[list[Any]], Any]]] = {
    "count": (agg.count, Types.DOUBLE(), DOUBLES, len),
    "sum of integers": (agg.sum, Types.INT(), st.integers(-(2**31), 2**31 - 1), exact_sum),
    "sum of floats": (agg.sum, Types.DOUBLE(), DOUBLES, exact_sum),
    "avg of integers": (agg.avg, Types.LONG(), LONGS, average),
    "avg of floats": (agg.avg, Types.DOUBLE(), TAME, average),
    "sum of decimals": (agg.sum, Types.BIG_DEC(), DECIMALS, decimal_sum),
    "avg of decimals": (agg.avg, Types.BIG_DEC(), DECIMALS, decimal_average),
    "min of integers": (agg.min, Types.LONG(), LONGS, smallest),
    "min of floats": (agg.min, Types.DOUBLE(), DOUBLES, smallest),
    "min of text": (agg.min, Types.STRING(), TEXTS, smallest),
    "min of narrow decimals": (agg.min, _decimal(10), NARROW, smallest),
    "max of decimals": (agg.max, _decimal(38), WIDE, largest),
    "max of integers": (agg.max, Types.LONG(), LONGS, largest),
    "max of floats": (agg.max, Types.DOUBLE(), DOUBLES, largest),
    "max of booleans": (agg.max, Types.BOOLEAN(), BOOLEANS, largest),
    "var_pop of integers": (agg.var_pop, Types.LONG(), LONGS, lambda values: variance(values, 1)),
    "var_pop of floats": (agg.var_pop, Types.DOUBLE(), TAME, lambda values: variance(values, 1)),
    "var_samp of integers": (agg.var_samp, Types.INT(), SMALL, lambda values: variance(values, 2)),
    "var_samp of floats": (agg.var_samp, Types.DOUBLE(), TAME, lambda values: variance(values, 2)),
    "stddev_pop": (agg.stddev_pop, Types.DOUBLE(), TAME, lambda values: deviation(values, 1)),
    "stddev_samp": (agg.stddev_samp, Types.DOUBLE(), TAME, lambda values: deviation(values, 2)),
    "bool_and": (agg.bool_and, Types.BOOLEAN(), BOOLEANS, lambda values: all(values) if values else None),
    "bool_or": (agg.bool_or, Types.BOOLEAN(), BOOLEANS, lambda values: any(values) if values else None),
    "count_distinct": (agg.count_distinct, Types.DOUBLE(), DOUBLES, lambda values: len(distinct(values))),
    "quantile": (lambda column: agg.quantile(column, 0.3), Types.DOUBLE(), DOUBLES, lambda v: part_of(v, 3, 10)),
    "quantile of text": (agg.quantile, Types.STRING(), TEXTS, lambda values: part_of(values, 1, 2)),
    "approx_quantile": (
        lambda column: agg.approx_quantile(column, 0.9),
        Types.DOUBLE(),
        DOUBLES,
        lambda values: part_of([*map(nine_bits, values)], 9, 10),
    ),
    "collect_set of floats": (agg.collect_set, Types.DOUBLE(), DOUBLES, lambda values: distinct(values) or None),
    "collect_set of text": (agg.collect_set, Types.STRING(), TEXTS, lambda values: distinct(values) or None),
    "collect_multiset": (agg.collect_multiset, Types.STRING(), TEXTS, multiset),
    "collect_list": (agg.collect_list, Types.DOUBLE(), DOUBLES, lambda values: values or None),
    "listagg": (agg.listagg, Types.STRING(), TEXTS, lambda values: ",".join(values) if values else None),
    "top_n": (lambda column: agg.top_n(column, 3), Types.DOUBLE(), DOUBLES, three_largest),
    "first": (agg.first, Types.STRING(), TEXTS, lambda values: values[0] if values else None),
    "last": (agg.last, Types.STRING(), TEXTS, lambda values: values[-1] if values else None),
}
RETRACTABLE = [name for name, (make, *_) in CASES.items() if not make("v").why_not_retractable]
ONLY_ONE_LAST_BIT = {"var", "std"}
"""Of these it is only said that they are right but for the last bit."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CASES)
@settings(max_examples=draws(20), deadline=None)
@given(data=st.data())
def test_the_result_is_that_of_plain_python_whatever_the_cut(name: str, data: st.DataObject) -> None:
    make, value_type, values, expected = CASES[name]
    records = data.draw(st.lists(st.tuples(st.integers(0, 3), st.one_of(st.none(), values)), min_size=1, max_size=20))
    whole = Folding(make("v"), [value_type]).add(*records)
    results = whole.results()
    for group in {group for group, _ in records}:
        check(name, results[group], expected([v for g, v in records if g == group and v is not None]))
    cut = Folding(make("v"), [value_type])
    for piece in pieces(records, data):
        cut.add(*piece)
        if cut.pieces and data.draw(st.booleans()):
            cut.merge(data.draw(st.integers(0, len(cut.pieces) - 1)))
    assert same(cut.results(), results)
    assert same(data_of(cut), data_of(whole))


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", CASES)
@settings(max_examples=draws(20), deadline=None)
@given(data=st.data())
def test_tables_are_combined_row_by_row_as_they_are_merged(name: str, data: st.DataObject) -> None:
    make, value_type, values, _ = CASES[name]
    groups = data.draw(st.integers(1, 5))
    drawn = st.lists(st.one_of(st.none(), values), min_size=groups, max_size=3 * groups)
    folding = Folding(make("v"), [value_type])
    for _ in range(2):
        folding.add(*((i % groups, value) for i, value in enumerate(data.draw(drawn))))
    older, newer = folding.pieces
    combined, merged = folding.list.combine(older, newer), merged_pairs(folding.list.merge, older, newer)
    assert same([column.to_pylist() for column in combined], [column.to_pylist() for column in merged])


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", RETRACTABLE)
@settings(max_examples=draws(20), deadline=None)
@given(data=st.data())
def test_what_is_taken_back_was_never_there(name: str, data: st.DataObject) -> None:
    make, value_type, values, expected = CASES[name]
    record = st.tuples(st.integers(0, 2), st.one_of(st.none(), values))
    kept, gone = (data.draw(st.lists(record, max_size=10)) for _ in range(2))
    folding = Folding(make("v"), [value_type], retracts=True)
    changes = [(r, False) for r in kept + gone] + [(r, True) for r in gone]
    for piece in pieces(data.draw(st.permutations(changes)), data):
        folding.add(*(r for r, is_gone in piece if not is_gone))
        folding.add(*(r for r, is_gone in piece if is_gone), takes_back=True)
        if folding.pieces and data.draw(st.booleans()):
            folding.merge(data.draw(st.integers(0, len(folding.pieces) - 1)))
    results = folding.results()
    for group in results:
        check(name, results[group], expected([v for g, v in kept if g == group and v is not None]))


@pytest.mark.parametrize("name", [name for name in CASES if name not in RETRACTABLE])
def test_aggregates_that_forget_refuse_to_take_back(name: str) -> None:
    make, value_type, *_ = CASES[name]
    with pytest.raises(InvalidProgramError, match=rf"{name}\(\) cannot take records back.*"):
        Folding(make("v"), [value_type], retracts=True)


@pytest.mark.parametrize(
    ("aggregate", "value_type", "wanted"),
    [
        (agg.var_pop("v"), Types.STRING(), "var_pop.*'v'.*numbers"),
        (agg.bool_and("v"), Types.LONG(), "bool_and.*'v'.*booleans"),
        (agg.count_distinct("v"), Types.BIG_DEC(), "count_distinct.*'v'.*numbers, text.*BigDecimal"),
        (agg.listagg("v"), Types.LONG(), "listagg.*'v'.*text"),
        (agg.top_n("v", 2, by="w"), Types.LONG(), "top_n.*'w'.*numbers, text"),
        (agg.collect_set("v"), Types.LIST(Types.LONG()), "collect_set.*'v'"),
    ],
)
def test_what_does_not_fit_is_refused_at_once(aggregate: agg.Aggregate, value_type: Any, wanted: str) -> None:
    with pytest.raises(InvalidTypeError, match=wanted):
        Folding(aggregate, [value_type, Types.BIG_DEC()])


def test_values_of_the_largest_records() -> None:
    folding = Folding(agg.top_n("v", 3, by="w"), [Types.STRING(), Types.INT()])
    folding.add((0, "a", 5), (0, "c", 7), (0, "z", None), (1, "x", 1), (2, "y", None))
    folding.add((0, None, 9), (0, "b", 7), (0, "b", 7), (1, "w", 1))
    assert folding.results() == {0: ["b", "b", "c"], 1: ["w", "x"], 2: None}
    assert folding.bound.name == "top_n_v"


@pytest.mark.parametrize("separator", [5, None, b","])
def test_a_separator_that_is_no_text_is_refused(separator: Any) -> None:
    with pytest.raises(InvalidProgramError, match=r"listagg\(\) takes a text.*, not "):
        agg.listagg("v", separator)


@pytest.mark.parametrize("name", ["", None, 5])
def test_an_alias_that_is_no_name_is_refused(name: Any) -> None:
    """An empty one was passed over."""
    with pytest.raises(InvalidProgramError, match=r"sum\(...\).alias\(\) takes a name.*, not "):
        agg.sum("v").alias(name)


@pytest.mark.parametrize("n", [0, -1, True, 2.0])
def test_top_none_is_refused(n: Any) -> None:
    with pytest.raises(InvalidProgramError, match=f"from 1 on, not {n}"):
        agg.top_n("v", n)


def test_lists_of_rows_in_the_order_of_arrival() -> None:
    folding = Folding(agg.collect_list("v"), [Types.ROW_NAMED(["a"], [Types.LONG()])])
    folding.add((1, Row(a=1)), (0, Row(a=2)), (1, None)).add((1, Row(a=3)), (0, Row(a=4)))
    folding.groups.reverse()
    folding.pieces.reverse()
    assert folding.results() == {0: [Row(a=2), Row(a=4)], 1: [Row(a=1), Row(a=3)]}


def test_texts_with_another_separator() -> None:
    folding = Folding(agg.listagg("v", " > ").alias("path"), [Types.STRING()])
    assert folding.add((0, "a"), (0, None), (0, "b"), (1, None)).results() == {0: "a > b", 1: None}
    assert folding.bound.name == "path"


def test_sums_of_decimals_have_the_most_places_and_no_exponent() -> None:
    groups = [["1.50", "2.5"], ["1E+3", "1"], ["0.00000001", "-0.00000001"], ["-0.00"], ["9" * 70, "1"], ["1E-12", "0"]]
    folding = Folding(agg.sum("v"), [Types.BIG_DEC()])
    results = folding.add(*((i, Decimal(text)) for i, texts in enumerate(groups) for text in texts)).results()
    shown = ["4.00", "1001", "0.00000000", "0.00", "1" + "0" * 70, "0.000000000001"]
    assert [f"{value:f}" for value in results.values()] == shown
    for columns in zip(*folding.pieces[0], strict=True):
        assert [column.as_py() for column in columns] == [shown.pop(0)]


@pytest.mark.parametrize("text", ["NaN", "Infinity", "sNaN"])
def test_a_sum_of_decimals_that_are_no_numbers_is_refused(text: str) -> None:
    with pytest.raises(NotFiniteError, match=f"the sum of 'v' has met {text}"):
        Folding(agg.sum("v"), [Types.BIG_DEC()]).add((0, Decimal("1.5")), (0, Decimal(text)))


@pytest.mark.parametrize("part", [-0.1, 1.5, "half", math.nan])
@pytest.mark.parametrize("make", [agg.quantile, agg.approx_quantile])
def test_a_part_is_from_0_to_1(make: Any, part: Any) -> None:
    with pytest.raises(InvalidProgramError, match=f"from 0 to 1.*not {part!r}"):
        make("v", part)


def test_quantiles_from_end_to_end() -> None:
    values = list(range(101))
    for part in (0, 0.07, 0.5, 0.99, 1):
        found = Folding(agg.quantile("v", part), [Types.INT()]).add(*((0, v) for v in values)).results()
        assert found == {0: values[max(math.ceil(101 * Fraction(str(part))), 1) - 1]}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("value_type", "make"),
    [
        (Types.LONG(), int),
        (Types.STRING(), str),
        (Types.DOUBLE(), lambda i: i / 7),
        (Types.BYTES(), lambda i: str(i).encode()),
        (Types.SQL_TIMESTAMP(), lambda i: dt.datetime(2024, 1, 1) + dt.timedelta(seconds=i)),
    ],
)
@pytest.mark.parametrize("count", [1, 10, 300, 4000, 20_000, 60_000])
def test_distinct_values_are_estimated_within_bounds(value_type: Any, make: Any, count: int) -> None:
    folding = Folding(agg.approx_count_distinct("v"), [value_type])
    values = [(0, make(i)) for i in range(count)]
    folding.add(*values[: count // 2], (0, None), (1, None)).add(*values[count // 3 :])
    results = folding.results()
    assert results[1] == 0
    assert abs(results[0] - count) <= max(0.05 * count, 0)


@settings(max_examples=draws(20), deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(0, 3), DOUBLES), max_size=12), min_size=1, max_size=4))
def test_the_estimate_is_the_same_for_every_cut(parts: list[Any]) -> None:
    records = [record for part in parts for record in part]
    whole, cut = (Folding(agg.approx_count_distinct("v"), [Types.DOUBLE()]) for _ in range(2))
    whole.add(*records)
    for part in reversed(parts):
        cut.add(*part)
    assert cut.results() == whole.results()
    if records:
        assert data_of(cut) == data_of(whole)


def test_an_estimate_refuses_to_take_back() -> None:
    with pytest.raises(InvalidProgramError, match=r"approx_count_distinct\(\) cannot take records back.*hashes"):
        Folding(agg.approx_count_distinct("v"), [Types.LONG()], retracts=True)


def test_variance_keeps_its_digits_where_sums_of_squares_lose_them() -> None:
    values = [1e9 + i * 1e-3 for i in range(1000)]
    found = Folding(agg.var_samp("v"), [Types.DOUBLE()]).add(*((0, v) for v in values)).results()[0]
    assert found == pytest.approx(statistics.variance(map(Fraction, values)), rel=1e-15)


def test_variance_of_what_has_no_square() -> None:
    for value in (math.nan, math.inf, 1e200):
        found = Folding(agg.var_pop("v"), [Types.DOUBLE()]).add((0, 1.0), (0, value)).results()[0]
        assert math.isnan(found)


def check(name: str, found: Any, expected: Any) -> None:
    if name[:3] in ONLY_ONE_LAST_BIT and found is not None and expected is not None and not math.isnan(expected):
        # A square below the smallest normal number has fewer digits, and its root half as few zeros.
        assert abs(found - expected) <= max(2 * math.ulp(expected), 2 * math.sqrt(sys.float_info.min))
    elif isinstance(expected, Decimal):
        assert found == expected
    else:
        assert same(found, expected), (found, expected)


def same(a: Any, b: Any) -> bool:
    """Equal to the sign of zero; NaN is NaN."""
    return repr(a) == repr(b) or (isinstance(a, dict) and sorted(map(repr, a.items())) == sorted(map(repr, b.items())))


def data_of(folding: Folding) -> list[Any]:
    """What is stored of all groups: the same to the last bit, however it came about; the arrival is the order's."""
    return [column.to_pylist() for column in folding.pieces[0]]


def pieces(items: list[Any], data: st.DataObject) -> list[list[Any]]:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(items)), max_size=4)))
    return [items[a:b] for a, b in zip([0, *cuts], [*cuts, len(items)], strict=True)]


def _rounded(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _one_zero(value: Any) -> Any:
    return value + 0.0 if isinstance(value, float) else value
