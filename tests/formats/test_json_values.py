"""What values of JSON are, of each type: the same whatever stands beside them, and whichever reader has parsed them."""

from __future__ import annotations

import datetime
import json
from base64 import b64encode
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import JsonRowDeserializationSchema, Row, Types
from headrace.common.columns import layout_of
from headrace.common.errors import ConfigurationError
from headrace.common.time import Instant
from headrace.datastream.formats.cdc import (
    CanalJsonDeserializationSchema,
    DebeziumJsonDeserializationSchema,
    MaxwellJsonDeserializationSchema,
    OggJsonDeserializationSchema,
)
from headrace.formats.json.columns import reader_of
from headrace.formats.json.decoders import JsonLinesFormat, decoder_of
from tests.draws import draws

BAD = object()
INF = float("inf")
DAY = datetime.datetime(2024, 2, 29, 12, 30)
NOON = datetime.time(12, 30)
DEEP = "[" * 1500 + "]" * 1500

VALUES: list[tuple[Any, dict[str, Any]]] = [
    (
        Types.STRING(),
        {
            '"a"': "a",
            '""': "",
            '"\\ud83d\\ude00"': "😀",
            '"\\u0000"': "\0",
            "5": "5",
            "1.50": "1.50",
            "-0": "-0",
            "1e2": "1e2",
            "true": "true",
            "null": None,
            '{"a": [1, 1.50, "\\u00e9", null]}': '{"a":[1,1.50,"é",null]}',
            "[]": "[]",
            '"\\ud800"': BAD,
            '["\\udc00"]': BAD,
            '"\\x"': BAD,
            "'a'": BAD,
            DEEP: BAD,
            "NaN": "NaN",
            '"a\tb"': BAD,
        },
    ),
    (Types.BOOLEAN(), {"true": True, "false": False, "1": BAD, '"true"': BAD, "True": BAD, "{}": BAD}),
    (Types.BYTE(), {"127": 127, "-128": -128, "128": BAD, "1.0": 1, "1.5": BAD, "1e2": 100, "1e3": BAD}),
    (
        Types.LONG(),
        {
            "9223372036854775807": 2**63 - 1,
            "9223372036854775808": BAD,
            "-9223372036854775808": -(2**63),
            "-0": 0,
            "1.0": 1,
            "1.50e1": 15,
            "-0.0": 0,
            "0e999999999999": 0,
            "1e300000000": BAD,
            "1e-300000000": BAD,
            "1e99999999999999999999": BAD,
            "1.5": BAD,
            '"1"': BAD,
            "true": BAD,
            "NaN": BAD,
            "01": BAD,
            "+1": BAD,
            "0x10": BAD,
            "1_0": BAD,
            "[1]": BAD,
        },
    ),
    (
        Types.DOUBLE(),
        {
            "1": 1.0,
            "0.1": 0.1,
            "-0.0": -0.0,
            "1e400": INF,
            "-1e400": -INF,
            "1e-400": 0.0,
            '"Infinity"': INF,
            "Infinity": INF,
            '"-Infinity"': -INF,
            "-Infinity": -INF,
            "Inf": INF,
            '"Inf"': BAD,
            '"1.5"': BAD,
            "1.": BAD,
            ".5": BAD,
            "true": BAD,
            "12345678901234567890": 12345678901234567890.0,
        },
    ),
    (
        Types.FLOAT(),
        {
            "0.1": 0.10000000149011612,
            "1e39": INF,
            "-1e400": -INF,
            '"Infinity"': INF,
            "16777217.0000000001": 16777218.0,
            "16777217": 16777216.0,
            '"1"': BAD,
        },
    ),
    (Types.BIG_INT(), {"1" + "0" * 30: 10**30, "1e30": 10**30, "2.0": 2, "1.5": BAD, "1e300000000": BAD, '"1"': BAD}),
    (
        Types.BIG_DEC(),
        {
            "1.10": Decimal("1.10"),
            "1e400": Decimal("1e400"),
            '"1.5"': Decimal("1.5"),
            '"1,5"': BAD,
            "true": BAD,
            "1e300000000": BAD,
            "1e-300000000": BAD,
            "0e300000000": BAD,
            "1e99999999999999999999": BAD,
        },
    ),
    (Types.BYTES(), {'"AAE="': b"\0\1", '""': b"", '"AAE"': BAD, '"A!E="': BAD, "5": BAD}),
    (
        Types.SQL_DATE(),
        {
            '"2024-02-29"': DAY.date(),
            '"2023-02-29"': BAD,
            '"2024-W09-4"': BAD,
            '"20240229"': BAD,
            "19782": BAD,
            '"0000-01-01"': BAD,
        },
    ),
    (
        Types.SQL_TIME(),
        {
            '"12:30"': NOON,
            '"12:30:00"': NOON,
            '"12:30:00.1234567"': NOON.replace(microsecond=123456),
            '"24:00:00"': BAD,
            '"12:30:00Z"': BAD,
            '"12:30:00.1234567891"': BAD,
            "45000": BAD,
        },
    ),
    (
        Types.SQL_TIMESTAMP(),
        {
            '"2024-02-29T12:30:00"': DAY,
            '"2024-02-29 12:30"': DAY,
            '"2024-02-29X12:30:00"': BAD,
            '"2024-02-29T12:30:00Z"': BAD,
            '"2024-02-29T12:30:00.123456789"': DAY.replace(microsecond=123456),
            '"2024-02-29"': DAY.replace(hour=0, minute=0),
            '"0000-01-01T00:00:00"': BAD,
            "1709209800000": BAD,
        },
    ),
    (
        Types.TIMESTAMP_LTZ(),
        {
            '"2024-02-29T12:30:00Z"': DAY.replace(tzinfo=datetime.UTC),
            '"2024-02-29 13:30:00+01:00"': DAY.replace(tzinfo=datetime.UTC),
            '"2024-02-29T12:30:00"': BAD,
            '"2024-02-29T12:30:00.1234567Z"': DAY.replace(microsecond=123456, tzinfo=datetime.UTC),
            '"2024-W09-4T12:30:00Z"': BAD,
            '"0001-01-01T00:00:00+01:00"': BAD,
            '"9999-12-31T23:59:59-01:00"': BAD,
        },
    ),
    (
        Types.INSTANT(),
        {
            '"1970-01-01T00:00:01.123456789Z"': Instant(1, 123456789),
            '"1970-01-01T00:00:01"': BAD,
            '"0001-01-01T00:00:00Z"': BAD,
        },
    ),
    (Types.CHAR(), {'"a"': "a", "5": "5", '"ab"': BAD}),
    (Types.LIST(Types.SQL_DATE()), {'["2024-02-29", null]': [DAY.date(), None], "[]": [], "{}": BAD, '["x"]': BAD}),
    (Types.PRIMITIVE_ARRAY(Types.LONG()), {"[1, 2.0]": [1, 2], "[null]": BAD}),
    (Types.MAP(Types.INT(), Types.LONG()), {'{"1": 2.0}': {1: 2}, '{"x": 1}': BAD, '{"1": "x"}': BAD, "[]": BAD}),
    (
        Types.PICKLED_BYTE_ARRAY(),
        {
            '{"a": [1, 1.5, "x", true, null]}': {"a": [1, Decimal("1.5"), "x", True, None]},
            DEEP: BAD,
            "1e300000000": BAD,
            "1" * 5000: BAD,
            "[" * 190 + "]" * 190: json.loads("[" * 190 + "]" * 190),
        },
    ),
]
CASES = [pytest.param(kind, *each, id=f"{kind} {each[0][:40]}") for kind, values in VALUES for each in values.items()]
FILLER = b'{"x": 1}'


