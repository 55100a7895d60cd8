"""Records that tell of which file they are."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from headrace.common import Row, Types
from headrace.common.errors import InvalidProgramError
from headrace.connectors.source import ReadBudget
from headrace.datastream import OutputTag
from headrace.datastream.connectors.file_system import FileSource, FileSourceBuilder, StreamFormat
from headrace.formats.json.decoders import JsonLinesFormat
from headrace.formats.parquet import ParquetFormat
from tests.connectors.harness import SourceRun, read_all

EVERYTHING = {
    "path": "file.path",
    "name": "file.name",
    "size": "file.size",
    "modified": "file.modification-time",
}
MICROS = 1_700_000_000_123_456


def put(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    os.utime(path, ns=(0, MICROS * 1000 + 789))


def lines(folder: Path) -> FileSourceBuilder:
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder)


def test_lines_become_rows(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    put(folder / "a ü", "x\n")
    put(folder / "b", "y\nz\n")
    put(folder / "empty", "")
    source = lines(folder).set_metadata(EVERYTHING).build()
    assert str(source.produced_type) == (
        "RowTypeInfo(value: String, path: String, name: String, size: Long, modified: TimestampLtzTypeInfo)"
    )
    modified = datetime.datetime.fromtimestamp(MICROS // 10**6, datetime.UTC).replace(microsecond=MICROS % 10**6)
    run = SourceRun(source, tmp_path / "state")
    while run.epoch(ReadBudget(10**6, 2, pieces=2)):
        run.restart()
    assert [tuple(row) for row in run.rows] == [
        ("x", f"{folder}/a ü", "a ü", 2, modified),
        ("y", f"{folder}/b", "b", 4, modified),
        ("z", f"{folder}/b", "b", 4, modified),
    ]


def test_fields_come_behind_those_of_the_record(tmp_path: Path) -> None:
    put(tmp_path / "in" / "1", '{"id": 1}\n{"id": "?"}\n{"id": 2}\n')
    builder = FileSource.for_record_stream_format(JsonLinesFormat({"id": int}), tmp_path / "in")
    source = builder.set_metadata(["file.name"]).set_dead_letter(OutputTag("bad")).build()
    run = SourceRun(source, tmp_path / "state")
    run.epoch()
    assert run.rows == [Row(**{"id": 1, "file.name": "1"}), Row(**{"id": 2, "file.name": "1"})]
    ((where, raw, _),) = run.rejected
    assert where.endswith("in/1:2")
    assert raw == '{"id": "?"}'


def test_columns_and_documents_of_any_kind(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    pa.parquet.write_table(pa.table({"n": pa.array([1, 2], pa.int64())}), tmp_path / "p" / "1.parquet")
    parquet = FileSource.for_bulk_file_format(ParquetFormat(type_info=Types.ROW_NAMED(["n"], [int])), tmp_path / "p")
    found = read_all(parquet.set_metadata({"of": "file.name"}).build(), tmp_path / "s")
    assert found == [Row(n=1, of="1.parquet"), Row(n=2, of="1.parquet")]
    put(tmp_path / "j" / "1", '{"a": [1]}\n5\n')
    documents = FileSource.for_record_stream_format(JsonLinesFormat(), tmp_path / "j").set_metadata({"of": "file.name"})
    assert read_all(documents.build(), tmp_path / "t") == [Row(value={"a": [1]}, of="1"), Row(value=5, of="1")]


def test_what_there_is_not_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "in" / "x", "x\n")
    with pytest.raises(InvalidProgramError, match=r"files have no metadata 'file\.paht'.*file\.path"):
        lines(tmp_path / "in").set_metadata(["file.paht"])
    with pytest.raises(
        InvalidProgramError, match=r"two fields are called 'value': give set_metadata\(\{'another name'"
    ):
        lines(tmp_path / "in").set_metadata({"value": "file.path"}).build()
