"""Messages of Protobuf, compared with Google's own library."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Row, Types
from headrace.common.columns import layout_of
from headrace.common.errors import BadRecordError, InvalidProgramError, InvalidTypeError
from headrace.datastream.formats.protobuf import (
    ProtobufRowDeserializationSchema,
    ProtobufRowSerializationSchema,
    ProtobufSchema,
)
from tests.connectors.harness import batch_of
from tests.draws import draws
from tests.formats.protobuf_messages import KIND, OLD, SHOP, Old, Order, class_of, file_of

NAMES = {number: name for name, number in KIND.items()}


def reader_of(message: Any, **options: Any) -> ProtobufRowDeserializationSchema:
    return pickle.loads(pickle.dumps(ProtobufRowDeserializationSchema(message, **options)))


def read(message: Any, messages: list[bytes], **options: Any) -> tuple[list[Any], dict[int, str]]:
    reader = reader_of(message, **options)
    found = reader.deserialize_batch(pa.array(messages, pa.binary()))
    assert found.columns is not None
    return layout_of(reader.get_produced_type()).columns_to_rows(found.columns), dict(found.rejected)


def plain(message: Any) -> Row:
    """The row of a message by what Google's library says of it."""
    values = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type and field.message_type.GetOptions().map_entry:
            inner = field.message_type.fields[1].message_type
            values[field.name] = {k: plain(v) if inner else v for k, v in value.items()} or None
        elif field.is_repeated:
            values[field.name] = [_plain(field, each) for each in value] or None
        elif field.has_presence and not message.HasField(field.name):
            values[field.name] = None
        else:
            values[field.name] = _plain(field, value)
    return Row(**values)


def _plain(field: Any, value: Any) -> Any:
    if field.message_type:
        return plain(value)
    return field.enum_type.values_by_number[value].name if field.enum_type else value


def shown(value: Any) -> Any:
    """What two equal values share: NaN is equal to itself, and the order of maps does not matter."""
    if isinstance(value, Row | list):
        return [shown(item) for item in value]
    return sorted((repr(k), shown(v)) for k, v in value.items()) if isinstance(value, dict) else repr(value)


def integers(bits: int, signed: bool = True) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else st.integers(0, 2**bits - 1)


texts = st.text(max_size=6)
places = st.fixed_dictionaries({}, optional={"city": texts, "zip": integers(32)})
orders = st.fixed_dictionaries({}, optional={
    "id": integers(64), "card": texts, "amount": st.floats(allow_nan=False), "paid": st.booleans(),
    "kind": st.sampled_from(list(NAMES)), "place": places, "tags": st.lists(texts, max_size=3),
    "ns": st.lists(integers(32), max_size=3), "counts": st.dictionaries(texts, integers(64), max_size=3),
    "places": st.lists(places, max_size=2), "maybe": integers(32), "u": integers(64, False), "f": integers(32, False),
    "raw": st.binary(max_size=4), "real": st.floats(width=32, allow_nan=False), "w": integers(64),
    "kinds": st.lists(st.sampled_from(list(NAMES)), max_size=3), "v": integers(32, False),
    "at": st.dictionaries(integers(32), places, max_size=2),
    "moment": st.fixed_dictionaries({"seconds": integers(64), "nanos": integers(32)}),
})  # fmt: skip
hows = st.one_of(
    st.none(), st.tuples(st.just("a"), texts), st.tuples(st.just("b"), integers(32)), st.tuples(st.just("c"), places)
)


@st.composite
def messages_of_orders(draw: st.DrawFn) -> Any:
    how = draw(hows)
    return Order(**draw(orders), **(dict([how]) if how else {}))


@given(st.lists(messages_of_orders(), max_size=4))
@settings(deadline=None, max_examples=draws(20))
def test_it_reads_and_writes_as_google_s_library_does(messages: list[Any]) -> None:
    rows, rejected = read(Order, [message.SerializeToString() for message in messages])
    assert not rejected
    assert shown(rows) == shown([plain(message) for message in messages])
    writer = pickle.loads(pickle.dumps(ProtobufRowSerializationSchema(Order)))
    again = writer.serialize_batch(batch_of(reader_of(Order).get_produced_type(), rows))
    assert [Order.FromString(each) for each in again.to_pylist()] == messages


