"""Files of Avro, compared with fastavro."""

from __future__ import annotations

import base64
import datetime
import gzip
import io
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Configuration, Row, Types
from headrace.common.errors import BadRecordError, ConfigurationError, InvalidProgramError, InvalidTypeError
from headrace.connectors.source import ReadBudget
from headrace.datastream import OutputTag, StreamExecutionEnvironment
from headrace.datastream.connectors import create_sink, create_source
from headrace.datastream.connectors.file_system import FileSource
from headrace.datastream.formats.avro import (
    AvroBulkWriters,
    AvroFormat,
    AvroInputFormat,
    AvroSchema,
    GenericRecordAvroTypeInfo,
)
from headrace.datastream.formats.parquet import AvroParquetReaders, AvroParquetWriters
from headrace.formats.avro.files import CODECS
from tests.connectors.harness import SinkRun, SourceRun, read_all
from tests.draws import draws
from tests.formats.test_avro import record
from tests.formats.test_parquet import sink

ORDER = record(("id", "long"), ("name", ["null", "string"]))
CODECS_OF_FASTAVRO = ["null", "deflate", "bzip2", "xz"]
"""Those for which it needs no library."""

SAMPLES = {
    "snappy": (
        "T2JqAQQUYXZyby5jb2RlYwxzbmFwcHkWYXZyby5zY2hlbWHyAXsidHlwZSI6ICJyZWNvcmQiLCAibmFtZSI6ICJSIiwgImZpZWxk"
        "cyI6IFt7Im5hbWUiOiAiaWQiLCAidHlwZSI6ICJsb25nIn0sIHsibmFtZSI6ICJuYW1lIiwgInR5cGUiOiBbIm51bGwiLCAic3Ry"
        "aW5nIl19XX0AMDEyMzQ1Njc4OWFiY2RlZhJkPCwAAAICDG5hbWUgMQQNCQwyBgAIDQsENAoNCQw1DAAODQskNxACDG5hbWUgOGrj"
        "SBgwMTIzNDU2Nzg5YWJjZGVmEmhCMBIAFAIObmFtZSAxMBYRCgwxGAAaEQwEMxwRCgw0HgAgEQwoNiICDm5hbWUgMTfLOMOHMDEy"
        "MzQ1Njc4OWFiY2RlZgQkDCwkACYCDm5hbWUgMTnNs/kbMDEyMzQ1Njc4OWFiY2RlZg=="
    ),
    "zstandard": (
        "T2JqAQQUYXZyby5jb2RlYxJ6c3RhbmRhcmQWYXZyby5zY2hlbWHyAXsidHlwZSI6ICJyZWNvcmQiLCAibmFtZSI6ICJSIiwgImZp"
        "ZWxkcyI6IFt7Im5hbWUiOiAiaWQiLCAidHlwZSI6ICJsb25nIn0sIHsibmFtZSI6ICJuYW1lIiwgInR5cGUiOiBbIm51bGwiLCAi"
        "c3RyaW5nIl19XX0AMDEyMzQ1Njc4OWFiY2RlZhJoKLUv/SA8XQEABAIAAAICDG5hbWUgMQQyBgAINAo1DAAONxACDG5hbWUgOAQU"
        "AwQmxCZMAjAxMjM0NTY3ODlhYmNkZWYSXCi1L/0gQi0BANASABQCDm5hbWUgMTAWMRgAGjMcNB4AIDYiNwUUAwXFJ8Un+gUwMTIz"
        "NDU2Nzg5YWJjZGVmBCootS/9IAxhAAAkACYCDm5hbWUgMTkwMTIzNDU2Nzg5YWJjZGVm"
    ),
    "lz4": (
        "T2JqAQQUYXZyby5jb2RlYwZsejQWYXZyby5zY2hlbWHyAXsidHlwZSI6ICJyZWNvcmQiLCAibmFtZSI6ICJSIiwgImZpZWxkcyI6"
        "IFt7Im5hbWUiOiAiaWQiLCAidHlwZSI6ICJsb25nIn0sIHsibmFtZSI6ICJuYW1lIiwgInR5cGUiOiBbIm51bGwiLCAic3RyaW5n"
        "Il19XX0AMDEyMzQ1Njc4OWFiY2RlZhJiPAAAAMMAAAICDG5hbWUgMQQJAEMyBgAICwAjNAoJAEM1DAAOCwCgNxACDG5hbWUgODAx"
        "MjM0NTY3ODlhYmNkZWYSZkIAAADUEgAUAg5uYW1lIDEwFgoARDEYABoMACQzHAoARDQeACAMALA2IgIObmFtZSAxNzAxMjM0NTY3"
        "ODlhYmNkZWYEIgwAAADAJAAmAg5uYW1lIDE5MDEyMzQ1Njc4OWFiY2RlZg=="
    ),
}
"""Files that fastavro has written with the libraries of these codecs, the rows of ``orders(0, 20)``."""


