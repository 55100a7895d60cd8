"""Types, nulls, casts and errors of expressions, case by case."""

from __future__ import annotations

import datetime
import math
import re
from decimal import Decimal
from typing import Any, NamedTuple, TypedDict

import pytest

from headrace.common import Instant, Row, TypeInformation, Types
from headrace.common.columns import array_to_values, layout_of
from headrace.common.errors import EvaluationError, InvalidProgramError, InvalidTypeError
from headrace.expressions import Expression, bind, coalesce, col, evaluate, lit, when

ADDRESS = Types.ROW_NAMED(["city", "zip"], [Types.STRING(), Types.LONG()])
TYPES = {
    "day": Types.SQL_DATE(),
    "at": Types.SQL_TIMESTAMP(),
    "zoned": Types.TIMESTAMP_LTZ(),
    "instant": Types.INSTANT(),
    "clock": Types.SQL_TIME(),
    "dec": Types.BIG_DEC(),
    "big": Types.BIG_INT(),
    "char": Types.CHAR(),
    "address": ADDRESS,
    "raw": Types.BYTES(),
    "text": Types.STRING(),
    "list": Types.LIST(Types.LONG()),
    "n": Types.LONG(),
    "x": Types.DOUBLE(),
    "pickled": Types.PICKLED_BYTE_ARRAY(),
}
RECORD = Types.ROW_NAMED(list(TYPES), list(TYPES.values()))
UTC = datetime.UTC
PLUS_1 = datetime.timezone(datetime.timedelta(hours=1))
FULL = Row(
    day=datetime.date(1969, 12, 31),
    at=datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
    zoned=datetime.datetime(2026, 2, 28, 1, 2, 3, 4, tzinfo=UTC),
    instant=Instant(1, 5),
    clock=datetime.time(1, 2, 3),
    dec=Decimal("1.10"),
    big=2**70,
    char="x",
    address=Row(city="Ulm", zip=8),
    raw=b"a",
    text="1.5",
    list=[1],
    n=7,
    x=-2.5,
    pickled={1},
)
EMPTY = Row(**dict.fromkeys(TYPES))


def values(expression: Expression, record_type: TypeInformation, *rows: Any) -> tuple[TypeInformation, list[Any]]:
    bound = bind(expression, record_type)
    return bound.type, array_to_values(bound.type, evaluate((bound,), layout_of(record_type).rows_to_columns(rows))[0])