@given(messages_of_orders(), messages_of_orders(), st.integers(0, 300), st.integers(0, 255), st.binary(max_size=12))
@settings(deadline=None, max_examples=draws(25))
def test_odd_and_damaged_messages(one: Any, other: Any, place: int, byte: int, noise: bytes) -> None:
    whole = one.SerializeToString()
    flipped = bytearray(whole + b"\x08\x01")
    flipped[place % len(flipped)] = byte
    both = whole + other.SerializeToString()  # what comes twice is merged, of a oneof the last one counts
    for message in (both, whole[: place % (len(whole) + 1)], bytes(flipped), noise, whole + b"\xf8\x07\x01"):
        rows, rejected = read(Order, [whole, message])
        assert 0 not in rejected
        try:
            expected = plain(Order.FromString(message))
        except (DecodeError, KeyError):  # KeyError: a number that is no value of the enum
            assert list(rejected) == [1]
            assert len(rows) == 1
            continue
        assert not rejected
        assert shown(rows[1]) == shown(expected)


def test_parts_of_entries_may_be_left_out() -> None:
    # prost, Rust's library, leaves out keys and values that are zero; ptars drops such entries.
    rows, _ = read(
        Order, [b"J\x03\n\x01x" + b"J\x02\x10\x05" + b"\xaa\x01\x02\x08\x07", b"J\x03\n\x01xJ\x05\n\x01x\x10\x09"]
    )
    assert rows[0].counts == {"x": 0, "": 5}
    assert rows[0].at == {7: Row(city="", zip=0)}
    assert rows[1].counts == {"x": 9}


def test_what_is_missing_is_none_or_the_default() -> None:
    message = Old(id=1).SerializeToString()
    assert read(Old, [message])[0] == [
        Row(id=1, name=None, n=None, xs=None, ps=None, level=None, levels=None, sub=None, raw=None, u=None)
    ]
    assert read(Old, [message], read_default_values=True)[0] == [
        Row(id=1, name="nobody", n=7, xs=[], ps=[], level="HIGH", levels=[], sub=Row(v=0), raw=b"ab", u=5)
    ]
    (row,), _ = read(Order, [b""], read_default_values=True)
    assert (row.id, row.kind, row.place, row.counts, row.a, row.c) == (
        0,
        "UNKNOWN",
        Row(city="", zip=0),
        {},
        "",
        Row(city="", zip=0),
    )
    (row,), _ = read(Order, [b""])
    assert (row.id, row.kind, row.card, row.place, row.counts, row.a, row.maybe) == (
        0,
        "UNKNOWN",
        "",
        None,
        None,
        None,
        None,
    )


def test_messages_of_proto2() -> None:
    message = Old(id=-1, n=0, xs=[1, 2], ps=[3], level=1, levels=[1, 3], u=2**64 - 1, sub={})
    written = message.SerializeToString()
    assert read(Old, [written])[0] == [plain(message)]
    assert Old.FromString(ProtobufRowSerializationSchema(Old).serialize(plain(message))) == message
    rows, rejected = read(Old, [b"", written + b"\x30\x63" + b"\x38\x63"])  # values that the enum does not have
    assert rejected == {0: "field 'id': it is missing, and shop.Old requires it"}
    assert rows == [plain(message)]
    with pytest.raises(InvalidTypeError, match=r"id: got None, and shop\.Old requires it"):
        ProtobufRowSerializationSchema(Old).serialize(Row(*[None] * 10))


def test_bad_messages_say_why() -> None:
    rows, rejected = read(Order, [b"(\x07", b"\x08", b"\x12\x01\xff", b"\x08\x05"])
    assert [row.id for row in rows] == [5]
    assert rejected[0] == "field 'kind': 7 is not a number of shop.Kind"
    assert "it was cut, damaged or written as another message" in rejected[1]
    assert set(rejected) == {0, 1, 2}
    with pytest.raises(BadRecordError, match="cut, damaged"):
        reader_of(Order).deserialize(b"\x08")
    assert reader_of(Order, ignore_parse_errors=True).deserialize(b"\x08") is None
    tombstones = reader_of(Order).deserialize_batch(pa.array([None, b""], pa.binary()))
    assert (len(tombstones), tombstones.messages.tolist()) == (1, [1])


