"""Messages of Avro, compared with fastavro, and what becomes of schemas that differ."""

from __future__ import annotations

import datetime
import io
import json
import pickle
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import AvroRowDeserializationSchema, AvroRowSerializationSchema, Row, Types
from headrace.common.columns import layout_of
from headrace.common.errors import BadRecordError, InvalidProgramError, InvalidTypeError, UnsupportedOperationError
from headrace.common.serialization import DeserializedBatch
from headrace.datastream.formats.avro import AvroSchema
from tests.connectors.harness import batch_of
from tests.draws import draws


def record(*fields: Any, name: str = "R", **of_fields: Any) -> dict[str, Any]:
    """A schema of fields that are given as (name, type) or (name, type, default)."""
    listed = [dict(zip(("name", "type", "default"), field, strict=False)) for field in fields]
    return {
        "type": "record",
        "name": name,
        "fields": [*listed, *({"name": n, "type": t} for n, t in of_fields.items())],
    }


def written(schema: Any, *values: Any) -> pa.Array:
    parsed, messages = fastavro.parse_schema(schema), []
    for value in values:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, value)
        messages.append(stream.getvalue())
    return pa.array(messages, pa.binary())


def reader_of(schema: Any, writer: Any = None, **options: Any) -> AvroRowDeserializationSchema:
    text = None if writer is None else json.dumps(writer)
    made = AvroRowDeserializationSchema(avro_schema_string=json.dumps(schema), writer_schema=text, **options)
    return pickle.loads(pickle.dumps(made))


def rows_of(schema: AvroRowDeserializationSchema, read: DeserializedBatch) -> list[Any]:
    assert read.columns is not None
    return layout_of(schema.get_produced_type()).columns_to_rows(read.columns)


def read_as(schema: Any, messages: pa.Array, writer: Any = None, **options: Any) -> list[Any]:
    reader = reader_of(schema, writer, **options)
    read = reader.deserialize_batch(messages)
    assert not read.rejected
    return rows_of(reader, read)


INNER = record(x="int", y=["null", "string"], name="Inner")
WHOLE = record(
    i="int", l="long", f="float", d="double", b="boolean", s="string", raw="bytes",
    e={"type": "enum", "name": "E", "symbols": ["A", "B"]}, fixed={"type": "fixed", "name": "F", "size": 3},
    xs={"type": "array", "items": ["null", "long"]}, m={"type": "map", "values": INNER},
    inner=["Inner", "null"], inners={"type": "array", "items": {"type": "array", "items": "Inner"}},
    either=["null", "long", "string"],
)  # fmt: skip

longs, texts = st.integers(-(2**63), 2**63 - 1), st.text(max_size=8)
inners = st.fixed_dictionaries({"x": st.integers(-(2**31), 2**31 - 1), "y": st.none() | texts})
wholes = st.fixed_dictionaries({
    "i": st.integers(-(2**31), 2**31 - 1), "l": longs, "f": st.floats(width=32, allow_nan=False),
    "d": st.floats(allow_nan=False), "b": st.booleans(), "s": texts, "raw": st.binary(max_size=6),
    "e": st.sampled_from("AB"), "fixed": st.binary(min_size=3, max_size=3),
    "xs": st.lists(st.none() | longs, max_size=4), "m": st.dictionaries(texts, inners, max_size=3),
    "inner": st.none() | inners, "inners": st.lists(st.lists(inners, max_size=3), max_size=3),
    "either": st.none() | longs | texts,
})  # fmt: skip


def plain(value: Any) -> Any:
    """Rows as dicts, all the way down."""
    if isinstance(value, Row):
        return {name: plain(item) for name, item in value.as_dict().items()}
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


@given(st.lists(wholes, max_size=6), st.integers(0, 2))
@settings(deadline=None, max_examples=draws(20))
def test_it_reads_and_writes_as_fastavro_does(values: list[dict[str, Any]], before: int) -> None:
    messages = written(WHOLE, *values)
    rows = read_as(WHOLE, pa.concat_arrays([pa.array([b""] * before, pa.binary()), messages]).slice(before))
    assert [plain(row) for row in rows] == values
    writer = AvroRowSerializationSchema(avro_schema_string=json.dumps(WHOLE))
    again = writer.serialize_batch(batch_of(AvroSchema(WHOLE).type_info(), rows))
    parsed = fastavro.parse_schema(WHOLE)
    assert [fastavro.schemaless_reader(io.BytesIO(m), parsed, None) for m in again.to_pylist()] == values
    assert again == messages


