"""Types of SQL: Flink's texts, limits and defaults, the columns that hold their values, and the values in Python."""

from __future__ import annotations

import datetime
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.common.columns import array_to_values, layout_of, values_to_array
from headrace.common.errors import InvalidTypeError
from headrace.common.logical_types import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    IntervalType,
    IntervalUnit,
    LogicalType,
    MapType,
    MultisetType,
    RawType,
    RowType,
    TypeRoot,
    bigint,
    decimal,
    string,
)
from headrace.common.time import Instant
from headrace.common.typeinfo import Types, type_from_json
from headrace.common.types import Row
from headrace.common.values import handler_of

DAY = datetime.date(2026, 1, 31)
NOON = datetime.datetime(2026, 1, 31, 12, 30, 0, 500_000)
NANOS = np.datetime64("2026-01-31T12:30:00.123456789")
PAIR = RowType(("a", "b`c"), (bigint().not_null(), string()), (None, "it's"))

# Type, summary, text of DDL, Arrow type, a value of Python, the text of the value.
TYPES: list[tuple[LogicalType, str, str, pa.DataType, Any, str]] = [
    (AtomicType(TypeRoot.NULL), "NULL", "NULL", pa.null(), None, "null"),
    (AtomicType(TypeRoot.BOOLEAN), "BOOLEAN", "BOOLEAN", pa.bool_(), True, "true"),
    (AtomicType(TypeRoot.TINYINT), "TINYINT", "TINYINT", pa.int8(), -128, "-128"),
    (AtomicType(TypeRoot.SMALLINT), "SMALLINT", "SMALLINT", pa.int16(), 300, "300"),
    (AtomicType(TypeRoot.INTEGER), "INT", "INT", pa.int32(), 70_000, "70000"),
    (bigint(), "BIGINT", "BIGINT", pa.int64(), 2**62, "4611686018427387904"),
    (AtomicType(TypeRoot.FLOAT), "FLOAT", "FLOAT", pa.float32(), 1.5, "1.5"),
    (AtomicType(TypeRoot.DOUBLE), "DOUBLE", "DOUBLE", pa.float64(), 1e20, "1.0E20"),
    (decimal(), "DECIMAL(10, 0)", "DECIMAL(10, 0)", pa.decimal128(10, 0), Decimal(7), "7"),
    (decimal(38, 18), "DECIMAL(38, 18)", "DECIMAL(38, 18)", pa.decimal128(38, 18), Decimal("0E-18"), f"0.{'0' * 18}"),
    (AtomicType(TypeRoot.CHAR), "CHAR(1)", "CHAR(1)", pa.string(), "x", "x"),
    (AtomicType(TypeRoot.CHAR, 3), "CHAR(3)", "CHAR(3)", pa.string(), "xyz", "xyz"),
    (AtomicType(TypeRoot.VARCHAR, 7), "VARCHAR(7)", "VARCHAR(7)", pa.string(), "", ""),
    (string(), "STRING", "VARCHAR(2147483647)", pa.string(), "tea", "tea"),
    (AtomicType(TypeRoot.BINARY, 2), "BINARY(2)", "BINARY(2)", pa.binary(), b"ab", "b'ab'"),
    (AtomicType(TypeRoot.VARBINARY), "VARBINARY(1)", "VARBINARY(1)", pa.binary(), b"a", "b'a'"),
    (AtomicType(TypeRoot.VARBINARY, MAX_LENGTH), "BYTES", "VARBINARY(2147483647)", pa.binary(), b"", "b''"),
    (AtomicType(TypeRoot.DATE), "DATE", "DATE", pa.date32(), DAY, "2026-01-31"),
    (AtomicType(TypeRoot.TIME), "TIME(0)", "TIME(0)", pa.time64("us"), NOON.time(), "12:30:00.500000"),
    (AtomicType(TypeRoot.TIMESTAMP), "TIMESTAMP(6)", "TIMESTAMP(6)", pa.timestamp("us"), NOON, "2026-01-31 12:30:00.5"),
    (
        AtomicType(TypeRoot.TIMESTAMP, 9),
        "TIMESTAMP(9)",
        "TIMESTAMP(9)",
        pa.timestamp("ns"),
        NANOS,
        "2026-01-31 12:30:00.123456789",
    ),
    (
        AtomicType(TypeRoot.TIMESTAMP_LTZ, 3),
        "TIMESTAMP_LTZ(3)",
        "TIMESTAMP(3) WITH LOCAL TIME ZONE",
        pa.timestamp("us", "UTC"),
        NOON.replace(tzinfo=datetime.UTC),
        "2026-01-31 12:30:00.500000+00:00",
    ),
    (
        AtomicType(TypeRoot.TIMESTAMP_LTZ, 9),
        "TIMESTAMP_LTZ(9)",
        "TIMESTAMP(9) WITH LOCAL TIME ZONE",
        pa.timestamp("ns", "UTC"),
        Instant(1, 5),
        "1970-01-01T00:00:01.000000005Z",
    ),
    (IntervalType(IntervalUnit.YEAR), "INTERVAL YEAR(2)", "INTERVAL YEAR(2)", pa.int32(), 24, "24"),
    (
        IntervalType(IntervalUnit.YEAR_TO_MONTH, 4),
        "INTERVAL YEAR(4) TO MONTH",
        "INTERVAL YEAR(4) TO MONTH",
        pa.int32(),
        -1,
        "-1",
    ),
    (
        IntervalType(IntervalUnit.DAY_TO_SECOND, 3, 0),
        "INTERVAL DAY(3) TO SECOND(0)",
        "INTERVAL DAY(3) TO SECOND(0)",
        pa.duration("us"),
        datetime.timedelta(hours=1),
        "1:00:00",
    ),
    (
        IntervalType(IntervalUnit.SECOND, fraction=3),
        "INTERVAL SECOND(3)",
        "INTERVAL SECOND(3)",
        pa.duration("us"),
        datetime.timedelta(0),
        "0:00:00",
    ),
    (
        ArrayType(decimal(3, 1)),
        "ARRAY<DECIMAL(3, 1)>",
        "ARRAY<DECIMAL(3, 1)>",
        pa.list_(pa.decimal128(3, 1)),
        [Decimal("1.5"), None],
        "[1.5, null]",
    ),
    (
        MapType(string(), bigint().not_null()),
        "MAP<STRING, BIGINT NOT NULL>",
        "MAP<VARCHAR(2147483647), BIGINT NOT NULL>",
        pa.map_(pa.string(), pa.int64()),
        {"a": 1},
        "{a=1}",
    ),
    (
        MultisetType(string()),
        "MULTISET<STRING>",
        "MULTISET<VARCHAR(2147483647)>",
        pa.map_(pa.string(), pa.int32()),
        {"a": 2},
        "{a=2}",
    ),
    (
        PAIR,
        "ROW<`a` BIGINT NOT NULL, `b``c` STRING '...'>",
        "ROW<`a` BIGINT NOT NULL, `b``c` VARCHAR(2147483647) 'it''s'>",
        pa.struct([("a", pa.int64()), ("b`c", pa.string())]),
        Row(**{"a": 1, "b`c": None}),
        "+I[1, null]",
    ),
    (RawType(), "RAW('object', ...)", "RAW('object', 'pickle')", pa.binary(), {1, 2}, "{1, 2}"),
    (RawType("int", "digits"), "RAW('int', ...)", "RAW('int', 'digits')", pa.string(), 2**70, str(2**70)),
]


