"""Messages of JSON, one by one and as columns."""

from __future__ import annotations

import datetime
import json
import pickle
import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import JsonRowDeserializationSchema, JsonRowSerializationSchema, Row, Types
from headrace.common.columns import layout_of
from headrace.common.errors import BadRecordError, ConfigurationError, InvalidProgramError, InvalidTypeError
from headrace.common.serialization import DeserializationSchema, DeserializedBatch
from headrace.common.time import Instant
from headrace.formats.json.writer import JsonLinesEncoder
from tests.connectors.harness import batch_of
from tests.draws import draws
from tests.formats.test_json import BAD_LINES, NESTED, NESTED_ROW, PAIR

builder = JsonRowDeserializationSchema.builder
PAIRS = builder().type_info(PAIR).build()


def rows_of(schema: DeserializationSchema, read: DeserializedBatch) -> list[Any]:
    assert read.columns is not None
    return layout_of(schema.get_produced_type()).columns_to_rows(read.columns)


def binary(messages: list[bytes | None]) -> pa.Array:
    return pa.array(messages, pa.binary())


def test_messages() -> None:
    reader = pickle.loads(pickle.dumps(builder().type_info(NESTED).build()))
    writer = JsonRowSerializationSchema.builder().with_type_info(NESTED).build()
    assert reader.deserialize(writer.serialize(NESTED_ROW)) == NESTED_ROW
    assert reader.get_produced_type() == NESTED
    written = writer.serialize_batch(batch_of(NESTED, [NESTED_ROW, NESTED_ROW]))
    assert rows_of(reader, reader.deserialize_batch(written)) == [NESTED_ROW] * 2


@dataclass
class Sale:
    item: str
    price: float


def test_a_dataclass_is_a_type() -> None:
    sale = Sale("tea", 2.5)
    assert JsonRowSerializationSchema(Sale).serialize(sale) == b'{"item":"tea","price":2.5}'
    assert JsonRowDeserializationSchema(Sale).deserialize(b'{"item":"tea","price":2.5}') == sale


def test_messages_that_cannot_be_read() -> None:
    assert PAIRS.deserialize(b'{"id": 1}') == Row(id=1, name=None)
    assert builder().type_info(PAIR).ignore_parse_errors().build().deserialize(b'{"id": "x"}') is None
    with pytest.raises(BadRecordError, match="'name' is missing"):
        builder().type_info(PAIR).fail_on_missing_field().build().deserialize(b'{"id": 1}')
    with pytest.raises(BadRecordError, match="cannot be read"):
        PAIRS.deserialize(b"{")
    for wrong in (builder(), JsonRowSerializationSchema.builder()):
        with pytest.raises(InvalidProgramError, match="needs a type"):
            wrong.build()
    with pytest.raises(InvalidProgramError, match="one of"):
        builder().type_info(PAIR).fail_on_missing_field().ignore_parse_errors().build()


MESSAGES: list[tuple[bytes | None, bool]] = [
    *((line.encode(errors="surrogateescape"), False) for line in BAD_LINES),
    (b"", False),
    (b" \n", False),
    (b'{"id": 7', False),
    (b', "name": "x"}', False),
    (b'{"x": {"id": 7}', False),
    (b"\xff", False),
    (None, False),
    *[(b'{"id": 7}', True)] * 9,
    (b' {"other": [{}],\r\n "id":\n7}\n', True),
]


@given(st.lists(st.sampled_from(MESSAGES), max_size=20), st.integers(0, 3))
@settings(deadline=None, max_examples=draws(60))
def test_each_message_is_read_or_rejected_by_itself(messages: list[tuple[bytes | None, bool]], before: int) -> None:
    skipped = binary([b"{"] * before)
    read = PAIRS.deserialize_batch(pa.concat_arrays([skipped, binary([m for m, _ in messages])]).slice(before))
    good = [index for index, (_, is_good) in enumerate(messages) if is_good]
    assert rows_of(PAIRS, read) == [Row(id=7, name=None)] * len(good)
    assert good == (list(range(len(messages))) if read.messages is None else read.messages.tolist())
    bad = [index for index, (message, is_good) in enumerate(messages) if not is_good and message is not None]
    assert [index for index, _ in read.rejected] == bad
    assert all(reason and "row 0" not in reason for _, reason in read.rejected)


def test_types_that_arrow_does_not_read() -> None:
    schema = builder().type_info(Types.ROW_NAMED(["big"], [Types.BIG_DEC()])).build()
    read = schema.deserialize_batch(binary([b'{"big":1.10}', b"null", b'{"big":"x"}', b"{}", b"{"]))
    assert [str(row.big) for row in rows_of(schema, read)] == ["1.10", "None"]
    assert [index for index, _ in read.rejected] == [1, 2, 4]
    numbers = builder().type_info(Types.LIST(int)).build()
    assert rows_of(numbers, numbers.deserialize_batch(binary([b"[1, null]", None, b"[]"]))) == [[1, None], []]