def orders(first: int, last: int) -> list[dict[str, Any]]:
    return [{"id": n, "name": f"name {n}" if n % 3 else None} for n in range(first, last)]


def rows(first: int, last: int) -> list[Row]:
    return [Row(**order) for order in orders(first, last)]


def write(path: Path, values: list[dict[str, Any]], schema: Any = ORDER, **options: Any) -> None:
    with path.open("wb") as out:
        fastavro.writer(out, fastavro.parse_schema(schema), values, **options)


def source(path: Path, fmt: AvroFormat | None = None, *, dead_letters: bool = False) -> FileSource:
    builder = FileSource.for_bulk_file_format(fmt or AvroFormat(AvroSchema(ORDER)), path)
    return builder.set_dead_letter(OutputTag("bad")).build() if dead_letters else builder.build()


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 400), st.sampled_from(CODECS_OF_FASTAVRO)), max_size=3),
    st.builds(ReadBudget, records=st.integers(1, 40), bytes=st.integers(1, 3000), pieces=st.integers(1, 4)),
)
@settings(deadline=None, max_examples=draws(45))
def test_every_cut_gives_the_same_records(files: list[tuple[int, int, str]], budget: ReadBudget) -> None:
    with TemporaryDirectory() as folder:
        total = 0
        for number, (count, interval, codec) in enumerate([(5, 20, "null"), *files]):
            values = orders(total, total + count)
            write(Path(folder) / f"{number}.avro", values, codec=codec, sync_interval=interval)
            total += count
        run = SourceRun(source(Path(folder)), Path(folder) / ".state")
        run.to_end(budget)
        assert run.rows == rows(0, total)
        run.restart(len(run.snapshots) // 2)
        assert run.to_end() == rows(0, total)


KIND = Types.ROW_NAMED(
    ["id", "when", "local", "day", "at", "tags", "inner", "raw", "few", "ok"],
    [
        Types.SHORT(), Types.TIMESTAMP_LTZ(), Types.SQL_TIMESTAMP(), Types.SQL_DATE(), Types.SQL_TIME(),
        Types.MAP(str, Types.LIST(float)), Types.ROW_NAMED(["x"], [int]), bytes, Types.FLOAT(), bool,
    ],
)  # fmt: skip
WHEN = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999)
ROWS = [
    Row(id=n, when=WHEN.replace(tzinfo=datetime.UTC), local=WHEN, day=WHEN.date(), at=WHEN.time(),
        tags={"a": [1.5, None], "b": []}, inner=Row(x=n), raw=b"\xff" * 100 * n, few=0.5, ok=n > 3)
    for n in range(9)
] + [Row(**dict.fromkeys(KIND.field_names))]  # fmt: skip


@pytest.mark.parametrize("codec", ["bzip2", "xz"])
def test_a_block_is_one_stream_and_nothing_else(codec: str) -> None:
    compress, decompress = CODECS[codec]
    packed = compress(b"records")
    assert decompress(packed, 7) == b"records"
    for damaged in (packed + b"x", packed + packed, packed[:-1]):
        with pytest.raises(ValueError, match="compressed data"):
            decompress(damaged, 14)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("codec", CODECS)