def last_of(kind: Any, read: Callable[[], pa.RecordBatch]) -> Any:
    """The field ``v`` of the last record."""
    try:
        return layout_of(kind).columns_to_rows(read())[-1].v
    except ValueError:
        return BAD


@pytest.mark.sampled(145)
@pytest.mark.parametrize(("kind", "text", "expected"), CASES)
@pytest.mark.parametrize("beside", [Types.LONG(), Types.BIG_DEC()])
def test_a_value_is_the_same_whatever_stands_beside_it(kind: Any, text: str, expected: Any, beside: Any) -> None:
    message = f'{{"x": 1, "v": {text}}}'.encode()
    row = Types.ROW_NAMED(["v", "other"], [kind, beside])
    for messages in ([message], [FILLER] * 20 + [message]):
        found = last_of(row, partial(decoder_of(row).messages, pa.array(messages, pa.binary())))
        assert found == expected
        assert str(found) == str(expected)  # the sign of zero, and the scale of decimals
        assert last_of(row, partial(decoder_of(row).lines, b"\n".join(messages))) == expected


@pytest.mark.parametrize(("kind", "text", "expected"), CASES)
def test_a_value_within_others_and_in_changes_is_the_same(kind: Any, text: str, expected: Any) -> None:
    inner = Types.ROW_NAMED(["v"], [kind])
    row = Types.ROW_NAMED(["r", "l"], [inner, Types.LIST(inner)])
    message = f'{{"r": {{"v": {text}}}, "l": [null, {{"v": {text}}}]}}'.encode()
    read = JsonRowDeserializationSchema(row).deserialize_batch(pa.array([message]))
    changes = [
        (DebeziumJsonDeserializationSchema(inner), f'{{"op": "c", "after": {{"v": {text}}}}}'),
        (MaxwellJsonDeserializationSchema(inner), f'{{"type": "insert", "data": {{"v": {text}}}}}'),
        (OggJsonDeserializationSchema(inner), f'{{"op_type": "I", "after": {{"v": {text}}}}}'),
    ]
    found = [
        layout_of(schema.get_produced_type()).columns_to_rows(made.columns)
        for schema, change in changes
        if (kind, text) != (Types.SQL_DATE(), "19782") or not isinstance(schema, DebeziumJsonDeserializationSchema)
        for made in [schema.deserialize_batch(pa.array([change.encode()]))]
    ]
    if expected is BAD:
        ((_, reason),) = read.rejected
        assert "field 'r.v" in reason or "JSON" in reason or "levels" in reason
        assert not any(found)
    else:
        (record,) = layout_of(row).columns_to_rows(read.columns)
        assert (record.r.v, record.l) == (expected, [None, Row(v=expected)])
        assert [rows[0].v for rows in found] == [expected] * len(found)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (b'{"v": 1, "v": 2}', 2),
        (b'{"v": 1, "u": NaN, "u": -Inf}', 1),
        (b'\xef\xbb\xbf {"v": 1}', 1),
        (b'{"v": 1, "u": "-Inf, [Infinity"}', 1),
        (b'{"v": 1, "u": 1e400, "w": "\\ud800"}', 1),
        (b'{"v": 1, "u": "' + b"[" * 1000 + b'"}', 1),
        (b'{"v": 1, "u": ' + b"[" * 199 + b"]" * 199 + b"}", 1),
        (b'{"v": 1, "u": ' + b'{"a":' * 200 + b"1" + b"}" * 201, None),
        (b'{"v": 1, "u": ' + b"[" * 100_000, None),
        (b'{"v": 1, "u": -Infinite}', None),
        (b'{"v": 1} {"v": 2}', None),
        (b'{"v": 1, "u": "\xed\xa0\x80"}', None),
        (b"null", None),
    ],
)
@pytest.mark.parametrize("beside", [Types.LONG(), Types.BIG_DEC(), Types.PICKLED_BYTE_ARRAY(), Types.MAP(str, int)])
def test_documents(text: bytes, number: int | None, beside: Any) -> None:
    schema = JsonRowDeserializationSchema(Types.ROW_NAMED(["v", "other"], [Types.LONG(), beside]))
    for before, after in ((0, 0), (20, 0), (0, 20)):
        read = schema.deserialize_batch(pa.array([FILLER] * before + [text] + [FILLER] * after))
        rows = layout_of(schema.get_produced_type()).columns_to_rows(read.columns)
        assert [row.v for row in rows if row.v] == ([] if number is None else [number])
        assert [index for index, _ in read.rejected] == ([before] if number is None else [])