@pytest.mark.parametrize(("logical", "summary", "sql", "arrow", "value", "text"), TYPES, ids=[row[1] for row in TYPES])
def test_a_type_has_flinks_text_one_column_and_one_kind_of_value(
    logical: LogicalType, summary: str, sql: str, arrow: pa.DataType, value: Any, text: str
) -> None:
    info = Types.of(logical)
    assert (str(logical), logical.as_sql(), logical.arrow_type) == (summary, sql, arrow)
    assert (str(logical.not_null()), logical.not_null().as_nullable()) == (f"{summary} NOT NULL", logical)
    assert (pickle.loads(pickle.dumps(logical)), info.storage_type) == (logical, arrow)
    if not isinstance(logical, RowType):  # what DDL says of fields is no matter of values
        assert info.logical_type == logical
    assert type_from_json(info.to_json()).storage_type == arrow
    array = values_to_array(info, [value, None])
    assert (array.type, array_to_values(info, array)) == (arrow, [value, None])
    assert handler_of(info).text(value) == text
    assert handler_of(info).is_coerced(value)
    assert handler_of(info).is_coerced(None)


@pytest.mark.parametrize("logical", [row[0] for row in TYPES if row[4] is not None], ids=str)
def test_not_null_refuses_null(logical: LogicalType) -> None:
    value = next(row[4] for row in TYPES if row[0] is logical)
    info = Types.of(logical.not_null())
    handler = handler_of(info)
    assert (info.nullable, info.logical_type.nullable, str(info).endswith(" NOT NULL")) == (False, False, True)
    assert array_to_values(info, values_to_array(info, [value])) == [value]
    assert handler.all_coerced([value])
    assert not handler.all_coerced([value, None])
    assert not handler.is_coerced(None)
    with pytest.raises(InvalidTypeError, match=r"row 1: got None .* NOT NULL"):
        values_to_array(info, [value, None])
    row = RowType(("field",), (logical.not_null(),))
    outside = pa.record_batch([pa.array([None], logical.arrow_type)], ["field"])
    assert layout_of(Types.of(row)).unreadable(outside) == [
        (0, f", field 'field': got None (NoneType), expected a value of type {info}")
    ]
    nested = RowType(("row",), (row,))
    nothing, something = pa.array([None], row.arrow_type), pa.array([{"field": None}], row.arrow_type)
    assert not layout_of(Types.of(nested)).unreadable(pa.record_batch([nothing], ["row"]))
    assert len(layout_of(Types.of(nested)).unreadable(pa.record_batch([something], ["row"]))) == 1


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: decimal(39, 2), "the precision of DECIMAL is from 1 to 38, not 39"),
        (lambda: decimal(3, 4), "the scale of DECIMAL(3, 4) is from 0 to 3, not 4"),
        (lambda: AtomicType(TypeRoot.TIMESTAMP, 10), "the precision of TIMESTAMP is from 0 to 9, not 10"),
        (lambda: AtomicType(TypeRoot.VARCHAR, 2**31), "the length of VARCHAR is from 0 to 2147483647, not 2147483648"),
        (lambda: AtomicType(TypeRoot.DATE, 3), "DATE has no such precision or scale: 3, None"),
        (lambda: IntervalType(IntervalUnit.DAY, 7), "the precision of INTERVAL DAY(p) is from 1 to 6, not 7"),
        (lambda: IntervalType(IntervalUnit.HOUR, fraction=3), "the fraction of INTERVAL HOUR is from 6 to 6, not 3"),
        (
            lambda: RowType(("a", "a"), (string(), string())),
            "the fields of a ROW have names, and different ones: got 'a'",
        ),
    ],
)
def test_limits(make: Any, words: str) -> None:
    with pytest.raises(InvalidTypeError) as caught:
        make()
    assert words in str(caught.value)


