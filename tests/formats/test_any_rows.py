"""Any row of any type that a format takes is written and read again as the same, one by one and in columns."""

from __future__ import annotations

import datetime
import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headrace.common import Row, Types
from headrace.common.columns import layout_of
from headrace.common.errors import InvalidTypeError
from headrace.common.serialization import DeserializationSchema, SerializationSchema
from headrace.common.typeinfo import BasicType, BasicTypeInfo, SequenceTypeInfo, TypeInformation
from headrace.connectors.file_system.paths import InputPaths
from headrace.formats.avro import AvroBulkWriters, AvroFormat, AvroRowDeserializationSchema, AvroRowSerializationSchema
from headrace.formats.avro.types import avro_schema_of
from headrace.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from headrace.formats.encoders import BulkWriterFactory
from headrace.formats.file_format import BulkFormat, FileRange
from headrace.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from headrace.formats.messages import columns_under
from headrace.formats.orc import OrcBulkWriters, OrcFormat
from headrace.formats.parquet import ParquetBulkWriters, ParquetFormat
from headrace.storage.files import InputFile
from tests.common.test_round_trips import KINDS, SIMPLE, same
from tests.connectors.harness import batch_of

FEW = settings(deadline=None, max_examples=60, derandomize=True)


def parts(kind: TypeInformation) -> list[TypeInformation]:
    """A type, and all types within it."""
    names = ("element_type", "key_type", "value_type")
    inner = [*getattr(kind, "field_types", ()), *(getattr(kind, name) for name in names if hasattr(kind, name))]
    return [kind, *(part for each in inner for part in parts(each))]


def without(*refused: TypeInformation) -> Callable[[TypeInformation], bool]:
    """Whether a type has no parts of some types; objects and changes of rows are refused by all formats here."""
    wrong = {Types.PICKLED_BYTE_ARRAY(), *refused}
    return lambda kind: not any(part in wrong or getattr(part, "changelog", False) for part in parts(kind))


@dataclass(frozen=True)
class Messages:
    """A format of messages."""

    fields: st.SearchStrategy[Any]
    schemas: Callable[[TypeInformation], tuple[SerializationSchema, DeserializationSchema]]
    garbage: bytes


def of_json(kind: TypeInformation) -> tuple[SerializationSchema, DeserializationSchema]:
    return JsonRowSerializationSchema(kind), JsonRowDeserializationSchema(kind)


def of_csv(kind: TypeInformation) -> tuple[SerializationSchema, DeserializationSchema]:
    writer = CsvRowSerializationSchema.Builder(kind).set_null_literal("NULL").build()
    return writer, CsvRowDeserializationSchema.Builder(kind).set_null_literal("NULL").build()


def of_avro(kind: TypeInformation) -> tuple[SerializationSchema, DeserializationSchema]:
    text = str(avro_schema_of(kind))
    writer = AvroRowSerializationSchema(avro_schema_string=text, legacy_timestamp_mapping=False)
    return writer, AvroRowDeserializationSchema(avro_schema_string=text, legacy_timestamp_mapping=False)


ANY = KINDS.filter(lambda field: without()(field[0]))
MESSAGES = {
    "json": Messages(ANY, of_json, b"{"),
    "csv": Messages(st.sampled_from(SIMPLE).filter(lambda field: without()(field[0])), of_csv, b'"'),
    "avro": Messages(
        KINDS.filter(lambda field: without(Types.BIG_DEC(), Types.BIG_INT(), Types.INSTANT())(field[0])),
        of_avro,
        b"\x07",
    ),
}


@st.composite
def records(draw: st.DrawFn, kinds: st.SearchStrategy[Any]) -> tuple[TypeInformation, list[Row]]:
    """A type of rows with two fields, and some of its rows."""
    fields = [draw(kinds) for _ in range(2)]
    kind = Types.ROW_NAMED(["a", "b"], [field for field, _ in fields])
    values = [st.none() | present for _, present in fields]
    return kind, draw(st.lists(st.builds(Row, a=values[0], b=values[1]), min_size=1, max_size=5))


def as_columns(kind: TypeInformation, rows: list[Row]) -> list[Any]:
    """Rows as they are after having been columns."""
    layout = layout_of(kind)
    return layout.columns_to_rows(layout.rows_to_columns(rows))


@pytest.mark.parametrize("name", MESSAGES)
@FEW
@given(st.data())
def test_messages(name: str, data: st.DataObject) -> None:
    fmt = MESSAGES[name]
    kind, rows = data.draw(records(fmt.fields))
    rows = as_columns(kind, rows)
    writer, reader = fmt.schemas(kind)
    together = writer.serialize_batch(batch_of(kind, rows)).to_pylist()
    assert [writer.serialize(row) for row in rows] == together
    place = data.draw(st.integers(0, len(rows)))
    read = reader.deserialize_batch(pa.array([*together[:place], fmt.garbage, *together[place:]], pa.binary()))
    assert [index for index, _ in read.rejected] == [place]
    assert read.columns is not None
    found = layout_of(kind).columns_to_rows(columns_under(read.columns, kind))
    assert same(found, rows), (together, found, rows)
    assert same(
        found, [layout_of(kind).columns_to_rows(columns_under(one, kind))[0] for one in one_by_one(reader, together)]
    )


def one_by_one(reader: DeserializationSchema, messages: list[bytes]) -> list[pa.RecordBatch]:
    read = [reader.deserialize_batch(pa.array([message], pa.binary())).columns for message in messages]
    return [columns for columns in read if columns is not None]
