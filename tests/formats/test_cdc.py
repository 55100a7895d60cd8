"""Changes of tables as messages."""

from __future__ import annotations

import datetime
import json
import pickle
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Row, RowKind, Types
from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.errors import InvalidProgramError, InvalidTypeError, UnsupportedOperationError
from headrace.connectors.messages import MessageDecoder, MessageDeserializationSchema
from headrace.datastream.formats.cdc import (
    CanalJsonDeserializationSchema,
    CanalJsonSerializationSchema,
    DebeziumAvroDeserializationSchema,
    DebeziumAvroSerializationSchema,
    DebeziumJsonDeserializationSchema,
    DebeziumJsonSerializationSchema,
    MaxwellJsonDeserializationSchema,
    MaxwellJsonSerializationSchema,
    OggJsonDeserializationSchema,
    OggJsonSerializationSchema,
)
from tests.connectors.harness import batch_of
from tests.connectors.test_incoming_messages import messages_of
from tests.draws import draws
from tests.formats.registry_server import Registry, serving

STOCK = Types.ROW_NAMED(["id", "name", "weight"], [int, str, float])
INSERT, BEFORE, AFTER, DELETE = RowKind
OLD = {"id": 1, "name": "tea", "weight": 5.5}
NEW = {"id": 1, "name": None, "weight": 6.5}


def change(kind: RowKind, values: dict[str, Any]) -> tuple[RowKind, tuple[Any, ...]]:
    return kind, tuple(values.values())


INSERTED, DELETED = [change(INSERT, OLD)], [change(DELETE, OLD)]
UPDATED = [change(BEFORE, OLD), change(AFTER, NEW)]


def read(
    schema: Any, documents: Sequence[Any]
) -> tuple[list[tuple[RowKind, tuple[Any, ...]]], list[int], dict[int, str]]:
    """The rows with their kinds, the message of each, and what was rejected."""
    messages = [d if d is None or isinstance(d, bytes) else json.dumps(d).encode() for d in documents]
    made = pickle.loads(pickle.dumps(schema)).deserialize_batch(pa.array(messages, pa.binary()))
    rows = layout_of(schema.get_produced_type()).columns_to_rows(made.columns)
    return [(row.get_row_kind(), tuple(row)) for row in rows], made.messages.tolist(), dict(made.rejected)


def debezium(before: Any, after: Any, op: Any, name: str = "op") -> dict[str, Any]:
    return {"source": {"db": "shop"}, "before": before, "after": after, name: op}


def test_debezium() -> None:
    documents = [
        debezium(None, OLD, "c"),
        debezium(OLD, NEW, "u"),
        None,
        debezium(OLD, None, "d"),
        debezium(None, OLD, "r"),
    ]
    expected = [*INSERTED, *UPDATED, *DELETED, *INSERTED], [0, 1, 1, 3, 4], {}
    assert read(DebeziumJsonDeserializationSchema(STOCK), documents) == expected
    wrapped = [d and {"schema": {"type": "struct"}, "payload": d} for d in documents]
    assert read(DebeziumJsonDeserializationSchema(STOCK, schema_include=True), wrapped) == expected


def test_ogg() -> None:
    documents = [
        debezium(*each, "op_type") for each in [(None, OLD, "I"), (OLD, NEW, "U"), (OLD, None, "D"), (None, None, "T")]
    ]
    assert read(OggJsonDeserializationSchema(STOCK), documents) == ([*INSERTED, *UPDATED, *DELETED], [0, 1, 1, 2], {})


def test_maxwell() -> None:
    changed = {"name": "tea", "weight": 5.5}
    documents = [
        {"type": "insert", "data": OLD}, {"type": "update", "data": NEW, "old": changed},
        {"type": "delete", "data": OLD},
        {"type": "update", "data": OLD, "old": {"name": None}}, {"type": "update", "data": OLD, "old": {}},
    ]  # fmt: skip
    nameless = change(BEFORE, {**OLD, "name": None})
    rows, messages, rejected = read(MaxwellJsonDeserializationSchema(STOCK), documents)
    assert rows == [
        *INSERTED,
        *UPDATED,
        *DELETED,
        nameless,
        change(AFTER, OLD),
        change(BEFORE, OLD),
        change(AFTER, OLD),
    ]
    assert (messages, rejected) == ([0, 1, 1, 2, 3, 3, 4, 4], {})