@given(st.lists(st.tuples(wholes, st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=4))
@settings(deadline=None, max_examples=draws(20))
def test_damaged_messages_harm_no_others(damaged: list[tuple[dict[str, Any], int, int]]) -> None:
    good = {"i": 1, "l": 2, "f": 0.5, "d": 1.5, "b": True, "s": "é", "raw": b"", "e": "A", "fixed": b"abc", "xs": [1],
            "m": {}, "inner": None, "inners": [[]], "either": "x"}  # fmt: skip
    messages: list[Any] = []
    for value, at, byte in damaged:
        (whole,) = written(WHOLE, value).to_pylist()
        place = min(at, len(whole) - 1)
        messages += [written(WHOLE, good)[0].as_py(), whole[:place] + bytes([byte]) + whole[place + 1 :], whole[:place]]
    reader = reader_of(WHOLE)
    read = reader.deserialize_batch(pa.array(messages, pa.binary()))
    rows = dict(
        zip(
            range(len(messages)) if read.messages is None else read.messages.tolist(),
            rows_of(reader, read),
            strict=True,
        )
    )
    assert sorted([*rows, *(index for index, _ in read.rejected)]) == list(range(len(messages)))
    assert all(plain(rows[index]) == good for index in range(0, len(messages), 3))
    assert all(index in dict(read.rejected) for index in range(2, len(messages), 3)), "what was cut is never read"


LOGICAL = record(
    date={"type": "int", "logicalType": "date"}, tm={"type": "int", "logicalType": "time-millis"},
    tu={"type": "long", "logicalType": "time-micros"}, sm={"type": "long", "logicalType": "timestamp-millis"},
    su={"type": "long", "logicalType": "timestamp-micros"},
    lm={"type": "long", "logicalType": "local-timestamp-millis"},
    dec={"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2},
    fix={"type": "fixed", "name": "D", "size": 4, "logicalType": "decimal", "precision": 8, "scale": 3},
    id={"type": "string", "logicalType": "uuid"},
)  # fmt: skip
moments = st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30)).map(
    lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)
)


@given(moments, st.decimals(-(10**15), 10**15, places=2), st.decimals(-99999, 99999, places=3))
@settings(deadline=None, max_examples=draws(20))
def test_times_and_decimals(moment: datetime.datetime, dec: Decimal, fix: Decimal) -> None:
    aware, date, time = moment.replace(tzinfo=datetime.UTC), moment.date(), moment.time()
    (message,) = messages = written(LOGICAL, {
        "date": date, "tm": time, "tu": time, "sm": aware, "su": aware, "lm": moment, "dec": dec, "fix": fix,
        "id": "1a0c6eac-5a4f-4a5a-a1a8-7a0a0a0a0a0a",
    })  # fmt: skip
    for legacy, seen in ((True, moment), (False, aware)):
        (row,) = read_as(LOGICAL, messages, legacy_timestamp_mapping=legacy)
        assert list(row)[:8] == [date, time, time, seen, seen, moment, dec, fix]
        writer = AvroRowSerializationSchema(avro_schema_string=json.dumps(LOGICAL), legacy_timestamp_mapping=legacy)
        assert writer.serialize(row) == message.as_py()


def test_types_are_those_of_flink() -> None:
    kinds = AvroSchema(LOGICAL).type_info().field_types
    assert kinds[:4] == (Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIME(), Types.SQL_TIMESTAMP())
    assert AvroSchema(LOGICAL).type_info(legacy_timestamp_mapping=False).field_types[3] == Types.TIMESTAMP_LTZ()
    assert kinds[6:] == (Types.BIG_DEC(), Types.BIG_DEC(), Types.STRING())
    whole = dict(zip(AvroSchema(WHOLE).type_info().field_names, AvroSchema(WHOLE).type_info().field_types, strict=True))
    inner = Types.ROW_NAMED(["x", "y"], [Types.INT(), str])
    assert whole["m"] == Types.MAP(str, inner)
    assert whole["xs"] == Types.OBJECT_ARRAY(Types.LONG())
    assert (whole["inner"], whole["e"], whole["either"]) == (inner, Types.STRING(), Types.PICKLED_BYTE_ARRAY())