ARROW_READS = [kind for kind, _ in VALUES if reader_of(kind).raw is not None]
EVERY = Types.ROW_NAMED([f"f{place}" for place in range(len(ARROW_READS))], ARROW_READS)
TEXTS = [text for _, values in VALUES for text in values if len(text) < 100]


@st.composite
def odd_messages(draw: st.DrawFn) -> bytes:
    """Objects of values of any type under any names, at times with a byte that is wrong."""
    members = draw(st.lists(st.tuples(st.integers(0, len(ARROW_READS)), st.sampled_from(TEXTS)), max_size=3))
    message = "{" + ", ".join([f'"f{name}": {text}' for name, text in members]) + "}"
    place, odd = draw(st.integers(0, len(message))), draw(st.sampled_from(["", "", *'{}[]",:\\\n\r NI-+.0e\0é']))
    return (message[:place] + odd + message[place + draw(st.integers(0, 1)) * bool(odd) :]).encode()


@given(st.lists(odd_messages(), min_size=1, max_size=4))
@settings(deadline=None, max_examples=draws(30))
def test_a_message_is_judged_alone_whatever_is_read_with_it(messages: list[bytes]) -> None:
    schema = JsonRowDeserializationSchema(EVERY)
    alone = [schema.deserialize_batch(pa.array([message])) for message in messages]
    together = schema.deserialize_batch(pa.array([*messages, *[FILLER] * 20]))
    assert together.columns is not None
    rows = [row for read in alone if read.columns is not None for row in read.columns.to_pylist()]
    assert str(together.columns.to_pylist()[: len(rows)]) == str(rows)
    assert list(together.rejected) == [(n, reason) for n, read in enumerate(alone) for _, reason in read.rejected]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            b'{"a": [{"day": "2024-02-29"}, {"day": "29.2."}]}',
            "field 'a[1].day': '29.2.' is not a date such as 2026-01-31",
        ),
        (b'{"m": {"x": {"n": "1"}}}', "field 'm[x].n': \"1\" is not a whole number from -9223372036854775808 to"),
        (b'{"d": "1,5"}', "field 'd': '1,5' is not a decimal number such as 12.5"),
        (b'{"m": 5}', "field 'm': 5 is not an object"),
        (b'{"m": {"\\ud800": {"n": {"\\ud800": 1}}}}', "field 'm': a key of"),
        (b'{"a": ["\\ud800"]}', "field 'a[0]': \"\\ud800\" is not an object"),
        (b'{"d": 1', "the text is not one document of JSON"),
    ],
)
def test_a_reason_names_field_and_value_and_what_was_expected(message: bytes, reason: str) -> None:
    day = Types.ROW_NAMED(["day"], [Types.SQL_DATE()])
    number = Types.ROW_NAMED(["n"], [Types.LONG()])
    kind = Types.ROW_NAMED(["a", "m", "d"], [Types.LIST(day), Types.MAP(Types.STRING(), number), Types.BIG_DEC()])
    read = JsonRowDeserializationSchema(kind).deserialize_batch(pa.array([b"{}", message, b"{}"]))
    ((index, told),) = read.rejected
    assert index == 1
    assert reason in told
    told.encode()


