"""Any row of any type that a format takes is written and read again as the same, one by one and in columns."""

from __future__ import annotations

import datetime
import io
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.common import Row, Types
from headrace.common.columns import layout_of
from headrace.common.serialization import DeserializationSchema, SerializationSchema
from headrace.common.typeinfo import TypeInformation
from headrace.connectors.file_system.paths import InputPaths
from headrace.formats.avro.files import AvroFormat
from headrace.formats.avro.messages import AvroRowDeserializationSchema, AvroRowSerializationSchema
from headrace.formats.avro.schema import avro_schema_of
from headrace.formats.avro.writer import AvroBulkWriters
from headrace.formats.bad_records import columns_under
from headrace.formats.csv.writer import CsvRowDeserializationSchema, CsvRowSerializationSchema
from headrace.formats.file_format import BulkWriterFactory, FileFormat, FileKind, FileRange, joined
from headrace.formats.json.schemas import JsonRowDeserializationSchema, JsonRowSerializationSchema
from headrace.formats.orc import OrcBulkWriters, OrcFormat
from headrace.formats.parquet import ParquetBulkWriters, ParquetFormat
from headrace.storage.files import InputFile
from tests.common.test_round_trips import KINDS, SIMPLE, same
from tests.connectors.harness import batch_of, through_json
from tests.draws import draws

FEW = settings(
    deadline=None,
    max_examples=draws(20),
    derandomize=True,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


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
    normal: Callable[[Any], Any] = lambda value: value


def of_json(kind: TypeInformation) -> tuple[SerializationSchema, DeserializationSchema]:
    return JsonRowSerializationSchema(kind), JsonRowDeserializationSchema(kind)


def of_csv(kind: TypeInformation) -> tuple[SerializationSchema, DeserializationSchema]:
    writer = CsvRowSerializationSchema.Builder(kind).set_null_literal("NULL").build()
    return writer, CsvRowDeserializationSchema.Builder(kind).set_null_literal("NULL").build()


def of_avro(kind: TypeInformation) -> tuple[SerializationSchema, DeserializationSchema]:
    text = str(avro_schema_of(kind))
    writer = AvroRowSerializationSchema(avro_schema_string=text, legacy_timestamp_mapping=False)
    return writer, AvroRowDeserializationSchema(avro_schema_string=text, legacy_timestamp_mapping=False)


def with_all_digits(value: Any) -> Any:
    """A value whose decimals have no exponent, as JSON has them."""
    if isinstance(value, Decimal) and value.is_finite():
        return Decimal(f"{value:f}")
    if isinstance(value, dict):
        return {key: with_all_digits(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(with_all_digits, value))
    if isinstance(value, Row):
        return Row(**{name: with_all_digits(item) for name, item in value.as_dict().items()})
    return value


ANY = KINDS.filter(lambda field: without()(field[0]))
MESSAGES = {
    "json": Messages(ANY, of_json, b"{", with_all_digits),
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


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", MESSAGES)
@FEW
@given(st.data())
def test_messages(name: str, data: st.DataObject) -> None:
    fmt = MESSAGES[name]
    kind, rows = data.draw(records(fmt.fields))
    rows = [fmt.normal(row) for row in as_columns(kind, rows)]
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


FAR = datetime.datetime(1678, 1, 1), datetime.datetime(2261, 1, 1)


def is_near(value: Any) -> bool:
    """Whether there are no moments in a value that Arrow's reader of ORC cannot give."""
    if isinstance(value, datetime.datetime):
        return FAR[0] < value.replace(tzinfo=None) < FAR[1]
    if isinstance(value, dict):
        return all(map(is_near, value.values()))
    return not isinstance(value, list | tuple | Row) or all(map(is_near, value))


@dataclass(frozen=True)
class Files:
    """A format of whole files."""

    fields: st.SearchStrategy[Any]
    writers: Callable[[TypeInformation], BulkWriterFactory]
    reader: Callable[[TypeInformation], FileFormat[Any]]
    takes: Callable[[Any], bool] = lambda value: True


FILES = {
    "avro": Files(MESSAGES["avro"].fields, AvroBulkWriters.for_row_type, lambda kind: AvroFormat(type_info=kind)),
    "parquet": Files(ANY, ParquetBulkWriters.for_row_type, lambda kind: ParquetFormat(type_info=kind)),
    "orc": Files(
        KINDS.filter(lambda field: without(Types.SQL_TIME())(field[0])),
        OrcBulkWriters.for_row_type,
        lambda kind: OrcFormat(type_info=kind),
        is_near,
    ),
}


def file_of(writers: BulkWriterFactory, kind: TypeInformation, rows: list[Row]) -> bytes:
    out = io.BytesIO()
    writer = writers.create(out, kind)
    writer.add_batch(batch_of(kind, rows))
    writer.finish()
    return out.getvalue()


def rows_in(fmt: Files, kind: TypeInformation, path: Path) -> list[Any]:
    file = InputFile(InputPaths((), {}).store_of(str(path)), str(path), path.stat().st_size)
    reader = fmt.reader(kind)
    read = list(reader.read(FileRange(file, 0, reader.extent(file).length), reject=False))
    assert not any(decoded.damage for decoded in read)
    return [row for decoded in read for row in layout_of(kind).columns_to_rows(decoded.columns)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", FILES)
@FEW
@given(data=st.data())
def test_files(name: str, data: st.DataObject, tmp_path: Path) -> None:
    fmt = FILES[name]
    kind, rows = data.draw(records(fmt.fields))
    rows = [row for row in as_columns(kind, rows) if fmt.takes(row)]
    writers, path = fmt.writers(kind), tmp_path / "file"
    path.write_bytes(file_of(writers, kind, rows))
    found = rows_in(fmt, kind, path)
    assert same(found, rows), (found, rows)

    how = writers.file_kind(kind)
    assert how is not None
    cut = data.draw(st.integers(0, len(rows)))
    files = [io.BytesIO(file_of(writers, kind, part)) for part in (rows[:cut], rows[cut:])]
    path.write_bytes(b"".join(joined(FileKind(*through_json(how)), files)))
    found = rows_in(fmt, kind, path)
    assert same(found, rows), (found, rows)