def test_fastavro_reads_what_is_written(tmp_path: Path, codec: str) -> None:
    run = SinkRun(sink(tmp_path, AvroBulkWriters.for_row_type(codec=codec)), KIND)
    run.run_epoch(ROWS * 100)
    run.run_epoch(ROWS[:1])
    run.committer.finish()
    files = sorted((path for path in tmp_path.iterdir() if path.is_file()), key=lambda path: path.stat().st_size)
    assert [path.suffix for path in files] == [".avro"] * 2
    read = read_all(source(tmp_path, AvroFormat(type_info=KIND)), tmp_path / ".state")
    assert sorted(read, key=repr) == sorted(ROWS * 100 + ROWS[:1], key=repr)
    if codec in CODECS_OF_FASTAVRO:
        with files[1].open("rb") as stream:
            blocks = list(fastavro.block_reader(stream))
        assert len(blocks) > 3
        found = [row for block in blocks for row in block]
        assert [row["raw"] for row in found] == [row.raw for row in ROWS] * 100
        assert found[1]["when"] == ROWS[1].when


@pytest.mark.parametrize("codec", SAMPLES)
def test_codecs_for_which_fastavro_needs_libraries(tmp_path: Path, codec: str) -> None:
    (tmp_path / "a.avro").write_bytes(base64.b64decode(SAMPLES[codec]))
    assert read_all(source(tmp_path), tmp_path / ".state") == rows(0, 20)


def test_the_same_records_are_the_same_bytes(tmp_path: Path) -> None:
    written = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        run = SinkRun(sink(tmp_path / name, AvroBulkWriters.for_row_type()), KIND)
        run.run_epoch(ROWS)
        written += [path.read_bytes() for path in (tmp_path / name).iterdir() if path.is_file()]
    assert written[0] == written[1]


def test_schemas_evolve(tmp_path: Path) -> None:
    write(tmp_path / "a.avro", orders(0, 3))
    write(tmp_path / "b.avro", [{"name": "x", "price": 1.5}], record(("name", "string"), ("price", "float")))
    reader = record(("price", "double", 0.5), ("name", ["null", "string"]))
    read = read_all(source(tmp_path, AvroFormat(AvroSchema(reader))), tmp_path / ".state")
    names = [None, "name 1", "name 2", "x"]
    assert read == [Row(price=1.5 if name == "x" else 0.5, name=name) for name in names]
    resolved = source(tmp_path, AvroFormat())
    assert resolved.produced_type == Types.ROW_NAMED(["id", "name"], [int, str])
    with pytest.raises(BadRecordError, match=r"b\.avro does not fit .* id: the writer's schema has no such field"):
        read_all(resolved, tmp_path / ".state")


def test_types_of_programs(tmp_path: Path) -> None:
    write(tmp_path / "a.avro", orders(0, 2))
    kind = Types.ROW_NAMED(["name", "id"], [str, Types.DOUBLE()])
    assert read_all(source(tmp_path, AvroFormat(type_info=kind)), tmp_path / ".state")[1] == Row(name="name 1", id=1.0)
    with pytest.raises(InvalidTypeError, match="needs a schema or type_info"):
        _ = AvroFormat().produced_type
    with pytest.raises(InvalidProgramError, match="not both"):
        AvroFormat(AvroSchema(ORDER), kind)
    with pytest.raises(InvalidTypeError, match="of type record"):
        AvroFormat('"long"')
    (tmp_path / "a.avro").unlink()
    with pytest.raises(InvalidTypeError, match=r"no Avro file yet .* give a schema"):
        source(tmp_path, AvroFormat())