def test_documents_of_any_kind_are_not_too_deep() -> None:
    decode = JsonLinesFormat().decoder("a.json", b"")
    assert decode(b'\xef\xbb\xbf{"a": 1.5}\n\n"' + b"[" * 1000 + b'"\n').rows == [{"a": 1.5}, "[" * 1000]
    with pytest.raises(ValueError, match="more than 200 levels"):
        decode(b"[" * 1500 + b"]" * 1500)


ENCODED = Types.ROW_NAMED(
    ["day", "time", "at", "micros", "zoned", "instant", "dec", "free"],
    [
        Types.SQL_DATE(),
        Types.SQL_TIME(),
        Types.SQL_TIMESTAMP(),
        Types.SQL_TIMESTAMP(),
        Types.TIMESTAMP_LTZ(),
        Types.INSTANT(),
        Types.BIG_DEC(),
        Types.BIG_DEC(),
    ],
)
AS_NUMBERS = {
    "day": 19782,
    "time": 45_000_000_001,
    "at": 1709209800123,
    "micros": 1709209800123456,
    "zoned": "2024-02-29T12:30:00Z",
    "instant": 1709209800123456789,
    "dec": b64encode((-12345).to_bytes(2, signed=True)).decode(),
    "free": {"scale": 3, "value": b64encode(b"\x01\x00").decode()},
}
AS_VALUES = Row(
    day=DAY.date(),
    time=NOON.replace(microsecond=1),
    at=DAY.replace(microsecond=123000),
    micros=DAY.replace(microsecond=123456),
    zoned=DAY.replace(tzinfo=datetime.UTC),
    instant=Instant(1709209800, 123456789),
    dec=Decimal("-123.45"),
    free=Decimal("0.256"),
)
MEANINGS = {
    "day": "io.debezium.time.Date",
    "time": "io.debezium.time.MicroTime",
    "at": "io.debezium.time.Timestamp",
    "micros": "io.debezium.time.MicroTimestamp",
    "zoned": "io.debezium.time.ZonedTimestamp",
    "instant": "io.debezium.time.NanoTimestamp",
    "dec": "org.apache.kafka.connect.data.Decimal",
    "free": "io.debezium.data.VariableScaleDecimal",
}


