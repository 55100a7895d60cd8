"""Parquet, read and written."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.errors import BadRecordError, ConfigurationError, InvalidProgramError, InvalidTypeError
from headrace.common.logical_types import decimal
from headrace.common.typeinfo import Types
from headrace.common.types import Row
from headrace.connectors.source import EnumeratorContext, ReadBudget
from headrace.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource, RollingPolicy
from headrace.formats.avro.schema import AvroSchema, GenericRecordAvroTypeInfo
from headrace.formats.bulk_files import type_of_schema
from headrace.formats.csv.schema import CsvSchema
from headrace.formats.csv.writer import CsvBulkWriters
from headrace.formats.parquet import (
    AvroParquetReaders,
    AvroParquetWriters,
    ParquetBulkWriters,
    ParquetColumnarRowInputFormat,
    ParquetFormat,
    RowGroupWriter,
)
from headrace.storage.file_system import PosixFileSystem
from headrace.storage.files import FileStore, InputFile
from headrace.storage.folder import posix_folder
from tests.connectors.harness import PLENTY, SinkRun, SourceRun, read_all
from tests.draws import draws


def source(path: Path, fmt: ParquetFormat | None = None) -> FileSource:
    return FileSource.for_bulk_file_format(fmt or ParquetFormat(), path).build()


def write(path: Path, rows: int, group: int, first: int = 0) -> None:
    numbers = list(range(first, first + rows))
    table = pa.table({"id": pa.array(numbers, pa.int64()), "name": pa.array([f"n{n}" for n in numbers], pa.string())})
    pq.write_table(table, path, row_group_size=group)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 30)), min_size=1, max_size=3),
    st.builds(ReadBudget, records=st.integers(1, 40), bytes=st.integers(1, 3000), pieces=st.integers(1, 4)),
    st.integers(1, 20),
)
@settings(deadline=None, max_examples=draws(20))
def test_every_cut_gives_the_same_rows(files: list[tuple[int, int]], budget: ReadBudget, batch_size: int) -> None:
    with TemporaryDirectory() as folder:
        total = 0
        for number, (rows, group) in enumerate(files):
            write(Path(folder) / f"{number}.parquet", rows, group, total)
            total += rows
        run = SourceRun(source(Path(folder), ParquetFormat(batch_size=batch_size)), Path(folder) / ".state")
        run.to_end(budget)
        assert run.rows == [Row(id=number, name=f"n{number}") for number in range(total)]
        run.restart(len(run.snapshots) // 2)
        assert len(run.to_end()) == total


def test_pieces_are_cut_between_row_groups(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", 1000, 450)
    enumerator = source(tmp_path).create_enumerator(EnumeratorContext(2, posix_folder(tmp_path / ".state")))
    share = enumerator.plan("files", [0, 0], ReadBudget(10**9, 10**9, 2), 0)
    assert share is not None
    assert [[(start, end) for *_, start, end in piece] for piece in share.pieces] == [[(0, 450)], [(450, 1000)]]
    assert (share.records, share.end) == (1000, [1, 0])
    share = enumerator.plan("files", [0, 0], ReadBudget(500, 10**9, 2), 0)
    assert share is not None
    assert share.end == [0, 450]
    share = enumerator.plan("files", [0, 0], ReadBudget(200, 10**9, 2), 0)
    assert share is not None
    assert share.end == [0, 200]


@pytest.mark.parametrize("use_dictionary", [True, False])
def test_texts_are_the_same_in_dictionaries_and_outside(tmp_path: Path, use_dictionary: bool) -> None:
    texts = ["", None, "naïve", "\U0001f600", "a"] * 100
    table = pa.table({"text": pa.array(texts, pa.string()), "none": pa.nulls(len(texts), pa.string())})
    pq.write_table(table, tmp_path / "a.parquet", use_dictionary=use_dictionary, row_group_size=200)
    assert read_all(source(tmp_path / "a.parquet"), tmp_path / ".state") == [
        Row(text=text, none=None) for text in texts
    ]


@pytest.mark.parametrize("use_dictionary", [True, False])
def test_what_is_no_text_is_found_in_dictionaries_and_outside(tmp_path: Path, use_dictionary: bool) -> None:
    letters = pa.array([b"fine", b"\xff\xfe", b"fine"] * 10)
    table = pa.table({"text": pa.Array.from_buffers(pa.string(), len(letters), letters.buffers())})
    pq.write_table(table, tmp_path / "a.parquet", use_dictionary=use_dictionary)
    with pytest.raises(BadRecordError, match=r"a\.parquet: row 1 of the file.*UTF-?8"):
        read_all(source(tmp_path / "a.parquet"), tmp_path / ".state")


def test_the_type_is_that_of_the_first_file(tmp_path: Path) -> None:
    utc = datetime.UTC
    columns: dict[str, tuple[pa.DataType, Any, Any]] = {
        "u8": (pa.uint8(), 200, 200),
        "u64": (pa.uint64(), 2**64 - 1, 2**64 - 1),
        "f": (pa.float32(), 1.5, 1.5),
        "big": (pa.large_string(), "x", "x"),
        "dict": (pa.dictionary(pa.int32(), pa.string()), "y", "y"),
        "dec": (pa.decimal128(10, 2), Decimal("1.00"), Decimal("1.00")),
        "wide": (pa.decimal256(50, 2), Decimal("1.00"), Decimal("1.00")),
        "date": (pa.date32(), datetime.date(2020, 1, 2), datetime.date(2020, 1, 2)),
        "time": (pa.time64("us"), datetime.time(1), datetime.time(1)),
        "ms": (pa.timestamp("ms"), datetime.datetime(2020, 1, 2), datetime.datetime(2020, 1, 2)),
        "ns": (pa.timestamp("ns"), datetime.datetime(2020, 1, 2), datetime.datetime(2020, 1, 2)),
        "tz": (
            pa.timestamp("us", "UTC"),
            datetime.datetime(2020, 1, 2, tzinfo=utc),
            datetime.datetime(2020, 1, 2, tzinfo=utc),
        ),
        "list": (pa.list_(pa.int32()), [1, None], [1, None]),
        "map": (pa.map_(pa.string(), pa.int64()), [("a", 1)], {"a": 1}),
        "struct": (pa.struct([("x", pa.int64())]), {"x": 1}, Row(x=1)),
        "bytes": (pa.binary(), b"\xff", b"\xff"),
    }
    arrays = [pa.array([value, None], kind) for kind, value, _ in columns.values()]
    pq.write_table(pa.table(arrays, names=list(columns)), tmp_path / "a.parquet")
    full, empty = read_all(source(tmp_path), tmp_path / ".state")
    assert full == Row(**{name: value for name, (_, _, value) in columns.items()})
    assert list(empty) == [None] * len(columns)


def test_decimals_are_those_of_sql_up_to_38_digits() -> None:
    columns = {"d": pa.decimal128(10, 2), "whole": pa.decimal128(38, 0), "wide": pa.decimal256(50, 2)}
    kinds = [Types.of(decimal(10, 2)), Types.of(decimal(38, 0)), Types.BIG_DEC()]
    assert type_of_schema(pa.schema(list(columns.items()))) == Types.ROW_NAMED(list(columns), kinds)


def test_columns_can_be_chosen(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", 2, 10)
    state = tmp_path / ".state"
    assert read_all(source(tmp_path, ParquetFormat(["name"])), state) == [Row(name="n0"), Row(name="n1")]
    kind = Types.ROW_NAMED(["NAME", "Id"], [str, Types.INT()])
    fmt = ParquetColumnarRowInputFormat(kind, is_case_sensitive=False)
    assert read_all(source(tmp_path, fmt), state) == [Row(NAME="n0", Id=0), Row(NAME="n1", Id=1)]
    with pytest.raises(BadRecordError, match="no column 'NAME'"):
        read_all(source(tmp_path, ParquetColumnarRowInputFormat(kind)), state)
    with pytest.raises(InvalidTypeError, match="no column 'x'"):
        source(tmp_path, ParquetFormat(["x"]))


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    kind = Types.ROW_NAMED(["name"], [int])
    write(tmp_path / "a.parquet", 2, 10)
    with pytest.raises(BadRecordError, match=r"a\.parquet: row 0 of the file: field 'name': Failed to parse"):
        read_all(source(tmp_path, ParquetFormat(type_info=kind)), tmp_path / ".state")
    (tmp_path / "a.parquet").write_text("no Parquet at all")
    with pytest.raises(BadRecordError, match=r"a\.parquet is not a Parquet file"):
        read_all(source(tmp_path, ParquetFormat(type_info=kind)), tmp_path / ".state")
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(InvalidTypeError, match=rf"^{tmp_path}: there is no Parquet file yet .* give type_info"):
        source(tmp_path)


def sink(path: Path, factory: Any) -> FileSink:
    builder = FileSink.for_bulk_format(path, factory)
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()


def test_a_round_trip(tmp_path: Path) -> None:
    kind = Types.ROW_NAMED(
        ["id", "when", "dec", "tags"], [int, Types.TIMESTAMP_LTZ(), Types.BIG_DEC(), Types.MAP(str, Types.LIST(float))]
    )
    when = datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC)
    rows = [Row(id=n, when=when, dec=Decimal(f"{n}.50"), tags={"a": [1.5, None]}) for n in range(10)]
    run = SinkRun(sink(tmp_path, ParquetBulkWriters.for_row_type()), kind, parallelism=2)
    run.run_epoch(rows[:6])
    run.run_epoch(rows[6:])
    run.committer.finish()
    assert len(list(tmp_path.iterdir())) == 4
    back = read_all(source(tmp_path, ParquetFormat(type_info=kind)), tmp_path / ".state")
    assert sorted(back, key=lambda row: row.id) == rows


def test_decimals_of_up_to_18_digits_are_written_as_integers_as_spark_does(tmp_path: Path) -> None:
    values, digits = [Decimal("1.25"), None, Decimal("-1.25")], (9, 18, 19)
    rows = pa.record_batch({str(most): pa.array(values, pa.decimal128(most, 2)) for most in digits})
    path = tmp_path / "prices.parquet"
    with path.open("wb") as out:
        writer = RowGroupWriter(out, rows.schema, "snappy")
        writer.add(rows)
        writer.finish()
    schema = pq.ParquetFile(path).schema
    assert [schema.column(place).physical_type for place in range(3)] == ["INT32", "INT64", "FIXED_LEN_BYTE_ARRAY"]
    assert pq.read_table(path).to_batches() == [rows]
    statistics = ParquetFormat().statistics(InputFile(FileStore(PosixFileSystem()), str(path), path.stat().st_size))
    assert all((statistics.column(str(most)).distinct or 0) >= 2 for most in digits)


INNER = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "int"}]}
AVRO = {"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "card", "type": ["null", "string"]},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "items", "type": {"type": "array", "items": INNER}},
    {"name": "by", "type": {"type": "map", "values": "Inner"}},
]}  # fmt: skip


def test_records_of_avro(tmp_path: Path) -> None:
    schema = AvroSchema(AVRO)
    at = datetime.datetime(2020, 1, 2, 3)
    record = {"id": 1, "card": "é", "kind": "B", "at": at, "items": [{"x": 1}, {"x": 2}], "by": {"k": {"x": 3}}}
    records = [record, {**record, "card": None, "items": [], "by": {}}]
    run = SinkRun(sink(tmp_path, AvroParquetWriters.for_generic_record(schema)), GenericRecordAvroTypeInfo(schema))
    run.run_epoch(records)
    run.committer.finish()
    built = FileSource.for_record_stream_format(AvroParquetReaders.for_generic_record(schema), tmp_path).build()
    assert read_all(built, tmp_path / ".state") == records


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("long", "has a schema of type record"),
        ({**INNER, "fields": [{"name": "x", "type": ["int", "string"]}]}, r"Inner\.x has no column in Parquet"),
        (
            {**INNER, "fields": [{"name": "x", "type": {"type": "map", "values": "null"}}]},
            r"Inner\.x\[\] has no column",
        ),
    ],
)
def test_records_of_avro_without_columns(schema: Any, message: str) -> None:
    for make in (AvroParquetReaders.for_generic_record, AvroParquetWriters.for_generic_record):
        with pytest.raises(InvalidTypeError, match=message):
            make(AvroSchema(schema if isinstance(schema, dict) else f'"{schema}"'))


def test_the_same_records_make_the_same_file(tmp_path: Path) -> None:
    run = SinkRun(sink(tmp_path, ParquetBulkWriters.for_row_type(compression="zstd")), Types.TUPLE([int, str]))
    first, second = (run.write([(1, "a"), (2, "b")], epoch=1) for _ in range(2))
    assert first == second


def test_batches_are_put_together(tmp_path: Path) -> None:
    run = SinkRun(sink(tmp_path, ParquetBulkWriters.for_row_type()), Types.TUPLE([int, str]))
    run.run_epoch([(n, "x") for n in range(100)])
    (path,) = [path for path in tmp_path.iterdir() if path.is_file()]
    assert pq.ParquetFile(path).metadata.num_row_groups == 1


@pytest.mark.parametrize("columns", [Types.ROW_NAMED(["a"], [int]), "a", [1]], ids=["a type", "a name", "numbers"])
def test_columns_are_names(columns: Any) -> None:
    with pytest.raises(InvalidTypeError, match=r"give a list of the names of columns; .* goes to type_info="):
        ParquetFormat(columns)


def test_columns_may_be_renamed(tmp_path: Path) -> None:
    kind = Types.ROW_NAMED(["a", "b"], [Types.INT(), str])
    run = SinkRun(sink(tmp_path, ParquetBulkWriters.for_row_type(kind)), Types.TUPLE([int, str]))
    run.run_epoch([(1, "x")])
    (path,) = [path for path in tmp_path.iterdir() if path.is_file()]
    assert pq.read_table(path).to_pylist() == [{"a": 1, "b": "x"}]


def test_records_without_columns_are_refused(tmp_path: Path) -> None:
    factory = ParquetBulkWriters.for_row_type()
    with pytest.raises(InvalidTypeError, match="declare"):
        SinkRun(sink(tmp_path, factory), Types.PICKLED_BYTE_ARRAY())
    with pytest.raises(InvalidProgramError, match="every epoch"):
        FileSink.for_bulk_format(tmp_path, factory).with_rolling_policy(RollingPolicy.default_rolling_policy())
    policy = RollingPolicy.on_checkpoint_rolling_policy()
    assert FileSink.for_bulk_format(tmp_path, factory).with_rolling_policy(policy).build()


def test_there_is_such_a_compression() -> None:
    with pytest.raises(ConfigurationError, match="no compression 'zip' of Parquet files: choose one of snappy, zstd"):
        ParquetBulkWriters.for_row_type(compression="zip")


def test_csv_in_bulk(tmp_path: Path) -> None:
    schema = CsvSchema.builder().add_number_column("id").add_string_column("name").set_use_header().build()
    run = SinkRun(sink(tmp_path, CsvBulkWriters.for_schema(schema)), Types.TUPLE([int, str]))
    run.run_epoch([(1, "a"), (2, "b,c")])
    (path,) = [path for path in tmp_path.iterdir() if path.is_file()]
    assert path.read_text() == 'id,name\n1,a\n2,"b,c"\n'
    assert PLENTY.pieces == 1


def test_a_configuration_of_hadoop_is_told_to_have_no_effect() -> None:
    with pytest.warns(UserWarning, match="hadoop_config has no effect") as read:
        ParquetColumnarRowInputFormat(Types.ROW_NAMED(["id"], [int]), object())
    with pytest.warns(UserWarning, match="hadoop_config has no effect") as written:
        ParquetBulkWriters.for_row_type(None, object())
    assert read[0].filename == written[0].filename == __file__