def test_a_bad_record_is_told_and_takes_no_other_with_it(tmp_path: Path) -> None:
    """A string that is no UTF-8 does not keep the records of its block from being found."""
    path = tmp_path / "a.avro"
    write(path, orders(0, 20), sync_interval=60)
    path.write_bytes(path.read_bytes().replace(b"name 11", b"name \xff1"))
    run = SourceRun(source(path, dead_letters=True), tmp_path / ".state")
    assert [row.id for row in run.to_end()] == [n for n in range(20) if n != 11]
    [(where, raw, reason)] = run.rejected
    assert where.startswith(f"{path}: record 2 of the block at byte ")
    assert r"name \xff1" in raw
    assert "UTF-8" in reason
    with pytest.raises(BadRecordError, match=r"record 2 of the block at byte \d+: .* call set_dead_letter\(\)"):
        read_all(source(path), tmp_path / ".state")


def damaged(data: bytes, place: int, value: bytes) -> bytes:
    return data[:place] + value + data[place + len(value) :]


@pytest.mark.parametrize("codec", ["null", "deflate"])
@pytest.mark.parametrize("where", ["count", "size", "data", "marker"])
@pytest.mark.parametrize("budget", [ReadBudget(10**9, 10**9), ReadBudget(1, 30)], ids=["whole", "cut"])
def test_a_damaged_block_is_lost_alone(tmp_path: Path, codec: str, where: str, budget: ReadBudget) -> None:
    path, marker = tmp_path / "a.avro", b"0123456789abcdef"
    write(path, orders(0, 60), sync_interval=100, sync_marker=marker, codec=codec)
    data = path.read_bytes()
    ends = [place + 16 for place in range(len(data)) if data.startswith(marker, place)]
    with path.open("rb") as stream:
        counts = [block.num_records for block in fastavro.block_reader(stream)]
    assert len(counts) > 3
    place = {"count": ends[1], "size": ends[1] + 1, "data": ends[1] + 3, "marker": ends[2] - 3}[where]
    path.write_bytes(damaged(data, place, b"\xff"))
    with pytest.raises(BadRecordError, match=f"in the block at byte {ends[1]}, "):
        read_all(source(path), tmp_path / ".state")
    builder = FileSource.for_bulk_file_format(AvroFormat(AvroSchema(ORDER)), path).ignore_corrupt_files()
    run = SourceRun(builder.build(), tmp_path / ".state")
    lost = set(range(counts[0], counts[0] + counts[1]))
    if where == "marker":  # the one behind it cannot be found
        lost |= set(range(max(lost) + 1, max(lost) + 1 + counts[2]))
    assert [row.id for row in run.to_end(budget)] == [n for n in range(60) if n not in lost]
    assert run.counters["numFilesCorrupt"] == 1


def test_files_that_are_none(tmp_path: Path) -> None:
    write(tmp_path / "whole", orders(0, 5))
    data = (tmp_path / "whole").read_bytes()
    for wrong, message in [
        (b"no Avro at all", "is not an Avro file"),
        (gzip.compress(data), "is not an Avro file, but a compressed one: decompress it"),
        (data[:40], "ends within its header"),
        (data.replace(b"\x08null", b"\x08zip0"), "compressed with 'zip0'; what can be read is null, deflate"),
        (data.replace(b'"long"', b'"lung"'), "has no type 'lung'"),
        (data[:-30], "longer than the file, or it was cut"),
    ]:
        (tmp_path / "a.avro").write_bytes(wrong)
        with pytest.raises(BadRecordError, match=rf"a\.avro.*{message}"):
            read_all(source(tmp_path / "a.avro"), tmp_path / ".state")