def test_what_debezium_writes_unless_told_otherwise() -> None:
    fields = [{"field": name, "name": meaning, "parameters": {"scale": "2"}} for name, meaning in MEANINGS.items()]
    schema = {"type": "struct", "fields": [{"field": "before", "fields": fields}, {"field": "after", "fields": fields}]}
    payload = {"before": None, "after": AS_NUMBERS, "op": "c"}
    reader = DebeziumJsonDeserializationSchema(ENCODED, schema_include=True)
    message = json.dumps({"schema": schema, "payload": payload}).encode()
    for count in (1, 20):
        read = reader.deserialize_batch(pa.array([message] * count))
        rows = layout_of(reader.get_produced_type()).columns_to_rows(read.columns)
        assert rows == [AS_VALUES] * count


@pytest.mark.parametrize("odd", [["x"], {"x": 1}, True, None, []])
def test_a_schema_of_debezium_that_is_none_makes_no_more_than_a_bad_message(odd: Any) -> None:
    day = {"field": "day", "name": "io.debezium.time.Date"}
    payload = {"after": {"day": -1, "at": 5}, "op": "c"}
    fields = [odd, {"field": odd}, {"field": "at", "name": odd}]
    schemas = [odd, {"fields": odd}, {"fields": [odd, {"field": "after", "fields": odd}]}]
    schemas += [{"fields": [{"field": "after", "fields": [*fields, {**day, "name": odd}]}]}]
    reader = DebeziumJsonDeserializationSchema(ENCODED, schema_include=True)
    for schema in schemas:
        read = reader.deserialize_batch(pa.array([json.dumps({"schema": schema, "payload": payload}).encode()]))
        assert [reason[:38] for _, reason in read.rejected] == ["field 'payload.after.at': 5 is not a v"]


@pytest.mark.parametrize(
    ("unit", "after", "expected"),
    [
        (None, {"day": -1}, datetime.date(1969, 12, 31)),
        (None, {"free": {"scale": 0, "value": "/w=="}}, Decimal(-1)),
        ("ms", {"at": 1709209800123}, DAY.replace(microsecond=123000)),
        ("us", {"time": 45_000_000_000}, NOON),
        ("ns", {"micros": 1709209800123456789}, DAY.replace(microsecond=123456)),
        (
            None,
            {"at": 1709209800123},
            "field 'after.at': 1709209800123 is not a value of SQL_TIMESTAMP: a number needs a unit",
        ),
        (None, {"day": 10_000_000}, "field 'after.day': 10000000 is not in the years 1 to 9999"),
        (None, {"day": 10**30}, "is not a whole number of 64 bits"),
        ("us", {"time": -1}, "field 'after.time': -1 is not a time of day in us"),
        (None, {"free": {"scale": 300_000_000, "value": "/w=="}}, "exponent stands for 1,000 digits at most"),
        (None, {"free": {"scale": None, "value": "/w=="}}, "is not a decimal: bytes in Base64, and their scale"),
        (None, {"dec": "/w=="}, "field 'after.dec': '/w==' is not a decimal number"),
    ],
)
def test_numbers_of_debezium_without_a_schema(unit: Any, after: dict[str, Any], expected: Any) -> None:
    reader = DebeziumJsonDeserializationSchema(ENCODED, time_unit=unit)
    read = reader.deserialize_batch(pa.array([json.dumps({"op": "c", "after": after}).encode()]))
    rows = layout_of(reader.get_produced_type()).columns_to_rows(read.columns)
    if isinstance(expected, str):
        assert not rows
        assert expected in read.rejected[0][1]
    else:
        assert [row[name] for row in rows for name in after] == [expected]


def test_there_are_three_units_of_time() -> None:
    with pytest.raises(ConfigurationError, match="no unit of time 's': choose one of ms, us, ns"):
        DebeziumJsonDeserializationSchema(ENCODED, time_unit="s")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "reader",
    [
        DebeziumJsonDeserializationSchema,
        CanalJsonDeserializationSchema,
        MaxwellJsonDeserializationSchema,
        OggJsonDeserializationSchema,
    ],
)
def test_empty_messages_of_changes_are_tombstones(reader: Any) -> None:
    read = reader(Types.ROW_NAMED(["id"], [int])).deserialize_batch(pa.array([b"", None, b" ", b""]))
    assert len(read) == 0
    assert [index for index, _ in read.rejected] == [2]
