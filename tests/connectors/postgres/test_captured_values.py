"""Values of PostgreSQL: of each type, from the snapshot and from changes; and those that cannot be read."""

from __future__ import annotations

from datetime import UTC, date, datetime
from datetime import time as time_of_day
from decimal import Decimal
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from headrace.common.columns import layout_of
from headrace.common.errors import BadRecordError, ConfigurationError
from headrace.common.typeinfo import Types
from headrace.connectors.postgres.values import as_texts, check_type, converter_of
from headrace.connectors.source import ReadBudget
from tests.connectors.postgres.capture import Capture, row_type
from tests.connectors.postgres.server import Database

LONG = "1234567890123456789012345678.0123456789"
VALUES: list[tuple[str, str, str, Any]] = [
    ("smallint", "SMALLINT", "-32768", -32768),
    ("integer", "INT", "2147483647", 2147483647),
    ("bigint", "BIGINT", "-9223372036854775808", -(2**63)),
    ("integer", "BIGINT", "7", 7),
    ("real", "FLOAT", "1.5", 1.5),
    ("double precision", "DOUBLE", "0.1", 0.1),
    ("double precision", "DOUBLE", "'-Infinity'", float("-inf")),
    ("numeric", "DOUBLE", "1e10", 1e10),
    ("numeric(8, 2)", "DECIMAL(8, 2)", "-123456.70", Decimal("-123456.70")),
    ("numeric", "DECIMAL(8, 2)", "2.345", Decimal("2.35")),
    (
        "numeric",
        "DECIMAL(38, 10)",
        "1234567890123456789012345678.0123456789",
        Decimal("1234567890123456789012345678.0123456789"),
    ),
    ("boolean", "BOOLEAN", "true", True),
    ("boolean", "BOOLEAN", "false", False),
    ("text", "STRING", "E'a,\"b\"\\n\\\\.\\nü'", 'a,"b"\n\\.\nü'),
    ("text", "STRING", "''", ""),
    ("text", "STRING", "'\\.'", "\\."),
    ("varchar(5)", "STRING", "'NULL'", "NULL"),
    ("char(4)", "STRING", "'ab'", "ab  "),
    ("bytea", "BYTES", "'\\x00ff5c'", b"\x00\xff\\"),
    ("bytea", "BYTES", "''", b""),
    ("date", "DATE", "'2024-02-29'", date(2024, 2, 29)),
    ("time", "TIME(6)", "'23:59:59.123456'", time_of_day(23, 59, 59, 123456)),
    ("timestamp", "TIMESTAMP(6)", "'1969-12-31 23:59:59.999999'", datetime(1969, 12, 31, 23, 59, 59, 999999)),
    ("timestamp", "TIMESTAMP(3)", "'1969-12-31 23:59:59.999999'", datetime(1969, 12, 31, 23, 59, 59, 999000)),
    ("timestamptz", "TIMESTAMP_LTZ(6)", "'2024-07-01 12:00+02'", datetime(2024, 7, 1, 10, tzinfo=UTC)),
    ("uuid", "STRING", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("json", "STRING", "'{\"a\":  1}'", '{"a":  1}'),
    ("jsonb", "STRING", "'{\"a\":  [1, null]}'", '{"a": [1, null]}'),
    ("interval", "STRING", "'1 day 2 hours'", "1 day 02:00:00"),
    ("mood", "STRING", "'happy'", "happy"),
    ("positive", "INT", "5", 5),
    ("numeric", "STRING", "'NaN'", "NaN"),
    ("date", "STRING", "'infinity'", "infinity"),
    ("integer[]", "ARRAY<INT>", "'{1,NULL,3}'", [1, None, 3]),
    ("integer[]", "ARRAY<INT>", "'[0:1]={1,2}'", [1, 2]),
    ("integer[]", "ARRAY<ARRAY<INT>>", "'{{1,2},{3,4}}'", [[1, 2], [3, 4]]),
    ("text[]", "ARRAY<STRING>", "ARRAY['a,b', 'x\"y', '', NULL, 'NULL']", ["a,b", 'x"y', "", None, "NULL"]),
    ("text[]", "ARRAY<STRING>", "ARRAY['{}', E'\\\\']", ["{}", "\\"]),
    ("text[]", "ARRAY<ARRAY<STRING>>", "ARRAY[ARRAY['}', '\"'], ARRAY['{', ',']]", [["}", '"'], ["{", ","]]),
    ("text[]", "ARRAY<STRING>", "'{}'", []),
    ("timestamptz[]", "ARRAY<TIMESTAMP_LTZ(3)>", "'{2024-07-01 12:00+02}'", [datetime(2024, 7, 1, 10, tzinfo=UTC)]),
    ("mood[]", "ARRAY<STRING>", "'{happy}'", ["happy"]),
]


@pytest.mark.integration
def test_values_of_all_types(database: Database) -> None:
    """Those of the snapshot and those of changes are the same, and nulls are null."""
    database.execute(
        "CREATE TYPE mood AS ENUM ('sad', 'happy')",
        "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
        f"CREATE TABLE orders (id int PRIMARY KEY, {', '.join(f'c{n} {row[0]}' for n, row in enumerate(VALUES))})",
    )
    columns = ", ".join(["id INT", *(f"c{n} {row[1]}" for n, row in enumerate(VALUES))])
    values = ", ".join(row[2] for row in VALUES)
    database.execute(f"INSERT INTO orders VALUES (1, {values})", "INSERT INTO orders VALUES (2)")
    capture = Capture(database, columns, {"changelog-mode": "upsert"})
    capture.catch_up()
    database.execute("UPDATE orders SET id = id + 10")
    capture.catch_up()
    capture.close()
    whole = tuple(row[3] for row in VALUES)
    nulls = (None,) * len(VALUES)
    assert capture.upserted() == {11: (11, *whole), 12: (12, *nulls)}
    assert [row[1:] for row in capture.rows[:2]] == [(1, *whole), (2, *nulls)]


def test_numbers_of_any_size_are_read_as_they_are() -> None:
    kind = Types.ROW_NAMED(["n", "price"], [Types.BIG_INT(), Types.BIG_DEC()])
    whole, exact = (each.logical_type for each in kind.types)
    check_type("n", whole, 20)
    check_type("price", exact, 1700)
    for refused in (whole, exact):
        with pytest.raises(ConfigurationError, match="is text in PostgreSQL, which cannot be read as RAW"):
            check_type("n", refused, 25)
    columns = [converter_of("n", whole)(pa.array(["12"])), converter_of("price", exact)(pa.array([f"{LONG}00"]))]
    read = layout_of(kind).columns_to_rows(pa.RecordBatch.from_arrays(columns, names=["n", "price"]))
    assert [tuple(row) for row in read] == [(12, Decimal(f"{LONG}00"))]


KEYS = {
    "numeric": "n * 10",
    "text": "chr(64 + n) || chr(97 + n)",
    'text COLLATE "C"': "chr(64 + n) || chr(97 + n)",
    "timestamptz": "'2024-01-01'::timestamptz + n * interval '7 days'",
    "date": "'2024-01-01'::date + n * 40",
    "uuid": "md5(n::text)::uuid",
    "float8": "1.0 / n",
    "bytea": "decode(md5(n::text), 'hex')",
}


@pytest.mark.integration
@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KEYS)
def test_changes_are_compared_with_chunks_in_the_order_of_the_server(database: Database, kind: str) -> None:
    database.execute(
        f"CREATE TABLE orders (id {kind} PRIMARY KEY, amount int)",
        f"INSERT INTO orders SELECT {KEYS[kind]}, n FROM generate_series(1, 24) n",
    )
    capture = Capture(
        database, "id STRING, amount INT", {"changelog-mode": "upsert", "scan.incremental.snapshot.chunk.size": "2"}
    )
    for round_ in range(4):
        capture.epoch(ReadBudget(4, 10**6, 2))
        database.execute(
            f"UPDATE orders SET amount = amount + 100 WHERE amount % 4 = {round_}",
            f"DELETE FROM orders WHERE amount % 100 = {round_ + 7}",
        )
        capture.restart()
    capture.catch_up()
    capture.close()
    assert capture.upserted() == {row[0]: row for row in database.rows("SELECT id::text, amount FROM orders")}


