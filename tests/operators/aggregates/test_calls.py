"""SQL's aggregate functions: the changelog of calls over records that come and are taken back."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.logical_types import (
    ArrayType,
    AtomicType,
    LogicalType,
    MultisetType,
    RowType,
    TypeRoot,
    bigint,
    decimal,
    string,
)
from headrace.common.typeinfo.types import type_of_logical
from headrace.graph.window_specs import GroupAggregateSpec
from headrace.operators.aggregates.calls import AggregateOperation
from tests.draws import draws
from tests.operators.changelog.driven import run

INT, DOUBLE = AtomicType(TypeRoot.INTEGER), AtomicType(TypeRoot.DOUBLE)
ROW: Any = type_of_logical(
    RowType(
        ("k", "n", "t", "p", "x", "f"),
        (string(), INT, string(), decimal(8, 2), DOUBLE, AtomicType(TypeRoot.BOOLEAN)),
    )
)
K, N, T, P, X, F = range(6)


def call(function: str, *arguments: int, type_: LogicalType = INT, **more: Any) -> AggregateOperation:
    return AggregateOperation(function, arguments, type_, "result", **more)


def results(made: AggregateOperation, rows: list[Any], *, retracts: bool = True, cuts: Any = ()) -> list[Any]:
    """The results after each record, by inserts and updates."""
    spec = GroupAggregateSpec((made,), update_before=False, retracts=retracts)
    events = [row if isinstance(row[0], str) and row[0][0] in "+-" else ("+I", row) for row in rows]
    return [values[-1] for _, values in run(spec, ROW, ("k",), events, cuts)]


def row(n: Any = None, t: Any = None, p: Any = None, x: Any = None, f: Any = None) -> tuple[Any, ...]:
    return ("a", n, t, None if p is None else Decimal(p), x, f)


def back(*values: Any, **named: Any) -> tuple[str, tuple[Any, ...]]:
    return "-U", row(*values, **named)


@pytest.mark.sampled(14)
@pytest.mark.parametrize(
    ("made", "rows", "expected"),
    [
        (call("COUNT", type_=bigint()), [row(1), row()], [1, 2]),
        (call("COUNT", N, type_=bigint()), [row(), row(1), row(1)], [0, 1, 2]),
        (call("COUNT", type_=bigint(), filter=F), [row(1, f=True), row(f=None), row(f=True)], [1, 2]),
        (call("SUM", N), [row(2**31 - 1), row(1), row()], [2**31 - 1, -(2**31)]),
        (call("SUM", N), [row(1), row(), back(1)], [1, None]),
        (call("SUM", N, filter=F), [row(1, f=True), row(5, f=False), row(2, f=True)], [1, 3]),
        (call("$SUM0", N), [row(), row(4)], [0, 4]),
        (call("AVG", N), [row(-7), row(4), row(-1)], [-7, -1]),
        (call("SUM", P, type_=decimal(38, 2)),
         [row(p="-1.25"), row(p="3.50"), back(p="-1.25")], ["-1.25", "2.25", "3.50"]),
        (call("AVG", P, type_=decimal(38, 6)),
         [row(p="5.50"), row(p="2.00"), row(p="5.50")], ["5.500000", "3.750000", "4.333333"]),
        (call("AVG", X, type_=DOUBLE), [row(x=1.0), row(x=4.0)], [1.0, 2.5]),
        (call("VAR_POP", X, type_=DOUBLE),
         [row(x=10.0), row(x=20.0), back(x=20.0), row(x=3.0)], [0.0, 25.0, 0.0, 12.25]),
        (call("VAR_SAMP", X, type_=DOUBLE), [row(x=10.0), row(x=20.0), row(x=30.0)], [None, 50.0, 100.0]),
        (call("VAR_POP", X, type_=DOUBLE), [row(x=1e9 + 1), row(x=1e9 + 2), row(x=1e9 + 4)], [0.0, 0.25, 14 / 9]),
        (call("MAX", N), [row(3), row(5), back(5), back(3), row(1)], [3, 5, 3, 3, 1]),
        (call("FIRST_VALUE", T, type_=string()), [row(t=None), row(t="p"), row(t="q"), back(t="p")], [None, "p", "q"]),
        (call("LAST_VALUE", T, type_=string()), [row(t="p"), row(t="q"), row(), back(t="q")], ["p", "q", "p"]),
        (call("LISTAGG", T, type_=string()),
         [row(t="p"), row(t="q"), row(t="p"), back(t="p")], ["p", "p,q", "p,q,p", "q,p"]),
        (call("LISTAGG", T, K, type_=string(), constants=((1, "|"),)),
         [row(), row(t="p"), row(t="q")], [None, "p", "p|q"]),
        (call("LISTAGG", T, type_=string(), is_distinct=True), [row(t="p"), row(t="q"), row(t="p")], ["p", "p,q"]),
        (call("ARRAY_AGG", N, type_=ArrayType(INT)), [row(3), row(), back(3)], [[3], [3, None], [None]]),
        (call("COLLECT", T, type_=MultisetType(string())), [row(), row(t="p"), row(t="p")], [{}, {"p": 1}, {"p": 2}]),
        (call("COUNT", N, type_=bigint(), is_distinct=True), [row(3), row(3), row(4), back(3), back(3)], [1, 2, 1]),
        (call("SUM", N, is_distinct=True), [row(3), row(3), row(4), back(3), back(3)], [3, 7, 4]),
        (call("SUM", P, type_=decimal(38, 2), is_distinct=True),
         [row(p="1.00"), row(p="1.00"), row(p="0.50")], ["1.00", "1.50"]),
        (call("PERCENTILE", N, X, type_=DOUBLE, constants=((1, 0.5),)), [row(10), row(5), row(7)], [10.0, 7.5, 7.0]),
        (call("PERCENTILE", N, X, type_=ArrayType(DOUBLE), constants=((1, [0.0, 0.25]),)),
         [row(10), row(5)], [[10.0, 10.0], [5.0, 6.25]]),
        (call("JSON_ARRAYAGG", N, type_=string(), options=(("on_null", "NULL"),)),
         [row(1), row()], ["[1]", "[1,null]"]),
        (call("JSON_OBJECTAGG", T, N, type_=string()), [row(4, "c"), row(None, "b")], ['{"c":4}', '{"b":null,"c":4}']),
    ],
)  # fmt: skip
def test_results_after_each_record(made: AggregateOperation, rows: list[Any], expected: list[Any]) -> None:
    expected = [Decimal(value) if isinstance(value, str) and value[-1].isdigit() else value for value in expected]
    assert results(made, rows) == expected
    assert results(made, rows, cuts=range(1, len(rows))) == expected
    if not any(isinstance(each[0], str) and each[0][0] == "-" for each in rows):
        assert results(made, rows, retracts=False) == expected


def test_a_call_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(NotImplementedError, match=r"STDDEV_POP\(DISTINCT"):
        call("STDDEV_POP", N, is_distinct=True).bind(ROW)
    with pytest.raises(NotImplementedError, match="no aggregate function MEDIAN"):
        call("MEDIAN", N).bind(ROW)


def test_a_sum_of_decimals_that_does_not_fit_is_null() -> None:
    wide: Any = type_of_logical(RowType(("k", "p"), (string(), decimal(38, 0))))
    spec = GroupAggregateSpec((call("SUM", 1, type_=decimal(38, 0)),), update_before=False, retracts=False)
    top = Decimal(10**38 - 1)
    rows = [("+I", ("a", top)), ("+I", ("a", Decimal(1))), ("+I", ("a", top.copy_negate()))]
    assert [values[-1] for _, values in run(spec, wide, ("k",), rows)] == [top, None, Decimal(1)]


def test_keys_without_aggregates_and_all_records_as_one_group() -> None:
    keys = GroupAggregateSpec((), update_before=True, retracts=True, allows_none=True)
    events: list[Any] = [("+I", row(1)), ("+I", row(1)), ("-D", row(1)), ("-D", row(1)), ("-D", row(1))]
    assert run(keys, ROW, ("k", "n"), events, cuts=[2]) == [("+I", ("a", 1)), ("-D", ("a", 1))]
    whole = GroupAggregateSpec((call("COUNT", type_=bigint()),), update_before=True, retracts=True)
    assert run(whole, ROW, (), events[:2]) == [("+I", (1,)), ("-U", (1,)), ("+U", (2,))]


@settings(max_examples=draws(20), deadline=None)
@given(
    values=st.lists(st.none() | st.decimals("-999999.99", "999999.99", places=2), min_size=1, max_size=20),
    cuts=st.lists(st.integers(0, 20), max_size=3),
)
def test_sums_of_decimals_are_exact(values: list[Decimal | None], cuts: list[int]) -> None:
    rows = [row(n=place, p=value) for place, value in enumerate(values)]
    found = results(call("SUM", P, type_=decimal(38, 2)), rows, cuts=cuts)
    there = [value for value in values if value is not None]
    assert found[-1] == (sum(there) if there else None)