@pytest.mark.parametrize(
    ("message", "missing"),
    [
        (b'{"id":1,"at":{"x":1,"y":null},"all":[{"x":1,"y":2}]}', None),
        (b'{"id":null,"at":null,"all":null}', None),
        (b'{"at":null,"all":null}', "id"),
        (b'{"id":1,"at":{"x":1},"all":[]}', "at.y"),
        (b'{"id":1,"at":null,"all":[null,{"y":1}]}', "all[1].x"),
    ],
)
def test_missing_fields(message: bytes, missing: str | None) -> None:
    point = Types.ROW_NAMED(["x", "y"], [int, float])
    kind = Types.ROW_NAMED(["id", "at", "all"], [Types.LONG(), point, Types.LIST(point)])
    strict = builder().type_info(kind).fail_on_missing_field().build()
    whole = b'{"id":1,"at":{"x":1,"y":2.5},"all":null}'
    read = strict.deserialize_batch(binary([whole, message, whole]))
    assert len(read) == (3 if missing is None else 2)
    assert list(read.rejected) == ([] if missing is None else [(1, f"the field {missing!r} is missing")])
    assert len(builder().type_info(kind).build().deserialize_batch(binary([message]))) == 1


def test_records_of_another_type_are_written_by_position() -> None:
    schema = JsonRowSerializationSchema.builder().with_type_info(PAIR).build()
    others = batch_of(Types.TUPLE([Types.SHORT(), Types.STRING()]), [(1, 'a"'), (None, None)])
    assert schema.serialize_batch(others).to_pylist() == [b'{"id":1,"name":"a\\""}', b'{"id":null,"name":null}']
    untyped = batch_of(Types.PICKLED_BYTE_ARRAY(), [{"name": "ann", "id": 1}, (2, None)])
    written = [json.loads(each) for each in schema.serialize_batch(untyped).to_pylist()]
    assert written == [{"id": 1, "name": "ann"}, {"id": 2, "name": None}]
    with pytest.raises(InvalidTypeError, match=r"have the fields of .* but records are"):
        schema.validate(Types.TUPLE([int]))
    with pytest.raises(InvalidTypeError, match="cannot be read as int64"):
        schema.serialize_batch(batch_of(Types.TUPLE([str, str]), [("1", "a")]))
    assert schema.serialize_batch(batch_of(PAIR, [])).to_pylist() == []


@pytest.mark.parametrize(
    ("value", "text"),
    [(46.0, "46.0"), (0.001, "0.001"), (1e7, "1.0E7"), (1e-5, "1.0E-5"), (-0.0, "-0.0"), (1e300, "1.0E300")],
)
def test_numbers_are_spelled_as_java_does(value: float, text: str) -> None:
    schema = JsonRowSerializationSchema(Types.ROW_NAMED(["x"], [float]))
    expected = f'{{"x":{text}}}'.encode()
    assert schema.serialize(Row(x=value)) == expected
    assert schema.serialize_batch(batch_of(Types.ROW_NAMED(["x"], [float]), [Row(x=value)])).to_pylist() == [expected]


def test_timestamps_of_sql() -> None:
    kind = Types.ROW_NAMED(
        ["local", "zoned", "inner"],
        [Types.SQL_TIMESTAMP(), Types.TIMESTAMP_LTZ(), Types.LIST(Types.ROW_NAMED(["at"], [Types.INSTANT()]))],
    )
    local = datetime.datetime(2024, 2, 29, 12, 0, 0, 500_000)
    zone = datetime.timezone(datetime.timedelta(hours=2))
    row = Row(local=local, zoned=local.replace(tzinfo=zone), inner=[Row(at=Instant(0, 5))])
    iso = b'{"local":"2024-02-29T12:00:00.500000","zoned":"2024-02-29T10:00:00.500000Z",'
    iso += b'"inner":[{"at":"1970-01-01T00:00:00.000000005Z"}]}'
    builder = JsonRowSerializationSchema.builder().with_type_info(kind)
    sql = builder.with_timestamp_format("SQL").build()
    for schema, text in [(JsonRowSerializationSchema(kind), iso), (sql, re.sub(rb"(\d)T", rb"\1 ", iso))]:
        assert schema.serialize(row) == text
        assert schema.serialize_batch(batch_of(kind, [row])).to_pylist() == [text]
        assert JsonRowDeserializationSchema(kind).deserialize(text) == row
    with pytest.raises(ConfigurationError, match="no format 'Java' of timestamps: choose one of ISO-8601, SQL"):
        builder.with_timestamp_format("Java")


