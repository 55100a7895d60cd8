"""Messages of all formats, drawn: what is written is read, and each is judged by itself.

``make test-fuzz`` draws others, for an hour.
"""

from __future__ import annotations

import io
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import fastavro
import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.common import DeserializationSchema, Row, Types
from headrace.common.columns import layout_of
from headrace.common.errors import BadRecordError
from headrace.common.typeinfo import BasicType, BasicTypeInfo, RowTypeInfo
from headrace.formats.avro.schema import avro_schema_of
from tests.connectors.harness import batch_of
from tests.formats.fuzz.message_formats import FORMATS, RAW, MessageFormat, binary
from tests.formats.fuzz.values import VALUES, damaged, fuzzing, row_types, rows_of

Verdict = tuple[list[str], str | None]
"""What comes of a message: its records as text, since NaN is not itself, and why it is a bad one."""


def verdicts(schema: DeserializationSchema, messages: list[bytes], text: Callable[[Any], Any] = repr) -> list[Verdict]:
    """What becomes of each of some messages that are read together."""
    read = schema.deserialize_batch(binary(messages))
    kind = schema.get_produced_type()
    rows = layout_of(kind).columns_to_rows(read.columns) if read.columns is not None else (read.rows or [])
    sources = np.arange(len(rows)) if read.messages is None else read.messages
    found: list[Verdict] = [([], None) for _ in messages]
    for row, index in zip(rows, sources.tolist(), strict=True):
        found[index][0].append(text(row))
    for index, reason in read.rejected:
        assert not found[index][0], "a bad message has no records"
        assert reason
        found[index] = ([], reason)
    return found


@st.composite
def written(draw: st.DrawFn, fmt: MessageFormat) -> tuple[RowTypeInfo, list[Row], list[bytes]]:
    """A type, rows of it, and their messages."""
    kind = draw(row_types(fmt.types, nested=fmt.nested))
    rows = draw(st.lists(rows_of(kind, nulls=fmt.takes_nulls), min_size=1, max_size=5))
    return kind, rows, fmt.writer(kind).serialize_batch(batch_of(kind, rows)).to_pylist()


@pytest.mark.parametrize("name", FORMATS)
@given(data=st.data())
@fuzzing(4)
def test_what_is_written_is_read(name: str, data: st.DataObject) -> None:
    fmt = FORMATS[name]
    kind, rows, messages = data.draw(written(fmt))
    reader = fmt.reader(kind)
    assert verdicts(reader, messages) == [([repr(row)], None) for row in as_read(kind, rows)]
    if fmt.one_each:
        assert list(map(reader.deserialize, messages)) == as_read(kind, rows)


def as_read(kind: RowTypeInfo, rows: list[Row]) -> list[Row]:
    """Rows as they come back from columns."""
    layout = layout_of(kind)
    return layout.columns_to_rows(layout.rows_to_columns(rows))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", FORMATS)
@given(data=st.data())
@fuzzing(4)
def test_a_message_is_judged_by_itself(name: str, data: st.DataObject) -> None:
    fmt = FORMATS[name]
    kind, _, messages = data.draw(written(fmt))
    odd = [data.draw(damaged(message)) for message in messages]
    reader = fmt.reader(kind)
    each = [verdicts(reader, [message])[0] for message in [*odd, *messages]]
    mixed = data.draw(st.permutations(range(len(each))))
    both = [*odd, *messages]
    assert verdicts(reader, [both[index] for index in mixed]) == [each[index] for index in mixed]
    assert verdicts(reader, both * 2) == each * 2
    for message, (records, reason) in zip(odd, each, strict=False):
        if not fmt.one_each:
            continue
        if reason is None:
            assert [repr(reader.deserialize(message))] == records or not records
        else:
            with pytest.raises(BadRecordError):
                reader.deserialize(message)


@pytest.mark.parametrize("name", FORMATS)
@given(data=st.data())
@fuzzing(3)
def test_a_message_takes_memory_by_its_size(name: str, data: st.DataObject) -> None:
    fmt = FORMATS[name]
    kind, _, messages = data.draw(written(fmt))
    odd = [data.draw(damaged(message)) for message in messages]
    reader = fmt.reader(kind)
    verdicts(reader, messages)  # what is kept of a schema is not theirs
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        verdicts(reader, odd)
        taken = tracemalloc.get_traced_memory()[1] + max(pa.total_allocated_bytes() - before, 0)
    finally:
        tracemalloc.stop()
    assert taken < 2_000_000 + 2_000 * sum(map(len, odd))


@pytest.mark.parametrize("name", ["json", "debezium", "canal", "maxwell", "ogg", "avro"])
@given(data=st.data())
@fuzzing(4)
def test_another_column_changes_no_value(name: str, data: st.DataObject) -> None:
    """Of whatever type it is, and whether messages have it or not."""
    fmt = FORMATS[name]
    kind, _, messages = data.draw(written(fmt))
    messages += [data.draw(damaged(message)) for message in messages] if name != "avro" else []
    more = data.draw(st.sampled_from(sorted(fmt.types, key=lambda of: of.name)))
    names, types = (*kind.field_names, "added"), [*kind.field_types, BasicTypeInfo(more)]
    wider = Types.ROW_NAMED(list(names), types)
    assert isinstance(wider, RowTypeInfo)
    if name == "avro":
        from headrace.common import AvroRowDeserializationSchema

        reader: Any = AvroRowDeserializationSchema(
            avro_schema_string=str(avro_schema_of(wider)),
            writer_schema=str(avro_schema_of(kind)),
            legacy_timestamp_mapping=False,
        )
    else:
        reader = fmt.reader(wider)
    narrow = verdicts(fmt.reader(kind), messages)
    for (records, reason), (found, other) in zip(narrow, verdicts(reader, messages), strict=True):
        if b"added" not in b"".join(messages):
            assert (reason is None) == (other is None), (reason, other)
            assert [text.replace(", added=None)", ")") for text in found] == records