def test_decimals_keep_every_digit_or_are_refused() -> None:
    info = Types.of(decimal(5, 2))
    handler = handler_of(info)
    assert [handler.coerce(value) for value in (Decimal("1.5"), 3)] == [Decimal("1.50"), Decimal("3.00")]
    assert str(handler.coerce(Decimal("1E+2"))) == "100.00"
    for wrong in (Decimal("1.234"), Decimal("1234.5"), Decimal("NaN"), 1.5, "1.5"):
        with pytest.raises(InvalidTypeError, match=r"that DECIMAL\(5, 2\) holds digit by digit"):
            handler.coerce(wrong)
    assert handler.parse_all(pa.array(["1.5", None])).to_pylist() == [Decimal("1.50"), None]
    assert info.to_json() == {"type": "DECIMAL", "precision": 5, "scale": 2}


def test_points_in_time_of_nanoseconds() -> None:
    handler = handler_of(Types.of(AtomicType(TypeRoot.TIMESTAMP, 9)))
    assert handler.coerce(NOON) == np.datetime64(NOON)
    assert handler.parse("2026-01-31T12:30:00.123456789") == NANOS
    for wrong in (np.datetime64("3026-01-01", "s"), np.datetime64("NaT"), "2026"):
        with pytest.raises(InvalidTypeError):
            handler.coerce(wrong)
