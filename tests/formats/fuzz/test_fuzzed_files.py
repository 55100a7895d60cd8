"""Files of all formats, in all compressions, drawn and damaged: what is written is read, and damage is told.

Damaged files are read by a process of its own, with a limit of memory: it has to get to the end.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.common import Row, Types
from headrace.common.batch import Batch
from headrace.common.typeinfo import BasicType, RowTypeInfo, TypeInformation
from headrace.formats.avro.files import AvroFormat
from headrace.formats.avro.writer import AvroBulkWriters
from headrace.formats.csv.reader import CsvFormat
from headrace.formats.csv.writer import CsvEncoder
from headrace.formats.file_format import BulkWriterFactory
from headrace.formats.json.decoders import JsonLinesFormat
from headrace.formats.json.writer import JsonLinesEncoder
from headrace.formats.orc import OrcBulkWriters, OrcFormat
from headrace.formats.parquet import ParquetBulkWriters, ParquetFormat
from tests.connectors.harness import batch_of
from tests.formats.fuzz.message_formats import ALL
from tests.formats.fuzz.reading_damage import KIND, records_of
from tests.formats.fuzz.test_fuzzed_messages import as_read
from tests.formats.fuzz.values import SEED, fuzzing, row_types, rows_of

DAMAGED_FILES = 50 if SEED is None else 500
"""Of each kind."""

MEMORY_MIB = 4096
"""Address space, of which libraries take most before they read anything."""


def bulk(factory: Callable[[], BulkWriterFactory]) -> Callable[[Batch], bytes]:
    def write(batch: Batch) -> bytes:
        out = io.BytesIO()
        writer = factory().create(out, batch.type)
        writer.add_batch(batch)
        writer.finish()
        return out.getvalue()

    return write


def arrow_compressed(codec: str) -> Callable[[bytes], bytes]:
    def compress(data: bytes) -> bytes:
        out = pa.BufferOutputStream()
        with pa.CompressedOutputStream(out, codec) as stream:
            stream.write(data)
        return out.getvalue().to_pybytes()

    return compress


COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": lambda data: gzip.compress(data[:40]) + gzip.compress(data[40:]),
    ".bz2": lambda data: bz2.compress(data[:40]) + bz2.compress(data[40:]),
    ".xz": lambda data: lzma.compress(data[:40]) + bytes(4) + lzma.compress(data[40:]),
    ".zst": arrow_compressed("zstd"),
    ".lz4": arrow_compressed("lz4"),
}
WRITERS: dict[str, Callable[[Batch], bytes]] = {
    **{f"json{c}": lambda batch, c=c: COMPRESSED[c](JsonLinesEncoder().encode_batch(batch)) for c in COMPRESSED},
    **{f"csv{c}": lambda batch, c=c: COMPRESSED[c](CsvEncoder().encode_batch(batch)) for c in COMPRESSED},
    **{
        f"parquet.{c}": bulk(lambda c=c: ParquetBulkWriters.for_row_type(compression=c))
        for c in ("snappy", "zstd", "gzip", "brotli", "lz4", "none")
    },
    **{
        f"orc.{c}": bulk(lambda c=c: OrcBulkWriters.for_row_type(writer_properties={"orc.compress": c}))
        for c in ("NONE", "ZLIB", "SNAPPY", "LZ4", "ZSTD")
    },
    **{
        f"avro.{c}": bulk(lambda c=c: AvroBulkWriters.for_row_type(codec=c))
        for c in ("null", "deflate", "snappy", "zstandard", "bzip2", "xz", "lz4")
    },
}
"""By what names of files end with; those of lines in two streams, where that is legal."""

FAR_MOMENTS = frozenset({BasicType.SQL_TIMESTAMP, BasicType.TIMESTAMP_LTZ})
TYPES = {
    "json": ALL,
    "csv": ALL - {BasicType.BYTES},
    "parquet": ALL,
    "orc": ALL - {BasicType.SQL_TIME} - FAR_MOMENTS,  # which Arrow reads from 1678 to 2261 alone
    "avro": ALL - {BasicType.BIG_INT, BasicType.BIG_DEC, BasicType.BYTE, BasicType.SHORT},
}
READERS: dict[str, Callable[[TypeInformation], Any]] = {
    "json": JsonLinesFormat,
    "csv": CsvFormat,
    "parquet": lambda kind: ParquetFormat(type_info=kind, batch_size=2),
    "orc": lambda kind: OrcFormat(type_info=kind),
    "avro": lambda kind: AvroFormat(type_info=kind),
}


@pytest.mark.parametrize("name", WRITERS)
@given(data=st.data())
@fuzzing(2)
def test_what_is_written_is_read(name: str, data: st.DataObject) -> None:
    fmt = name.partition(".")[0]
    kind: RowTypeInfo = data.draw(row_types(TYPES[fmt], nested=fmt != "csv"))
    rows = data.draw(st.lists(rows_of(kind, nulls=fmt != "csv"), min_size=1, max_size=6))
    if fmt == "csv" and any("\n" in str(value) or "\r" in str(value) for row in rows for value in row):
        return  # a line is a record, unless multiline says otherwise
    parts = data.draw(st.integers(1, 4))
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"a.{name}"
        path.write_bytes(WRITERS[name](batch_of(kind, rows)))
        found, rejected, damage = records_of(path, parts, READERS[fmt](kind))
    assert (list(map(repr, found)), rejected, damage) == (list(map(repr, as_read(kind, rows))), [], [])


@pytest.mark.parametrize("fmt", sorted(TYPES))
@given(data=st.data())
@fuzzing(2)
def test_another_column_changes_no_value_of_a_file(fmt: str, data: st.DataObject) -> None:
    kind: RowTypeInfo = data.draw(row_types(TYPES[fmt], nested=fmt != "csv"))
    rows = data.draw(st.lists(rows_of(kind, nulls=fmt != "csv"), min_size=1, max_size=6))
    if fmt == "csv" and any("\n" in str(value) or "\r" in str(value) for row in rows for value in row):
        return
    names = data.draw(st.permutations(kind.field_names))[: data.draw(st.integers(1, len(kind.field_names)))]
    fewer: Any = Types.ROW_NAMED(names, [kind.field_types[kind.field_names.index(name)] for name in names])
    expected = [Row(**{name: row[name] for name in names}) for row in as_read(kind, rows)]
    write = bulk_or_lines(fmt)
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"a.{fmt}"
        path.write_bytes(write(batch_of(kind, rows)))
        reader = CsvFormat(fewer, header=True) if fmt == "csv" else READERS[fmt](fewer)
        found, rejected, damage = records_of(path, data.draw(st.integers(1, 3)), reader)
    assert (list(map(repr, found)), rejected, damage) == (list(map(repr, expected)), [], [])


def bulk_or_lines(fmt: str) -> Callable[[Batch], bytes]:
    if fmt == "csv":
        return lambda batch: CsvEncoder(header=True).header(batch.type) + CsvEncoder().encode_batch(batch)
    return next(write for name, write in WRITERS.items() if name.partition(".")[0] == fmt)


def harmed(data: bytes, random: Random) -> bytes:
    """Some bytes, of which a few were changed: at the end of the file above all, where many formats have tables."""
    made = bytearray(data)
    for _ in range(random.choice([1, 1, 2, 5])):
        place = random.randrange(len(made) or 1)
        if random.random() < 0.5:
            place = max(0, len(made) - 1 - random.randrange(400))
        match random.randrange(4):
            case 0 | 1 if made:
                made[place] = random.choice([0, 1, 127, 128, 255, random.randrange(256)])
            case 2:
                del made[place : place + random.randrange(1, 9)]
            case _:
                made[place:place] = random.randbytes(random.randrange(1, 9))
    return bytes(made)


@pytest.mark.timeout(7200)
def test_damage_is_told_with_the_file_and_ends_no_process(tmp_path: Path) -> None:
    rows = [Row(id=number, name=f"name {number % 7}" * (number % 3)) for number in range(40)]
    for fmt in TYPES:
        random = Random(SEED or 1)
        names = [name for name in WRITERS if name.partition(".")[0] == fmt]
        whole = {name: WRITERS[name](batch_of(KIND, rows)) for name in names}
        for number in range(DAMAGED_FILES):
            name = names[number % len(names)]
            (tmp_path / f"{number:06}.{name}").write_bytes(harmed(whole[name], random))
    command = [sys.executable, "-m", "tests.formats.fuzz.reading_damage", str(tmp_path), str(MEMORY_MIB)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[3], check=False)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, (lines[-1:], done.stderr[-500:])
    assert len(lines) == DAMAGED_FILES * len(TYPES)
    assert [line for line in lines if not line.endswith((" bad", " told"))] == []
