"""Records as text: the spelling is what PyFlink 2.3 was seen to print."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest

from headrace.common import Instant, Row, RowKind, TypeInformation, Types
from headrace.common.values import handler_of

INT, STRING = Types.INT(), Types.STRING()


@pytest.mark.parametrize(
    ("type_info", "value", "text"),
    [
        (STRING, "it's", "it's"),
        (STRING, None, "null"),
        (Types.BOOLEAN(), True, "true"),
        (Types.BOOLEAN(), False, "false"),
        (Types.BIG_DEC(), Decimal("1.50"), "1.50"),
        (Types.BIG_DEC(), Decimal("1E+3"), "1E+3"),
        (Types.BIG_INT(), 10**30, "1" + "0" * 30),
        (Types.INSTANT(), Instant(1000, 0), "1970-01-01T00:16:40Z"),
        (Types.INSTANT(), Instant(1000, 5_000_000), "1970-01-01T00:16:40.005Z"),
        (Types.SQL_DATE(), datetime.date(2021, 1, 2), "2021-01-02"),
        (Types.SQL_TIME(), datetime.time(1, 2, 3), "01:02:03"),
        (Types.SQL_TIMESTAMP(), datetime.datetime(2021, 1, 2, 3, 4, 5), "2021-01-02 03:04:05.0"),
        (Types.SQL_TIMESTAMP(), datetime.datetime(2021, 1, 2, 3, 4, 5, 123000), "2021-01-02 03:04:05.123"),
        (Types.LIST(STRING), ["a", "b"], "[a, b]"),
        (Types.LIST(Types.DOUBLE()), [1.0], "[1.0]"),
        (Types.MAP(STRING, INT), {"a": 1, "b": None}, "{a=1, b=null}"),
        (Types.TUPLE([STRING, INT, Types.BOOLEAN()]), ("a", None, True), "(a,null,true)"),
        (Types.ROW([STRING, STRING, Types.ROW([INT, STRING])]), Row("a", None, Row(1, "z")), "+I[a, null, +I[1, z]]"),
        (Types.TUPLE([STRING, Types.ROW([INT, STRING])]), ("q", Row(1, None)), "(q,+I[1, null])"),
        (Types.PICKLED_BYTE_ARRAY(), ("a", True, None), "('a', True, None)"),
        (Types.PICKLED_BYTE_ARRAY(), None, "None"),
    ],
)
def test_values(type_info: TypeInformation, value: Any, text: str) -> None:
    assert handler_of(type_info).text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.0"),
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (0.001, "0.001"),
        (1e-5, "1.0E-5"),
        (1_000_000.0, "1000000.0"),
        (1e7, "1.0E7"),
        (123456789.0, "1.23456789E8"),
        (-1e10, "-1.0E10"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_doubles(value: float, text: str) -> None:
    assert handler_of(Types.DOUBLE()).text(value) == text


def test_floats_have_as_many_digits_as_they_need() -> None:
    text = handler_of(Types.FLOAT()).text
    assert [text(value) for value in (1.0, 1e10, 3.141590118408203, 0.10000000149011612)] == [
        "1.0",
        "1.0E10",
        "3.14159",
        "0.1",
    ]


def test_rows_are_printed_in_a_way_of_their_own() -> None:
    row = Row("a", None, 1e10, True, Row(f0=1, f1="z"), ("q", 2))
    row.set_row_kind(RowKind.DELETE)
    fields = [STRING, STRING, Types.DOUBLE(), Types.BOOLEAN(), Types.ROW([INT, STRING]), Types.TUPLE([STRING, INT])]
    assert handler_of(Types.ROW(fields)).printed(row) == "-D[a,None,10000000000.0,True,Row(f0=1, f1='z'),('q', 2)]"
    assert handler_of(Types.TUPLE([STRING, INT])).printed(("a", 1)) == "(a,1)"
