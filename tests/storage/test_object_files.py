"""Files of users on S3: keys of any kind, formats and compression, changes, and whole jobs that read them."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pickle
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.common import Configuration, WatermarkStrategy
from headrace.common.errors import (
    CheckpointStorageError,
    InvalidProgramError,
    SourceChangedError,
    UnsupportedOperationError,
)
from headrace.connectors.file_system.paths import InputPaths, resolved
from headrace.connectors.source import EnumeratorContext, ReadBudget, ReaderContext
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSource
from headrace.datastream.formats.csv import CsvFormat
from headrace.datastream.formats.parquet import ParquetFormat
from headrace.formats.file_format import FileFormat
from headrace.formats.text import TextLineFormat
from headrace.storage.files import FileStore
from headrace.storage.folder import posix_folder
from headrace.storage.object_store import ObjectStore, client
from tests.storage.remote_job import keys_of
from tests.storage.s3_server import SECRET, S3Server, refused


class Bucket:
    """A bucket with objects of somebody."""

    def __init__(self, server: S3Server) -> None:
        self.server = server
        self.uri = server.new_bucket()
        self.options = server.options()

    def put(self, key: str, content: bytes = b"x") -> None:
        obstore.put(client(self.uri, tuple(sorted(self.options.items()))), key, content)

    def find(self, *paths: str) -> list[str]:
        found = InputPaths([resolved(f"{self.uri}/{path}") for path in paths], self.options).find()
        return [status.path.removeprefix(f"{self.uri}/") for status in found]

    def files(self) -> FileStore:
        return FileStore(ObjectStore(self.uri, tuple(sorted(self.options.items()))))

    def source(self, fmt: FileFormat, *paths: str) -> Any:
        return FileSource.for_record_stream_format(fmt, *(f"{self.uri}/{path}" for path in paths))  # type: ignore[arg-type]


@pytest.fixture
def bucket(s3: S3Server) -> Bucket:
    return Bucket(s3)


def test_several_paths_each_file_once(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "local").write_text("x")
    bucket.put("in/a")
    paths = [f"{bucket.uri}/in", f"{bucket.uri}/in/a", str(tmp_path)]
    found = InputPaths(map(resolved, paths), bucket.options).find()
    assert {status.path for status in found} == {f"{bucket.uri}/in/a", str(tmp_path / "local")}


@pytest.mark.parametrize("key", ["a b", "a%20b", "100%", "a#b", "a?b", "ü", "a+b", "a&b=c", "a'b", 'a"b', "a:b"])
def test_keys_with_any_character(bucket: Bucket, key: str) -> None:
    bucket.put(f"in/{key}", b"content")
    assert bucket.find("in") == [f"in/{key}"]
    with bucket.files().open(f"{bucket.uri}/in/{key}") as stream:
        assert stream.read() == b"content"


def test_what_is_said_of_files_holds_no_secrets(bucket: Bucket) -> None:
    files = pickle.loads(pickle.dumps(bucket.files()))
    bucket.put("a", b"content")
    with files.open_for_arrow(f"{bucket.uri}/a") as file:
        assert file.read() == b"content"
    assert SECRET not in repr(files)


def test_the_root_of_a_bucket(bucket: Bucket) -> None:
    for key in ("a.csv", "in/b.csv", "_in/c.csv"):
        bucket.put(key)
    assert bucket.find("") == ["a.csv", "in/b.csv"]
    assert bucket.find("*/*.csv") == ["in/b.csv"]


@pytest.mark.slow
def test_more_objects_than_a_listing_holds(bucket: Bucket) -> None:
    for number in range(1100):
        bucket.put(f"in/{number:04}")
    assert bucket.find("in") == [f"in/{number:04}" for number in range(1100)]


def test_little_is_fetched_of_what_is_looked_at_briefly(bucket: Bucket) -> None:
    content = b"0123456789\n" * 1_000_000
    bucket.put("a", content)
    fetched: list[int] = []

    class Counting(ObjectStore):
        def read_range(self, path: str, start: int, length: int) -> bytes:
            fetched.append(length)
            return super().read_range(path, start, length)

    counting = FileStore(Counting(bucket.uri, tuple(sorted(bucket.options.items()))))
    with counting.open(f"{bucket.uri}/a") as stream:
        stream.read(10)
    assert sum(fetched) <= 1 << 16
    fetched.clear()
    with counting.open(f"{bucket.uri}/a") as stream:
        while stream.read(100_000):
            pass
    assert sum(fetched) == len(content)
    assert len(fetched) <= 12


def read_all(bucket: Bucket, builder: Any, state: Path) -> list[Any]:
    """The records of a source, read in small pieces."""
    source = builder.build()
    enumerator = source.create_enumerator(EnumeratorContext(2, posix_folder(state), storage_options=bucket.options))
    (split,) = enumerator.discover(0)
    reader = source.create_reader()
    reader.open(ReaderContext(bucket.options))
    position, records = enumerator.initial_position(split), list[Any]()
    while (read := enumerator.plan(split, position, ReadBudget(10**6, 4096, 2), 0)) is not None:
        for piece in read.pieces:
            for part in reader.read(pickle.loads(pickle.dumps(piece))):
                records += part.rows if part.rows is not None else rows_of(part.columns)
        position = read.end
    assert enumerator.is_finished(split, position)
    enumerator.close()
    return records


def rows_of(columns: pa.RecordBatch) -> Iterable[Any]:
    return list(zip(*(column.to_pylist() for column in columns.columns), strict=True))


LINES = [f"line {number} {'x' * (number % 50)}" for number in range(2000)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("suffix", "compress"),
    [("txt", bytes), ("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress), ("zst", None), ("lz4", None)],
)
def test_lines_plain_and_compressed(bucket: Bucket, tmp_path: Path, suffix: str, compress: Any) -> None:
    content = "".join(f"{line}\n" for line in LINES).encode()
    if compress is None:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, {"zst": "zstd", "lz4": "lz4"}[suffix]) as stream:
            stream.write(content)
        compressed = sink.getvalue().to_pybytes()
    else:
        compressed = compress(content)
    bucket.put(f"in/a.{suffix}", compressed)
    found = read_all(bucket, bucket.source(TextLineFormat(), "in"), tmp_path)
    assert [row[0] if isinstance(row, tuple) else row for row in found] == LINES


@pytest.mark.slow
def test_columns(bucket: Bucket, tmp_path: Path) -> None:
    rows = [(number, f"name {number}") for number in range(3000)]
    bucket.put("csv/a.csv", ("id,name\n" + "".join(f"{number},{name}\n" for number, name in rows)).encode())
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": [r[0] for r in rows], "name": [r[1] for r in rows]}), sink, row_group_size=500)
    bucket.put("parquet/a.parquet", sink.getvalue())
    record = {"id": int, "name": str}
    assert read_all(bucket, bucket.source(CsvFormat(record, header=True), "csv/*.csv"), tmp_path / "1") == rows
    typed = FileSource.for_bulk_file_format(ParquetFormat(type_info=read_type(sink)), f"{bucket.uri}/parquet")
    assert read_all(bucket, typed, tmp_path / "2") == rows


def read_type(sink: io.BytesIO) -> Any:
    from headrace.formats.bulk_files import type_of_schema

    return type_of_schema(pq.read_schema(sink))


def test_a_type_that_a_file_has_to_tell(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job is not known yet, so what the environment says has to do."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": [1]}), sink)
    bucket.put("a.parquet", sink.getvalue())
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.options["endpoint"])
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    source = FileSource.for_bulk_file_format(ParquetFormat(), f"{bucket.uri}/a.parquet").build()
    assert "id" in str(source.produced_type)


@pytest.mark.parametrize("change", ["longer", "other", "gone"])
def test_an_object_that_changes_is_noticed(bucket: Bucket, tmp_path: Path, change: str) -> None:
    """Also one of the same size within the same second."""
    content = b"one\n" * 2000
    bucket.put("in/a", content)
    source = bucket.source(TextLineFormat(), "in").build()
    enumerator = source.create_enumerator(EnumeratorContext(2, posix_folder(tmp_path), storage_options=bucket.options))
    read = enumerator.plan("files", [0, 0], ReadBudget(10**6, 100, 1), 0)
    if change == "gone":
        obstore.delete(client(bucket.uri, tuple(sorted(bucket.options.items()))), "in/a")
    else:
        bucket.put("in/a", content + b"more\n" if change == "longer" else b"two\n" * 2000)
    reader = source.create_reader()
    reader.open(ReaderContext(bucket.options))
    with pytest.raises(SourceChangedError, match=rf"{bucket.uri}/in/a"):
        list(reader.read(read.pieces[0]))


def test_a_missing_object_and_a_missing_bucket(bucket: Bucket, tmp_path: Path) -> None:
    def start(path: str) -> None:
        context = EnumeratorContext(2, posix_folder(tmp_path), storage_options=bucket.options)
        FileSource.for_record_stream_format(TextLineFormat(), path).build().create_enumerator(context)

    with pytest.raises(InvalidProgramError, match=rf"there is no file or folder {bucket.uri}/nothing"):
        start(f"{bucket.uri}/nothing")
    with pytest.raises(CheckpointStorageError, match="no such bucket"):
        start("s3://there-is-no-such-bucket/in")


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("ftp://host/a", UnsupportedOperationError),
        ("s3:/bucket/a", UnsupportedOperationError),
        ("s3:///a", UnsupportedOperationError),
        ("s3://key:hush@bucket/a", CheckpointStorageError),
    ],
)
def test_what_names_no_object(path: str, error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        FileSource.for_record_stream_format(TextLineFormat(), path)
    assert "hush" not in str(raised.value) or error is UnsupportedOperationError


def run(bucket: Bucket, source: FileSource, tmp_path: Path, **more: str) -> list[str]:
    settings = {"headrace.runtime": "local", "execution.checkpointing.dir": str(tmp_path / "checkpoints")}
    settings |= keys_of(bucket.options) | more
    settings["restart-strategy.exponential-delay.initial-backoff"] = "100 ms"
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings)).set_parallelism(2)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "in")
    return sorted(stream.execute_and_collect("reading"))


@pytest.mark.slow
def test_a_job_reads_while_the_server_stumbles(bucket: Bucket, tmp_path: Path) -> None:
    for number in range(5):
        bucket.put(f"in/{number}.txt", "".join(f"{number} {line}\n" for line in LINES).encode())
    source = bucket.source(TextLineFormat(), "in").build()
    with bucket.server.failing(refused("400 Bad Request"), "GET", "/in/", times=4) as struck:
        found = run(bucket, source, tmp_path)
    assert len(struck) == 4
    assert found == sorted(f"{number} {line}" for number in range(5) for line in LINES)


@pytest.mark.slow
def test_a_job_reads_while_the_server_is_gone_for_a_while(bucket: Bucket, tmp_path: Path) -> None:
    for number in range(40):
        bucket.put(f"in/{number}.txt", f"{number}\n".encode() * 100)
    bucket.options["retry_timeout"] = "100 ms"
    source = bucket.source(TextLineFormat(), "in").build()
    original = ObjectStore.read_range
    gone = []

    def read_range(self: ObjectStore, path: str, start: int, length: int) -> bytes:
        if path.endswith("/20.txt") and not gone:
            gone.append(time.monotonic())
            bucket.server.end_for(1)
        return original(self, path, start, length)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ObjectStore, "read_range", read_range)
        found = run(bucket, source, tmp_path, **{"headrace.epoch.max-records": "500"})
    assert len(gone) == 1
    assert found == sorted(str(number) for number in range(40) for _ in range(100))
