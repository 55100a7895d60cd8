"""Messages of Protobuf whose schemas are in a registry."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.common import Row
from headrace.common.errors import InvalidProgramError, SchemaRegistryError
from headrace.datastream.formats.schema_registry import (
    ConfluentRegistryProtobufDeserializationSchema,
    ConfluentRegistryProtobufSerializationSchema,
)
from tests.connectors.harness import batch_of
from tests.formats.protobuf_messages import PLACE, SHOP, Order, class_of, file_of
from tests.formats.registry_server import Registry, serving
from tests.formats.test_schema_registry import rows_of

PLACES = file_of(PLACE, name="places.proto")
SHIP = file_of(
    ("Parcel", "1 int64 id", "2 .shop.Place to"),
    ("Label", "1 string text"),
    imports=("places.proto",),
    name="ship.proto",
)
Parcel, Label = class_of("Parcel", PLACES, SHIP), class_of("Label", PLACES, SHIP)


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving(Registry()) as running:
        yield running


def text_of(file: Any) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


def test_what_is_written_is_read(registry: Registry) -> None:
    rows = [Row(id=1, to=Row(city="x", zip=5)), Row(id=2, to=None)]
    writer = ConfluentRegistryProtobufSerializationSchema(registry.url, "parcels-value", Parcel)
    reader = ConfluentRegistryProtobufDeserializationSchema(registry.url, Parcel)
    written = writer.serialize_batch(batch_of(reader.get_produced_type(), rows)).to_pylist()
    assert written == [writer.serialize(row) for row in rows]
    assert written[1] == b"\x00\x00\x00\x00\x02\x00\x08\x02"  # the imported file is the first schema
    assert rows_of(reader, [written[0], None, written[1]]) == (rows, {})
    newest = ConfluentRegistryProtobufDeserializationSchema(registry.url, subject="parcels-value")
    assert rows_of(newest, written) == (rows, {})
    asked = [request for request in registry.requests if "/schemas/ids/" in request]
    assert asked == ["GET /schemas/ids/2?format=serialized"]


def test_other_messages_of_a_topic_are_told(registry: Registry) -> None:
    labels = ConfluentRegistryProtobufSerializationSchema(registry.url, "all", Label)
    parcels = ConfluentRegistryProtobufSerializationSchema(registry.url, "all", Parcel)
    message = labels.serialize(Row(text="x"))
    assert message == b"\x00\x00\x00\x00\x02\x02\x02\n\x01x"
    reader = ConfluentRegistryProtobufDeserializationSchema(registry.url, Label)
    good = parcels.serialize(Row(id=1, to=None))
    damaged = [
        b"", b"\x01" * 9, message[:5], message[:6] + b"\x82", message[:5] + b"\xff\x7f",
        message[:6] + b"\x08" + message[7:], b"\x00\x00\x00\x00\x09" + message[5:],
    ]  # fmt: skip
    rows, rejected = rows_of(reader, [message, good, *damaged, message])
    assert rows == [Row(text="x")] * 2
    assert rejected[1] == "it is a message shop.Parcel, and shop.Label is read"
    reasons = [
        "five bytes", "begin with a zero", "within the header", "within the header", "indexes", "no message [4]",
        "no schema",
    ]  # fmt: skip
    assert [reason in rejected[2 + place] for place, reason in enumerate(reasons)] == [True] * 7


def test_messages_inside_of_others(registry: Registry) -> None:
    outer = file_of(("Outer", "1 int64 id"), name="outer.proto")
    inner = outer.message_type[0].nested_type.add(name="Inner")
    inner.field.add(name="text", number=1, type=9, label=1, json_name="text")
    message_class = class_of("Outer.Inner", outer)
    writer = ConfluentRegistryProtobufSerializationSchema(registry.url, "s", message_class)
    message = writer.serialize(Row(text="x"))
    assert message[5:] == b"\x04\x00\x00\n\x01x"
    reader = ConfluentRegistryProtobufDeserializationSchema(registry.url, subject="s", message="shop.Outer.Inner")
    assert rows_of(reader, [message]) == ([Row(text="x")], {})


def test_newer_schemas_and_others(registry: Registry) -> None:
    newer = file_of((*PLACE, "3 string street"), name="places.proto")
    writer = ConfluentRegistryProtobufSerializationSchema(registry.url, "s", class_of("Place", newer))
    reader = ConfluentRegistryProtobufDeserializationSchema(registry.url, class_of("Place", PLACES))
    assert rows_of(reader, [writer.serialize(Row(city="x", zip=1, street="y"))]) == ([Row(city="x", zip=1)], {})
    number = registry.register("avro", '"string"')
    assert "one of AVRO" in rows_of(reader, [b"\x00" + number.to_bytes(4, "big") + b"\x00"])[1][0]
    with pytest.raises(InvalidProgramError, match="give schema, or the subject"):
        ConfluentRegistryProtobufDeserializationSchema(registry.url)
    with pytest.raises(InvalidProgramError, match=r"'avro': the schema .* is one of AVRO"):
        ConfluentRegistryProtobufDeserializationSchema(registry.url, subject="avro")
    careful = ConfluentRegistryProtobufSerializationSchema(registry.url, "none", Parcel, auto_register=False)
    with pytest.raises(SchemaRegistryError, match="auto_register is off"):
        careful.serialize(Row(id=1, to=None))


def test_files_of_protobuf_itself_need_not_be_registered(registry: Registry) -> None:
    registry.register("orders", text_of(SHOP), "PROTOBUF")
    reader = ConfluentRegistryProtobufDeserializationSchema(registry.url, subject="orders", message="shop.Order")
    message = Order(id=5, moment={"seconds": 7})
    rows, rejected = rows_of(reader, [b"\x00\x00\x00\x00\x01\x02\x02" + message.SerializeToString()])
    assert not rejected
    assert (rows[0].id, rows[0].moment) == (5, Row(seconds=7, nanos=0))
    registry.register("strange", text_of(file_of(("A", "1 int32 x"), imports=("my/own.proto",))), "PROTOBUF")
    with pytest.raises(InvalidProgramError, match=r"imports my/own\.proto, which the registry does not name"):
        ConfluentRegistryProtobufDeserializationSchema(registry.url, subject="strange")