def test_fields_without_a_value_are_left_out() -> None:
    kind = Types.ROW_NAMED(["a", "b", "c"], [int, Types.ROW_NAMED(["x", "y"], [int, str]), Types.LIST(int)])
    schema = JsonRowSerializationSchema.builder().with_type_info(kind).ignore_null_fields().build()
    rows = [
        Row(a=None, b=Row(x=None, y="é"), c=[None]),
        Row(a=1, b=None, c=None),
        Row(a=None, b=None, c=None),
        Row(a=1, b=Row(x=1, y=""), c=[]),
    ]
    texts = ['{"b":{"y":"é"},"c":[null]}', '{"a":1}', "{}", '{"a":1,"b":{"x":1,"y":""},"c":[]}']
    expected = [text.encode() for text in texts]
    assert [schema.serialize(row) for row in rows] == expected
    assert schema.serialize_batch(batch_of(kind, rows)).to_pylist() == expected
    lines = JsonLinesEncoder(ignore_null_fields=True).encode_batch(batch_of(kind, rows))
    assert lines == b"".join(text + b"\n" for text in expected)


def test_a_map_has_no_key_that_is_none() -> None:
    schema = JsonRowSerializationSchema(Types.ROW_NAMED(["m"], [Types.MAP(str, int)]))
    with pytest.raises(InvalidTypeError, match="a map has no None among its keys"):
        schema.serialize(Row(m={None: 1}))


def test_the_type_that_a_json_schema_describes() -> None:
    fields = {
        "name": {"type": "string"},
        "paid": {"type": ["null", "boolean"]},
        "price": {"type": "number"},
        "count": {"oneOf": [{"type": "null"}, {"type": "integer"}]},
        **{name: {"type": "string", "format": name} for name in ("date", "time", "date-time", "email")},
        "picture": {"type": "string", "contentEncoding": "base64"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "pair": {"type": "array", "items": [{"type": "string"}, {"type": "boolean"}]},
        "address": {"$ref": "#/definitions/address"},
    }
    address = {"type": "object", "properties": {"city": {"type": "string"}}}
    schema = {"type": "object", "properties": fields, "definitions": {"address": address}}
    built = JsonRowDeserializationSchema.Builder().json_schema(json.dumps(schema)).build()
    expected = [
        *(Types.STRING(), Types.BOOLEAN(), Types.BIG_DEC(), Types.BIG_DEC()),
        *(Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP(), Types.STRING()),
        *(Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.OBJECT_ARRAY(Types.STRING())),
        *(Types.ROW([Types.STRING(), Types.BOOLEAN()]), Types.ROW_NAMED(["city"], [Types.STRING()])),
    ]
    assert built.get_produced_type() == Types.ROW_NAMED(list(fields), expected)
    assert built.deserialize(b'{"name": "ann", "count": 3, "address": {"city": "Ulm"}}').address == Row(city="Ulm")


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ({"type": "null"}, "<root>/a of the JSON Schema is always null"),
        ({"type": ["string", "number"]}, "<root>/a of the JSON Schema has several types"),
        ({"anyOf": []}, "<root>/a of the JSON Schema: 'anyOf' is not supported"),
        ({}, "<root>/a of the JSON Schema has no type"),
        ("string", "<root>/a of the JSON Schema is 'string', which describes no type"),
        ({"type": "text"}, "<root>/a of the JSON Schema: there is no type 'text'"),
        ({"type": "object"}, "<root>/a of the JSON Schema has to name its properties"),
        ({"type": "array", "items": [{"type": "null"}]}, r"<root>/a/items\[0\] of the JSON Schema is always null"),
        ({"$ref": "#/nothing"}, "there is nothing at '#/nothing'"),
        ({"$ref": "other.json"}, "'other.json' is cyclic or leads outside"),
        ({"type": "array", "items": {"$ref": "#/properties/a"}}, "'#/properties/a' is cyclic"),
        ({"type": "string", "contentEncoding": "hex"}, "there is no contentEncoding 'hex' but base64"),
    ],
)
def test_a_json_schema_that_describes_no_type(field: Any, said: str) -> None:
    schema = json.dumps({"type": "object", "properties": {"a": field}})
    with pytest.raises(InvalidTypeError, match=said):
        builder().json_schema(schema)


def test_a_json_schema_that_is_no_json() -> None:
    with pytest.raises(InvalidTypeError, match="the JSON Schema is no JSON"):
        builder().json_schema("{")