BAD = [
    ("DECIMAL(8, 2)", "NaN"),
    ("DECIMAL(8, 2)", "12345678.9"),
    ("DATE", "infinity"),
    ("TIMESTAMP(3)", "-infinity"),
    ("DATE", "0044-03-15 BC"),
    ("INT", "2147483648"),
    ("ARRAY<INT>", "{1,2147483648}"),
]


@pytest.mark.parametrize(("kind", "text"), BAD)
def test_values_that_a_type_cannot_hold_are_told(kind: str, text: str) -> None:
    (logical,) = (each.logical_type for each in row_type(f"x {kind}").types)
    with pytest.raises(BadRecordError, match=r"column 'x': '.*' cannot be read as .* STRING"):
        converter_of("x", logical)(pa.array([None, text, None]))


@pytest.mark.parametrize(
    ("kind", "type_id"),
    [("INT", 25), ("DATE", 1114), ("ARRAY<INT>", 1009), ("ARRAY<INT>", 23), ("TIMESTAMP(3)", 1184), ("BYTES", 25)],
)
def test_types_that_do_not_fit_are_refused(kind: str, type_id: int) -> None:
    (logical,) = (each.logical_type for each in row_type(f"x {kind}").types)
    with pytest.raises(ConfigurationError, match=r"column 'x' is .* in PostgreSQL, which cannot be read as"):
        check_type("x", logical, type_id)


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)


@given(st.lists(st.one_of(st.none(), st.lists(st.one_of(st.none(), texts), max_size=3)), max_size=4))
def test_texts_of_arrays_come_back(values: list[Any]) -> None:
    (logical,) = (each.logical_type for each in row_type("x ARRAY<STRING>").types)
    column = pa.array(values, logical.arrow_type)
    assert converter_of("x", logical)(as_texts(column)).to_pylist() == values