def test_nulls_and_oneofs_are_written_as_in_flink() -> None:
    writer = ProtobufRowSerializationSchema(Order, write_null_string_literal="?")
    fields = dict.fromkeys(reader_of(Order).get_produced_type().get_field_names())
    row = Row(**{**fields, "tags": ["a", None], "places": [None], "ns": [None], "counts": {"x": None}, "at": {1: None},
                 "kinds": [None], "a": "x", "b": 0})  # fmt: skip
    found = Order.FromString(writer.serialize(row))
    assert found == Order(tags=["a", "?"], places=[{}], ns=[0], counts={"x": 0}, at={1: {}}, kinds=[0], b=0)
    assert writer.serialize(Row(**fields)) == b""


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("kind", "GOLD", "kind: shop.Kind has no value 'GOLD'"),
        ("u", -1, "u: .*-1"),
        ("v", 2**32, "v: .*4294967296"),
        ("at", {1: Row(city=None, zip="x")}, "zip"),
    ],
)
def test_records_that_do_not_fit(field: str, value: Any, message: str) -> None:
    fields = dict.fromkeys(reader_of(Order).get_produced_type().get_field_names())
    with pytest.raises(InvalidTypeError, match=message):
        ProtobufRowSerializationSchema(Order).serialize(Row(**{**fields, field: value}))


def test_types_that_have_no_columns() -> None:
    tree = class_of("Tree", file_of(("Tree", "1 int32 v", "2 repeated .shop.Tree kids")))
    with pytest.raises(InvalidProgramError, match=r"message shop\.Tree contains itself"):
        ProtobufRowDeserializationSchema(tree)
    empty = class_of("Outer", file_of(("Outer", "1 .shop.Nothing inner"), ("Nothing",)))
    with pytest.raises(InvalidProgramError, match=r"shop\.Nothing has no fields"):
        ProtobufRowSerializationSchema(empty)
    with pytest.raises(InvalidTypeError, match="have the fields of"):
        ProtobufRowSerializationSchema(Order).validate(Types.TUPLE([int]))


def test_schemas_of_files(tmp_path: Path) -> None:
    path = tmp_path / "old.desc"
    path.write_bytes(FileDescriptorSet(file=[OLD]).SerializeToString())
    schema = ProtobufSchema.parse_file(path, "shop.Old")
    assert reader_of(schema).get_produced_type() == reader_of(Old).get_produced_type()
    with pytest.raises(InvalidProgramError, match=r"no message 'Old': its full name has the package"):
        ProtobufSchema.parse_file(path, "Old")
    for data in (b"\x0a\xff", FileDescriptorSet(file=[SHOP]).SerializeToString()):  # the latter lacks what it imports
        with pytest.raises(InvalidProgramError, match="protoc --include_imports"):
            ProtobufSchema("shop.Order", data)
    with pytest.raises(InvalidProgramError, match="no class that protoc has generated"):
        ProtobufRowDeserializationSchema(str)  # type: ignore[type-var]


def test_fields_that_are_not_described_in_the_order_of_their_numbers_keep_their_values() -> None:
    made = class_of("M", file_of(("P", "9 string z", "1 string y"), ("M", "7 int32 b", "1 int32 a", "3 .shop.P p")))
    row = Row(b=2, a=1, p=Row(z="z", y="y"))
    kind = reader_of(made).get_produced_type()
    (written,) = ProtobufRowSerializationSchema(made).serialize_batch(batch_of(kind, [row])).to_pylist()
    assert plain(made.FromString(written)) == row
    assert read(made, [written]) == ([row], {})


def test_a_reason_names_the_path_of_a_field() -> None:
    made = class_of("M", file_of(("P", "1 enum Kind kind"), ("M", "1 .shop.P place"), Kind={"NO": 0}))
    _, rejected = read(made, [made(place={"kind": 7}).SerializeToString()])
    assert rejected == {0: "field 'place.kind': 7 is not a number of shop.Kind"}