def test_what_cannot_be_written() -> None:
    factory = AvroBulkWriters.for_row_type()
    with pytest.raises(InvalidTypeError, match="declare"):
        factory.validate(Types.PICKLED_BYTE_ARRAY())
    with pytest.raises(InvalidTypeError, match="records with fields, but these are of type Integer: make rows"):
        factory.validate(Types.INT())
    with pytest.raises(InvalidTypeError, match="what rows do in a changelog, for which there is no field"):
        factory.validate(Types.ROW_NAMED(["id"], [int], changelog=True))
    with pytest.raises(InvalidTypeError, match="what is written is to have the fields of"):
        AvroBulkWriters.for_row_type(KIND).validate(Types.TUPLE([int]))
    with pytest.raises(ConfigurationError, match=r"no codec 'brotli' of Avro files: choose one of null, deflate"):
        AvroBulkWriters.for_row_type(codec="brotli")
    with pytest.raises(InvalidTypeError, match="of type record"):
        AvroBulkWriters.for_generic_record(AvroSchema('"long"'))
    decimal = Types.ROW_NAMED(["price"], [Types.BIG_DEC()])
    with pytest.raises(InvalidTypeError, match=r"price is BigDecimal, .* give a schema to AvroBulkWriters.for_generic"):
        factory.validate(decimal)
    with pytest.raises(InvalidTypeError, match="give a schema in place of type_info"):
        AvroFormat(type_info=decimal)
    with pytest.raises(InvalidTypeError, match="my price is no name in Avro, which has letters, digits and _ alone"):
        factory.validate(Types.ROW_NAMED(["my price"], [float]))


def test_a_schema_is_given_in_three_ways() -> None:
    for given_ in (ORDER, json.dumps(ORDER), AvroSchema(ORDER)):
        kind = GenericRecordAvroTypeInfo(given_)
        assert AvroFormat(given_).produced_type == AvroFormat(AvroSchema(ORDER)).produced_type
        assert AvroInputFormat("", given_).produced_type == kind
        assert AvroParquetReaders.for_generic_record(given_).produced_type == kind
        AvroBulkWriters.for_generic_record(given_).validate(kind)
        AvroParquetWriters.for_generic_record(given_).validate(kind)
    with pytest.raises(
        InvalidTypeError, match=r"AvroFormat takes an AvroSchema, or its text in JSON, not 5\n  at .*\.py"
    ):
        AvroFormat(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramError, match=r"is no JSON.*; that of a file is AvroSchema\.parse_file\(path\)"):
        AvroFormat("order.avsc")


def test_pyflink_s_input_format(tmp_path: Path) -> None:
    schema = AvroSchema(record(id="long", inner=record(name="R2", x="string")))
    orders = [{"id": n, "inner": {"x": str(n)}} for n in range(3)]
    run = SinkRun(sink(tmp_path, AvroBulkWriters.for_generic_record(schema)), AvroInputFormat("", schema).produced_type)
    run.run_epoch(orders)
    run.committer.finish()
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"headrace.runtime": "local"}))
    assert env.create_input(AvroInputFormat(str(tmp_path), schema)).execute_and_collect(limit=10) == orders
    with pytest.raises(InvalidTypeError, match="create_input"):
        env.create_input(AvroFormat(schema))  # type: ignore[arg-type]


def test_by_name(tmp_path: Path) -> None:
    write(tmp_path / "a.avro", orders(0, 2))
    options: dict[str, Any] = {"path": str(tmp_path), "format": "avro"}
    assert create_source("filesystem", options).produced_type == Types.ROW_NAMED(["id", "name"], [int, str])
    assert create_sink("filesystem", {**options, "avro.codec": "zstandard"})


def test_a_block_may_be_larger_than_what_is_read_at_once(tmp_path: Path) -> None:
    values = [{"id": n, "name": "x" * 300_000} for n in range(9)]
    write(tmp_path / "a.avro", values, sync_interval=2_000_000)
    read = read_all(source(tmp_path), tmp_path / ".state", ReadBudget(10**9, 10**9, 3))
    assert [(row.id, len(row.name)) for row in read] == [(n, 300_000) for n in range(9)]


def test_an_empty_file(tmp_path: Path) -> None:
    write(tmp_path / "a.avro", [])
    assert read_all(source(tmp_path), tmp_path / ".state") == []
    out = io.BytesIO()
    AvroBulkWriters.for_generic_record(AvroSchema(ORDER)).create(
        out, Types.ROW_NAMED(["id", "name"], [int, str])
    ).finish()
    assert list(fastavro.reader(io.BytesIO(out.getvalue()))) == []
