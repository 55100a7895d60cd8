"""Schemas of messages: what users write for one, called for many, and strings and bytes as columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from headrace.common import (
    ByteArraySchema,
    DeserializationSchema,
    SerializationSchema,
    SimpleStringSchema,
    TypeInformation,
    Types,
)
from tests.connectors.harness import batch_of


class Numbers(DeserializationSchema, SerializationSchema):
    def deserialize(self, message: bytes) -> Any:
        number = int(message)
        return None if number == 0 else 10 // (number - 1)

    def serialize(self, element: Any) -> bytes | None:
        return None if element == 0 else str(element).encode()

    def get_produced_type(self) -> TypeInformation:
        return Types.LONG()


def test_a_schema_for_one_message_is_called_for_each() -> None:
    read = Numbers().deserialize_batch(pa.array([b"2", None, b"x", b"0", b"6"]))
    assert (read.rows, read.messages.tolist()) == ([10, 2], [0, 4])
    ((index, reason),) = read.rejected
    assert (index, reason) == (2, "invalid literal for int() with base 10: b'x'")
    assert len(read) == 2


def test_a_mistake_of_a_schema_is_no_bad_message() -> None:
    with pytest.raises(ZeroDivisionError):
        Numbers().deserialize_batch(pa.array([b"2", b"1"]))


def test_records_become_messages() -> None:
    assert Numbers().serialize_batch(batch_of(Types.LONG(), [1, 0, -2])).to_pylist() == [b"1", None, b"-2"]


@pytest.mark.parametrize("charset", ["UTF-8", "latin-1", "utf-16"])
def test_strings(charset: str) -> None:
    schema, texts = SimpleStringSchema(charset), ["grüß", "", "a\x00"]
    written = schema.serialize_batch(batch_of(Types.STRING(), texts))
    read = schema.deserialize_batch(pa.concat_arrays([written, pa.array([None], pa.binary())]))
    assert read.columns.column("value").to_pylist() == [*texts, None]
    assert not read.rejected
    columns = batch_of(Types.STRING(), texts).without_rows()
    assert schema.serialize_batch(columns) == written


def test_what_is_no_text_is_rejected() -> None:
    messages = [b"a", b"\xff", None, b"\xc3", "é".encode()]
    for kind in (pa.binary(), pa.large_binary()):
        read = SimpleStringSchema().deserialize_batch(pa.array(messages, kind))
        assert read.columns.column("value").to_pylist() == ["a", None, "é"]
        assert read.messages.tolist() == [0, 2, 4]
        assert [index for index, _ in read.rejected] == [1, 3]


def test_bytes_are_not_touched() -> None:
    values = [b"", b"\xff\x00", None]
    read = ByteArraySchema().deserialize_batch(pa.array(values, pa.large_binary()))
    assert read.columns.column("value").to_pylist() == values
    assert ByteArraySchema().serialize_batch(batch_of(Types.BYTES(), values)).to_pylist() == values
    assert ByteArraySchema().serialize_batch(batch_of(Types.PICKLED_BYTE_ARRAY(), values)).to_pylist() == values
