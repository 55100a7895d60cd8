"""Keys of messages that are fields of their records."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from headrace.common import JsonRowSerializationSchema, Row, SimpleStringSchema, Types
from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.connectors.messages import MessageSerializationSchema
from headrace.datastream.connectors.kafka import KafkaRecordSerializationSchema
from tests.connectors.harness import batch_of

ORDER = Types.ROW_NAMED(["id", "card", "raw"], [int, str, bytes])
ROWS = [Row(id=1, card="é", raw=b"\xff"), Row(id=2, card=None, raw=None)]
VALUES = JsonRowSerializationSchema(ORDER)


def keys_of(*names: str, schema: Any = None) -> list[bytes | None]:
    messages = pickle.loads(pickle.dumps(MessageSerializationSchema("orders", VALUES, schema, key_fields=names)))
    messages.validate(ORDER)
    [made] = messages.encode(batch_of(ORDER, ROWS), {}.__getitem__)
    keys: list[bytes | None] = made.keys.to_pylist()
    return keys


def test_a_field_of_text_or_bytes_is_the_key() -> None:
    assert keys_of("card") == ["é".encode(), None]
    assert keys_of("raw") == [b"\xff", None]


def test_fields_are_written_by_a_schema() -> None:
    pair = JsonRowSerializationSchema(Types.ROW_NAMED(["card", "id"], [str, int]))
    assert keys_of("card", "id", schema=pair) == ['{"card":"é","id":1}'.encode(), b'{"card":null,"id":2}']


def test_the_builder_of_kafka() -> None:
    builder = KafkaRecordSerializationSchema.builder().set_topic("orders").set_key_fields("card")
    schema = builder.set_value_serialization_schema(VALUES).build()
    [made] = schema.encode(batch_of(ORDER, ROWS), {}.__getitem__)
    assert made.keys is not None
    assert made.keys.to_pylist() == ["é".encode(), None]


def test_what_cannot_be_a_key() -> None:
    for names, kind, message in [
        (["kard"], ORDER, "have no field 'kard' for the key"),
        (["id"], ORDER, "one field of text or bytes, not .*id: Long"),
        (["card"], Types.STRING(), "records are String: declare a type with fields"),
    ]:
        schema = MessageSerializationSchema("orders", SimpleStringSchema(), key_fields=names)
        with pytest.raises(InvalidTypeError, match=message):
            schema.validate(kind)
    with pytest.raises(InvalidProgramError, match="needs what writes them"):
        MessageSerializationSchema("orders", VALUES, key_fields=["id", "card"])
    with pytest.raises(InvalidTypeError, match=r"key_fields=\['card'\]"):
        MessageSerializationSchema("orders", VALUES, key_fields="card")