def as_text(row: dict[str, Any]) -> dict[str, Any]:
    return {name: None if value is None else str(value) for name, value in row.items()}


def canal(kind: Any, data: Any, old: Any = None, table: str = "stock") -> dict[str, Any]:
    return {"database": "shop", "table": table, "isDdl": False, "type": kind, "data": data, "old": old}


def test_canal() -> None:
    changed = {"name": "tea", "weight": "5.5"}
    documents = [
        canal("INSERT", [as_text(OLD), as_text(NEW)]),
        canal("UPDATE", [as_text(NEW), as_text(OLD)], [changed, {"name": None}]),
        canal("DELETE", [as_text(OLD)]),
        canal("CREATE", None),
        canal("INSERT", [OLD]),  # numbers as such
        canal("INSERT", [as_text(OLD)], table="other"),
        canal("INSERT", [as_text(OLD)], table="stocks"),
    ]  # fmt: skip
    schema = CanalJsonDeserializationSchema(STOCK, database_include="sh.p", table_include="stock|s.*s")
    assert read(schema, documents) == (
        [
            change(INSERT, OLD), change(INSERT, NEW), *UPDATED, change(BEFORE, {**OLD, "name": None}),
            change(AFTER, OLD), *DELETED, *INSERTED, *INSERTED,
        ],
        [0, 0, 1, 1, 1, 1, 2, 4, 6],
        {},
    )  # fmt: skip


def test_texts_of_canal_have_types() -> None:
    kind = Types.ROW_NAMED(
        ["d", "at", "day", "ok", "n"], [Types.BIG_DEC(), Types.SQL_TIMESTAMP(), Types.SQL_DATE(), bool, Types.SHORT()]
    )
    row = {"d": "1.10", "at": "2020-01-02 03:04:05.5", "day": "2020-01-02", "ok": "1", "n": "-7"}
    (((_, values),), _, _) = read(CanalJsonDeserializationSchema(kind), [canal("INSERT", [row])])
    assert (values[0], str(values[1]), str(values[2]), *values[3:]) == (
        Decimal("1.10"), "2020-01-02 03:04:05.500000", "2020-01-02", True, -7
    )  # fmt: skip


@pytest.mark.parametrize("kind", [Types.SHORT(), Types.LONG(), Types.BIG_INT()])
def test_whole_numbers_of_canal_are_spelled_as_in_other_json(kind: Any) -> None:
    good = {"7": 7, "1.0": 1, "-1e2": -100, "100e-2": 1, "-0.0": 0, '"1.0"': 1, '"7"': 7, "null": None}
    bad = ["1.5", '"1_0.0"', "1e1001", "NaN", '"0x10"', "true"]
    messages = [f'{{"data": [{{"n": {text}}}], "type": "INSERT"}}'.encode() for text in [*good, *bad]]
    rows, _, rejected = read(CanalJsonDeserializationSchema(Types.ROW_NAMED(["n"], [kind])), messages)
    assert [value for _, (value,) in rows] == list(good.values())
    assert list(rejected) == list(range(len(good), len(messages)))


@pytest.mark.parametrize(
    ("schema", "bad"),
    [
        (
            DebeziumJsonDeserializationSchema(STOCK),
            {
                "no image of the row as it was: .* REPLICA IDENTITY": [
                    debezium(None, NEW, "u"),
                    debezium(None, None, "d"),
                ],
                "no image of the row as it is": [debezium(OLD, None, "u"), debezium(None, None, "c")],
                "'x' is none of c, r, u, d": [debezium(OLD, NEW, "x")],
                "says it, one of c, r": [debezium(OLD, NEW, None), {}, {"payload": debezium(None, OLD, "c")}],
                r"\[\] is not an object": [b"[]"],
                "field 'after.id': \"x\" is not a whole number": [debezium(None, {"id": "x"}, "c")],
            },
        ),
        (
            MaxwellJsonDeserializationSchema(STOCK),
            {
                "no image of the row as it was": [{"type": "update", "data": NEW}, {"type": "delete"}],
                "no image of the row as it is": [{"type": "insert"}],
                "none of insert, update, delete": [{"type": "bootstrap-start", "data": {}}],
            },
        ),
        (
            CanalJsonDeserializationSchema(STOCK),
            {
                "no image of the row as it was": [
                    canal("UPDATE", [OLD, NEW], [{}]),
                    canal("UPDATE", [OLD]),
                    canal("DELETE", []),
                ],
                "no image of the row as it is": [canal("INSERT", None), canal("INSERT", [OLD, None])],
                "none of INSERT": [canal("ALTER", None)],
                "field 'data.id': 'x' is not a whole number": [canal("INSERT", [{"id": "x"}])],
            },
        ),
    ],
)
def test_messages_that_do_not_tell_what_they_should(schema: Any, bad: dict[str, list[Any]]) -> None:
    import re

    (good,) = [d for d in (debezium(None, OLD, "c"), {"type": "insert", "data": OLD}, canal("INSERT", [OLD]))
               if read(schema, [d])[0] == INSERTED]  # fmt: skip
    documents = [good, *(document for listed in bad.values() for document in listed), good]
    rows, messages, rejected = read(schema, documents)
    assert (rows, messages) == (INSERTED * 2, [0, len(documents) - 1])
    reasons = [reason for reason, listed in bad.items() for _ in listed]
    assert len(rejected) == len(reasons)
    for index, reason in enumerate(reasons, 1):
        assert re.search(reason, rejected[index]), rejected[index]