@pytest.mark.parametrize(
    ("expression", "type_info", "value"),
    [
        (col("day").year(), Types.LONG(), 1969),
        (col("day").quarter(), Types.LONG(), 4),
        (col("day").month(), Types.LONG(), 12),
        (col("day").day(), Types.LONG(), 31),
        (col("day").day_of_week(), Types.LONG(), 3),
        (col("day").day_of_year(), Types.LONG(), 365),
        (col("at").hour(), Types.LONG(), 23),
        (col("at").second(), Types.LONG(), 59),
        (col("zoned").hour(), Types.LONG(), 1),
        (col("instant").second(), Types.LONG(), 1),
        (col("clock").minute(), Types.LONG(), 2),
        (col("at").epoch_millis(), Types.LONG(), -1),
        (col("zoned").epoch_millis(), Types.LONG(), 1772240523000),
        (col("instant").epoch_millis(), Types.LONG(), 1000),
        (col("day") < datetime.date(2020, 1, 1), Types.BOOLEAN(), True),
        (col("at") < datetime.datetime(2020, 1, 1), Types.BOOLEAN(), True),
        (col("zoned") == datetime.datetime(2026, 2, 28, 2, 2, 3, 4, tzinfo=PLUS_1), Types.BOOLEAN(), True),
        (col("instant") == Instant(1, 5), Types.BOOLEAN(), True),
        (col("clock") > datetime.time(1), Types.BOOLEAN(), True),
        (col("raw") == b"a", Types.BOOLEAN(), True),
        (col("dec") == Decimal("1.1"), Types.BOOLEAN(), True),
        (col("dec") > 1, Types.BOOLEAN(), True),
        (col("dec").is_in([Decimal("1.1000"), 3]), Types.BOOLEAN(), True),
        (col("address").field("city"), Types.STRING(), "Ulm"),
        (col("address").field(-1) + 1, Types.LONG(), 9),
        (col("address"), ADDRESS, Row(city="Ulm", zip=8)),
        (col("char") == "x", Types.BOOLEAN(), True),
        (col("char") + col("text"), Types.STRING(), "x1.5"),
        (col("text").like("1._"), Types.BOOLEAN(), True),
        (col("n").power(2), Types.DOUBLE(), 49.0),
        (col("n").sqrt(), Types.DOUBLE(), math.sqrt(7)),
        (col("n").round(-1), Types.LONG(), 10),
        (col("x").round(), Types.DOUBLE(), -2.0),
        (col("x").round(292), Types.DOUBLE(), -2.5),
        ((col("x") * 1e300).round(292), Types.DOUBLE(), -2.5e300),
        (col("n").round(-18), Types.LONG(), 0),
        (col("n").round(-19), Types.LONG(), 0),
        ((col("n") * -(10**18)).round(-20), Types.LONG(), 0),
        ((col("x") * -1e17).round(-17), Types.DOUBLE(), 2e17),
        ((col("n") - 7 + -(2**63)) % -1, Types.LONG(), 0),
        ((col("x") * 0.0).is_in([0.0]), Types.BOOLEAN(), True),
        ((col("x") * -0.0).is_in([-0.0, math.nan]), Types.BOOLEAN(), True),
        (col("dec").cast(float), Types.DOUBLE(), 1.1),
        (col("dec").cast(str), Types.STRING(), "1.10"),
        (col("n").cast(Types.BIG_DEC()), Types.BIG_DEC(), Decimal(7)),
        (col("n").cast(Types.BYTE()), Types.BYTE(), 7),
        (col("n").cast(str), Types.STRING(), "7"),
        (col("x").cast(str), Types.STRING(), "-2.5"),
        ((col("n") * 1.0).cast(str), Types.STRING(), "7.0"),
        ((col("n") * 1.0).cast(int), Types.LONG(), 7),
        (col("text").cast(float), Types.DOUBLE(), 1.5),
        (col("text").cast(Types.BIG_DEC()), Types.BIG_DEC(), Decimal("1.5")),
        ((col("n") > 1).cast(int), Types.LONG(), 1),
        (col("day").cast(Types.SQL_TIMESTAMP()), Types.SQL_TIMESTAMP(), datetime.datetime(1969, 12, 31)),
        (col("at").cast(Types.SQL_DATE()), Types.SQL_DATE(), datetime.date(1969, 12, 31)),
        (col("at").cast(Types.SQL_TIME()), Types.SQL_TIME(), datetime.time(23, 59, 59, 999999)),
        (col("at").cast(str), Types.STRING(), "1969-12-31 23:59:59.999999"),
        (col("zoned").cast(Types.SQL_TIMESTAMP()), Types.SQL_TIMESTAMP(), datetime.datetime(2026, 2, 28, 1, 2, 3, 4)),
        (col("zoned").cast(Types.INSTANT()), Types.INSTANT(), Instant(1772240523, 4000)),
    ],
    ids=repr,
)
def test_values_and_nulls(expression: Expression, type_info: TypeInformation, value: Any) -> None:
    assert values(expression, RECORD, FULL, EMPTY) == (type_info, [value, None])