@pytest.mark.parametrize("name", ["csv", "protobuf"])
@given(data=st.data())
@fuzzing(4)
def test_another_column_that_messages_have_changes_no_value(name: str, data: st.DataObject) -> None:
    fmt = FORMATS[name]
    kind, rows, messages = data.draw(written(fmt))
    more = data.draw(st.sampled_from(sorted(fmt.types, key=lambda of: of.name)))
    wider = Types.ROW_NAMED([*kind.field_names, "added"], [*kind.field_types, BasicTypeInfo(more)])
    assert isinstance(wider, RowTypeInfo)
    added = [Row(**row.as_dict(), added=data.draw(VALUES[more])) for row in rows]
    longer = fmt.writer(wider).serialize_batch(batch_of(wider, added)).to_pylist()
    narrow, wide = verdicts(fmt.reader(kind), messages), verdicts(fmt.reader(wider), longer)
    assert [reason for _, reason in wide] == [reason for _, reason in narrow] == [None] * len(rows)
    for (records,), (found,) in zip((each for each, _ in narrow), (each for each, _ in wide), strict=True):
        assert found.startswith(records.removesuffix(")")), (found, records)


@given(data=st.data())
@fuzzing(4)
def test_json_beside_orjson(data: st.DataObject) -> None:
    kind, _, messages = data.draw(written(FORMATS["json"]))
    for message in messages:
        assert list(orjson.loads(message)) == list(kind.field_names)
    for message in [data.draw(damaged(message)) for message in messages]:
        ((records, _),) = verdicts(FORMATS["json"].reader(kind), [message])
        if records:
            json.loads(message.decode("utf-8-sig"))  # takes NaN, and orjson does not


@given(data=st.data())
@fuzzing(4)
def test_avro_beside_fastavro(data: st.DataObject) -> None:
    fmt = FORMATS["avro"]
    kind, rows, messages = data.draw(written(fmt))
    schema = fastavro.parse_schema(json.loads(str(avro_schema_of(kind))))
    for row, message in zip(rows, messages, strict=True):
        stream = io.BytesIO(message)
        theirs: Any = fastavro.schemaless_reader(stream, schema, schema)
        assert stream.read() == b""
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, theirs)
        ((ours, reason),) = verdicts(fmt.reader(kind), [out.getvalue()])
        assert reason is None, row
        assert ours == verdicts(fmt.reader(kind), [message])[0][0]
    for message in [data.draw(damaged(message)) for message in messages]:
        ((records, _),) = verdicts(fmt.reader(kind), [message])
        if records:
            fastavro.schemaless_reader(io.BytesIO(message), schema, schema)


@pytest.mark.parametrize("name", RAW)
@given(messages=st.lists(st.binary(max_size=12) | st.text(max_size=6).map(str.encode), max_size=6))
@fuzzing(4)
def test_raw_messages(name: str, messages: list[bytes]) -> None:
    found = verdicts(RAW[name], messages)
    assert found == [verdicts(RAW[name], [message])[0] for message in messages]
    for message, (records, reason) in zip(messages, found, strict=True):
        is_good = name == "bytes" or message.decode(errors="replace").encode() == message
        assert (reason is None) == is_good == bool(records)


WRONG: dict[BasicType, list[Any]] = {
    BasicType.INT: ["x", 2**31, "0x10"],
    BasicType.LONG: [2**63, "1.5"],
    BasicType.FLOAT: ["x"],
    BasicType.DOUBLE: ["1,5"],
    BasicType.BOOLEAN: ["maybe"],
    BasicType.BIG_DEC: ["1,5"],
    BasicType.SQL_DATE: ["10000-01-01", "0000-12-31", "2026-02-30"],
    BasicType.SQL_TIME: ["24:00:00", "-1"],
    BasicType.SQL_TIMESTAMP: ["10000-01-01T00:00:00", "2026-01-01T00:00:00Z"],
    BasicType.TIMESTAMP_LTZ: ["0001-01-01T00:00:00+01:00", "2026-01-01T00:00:00"],
}


@pytest.mark.parametrize("name", ["json", "csv"])
@pytest.mark.parametrize("of", WRONG)
def test_a_reason_names_field_and_value(name: str, of: BasicType) -> None:
    kind = Types.ROW_NAMED(["id", "wrong"], [Types.STRING(), BasicTypeInfo(of)])
    assert isinstance(kind, RowTypeInfo)
    for value in WRONG[of]:
        message = json.dumps({"id": "a", "wrong": value}) if name == "json" else f'a,"{value}"'
        ((records, reason),) = verdicts(FORMATS[name].reader(kind), [message.encode()])
        assert not records
        assert reason is not None
        assert "wrong" in reason, reason
        assert str(value) in reason, reason
        assert "row 0" not in reason, reason