E_OLD = {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}
E_NEW = {"type": "enum", "name": "E", "symbols": ["B", "A"], "default": "B"}


def test_schemas_evolve() -> None:
    old = record(
        gone=["null", "int", "string"], a="int", e=E_OLD, list={"type": "array", "items": "int"}, o="string",
        maybe=["null", "int"],
    )  # fmt: skip
    new = record(
        ("maybe", "long"), ("a", "double"), ("list", {"type": "array", "items": ["null", "long"]}), ("e", E_NEW),
        ("added", ["null", "int"], None), ("text", "string", "é"), ("raw", "bytes", "\xff"),
        ("xs", {"type": "array", "items": "int"}, [1, 2]), ("m", {"type": "map", "values": "int"}, {"k": 1}),
        ("r", INNER, {"x": 1, "y": None}), ("day", {"type": "int", "logicalType": "date"}, 1),
    )  # fmt: skip
    new["fields"].append({"name": "renamed", "type": ["string", "null"], "aliases": ["o"]})
    shared = {"a": 1, "list": [1], "o": "x", "maybe": 5}
    messages = written(old, *({**shared, "gone": g, "e": e} for g, e in [("z", "A"), (None, "C"), (3, "B")]))
    day = datetime.date(1970, 1, 2)
    expected = [5, 1.0, [1], None, None, "é", b"\xff", [1, 2], {"k": 1}, Row(x=1, y=None), day, "x"]
    for row, e in zip(read_as(new, messages, old), "ABB", strict=True):
        assert list(row) == [*expected[:3], e, *expected[4:]]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (record(a="int"), record(a="string"), "a: what was written as int cannot be read as string"),
        (record(a="int"), record(b="int"), "b: the writer's schema has no such field, and .* no default"),
        (record(a=["null", "int"]), record(a="string"), "a: what was written as union of null and int cannot be"),
        (record(a={"type": "array", "items": "int"}), record(a="int"), "as array of int cannot be read as int"),
        (record(a=record(x="long", name="X")), record(a=record(x="int", name="X")), "a: x: .* long cannot be read"),
        (
            record(a={"type": "long", "logicalType": "timestamp-millis"}),
            record(a={"type": "long", "logicalType": "timestamp-micros"}),
            "timestamp-millis cannot be read as timestamp-micros",
        ),
        (record(a=["int", "string"]), record(a="bytes"), None),
    ],
)  # fmt: skip
def test_schemas_that_do_not_fit(old: Any, new: Any, message: str | None) -> None:
    if message is not None:
        with pytest.raises(InvalidProgramError, match=message):
            reader_of(new, old)
        return
    reader = reader_of(new, old)
    read = reader.deserialize_batch(written(old, {"a": "x"}, {"a": 1}))
    assert rows_of(reader, read) == [Row(a=b"x")]
    assert [index for index, _ in read.rejected] == [1]


def test_what_cannot_be_read_says_why() -> None:
    schema = record(e={"type": "enum", "name": "E", "symbols": ["A"]}, u=["null", "int"])
    reader = reader_of(schema)
    for message, reason in [
        (b"\x00\x00x", "left over"), (b"\x00", "too early"),
        (b"\x02\x00", "field 'e': got 1, expected the number of a symbol of E, 0 to 0"),
        (b"\x00\x04", "field 'u': got 2, expected the number of a branch of the union, 0 to 1"),
        (b"\x00\x02" + b"\xff" * 12, "64 bits"),
        (b"\x00\x02\xfe\xff\xff\xff\x1f", "field 'u': got 4294967295, expected an int of 32 bits"),
    ]:  # fmt: skip
        ((index, told),) = reader.deserialize_batch(pa.array([message])).rejected
        assert index == 0
        assert reason in told
    with pytest.raises(BadRecordError, match="too early"):
        reader.deserialize(b"")
    assert reader_of(schema, ignore_parse_errors=True).deserialize(b"") is None
    unknown = reader_of(
        record(e={"type": "enum", "name": "E", "symbols": ["B"]}),
        record(e={"type": "enum", "name": "E", "symbols": ["A"]}),
    )
    assert "E.A is no symbol" in unknown.deserialize_batch(pa.array([b"\x00"])).rejected[0][1]