@pytest.mark.parametrize(
    ("expression", "type_info", "found"),
    [
        (col("big").is_null(), Types.BOOLEAN(), [False, True]),
        (col("list").is_not_null(), Types.BOOLEAN(), [True, False]),
        (col("pickled").is_null(), Types.BOOLEAN(), [False, True]),
        (coalesce(col("day"), datetime.date(1970, 1, 1)), Types.SQL_DATE(), [FULL["day"], datetime.date(1970, 1, 1)]),
        (coalesce(col("n"), 0.5), Types.DOUBLE(), [7.0, 0.5]),
        (coalesce(col("char"), "long"), Types.STRING(), ["x", "long"]),
        (lit(None, Types.LONG()), Types.LONG(), [None, None]),
        (lit("2026-01-02").cast(Types.SQL_DATE()), Types.SQL_DATE(), [datetime.date(2026, 1, 2)] * 2),
        (lit(1) + lit(2), Types.LONG(), [3, 3]),
        (when(col("n").is_null()).then(col("address")), ADDRESS, [None, None]),
        (when(col("n") == 7).then(col("list")), Types.LIST(Types.LONG()), [[1], None]),
        (when(col("n") == 7).then(1).when(col("n").is_null()).then(2.5), Types.DOUBLE(), [1.0, 2.5]),
        (when(col("n") != 7).then(1 // (col("n") - 7)).otherwise(0), Types.LONG(), [0, 0]),
        (when(lit(False)).then(lit(1) // 0).otherwise(5), Types.LONG(), [5, 5]),
        (col("n").is_in([]), Types.BOOLEAN(), [False, None]),
    ],
    ids=repr,
)
def test_what_is_made_of_nulls(expression: Expression, type_info: TypeInformation, found: list[Any]) -> None:
    assert values(expression, RECORD, FULL, EMPTY) == (type_info, found)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (col("card"), r"col\(\"card\"\): .* has no field 'card': its fields are 'day', 'at'"),
        (col(20), "has no field 20"),
        (col("text") == 1, r'col\("text"\) is String, 1 is Long; equal takes values of one kind'),
        (col("n") + col("text"), 'col\\("text"\\) is String; add takes an integer and an integer or a number'),
        (col("dec") + 1, "is BigDecimal"),
        (col("dec") < 2.5, "is BigDecimal, 2.5 is Double"),
        (col("big") == 1, "is BigInteger"),
        (col("day") < datetime.datetime(2020, 1, 1), "DateTypeInfo.*TimestampTypeInfo"),
        (col("list") == col("list"), "equal takes"),
        (col("day").hour(), "hour takes a time or a timestamp"),
        (col("text").round(), "round takes"),
        ((col("n") > 1) & col("n"), "and takes a boolean and a boolean"),
        (col("address").field("street"), "has no field 'street': its fields are 'city', 'zip'"),
        (col("n").field(0), "Long has no field 0: it has no fields"),
        (col("zoned").cast(str), "it can be cast to INSTANT, SQL_TIMESTAMP, TIMESTAMP_LTZ"),
        (col("list").cast(str), "it cannot be cast"),
        (lit([1]), r"lit\(\[1\]\) \(list\) cannot stand in an expression"),
        (lit(None), r"lit\(None, Types.LONG\(\)\)"),
        (lit("a", Types.LONG()), "got 'a'"),
        (coalesce(col("day"), 1), "coalesce takes values of one type, or numbers"),
        (when(col("text")).then(1), 'a condition is a boolean, but col\\("text"\\) is String'),
        (when(col("n") > 1).then(1).otherwise("a"), "no type in common"),
    ],
    ids=repr,
)
def test_what_does_not_fit_is_refused_when_it_is_bound(expression: Expression, message: str) -> None:
    with pytest.raises(InvalidTypeError, match=message):
        bind(expression, RECORD)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (col("n") * 2**62, r'^col\("n"\) \* 4611686018427387904: the result does not fit into 64 bits$'),
        (col("x") + col("n") // 0, r'^col\("n"\) // 0: division by zero$'),
        (col("x").cast(int), r'col\("x"\).cast\(Types.LONG\(\)\): .*truncated'),
        (col("text").cast(int), "'1.5' is no integer"),
        (col("dec").cast(int), "data loss"),
        ((col("n") * 100).cast(Types.BYTE()), "not in range"),
        (lit(1e300).cast(Types.FLOAT()), "too large for 32 bits"),
        ((col("n") / 0).cast(int), "cast"),
        (col("instant").cast(Types.TIMESTAMP_LTZ()), "lose data"),
        (-(col("n") - 8 - (2**63 - 1)), "does not fit into 64 bits"),
    ],
    ids=repr,
)
def test_records_without_a_value(expression: Expression, message: str) -> None:
    with pytest.raises(EvaluationError, match=message) as raised:
        values(expression, RECORD, EMPTY, EMPTY, FULL, FULL)
    assert raised.value.row == (0 if repr(expression).startswith("lit(1e") else 2)


class Pair(NamedTuple):
    name: str
    number: int


class Doc(TypedDict):
    name: str
    number: int


@pytest.mark.parametrize(
    ("record", "record_type", "expression"),
    [
        (("a", 3), Types.TUPLE([Types.STRING(), Types.LONG()]), col("f1")),
        (("a", 3), Types.TUPLE([Types.STRING(), Types.LONG()]), col(1)),
        (("a", 3), Types.TUPLE([Types.STRING(), Types.LONG()]), col(-1)),
        (Pair("a", 3), Types.of(Pair), col("number")),
        ({"name": "a", "number": 3}, Types.of(Doc), col("number")),
        (Row("a", 3), Types.ROW([Types.STRING(), Types.LONG()]), col("f1")),
        (3, Types.LONG(), col("value")),
        (3, Types.LONG(), col(0)),
    ],
)
def test_columns_of_records_of_any_class(record: Any, record_type: TypeInformation, expression: Expression) -> None:
    assert values(expression * 2, record_type, record) == (Types.LONG(), [6])


def test_plain_values_have_no_other_columns() -> None:
    with pytest.raises(InvalidTypeError, match=r"records of type Long have no fields: col\('value'\) is the record"):
        bind(col("amount"), Types.LONG())


def test_pickled_records_have_no_columns() -> None:
    with pytest.raises(InvalidTypeError, match="pickled objects and have no columns: give their type"):
        bind(col("amount") > 1, Types.PICKLED_BYTE_ARRAY())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: bool(col("a") == 1), r'col\("a"\) == 1 is an expression and has no truth value'),
        (lambda: col("a") == None, "write is_null()"),  # noqa: E711
        (lambda: col(1.5), "by name or position"),
        (lambda: col("a").alias(""), "alias takes a text"),
        (lambda: col("a").is_in("abc"), "is_in takes a list of values, not 'abc'"),
        (lambda: col("a").contains(col("b")), "contains takes a text that is the same for all records"),
        (lambda: col("a").substring("1"), "substring takes a whole number"),
        (lambda: col("a").substring(0, -1), "cannot be negative"),
        (lambda: col("a").replace("", "b"), "replace takes a text"),
        (lambda: coalesce(when(col("a"))), "wants .then"),
    ],
)
def test_what_cannot_be_built(build: Any, message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        build()


def test_expressions_are_not_iterated_over() -> None:
    with pytest.raises(TypeError):
        list(col("a"))  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ((col("a") + 1) * 2, '(col("a") + 1) * 2'),
        (col("a") + 1 * 2, 'col("a") + 2'),
        (2 - (col("a") - 1), '2 - (col("a") - 1)'),
        (-(col("a") + 1), '-(col("a") + 1)'),
        ((col("a") > 1) & ~(col("b") == "x"), '(col("a") > 1) & ~(col("b") == "x")'),
        (((col("a") > 1) & col("b")) | col("c"), '(col("a") > 1) & col("b") | col("c")'),
        ((col("a") * 2).round(1).alias("ä"), '(col("a") * 2).round(1).alias("ä")'),
        (lit(-1).abs(), "lit(-1).abs()"),
        ((-col("a")).abs(), '(-col("a")).abs()'),
        (col("a").is_in([1, "b"]), 'col("a").is_in([1, "b"])'),
        (col("a").substring(1), 'col("a").substring(1)'),
        (when(col("a") > 1).then(2).otherwise(3), 'when(col("a") > 1).then(2).otherwise(3)'),
        (col(0).cast(str).field("b"), 'col(0).cast(Types.STRING()).field("b")'),
    ],
)
def test_the_text_is_as_it_was_written(expression: Expression, text: str) -> None:
    assert repr(expression) == text