def test_metadata_beside_changes() -> None:
    schema = MessageDeserializationSchema(DebeziumJsonDeserializationSchema(STOCK), metadata=["offset"])
    messages = messages_of(
        [json.dumps(debezium(OLD, NEW, "u")).encode(), json.dumps(debezium(OLD, None, "d")).encode()]
    )
    records = MessageDecoder(schema, reject=False).decode(messages)
    rows = layout_of(schema.produced_type).columns_to_rows(records.columns)
    assert [(str(row.get_row_kind()), row.offset) for row in rows] == [("-U", 10), ("+U", 10), ("-D", 12)]


PAIRS: list[tuple[Any, Any]] = [
    (DebeziumJsonSerializationSchema, DebeziumJsonDeserializationSchema),
    (CanalJsonSerializationSchema, CanalJsonDeserializationSchema),
    (MaxwellJsonSerializationSchema, MaxwellJsonDeserializationSchema),
    (OggJsonSerializationSchema, OggJsonDeserializationSchema),
]
rows_of_any_kind = st.lists(
    st.builds(
        Row.of_kind,
        st.sampled_from(list(RowKind)), st.none() | st.integers(-(2**63), 2**63 - 1), st.none() | st.text(max_size=5),
        st.none() | st.floats(allow_nan=False, allow_infinity=False),
    ),
    max_size=5,
)  # fmt: skip


def back(rows: list[Row]) -> list[tuple[RowKind, tuple[Any, ...]]]:
    """What comes back: an update is written as a deletion and an insertion."""
    removed = (RowKind.UPDATE_BEFORE, RowKind.DELETE)
    return [(DELETE if row.get_row_kind() in removed else INSERT, tuple(row)) for row in rows]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("writer", "reader"), PAIRS)
@given(rows=rows_of_any_kind)
@settings(deadline=None, max_examples=draws(45))
def test_what_is_written_is_read(writer: Any, reader: Any, rows: list[Row]) -> None:
    schema = writer(STOCK)
    assert schema.takes_changes
    batch: Batch = batch_of(STOCK, rows)
    messages = schema.serialize_batch(batch).to_pylist()
    assert messages == [schema.serialize(row) for row in rows]
    assert schema.serialize_batch(batch.without_rows()).to_pylist() == messages
    assert read(reader(STOCK), messages) == (back(rows), list(range(len(rows))), {})


def test_debezium_in_avro() -> None:
    rows = [Row.of_kind(kind, 1, "tea", None) for kind in RowKind]
    with serving(Registry()) as registry:
        writer = DebeziumAvroSerializationSchema(registry.url, "stock", STOCK)
        messages = writer.serialize_batch(batch_of(STOCK, rows)).to_pylist()
        assert messages == [writer.serialize(row) for row in rows]
        reader = DebeziumAvroDeserializationSchema(registry.url, Types.ROW_NAMED(["name", "id"], [str, int]))
        expected = [(kind, ("tea", 1)) for kind, _ in back(rows)]
        assert read(reader, [*messages, None, b"{}"])[:2] == (expected, [0, 1, 2, 3])
    with pytest.raises(InvalidTypeError):
        writer.validate(Types.TUPLE([int]))