def test_blocks_of_other_writers() -> None:
    schema = record(xs={"type": "array", "items": "long"})
    message = b"\x03\x04\x02\x04" + b"\x02\x06" + b"\x00"  # two elements in four bytes, one element, the end
    assert read_as(schema, pa.array([message, b"\x00"])) == [Row(xs=[1, 2, 3]), Row(xs=[])]


@pytest.mark.parametrize(
    ("schema", "row", "message"),
    [
        (record(a="int"), (None,), "row 0, a: got None"),
        (record(a={"type": "array", "items": "int"}), ([1, None],), r"a\[\]: got None"),
        (record(a={"type": "enum", "name": "E", "symbols": ["A"]}), ("B",), "a: E .* no symbol 'B'"),
        (record(a={"type": "fixed", "name": "F", "size": 2}), (b"x",), "a: got 1 bytes, and F"),
        (record(a={"type": "bytes", "logicalType": "decimal", "scale": 1}), (Decimal("1.25"),), "a: 1.25 does not fit"),
        (record(a={"type": "fixed", "name": "F", "size": 1, "logicalType": "decimal"}), (Decimal(128),), "1 bytes"),
        (record(a=["null", "int", "string"]), (b"x",), "fits none of the types"),
        (record(a=["int", "string"]), (None,), "a: got None"),
    ],
)
def test_records_that_do_not_fit(schema: Any, row: Any, message: str) -> None:
    writer = AvroRowSerializationSchema(avro_schema_string=json.dumps(schema))
    with pytest.raises(InvalidTypeError, match=message):
        writer.serialize(row)
    with pytest.raises(InvalidTypeError, match="have the fields of"):
        writer.validate(Types.TUPLE([int, int]))


def test_schemas_that_are_none() -> None:
    for text, message in [
        ("{", "no JSON"), ('"thing"', "no type 'thing'"), ('{"type": "array"}', "has no 'items'"), ("5", "no schema"),
        (json.dumps(record(next=["null", "R"])), "'R' of Avro contains itself"),
        (json.dumps(record(a=record(b=["lnog"], name="S"))), r"^field 'a\.b': .* type 'lnog': did you mean long\?"),
    ]:  # fmt: skip
        with pytest.raises(InvalidProgramError, match=message):
            AvroSchema.parse_string(text)
    with pytest.raises(InvalidProgramError, match="needs avro_schema_string"):
        AvroRowDeserializationSchema()
    with pytest.raises(UnsupportedOperationError, match="a class of Java"):
        AvroRowSerializationSchema(record_class="org.example.User")


def test_names_have_namespaces() -> None:
    schema = record(a={"type": "fixed", "name": "F", "size": 1}, b="F", c="my.own.F", d=record(x="F", name="other.D"))
    with pytest.raises(InvalidProgramError, match="no type 'F'"):
        AvroSchema({**schema, "namespace": "my.own", "fields": [schema["fields"][3]]})
    del schema["fields"][3]
    assert AvroSchema({**schema, "namespace": "my.own"}).type_info().field_types == (Types.BYTES(),) * 3


def test_messages_without_fields() -> None:
    texts = reader_of("string")
    assert texts.get_produced_type() == Types.STRING()
    assert rows_of(texts, texts.deserialize_batch(pa.array([b"\x02a", None]))) == ["a"]
    assert AvroRowSerializationSchema(avro_schema_string='"long"').serialize(-1) == b"\x01"
    with pytest.raises(InvalidTypeError, match="at least one field"):
        reader_of(record())


@pytest.mark.parametrize(("scale", "is_read"), [(1000, True), (1001, False), (300_000_000, False)])
def test_a_decimal_has_no_more_digits_than_a_thousand_behind_the_point(scale: int, is_read: bool) -> None:
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": scale}
    read = reader_of(record(d=decimal)).deserialize_batch(pa.array([b"\x02\x05"]))
    reasons = [] if is_read else [(0, f"field 'd': got a decimal whose scale is {scale}, expected at most 1000")]
    assert (len(read), list(read.rejected)) == (int(is_read), reasons)
