"""Records made of messages: values, keys, metadata, and what becomes of bad ones."""

from __future__ import annotations

import datetime
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.common import (
    ByteArraySchema,
    JsonRowDeserializationSchema,
    Row,
    SimpleStringSchema,
    Types,
)
from headrace.common.columns import layout_of
from headrace.common.constants import NO_TIMESTAMP
from headrace.common.errors import BadRecordError, InvalidProgramError
from headrace.common.serialization import DeserializationSchema, DeserializedBatch
from headrace.connectors.messages import METADATA, MessageDecoder, MessageDeserializationSchema, Messages
from headrace.connectors.source import SourceRecords
from tests.common.test_serialization import Numbers

JSON = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["a"], [int]))


def messages_of(values: list[bytes | None], keys: list[bytes | None] | None = None, **others: Any) -> Messages:
    return Messages(
        "orders",
        3,
        np.arange(10, 10 + 2 * len(values), 2),
        pa.array(values, pa.binary()),
        None if keys is None else pa.array(keys, pa.binary()),
        **others,
    )


def decode(schema: MessageDeserializationSchema, messages: Messages, *, reject: bool = False) -> SourceRecords:
    return MessageDecoder(pickle.loads(pickle.dumps(schema)), reject=reject).decode(messages)


def rows(schema: MessageDeserializationSchema, records: SourceRecords) -> list[Any]:
    assert records.columns is not None
    return layout_of(schema.produced_type).columns_to_rows(records.columns)


def test_values_alone_are_what_their_schema_gives() -> None:
    schema = MessageDeserializationSchema(JSON.build())
    times = np.array([5, NO_TIMESTAMP, 7])
    records = decode(schema, messages_of([b'{"a":1}', None, b'{"a":2}'], timestamps=times))
    assert schema.produced_type == Types.ROW_NAMED(["a"], [int])
    assert rows(schema, records) == [Row(a=1), Row(a=2)]
    assert records.timestamps.tolist() == [5, 7]
    assert decode(MessageDeserializationSchema(Numbers()), messages_of([b"2"])).rows == [10]
    assert len(decode(schema, messages_of([]))) == 0


def test_keys_values_and_metadata_side_by_side() -> None:
    schema = MessageDeserializationSchema(JSON.build(), SimpleStringSchema(), metadata=list(METADATA))
    headers = pa.array([[("h", b"1")], None, [("i", None)]], METADATA["headers"].storage_type)
    messages = messages_of(
        [b'{"a":1}', None, b'{"a":2}'],
        [b"k", b"l", None],
        timestamps=np.array([1500, 0, NO_TIMESTAMP]),
        metadata={"headers": headers, "timestamp-type": pa.array(["CreateTime"] * 3)},
    )
    at = datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000, datetime.UTC)
    names = ["key", "a", *METADATA]
    assert [row.as_dict() for row in rows(schema, decode(schema, messages))] == [
        dict(zip(names, ["k", 1, "orders", 3, 10, at, "CreateTime", {"h": b"1"}, None], strict=True)),
        dict(zip(names, [None, 2, "orders", 3, 14, None, "CreateTime", {"i": None}, None], strict=True)),
    ]


def test_the_timestamp_of_a_message_from_before_1970_is_a_field_too() -> None:
    schema = MessageDeserializationSchema(SimpleStringSchema(), metadata=["timestamp"])
    records = decode(schema, messages_of([b"old", b"none"], timestamps=np.array([-1, NO_TIMESTAMP])))
    before = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000, datetime.UTC)
    assert [row["timestamp"] for row in rows(schema, records)] == [before, None]


@pytest.mark.parametrize("value", [Numbers(), SimpleStringSchema(), ByteArraySchema()])
def test_a_value_without_fields_is_a_field(value: DeserializationSchema) -> None:
    schema = MessageDeserializationSchema(value, metadata={"n": "offset"})
    assert schema.produced_type == Types.ROW_NAMED(["value", "n"], [value.get_produced_type(), int])
    ((got, offset),) = rows(schema, decode(schema, messages_of([b"2"])))
    assert (got, offset) == (
        {"Numbers": 10, "SimpleStringSchema": "2", "ByteArraySchema": b"2"}[type(value).__name__],
        10,
    )


def test_untyped_records_beside_metadata() -> None:
    class Untyped(Numbers):
        def get_produced_type(self) -> Any:
            return Types.PICKLED_BYTE_ARRAY()

    schema = MessageDeserializationSchema(Untyped(), metadata=["offset"])
    records = MessageDecoder(schema, reject=False).decode(messages_of([b"2", None]))
    assert rows(schema, records) == [Row(value=10, offset=10)]


