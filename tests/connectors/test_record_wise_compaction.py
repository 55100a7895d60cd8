"""File sinks that join files of Parquet, ORC and Avro: each record visible once, in fewer files."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from headrace.common import Encoder, Instant, Row, Types
from headrace.common.configuration import Configuration
from headrace.common.errors import CommitRefusedError, InvalidProgramError
from headrace.common.typeinfo import TypeInformation
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import BucketAssigner, FileCompactor, FileCompactStrategy, FileSink
from headrace.formats.avro.writer import AvroBulkWriters
from headrace.formats.file_format import BulkWriter, BulkWriterFactory
from headrace.formats.json.writer import JsonLinesEncoder
from headrace.formats.orc import OrcBulkWriters
from headrace.formats.parquet import ParquetBulkWriters
from tests.connectors.harness import SinkRun
from tests.connectors.test_file_sink import EVERY_EPOCH, CrashingJob, FirstLetter, crash_after, hidden, lines, visible

KIND = Types.ROW_NAMED(["name"], [Types.STRING()])
RECORD_WISE = FileCompactor.record_wise_file_compactor()


def records_of_avro(path: Path) -> list[Any]:
    with path.open("rb") as file:
        return list(fastavro.reader(file))


WRITERS: dict[str, tuple[Callable[[], BulkWriterFactory], Callable[[Path], list[Any]]]] = {
    ".parquet": (ParquetBulkWriters.for_row_type, lambda path: pq.read_table(path).to_pylist()),
    ".orc": (OrcBulkWriters.for_row_type, lambda path: orc.read_table(path).to_pylist()),
    ".avro": (lambda: AvroBulkWriters.for_row_type(codec="deflate"), records_of_avro),
}
each_format = pytest.mark.parametrize("suffix", WRITERS)


def names(file: Path) -> list[str]:
    return [record["name"] for record in WRITERS[file.suffix][1](file)]


def joining(
    path: Path, writers: BulkWriterFactory, *, epochs: int = 2, threads: int = 1, compactor: FileCompactor = RECORD_WISE
) -> FileSink:
    builder = FileSink.for_bulk_format(path, writers).with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(epochs).set_num_compact_threads(threads)
    return builder.enable_compact(strategy.build(), compactor).build()


def job(path: Path, suffix: str, **options: Any) -> SinkRun:
    return SinkRun(joining(path, WRITERS[suffix][0](), **options), KIND, parallelism=2)


@each_format
@pytest.mark.parametrize("threads", [1, 2])
def test_files_of_all_subtasks_become_one(tmp_path: Path, suffix: str, threads: int) -> None:
    run = job(tmp_path, suffix, threads=threads)
    run.run_epoch([("1a",), ("1b",)])
    assert visible(tmp_path) == []
    run.run_epoch([("2a",), (None,)])
    (file,) = visible(tmp_path)
    assert file.name.startswith("compacted-part-")
    assert file.suffix == suffix
    assert names(file) == ["1a", "1b", "2a", None]
    assert hidden(tmp_path) == []


@each_format
def test_a_commit_may_come_again(tmp_path: Path, suffix: str) -> None:
    run = job(tmp_path, suffix)
    run.run_epoch([("1a",), ("1b",)])
    ready = run.run_epoch([("2a",)])
    run.new_committer().commit(run.epoch, ready, 0)
    assert [names(file) for file in visible(tmp_path)] == [["1a", "1b", "2a"]]


def test_small_row_groups_and_blocks_become_larger_ones(tmp_path: Path) -> None:
    for suffix in (".parquet", ".avro"):
        run = job(tmp_path / suffix, suffix, epochs=20)
        for number in range(20):
            run.run_epoch([(f"{number}a",), (f"{number}b",)])
    parquet, avro = (visible(tmp_path / suffix)[0] for suffix in (".parquet", ".avro"))
    metadata = pq.ParquetFile(parquet).metadata
    assert (metadata.num_rows, metadata.num_row_groups) == (40, 1)
    assert metadata.row_group(0).column(0).compression == "SNAPPY"
    with avro.open("rb") as file:
        assert [block.num_records for block in fastavro.block_reader(file)] == [40]


def column_compression(file: Path) -> str:
    return str(pq.ParquetFile(file).metadata.row_group(0).column(0).compression)


def avro_codec(file: Path) -> str:
    with file.open("rb") as opened:
        return str(fastavro.block_reader(opened).codec)


def orc_compression(file: Path) -> str:
    return str(orc.ORCFile(file).compression)


@pytest.mark.parametrize(
    ("writers", "codec"),
    [
        (ParquetBulkWriters.for_row_type(compression="zstd"), column_compression),
        (AvroBulkWriters.for_row_type(codec="zstandard"), avro_codec),
        (OrcBulkWriters.for_row_type(writer_properties={"orc.compress": "ZSTD"}), orc_compression),
    ],
)
def test_what_is_joined_is_compressed_as_it_was(
    tmp_path: Path, writers: BulkWriterFactory, codec: Callable[[Path], str]
) -> None:
    run = SinkRun(joining(tmp_path, writers), KIND, parallelism=2)
    run.run_epoch([("1a",), ("1b",)])
    run.run_epoch([])
    assert codec(visible(tmp_path)[0]).lower() in ("zstd", "zstandard")


def test_files_of_other_columns_are_apart(tmp_path: Path) -> None:
    run = job(tmp_path, ".parquet", epochs=2)
    run.run_epoch([("1a",), ("1b",)])
    run.kind = Types.ROW_NAMED(["name", "size"], [Types.STRING(), Types.INT()])
    run.restart()
    run.run_epoch([("2a", 1), ("2b", 2)])
    found = [pq.read_table(file).to_pylist() for file in visible(tmp_path)]
    assert sorted(found, key=str) == [
        [{"name": "1a"}, {"name": "1b"}],
        [{"name": "2a", "size": 1}, {"name": "2b", "size": 2}],
    ]


def test_the_format_may_change_while_files_wait(tmp_path: Path) -> None:
    run = job(tmp_path, ".parquet", epochs=2)
    run.run_epoch([("1a",), ("1b",)])
    run.sink = joining(tmp_path, AvroBulkWriters.for_row_type(codec="deflate"))
    run.restart()
    run.run_epoch([("2a",), ("2b",)])
    assert {file.suffix: names(file) for file in visible(tmp_path)} == {".parquet": ["1a", "1b"], ".avro": ["2a", "2b"]}


@pytest.mark.parametrize("after", [FileCompactor.concat_file_compactor(), RECORD_WISE])
def test_files_that_waited_as_they_are_do_not_follow_each_other_byte_by_byte(
    tmp_path: Path, after: FileCompactor
) -> None:
    run = job(tmp_path, ".parquet", epochs=9, compactor=FileCompactor.identical_file_compactor())
    run.run_epoch([("1a",), ("1b",)])
    rows = FileSink.for_row_format(tmp_path, JsonLinesEncoder())
    rows.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    run.sink = rows.enable_compact(FileCompactStrategy.builder().set_size_threshold(9_999).build(), after).build()
    run.restart()
    run.run_epoch([("2a",), ("2b",)])
    run.end()
    parquet = [name for file in visible(tmp_path) if file.suffix for name in names(file)]
    assert parquet == ["1a", "1b"]
    assert [file.read_text() for file in visible(tmp_path) if not file.suffix] == ['{"name":"2a"}\n{"name":"2b"}\n']


MOMENTS = {
    "now": datetime.datetime(2024, 2, 29),
    "long ago": datetime.datetime(1600, 1, 1),
    "the end of time": datetime.datetime(9999, 12, 31),
}


@pytest.mark.parametrize("nested", [False, True])
def test_moments_that_cannot_be_read_again_do_not_hold_up_the_others(tmp_path: Path, nested: bool) -> None:
    moment = Types.SQL_TIMESTAMP()
    kind = Types.ROW_NAMED(["at"], [Types.OBJECT_ARRAY(Types.ROW([moment])) if nested else moment])
    run = SinkRun(joining(tmp_path, OrcBulkWriters.for_row_type(), epochs=5), kind, parallelism=1)
    for name in ("now", "now", "long ago", "the end of time", "now"):
        run.run_epoch([([Row(MOMENTS[name])] if nested else MOMENTS[name],)])
    epochs = sorted(file.name.split("-")[-3:-1] for file in visible(tmp_path))
    assert epochs == [["000001", "000002"], ["000003", "000003"], ["000004", "000004"], ["000005", "000005"]]


def test_moments_to_the_nanosecond_are_joined(tmp_path: Path) -> None:
    kind = Types.ROW_NAMED(["at"], [Types.INSTANT()])
    run = SinkRun(joining(tmp_path, OrcBulkWriters.for_row_type()), kind, parallelism=1)
    for nanos in (1, 2):
        run.run_epoch([(Instant(0, nanos),)])
    (file,) = visible(tmp_path)
    assert orc.read_table(file).column("at").cast(pa.int64()).to_pylist() == [1, 2]


def test_lines_are_joined_as_ever(tmp_path: Path) -> None:
    builder = FileSink.for_row_format(tmp_path, Encoder.simple_string_encoder())
    strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(1).build()
    builder.with_bucket_assigner(FirstLetter()).with_rolling_policy(EVERY_EPOCH).enable_compact(strategy, RECORD_WISE)
    SinkRun(builder.build(), Types.STRING(), parallelism=2).run_epoch(["a1", "b1", "a2"])
    assert sorted(file.read_text() for file in visible(tmp_path)) == ["a1\na2\n", "b1\n"]
    assert sorted(lines(tmp_path)) == ["a1", "a2", "b1"]


def test_damage_is_refused_before_it_is_read(tmp_path: Path) -> None:
    run = job(tmp_path, ".parquet", epochs=1)
    ready = run.prepare([*run.write([("a",)], epoch=1), *run.write([("b",)], subtask=1, epoch=1)])
    chunk = hidden(tmp_path)[0]
    content = chunk.read_bytes()
    chunk.write_bytes(content[:20] + bytes([content[20] ^ 1]) + content[21:])
    with pytest.raises(CommitRefusedError, match="is damaged"):
        run.committer.commit(1, ready, 0)
    chunk.write_bytes(content)
    run.committer.commit(1, ready, 0)
    assert names(visible(tmp_path)[0]) == ["a", "b"]


class JoiningJob(CrashingJob):
    def __init__(self, path: Path) -> None:
        super().__init__(path, EVERY_EPOCH, header=False)
        self.sink = joining(path, ParquetBulkWriters.for_row_type())

    def check(self) -> None:
        found = sorted(name for file in visible(self.path) for name in names(file))
        assert found == [f"{epoch}{letter}" for epoch in (1, 2, 3) for letter in "abcd"]
        assert len(visible(self.path)) == 2
        assert hidden(self.path) == []


@pytest.mark.slow
def test_a_crash_at_every_step(tmp_path: Path) -> None:
    for steps in itertools.count():
        crashing = JoiningJob(tmp_path / str(steps))
        came_to_its_end = crash_after(steps, crashing.live)
        if not came_to_its_end:
            crashing.live()
        crashing.check()
        if came_to_its_end:
            break
    assert steps > 20


@pytest.mark.parametrize("runtime", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_job(runtime: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if runtime == "spark":
        request.getfixturevalue("spark")
    configuration = {
        "headrace.runtime": runtime,
        "parallelism.default": "2",
        "headrace.epoch.max-records": "50",
        "headrace.epoch.target-duration": "60s",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(configuration))
    rows = env.from_sequence(1, 200).map(lambda number: (str(number),), KIND)
    rows.sink_to(joining(tmp_path, ParquetBulkWriters.for_row_type(), threads=2)).uid("files")
    env.execute()
    found = [name for file in visible(tmp_path) for name in names(file)]
    assert sorted(map(int, found)) == [*range(1, 201)]
    assert all(file.name.startswith("compacted-") for file in visible(tmp_path))
    assert len({file.name.split("-")[-2] for file in visible(tmp_path)}) == len(visible(tmp_path)), "one an epoch"


class OwnWriters(BulkWriterFactory):
    def create(self, out: BinaryIO, input_type: TypeInformation) -> BulkWriter:
        raise AssertionError("nothing is written")


def test_formats_of_ones_own_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidProgramError, match=r"files of OwnWriters cannot be joined, as .* no file_kind\(\): use"):
        joining(tmp_path, OwnWriters())