def test_what_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match="those of rows: give a type with fields"):
        DebeziumJsonDeserializationSchema(Types.STRING())
    with pytest.raises(UnsupportedOperationError, match="may be several rows"):
        DebeziumJsonDeserializationSchema(STOCK).deserialize(b"{}")
    with pytest.raises(InvalidTypeError, match="have the fields of"):
        MaxwellJsonSerializationSchema(STOCK).validate(Types.TUPLE([int]))


MOMENT = datetime.datetime(2020, 5, 13, 13, 39, 35, 766_000, datetime.UTC)
MILLIS = int(MOMENT.timestamp() * 1000)
SOURCE = {
    "db": "shop",
    "schema": "public",
    "table": "stock",
    "ts_ms": MILLIS,
    "snapshot": False,
    "gtid": None,
    "pos": 7,
}
WHOLE = {"database": "shop", "table": "stock", "type": "INSERT", "data": [OLD], "ts": MILLIS, "es": MILLIS}


@pytest.mark.parametrize(
    ("schema", "message", "expected"),
    [
        (
            DebeziumJsonDeserializationSchema,
            debezium(None, OLD, "c") | {"source": SOURCE, "ts_ms": MILLIS},
            {
                "schema": None, "ingestion-timestamp": MOMENT, "source.timestamp": MOMENT, "source.database": "shop",
                "source.schema": "public", "source.table": "stock",
                "source.properties": {"db": "shop", "schema": "public", "table": "stock", "ts_ms": str(MILLIS),
                                      "snapshot": "false", "gtid": None, "pos": "7"},
            },
        ),
        (
            CanalJsonDeserializationSchema,
            WHOLE | {"sqlType": {"id": 4}, "pkNames": ["id"]},
            {
                "database": "shop", "table": "stock", "sql-type": {"id": 4}, "pk-names": ["id"],
                "ingestion-timestamp": MOMENT, "event-timestamp": MOMENT,
            },
        ),
        (
            MaxwellJsonDeserializationSchema,
            WHOLE | {"type": "insert", "data": OLD, "ts": MILLIS // 1000, "primary_key_columns": ["id"]},
            {
                "database": "shop", "table": "stock", "primary-key-columns": ["id"],
                "ingestion-timestamp": MOMENT.replace(microsecond=0),
            },
        ),
        (
            OggJsonDeserializationSchema,
            debezium(None, OLD, "I", "op_type")
            | {"table": "stock", "primary_keys": ["id"], "current_ts": "2020-05-13T13:39:35.766000",
               "op_ts": "2020-05-13 13:39:35.766000"},
            {
                "table": "stock", "primary-keys": ["id"], "ingestion-timestamp": MOMENT, "event-timestamp": MOMENT,
            },
        ),
    ],
)  # fmt: skip
def test_metadata(schema: Any, message: dict[str, Any], expected: dict[str, Any]) -> None:
    reader = schema(STOCK, metadata=list(expected))
    assert reader.get_produced_type().field_names == (*STOCK.field_names, *expected)
    rows, messages, rejected = read(reader, [message, b"{", message])
    assert rows == [change(INSERT, OLD | expected)] * 2
    assert (messages, list(rejected)) == ([0, 2], [1])
    few = dict.fromkeys(message, None) | {
        key: message[key] for key in ("op", "op_type", "type", "after", "data") if key in message
    }
    assert read(reader, [few])[0] == [change(INSERT, OLD | dict.fromkeys(expected))]


def test_metadata_by_other_names_and_for_each_row_of_a_message() -> None:
    reader = DebeziumJsonDeserializationSchema(
        STOCK, schema_include=True, metadata={"of": "source.table", "described": "schema"}
    )
    payloads = [
        debezium(OLD, NEW, "u") | {"source": {"table": "stock"}},
        debezium(None, OLD, "c") | {"source": {"table": "other"}},
        debezium(None, OLD, "c") | {"source": "none"},
    ]
    rows, messages, rejected = read(reader, [{"schema": {"type": "struct"}, "payload": each} for each in payloads])
    assert [row[-2:] for _, row in rows] == [(name, '{"type":"struct"}') for name in ("stock", "stock", "other")]
    assert messages == [0, 0, 1]
    assert list(rejected) == [2]
    with pytest.raises(InvalidProgramError, match=r"have no metadata 'source\.tabel'"):
        DebeziumJsonDeserializationSchema(STOCK, metadata=["source.tabel"])
    with pytest.raises(InvalidProgramError, match="two fields are called 'name'"):
        DebeziumJsonDeserializationSchema(STOCK, metadata={"name": "source.table"})