def test_keys_with_fields() -> None:
    with pytest.raises(InvalidProgramError, match="two fields are called 'a': give key_fields_prefix"):
        MessageDeserializationSchema(JSON.build(), JSON.build())
    schema = MessageDeserializationSchema(JSON.build(), JSON.build(), key_fields_prefix="key_")
    assert rows(schema, decode(schema, messages_of([b'{"a":1}'], [b'{"a":2}']))) == [Row(key_a=2, a=1)]
    assert rows(schema, decode(schema, messages_of([b'{"a":1}']))) == [Row(key_a=None, a=1)]


def test_metadata_that_is_not_there() -> None:
    with pytest.raises(InvalidProgramError, match="no metadata 'ofset': did you mean offset"):
        MessageDeserializationSchema(JSON.build(), metadata=["ofset"])
    with pytest.raises(InvalidProgramError, match="two fields are called 'a'"):
        MessageDeserializationSchema(JSON.build(), metadata={"a": "topic"})


BAD = messages_of([b'{"a":1}', b"{", b'{"a":2}', b"x", b'{"a":3}'], [b"k", b"k", b"\xff", b"\xff", b"l"])


def test_bad_messages_fail_the_job() -> None:
    with pytest.raises(BadRecordError, match=r"orders-3@12: .*; the message is '\{'\. .*set_dead_letter\(\)"):
        decode(MessageDeserializationSchema(JSON.build()), BAD)
    lenient = JsonRowDeserializationSchema(Types.ROW_NAMED(["a"], [int]), ignore_parse_errors=True)
    schema = MessageDeserializationSchema(lenient, SimpleStringSchema())
    with pytest.raises(BadRecordError, match=r"orders-3@14: the key: not utf-8"):
        decode(schema, BAD)


def test_bad_messages_become_dead_letters_in_their_order() -> None:
    values = JsonRowDeserializationSchema(Types.ROW_NAMED(["a"], [int]))
    schema = MessageDeserializationSchema(values, SimpleStringSchema(), metadata=["offset"])
    records = decode(schema, BAD, reject=True)
    assert rows(schema, records) == [Row(key="k", a=1, offset=10), Row(key="l", a=3, offset=18)]
    assert [(where, raw) for where, raw, _ in records.rejected] == [
        ("orders-3@12", "{"),
        ("orders-3@14", '{"a":2}'),
        ("orders-3@16", "x"),
    ]
    assert records.rejected[1][2].startswith("the key: not utf-8")
    assert not records.counters


def test_bad_messages_are_left_out_and_counted() -> None:
    values = JsonRowDeserializationSchema(Types.ROW_NAMED(["a"], [int]), ignore_parse_errors=True)
    for reject in (True, False):
        records = decode(MessageDeserializationSchema(values), BAD, reject=reject)
        assert (len(records), records.rejected, records.counters) == (3, [], {"numRecordsInErrors": 2})


class Twice(SimpleStringSchema):
    def deserialize_batch(self, messages: pa.Array) -> DeserializedBatch:
        twice = np.repeat(np.arange(len(messages)), 2)
        once = super().deserialize_batch(messages)
        assert once.columns is not None
        return DeserializedBatch(once.columns.take(pa.array(twice)), messages=twice)


def test_several_records_of_a_message() -> None:
    schema = MessageDeserializationSchema(Twice(), SimpleStringSchema(), metadata=["offset"])
    records = decode(schema, messages_of([b"x", b"y"], [b"k", None], timestamps=np.array([1, 2])))
    found = [tuple(row) for row in rows(schema, records)]
    assert found == [("k", "x", 10), ("k", "x", 10), (None, "y", 12), (None, "y", 12)]
    assert records.timestamps.tolist() == [1, 1, 2, 2]
    with pytest.raises(InvalidProgramError, match="several records of one key"):
        decode(MessageDeserializationSchema(SimpleStringSchema(), Twice()), messages_of([b"x"], [b"k"]))


class Until(SimpleStringSchema):
    """Ends the stream, as sources of old did."""

    def is_end_of_stream(self, element: object) -> bool:
        return element == "end"


def test_the_end_of_a_stream_is_not_what_a_schema_says() -> None:
    """As with Flink's KafkaSource, but not silently."""
    with pytest.warns(UserWarning, match=r"Until\.is_end_of_stream\(\) is not called, .* set_bounded\(\)") as told:
        schema = MessageDeserializationSchema(Until())
    assert told[0].filename == __file__
    read = MessageDecoder(schema, reject=False).decode(messages_of([b"a", b"end", b"b"]))
    assert read.columns is not None
    assert read.columns.column(0).to_pylist() == ["a", "end", "b"]