@pytest.mark.parametrize(("text", "number"), [("12", 12), ("-0012", -12), ("+5", 5), (str(2**63 - 1), 2**63 - 1)])
def test_integers_are_read_from_digits(text: str, number: int) -> None:
    assert values(lit(text).cast(int), RECORD, FULL) == (Types.LONG(), [number])


@pytest.mark.parametrize("text", ["0x10", "", " 1", "1.0", "1_0", "٣", "+", str(2**63)])
def test_what_is_no_integer_is_refused(text: str) -> None:
    with pytest.raises(Exception, match=re.escape(text or "''")):
        values(lit(text).cast(int), RECORD, FULL)


def test_both_zeros_are_in_a_list_with_one_of_them() -> None:
    doubles = Types.DOUBLE()
    for expression in (col(0).is_in([0.0]), col(0).is_in([-0.0, 3]), lit(-0.0).is_in([0.0])):
        assert values(expression, doubles, 0.0, -0.0) == (Types.BOOLEAN(), [True, True])


@pytest.mark.parametrize("digits", [-400, -23, -3, -1, 0, 1, 2, 5, 15, 22, 23, 400])
def test_doubles_are_rounded_as_in_python(digits: int) -> None:
    numbers = [2.675, 0.15, 1.005, 4.35, 0.285, -2.675, 5e-324, 1e300, 1e22, 2.0**53, 123456.785, 45.0, 55.0, 0.5, -0.0]
    numbers += [math.nan, math.inf, -math.inf]
    _, found = values(col(0).round(digits), Types.DOUBLE(), *numbers, None)
    expected = [round(number, digits) if math.isfinite(number) else number for number in numbers]
    assert list(map(repr, found)) == [*map(repr, expected), "None"]
    assert repr(values(lit(2.675).round(digits), Types.DOUBLE(), 1.0)[1]) == repr([round(2.675, digits)])


def test_a_double_that_is_rounded_beyond_the_largest_one_is_an_error() -> None:
    with pytest.raises(EvaluationError, match="round"):
        values(col(0).round(-308), Types.DOUBLE(), 1.7e308)


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("%\\\\", "a\\", "a\\\\b"),
        ("a\\\\b%", "a\\bc", "a\\\\bc"),
        ("%\\\\%", "a\\b", "ab"),
        ("\\%_", "%\n", "ab"),
        ("a\\_%", "a_\n\n", "ab"),
        ("\\é\\.", "é.", "éx"),
        ("%\\%", "100%", "100"),
    ],
)
def test_a_backslash_makes_the_next_character_stand_for_itself(pattern: str, matching: str, other: str) -> None:
    assert values(col(0).like(pattern), Types.STRING(), matching, other, None)[1] == [True, False, None]


def test_an_integer_that_is_rounded_beyond_64_bits_is_an_error() -> None:
    with pytest.raises(EvaluationError, match="round"):
        values(col(0).round(-19), Types.LONG(), 5 * 10**18 + 1, None)
