"""File sinks that put small files together: each record visible once, whatever fails, and fewer files."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Types
from headrace.common.configuration import Configuration
from headrace.common.errors import CheckpointError, CommitRefusedError, InvalidProgramError, InvalidTypeError
from headrace.common.serialization import Encoder
from headrace.connectors.file_system.rolling import FileCompactStrategyBuilder
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    RollingPolicy,
)
from headrace.formats.csv.schema import CsvSchema
from headrace.formats.csv.writer import CsvBulkWriters, CsvEncoder
from headrace.formats.parquet import ParquetBulkWriters
from tests.connectors.harness import SinkRun
from tests.connectors.test_file_sink import (
    BY_TIME,
    EVERY_EPOCH,
    CrashingJob,
    FirstLetter,
    crash_after,
    hidden,
    lines,
    visible,
)
from tests.draws import draws

CONCAT = FileCompactor.concat_file_compactor()
IDENTICAL = FileCompactor.identical_file_compactor()


def when() -> FileCompactStrategyBuilder:
    return FileCompactStrategy.builder()


def compacting(
    path: Path,
    strategy: FileCompactStrategy | None,
    compactor: FileCompactor = CONCAT,
    *,
    policy: RollingPolicy = EVERY_EPOCH,
    assigner: BucketAssigner | None = None,
    encoder: Any = None,
) -> FileSink:
    builder = FileSink.for_row_format(path, encoder or Encoder.simple_string_encoder()).with_rolling_policy(policy)
    builder.with_bucket_assigner(assigner or BucketAssigner.base_path_bucket_assigner())
    return builder.build() if strategy is None else builder.enable_compact(strategy, compactor).build()


def job(path: Path, strategy: FileCompactStrategy | None, *args: Any, **options: Any) -> SinkRun:
    return SinkRun(compacting(path, strategy, *args, **options), Types.STRING(), parallelism=2)


def test_files_of_all_subtasks_are_put_together_after_some_epochs(tmp_path: Path) -> None:
    run = job(tmp_path, when().enable_compaction_on_checkpoint(3).build())
    for epoch in (1, 2):
        run.run_epoch([f"{epoch}a", f"{epoch}b"])
        assert visible(tmp_path) == []
    run.run_epoch(["3a", "3b"])
    (file,) = visible(tmp_path)
    assert file.name.startswith("compacted-part-")
    assert "-000001-000003-" in file.name
    assert file.read_text().split() == ["1a", "1b", "2a", "2b", "3a", "3b"]
    assert hidden(tmp_path) == []
    run.run_epoch(["4a"])
    assert len(visible(tmp_path)) == 1
    run.end()
    assert sorted(lines(tmp_path)) == ["1a", "1b", "2a", "2b", "3a", "3b", "4a"]


def test_files_are_put_together_when_they_are_large_enough(tmp_path: Path) -> None:
    run = job(tmp_path, when().set_size_threshold(100).build())
    run.parallelism = 1
    for _ in range(10):
        run.run_epoch(["x" * 29])
    assert [file.stat().st_size for file in visible(tmp_path)] == [120, 120]
    run.end()
    assert [file.stat().st_size for file in visible(tmp_path)] == [120, 120, 60]


def test_what_comes_first_counts(tmp_path: Path) -> None:
    run = job(tmp_path, when().set_size_threshold(100).enable_compaction_on_checkpoint(2).build())
    run.run_epoch(["x" * 80, "y" * 80])
    assert len(visible(tmp_path)) == 1
    run.run_epoch(["z"])
    assert len(visible(tmp_path)) == 1
    run.run_epoch([])
    assert len(visible(tmp_path)) == 2


def test_buckets_are_apart(tmp_path: Path) -> None:
    run = job(tmp_path, when().enable_compaction_on_checkpoint(1).build(), assigner=FirstLetter())
    run.run_epoch(["apple", "bean", "acorn", "beet"])
    found = {file.parent.name: file.read_text().split() for file in visible(tmp_path)}
    assert found == {"letter=a": ["apple", "acorn"], "letter=b": ["bean", "beet"]}


def test_a_delimiter_comes_between_the_files_that_the_rolling_policy_made(tmp_path: Path) -> None:
    strategy = when().enable_compaction_on_checkpoint(1).build()
    run = job(tmp_path, strategy, FileCompactor.concat_file_compactor(b"---\n"), policy=BY_TIME)
    for now in (0, 1000, 3000):
        run.run_epoch([f"{now}a", f"{now}b"], now)
    (file,) = visible(tmp_path)
    assert file.read_text().split() == ["0a", "1000a", "3000a", "---", "0b", "1000b", "3000b"]


@pytest.mark.parametrize("policy", [EVERY_EPOCH, BY_TIME])
def test_a_header_comes_once(tmp_path: Path, policy: RollingPolicy) -> None:
    kind = Types.ROW_NAMED(["name"], [Types.STRING()])
    strategy = when().enable_compaction_on_checkpoint(2).build()
    run = SinkRun(compacting(tmp_path, strategy, policy=policy, encoder=CsvEncoder(header=True)), kind, parallelism=2)
    run.run_epoch([("a",), ("b",)])
    run.run_epoch([("c",), ("d",)])
    run.end()
    (file,) = visible(tmp_path)
    assert file.read_text().split()[0] == "name"
    assert sorted(file.read_text().split()[1:]) == ["a", "b", "c", "d"]


def test_files_of_a_bulk_format_that_are_lines_are_put_together(tmp_path: Path) -> None:
    schema = CsvSchema.builder().add_string_column("name").set_use_header().build()
    builder = FileSink.for_bulk_format(tmp_path, CsvBulkWriters.for_schema(schema))
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    builder.enable_compact(when().enable_compaction_on_checkpoint(1).build(), CONCAT)
    run = SinkRun(builder.build(), Types.ROW_NAMED(["name"], [Types.STRING()]), parallelism=2)
    run.run_epoch([("a",), ("b",)])
    (file,) = visible(tmp_path)
    assert file.read_text() == "name\na\nb\n"


def test_files_of_a_bulk_format_can_wait_as_they_are(tmp_path: Path) -> None:
    builder = FileSink.for_bulk_format(tmp_path, ParquetBulkWriters.for_row_type())
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    with pytest.raises(InvalidProgramError, match=r"files of \.parquet cannot be joined byte by byte: use .*record"):
        builder.enable_compact(when().enable_compaction_on_checkpoint(1).build(), CONCAT)
    builder.enable_compact(when().enable_compaction_on_checkpoint(2).build(), IDENTICAL)
    run = SinkRun(builder.build(), Types.ROW_NAMED(["name"], [Types.STRING()]), parallelism=2)
    run.run_epoch([("a",), ("b",)])
    assert visible(tmp_path) == []
    run.run_epoch([])
    assert len(visible(tmp_path)) == 2


@pytest.mark.parametrize("header", [False, True])
def test_what_waits_goes_on_when_compaction_is_turned_off_and_on(tmp_path: Path, header: bool) -> None:
    kind = Types.ROW_NAMED(["name"], [Types.STRING()])
    encoder = CsvEncoder(header=header)
    strategies = [when().enable_compaction_on_checkpoint(9).build(), None, when().set_size_threshold(1_000).build()]
    run = SinkRun(compacting(tmp_path, strategies[0], encoder=encoder), kind, parallelism=2)
    for number, strategy in enumerate(strategies):
        run.sink = compacting(tmp_path, strategy, encoder=encoder)
        run.restart()
        run.run_epoch([(f"{number}a",), (f"{number}b",)])
        assert len(visible(tmp_path)) == (0, 4, 4)[number]
    run.end()
    assert sorted(line for line in lines(tmp_path) if line != "name") == ["0a", "0b", "1a", "1b", "2a", "2b"]
    assert all(file.read_text().startswith("name\n") is header for file in visible(tmp_path))
    assert hidden(tmp_path) == []


def test_a_quiet_job_counts_epochs_all_the_same(tmp_path: Path) -> None:
    run = job(tmp_path, when().enable_compaction_on_checkpoint(2).build())
    assert run.sink.pre_commit is not None
    run.run_epoch(["a"], 5_000)
    assert run.sink.pre_commit.due(run.in_progress) == 6_000
    run.run_epoch([], 6_000)
    assert lines(tmp_path) == ["a"]
    assert run.in_progress is None
    by_size = job(tmp_path / "by size", when().set_size_threshold(100).build())
    assert by_size.sink.pre_commit is not None
    by_size.run_epoch(["a"], 5_000)
    assert by_size.sink.pre_commit.due(by_size.in_progress) is None


def test_a_commit_may_come_again(tmp_path: Path) -> None:
    run = job(
        tmp_path, when().enable_compaction_on_checkpoint(1).set_num_compact_threads(3).build(), assigner=FirstLetter()
    )
    ready = run.run_epoch(["apple", "bean", "acorn", "beet", "corn"])
    before = [(file, file.read_text()) for file in visible(tmp_path)]
    assert len(before) == 3
    run.new_committer().commit(run.epoch, ready, 0)
    assert [(file, file.read_text()) for file in visible(tmp_path)] == before


@pytest.mark.parametrize("threads", [1, 3])
def test_what_is_gone_or_damaged_is_refused(tmp_path: Path, threads: int) -> None:
    strategy = when().enable_compaction_on_checkpoint(1).set_num_compact_threads(threads).build()
    run = job(tmp_path, strategy)
    ready = run.prepare([*run.write(["a", "b"], epoch=1), *run.write(["c"], subtask=1, epoch=1)])
    chunk = hidden(tmp_path)[0]
    content = chunk.read_bytes()
    chunk.write_bytes(b"A" + content[1:])
    with pytest.raises(CommitRefusedError, match="is damaged"):
        run.committer.commit(1, ready, 0)
    chunk.unlink()
    with pytest.raises(CommitRefusedError, match=r"cannot be published: .* is missing"):
        run.committer.commit(1, ready, 0)
    assert visible(tmp_path) == []
    chunk.write_bytes(content)
    run.committer.commit(1, ready, 0)
    assert sorted(lines(tmp_path)) == ["a", "b", "c"]


def test_an_old_copy_of_the_checkpoints_is_noticed(tmp_path: Path) -> None:
    run = job(tmp_path, when().enable_compaction_on_checkpoint(2).build())
    run.run_epoch(["a", "b"])
    old = run.in_progress
    run.run_epoch([])
    assert len(visible(tmp_path)) == 1
    run.in_progress = old
    with pytest.raises(CheckpointError, match="holds output that waits to be published"):
        run.restart()


class CompactingJob(CrashingJob):
    def __init__(self, path: Path, policy: RollingPolicy, strategy: FileCompactStrategy, *, header: bool) -> None:
        super().__init__(path, policy, header=header)
        self.sink = compacting(path, strategy, policy=policy, encoder=CsvEncoder(header=header))


STRATEGIES = {
    "by size, in tasks": when().set_size_threshold(16).set_num_compact_threads(2).build(),
    "after two epochs": when().enable_compaction_on_checkpoint(2).build(),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("policy", "strategy"), [*zip((EVERY_EPOCH, BY_TIME), STRATEGIES.values(), strict=True)], ids=STRATEGIES
)
def test_a_crash_at_every_step(tmp_path: Path, policy: RollingPolicy, strategy: FileCompactStrategy) -> None:
    for steps in itertools.count():
        crashing = CompactingJob(tmp_path / str(steps), policy, strategy, header=True)
        came_to_its_end = crash_after(steps, crashing.live)
        if not came_to_its_end:
            crashing.live()
        crashing.check()
        if came_to_its_end:
            break
    assert steps > 20


@given(
    st.lists(st.integers(0, 60), max_size=8),
    st.sampled_from([EVERY_EPOCH, BY_TIME]),
    st.sampled_from(list(STRATEGIES.values())),
)
@settings(deadline=None, max_examples=draws(20))
def test_crashes_during_recoveries(crashes: list[int], policy: RollingPolicy, strategy: FileCompactStrategy) -> None:
    with TemporaryDirectory() as folder:
        crashing = CompactingJob(Path(folder), policy, strategy, header=True)
        if not any(crash_after(steps, crashing.live) for steps in crashes):
            crashing.live()
        crashing.check()


@pytest.mark.parametrize("runtime", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_job(runtime: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if runtime == "spark":
        request.getfixturevalue("spark")
    configuration = {
        "headrace.runtime": runtime,
        "parallelism.default": "2",
        "headrace.epoch.max-records": "30",
        "headrace.epoch.target-duration": "60s",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(configuration))
    strategy = when().set_size_threshold(100).set_num_compact_threads(2).build()
    texts = env.from_sequence(1, 200).map(str, Types.STRING())
    texts.sink_to(compacting(tmp_path, strategy, assigner=FirstLetter())).uid("files")
    env.execute()
    assert sorted(map(int, lines(tmp_path))) == [*range(1, 201)]
    sizes = [file.stat().st_size for file in visible(tmp_path) if file.parent.name == "letter=1"]
    assert len(sizes) > 1
    assert sum(size < 100 for size in sizes) <= 1, "only the last one is short"


@pytest.mark.parametrize(
    ("build", "error", "said"),
    [
        (lambda: when().build(), InvalidProgramError, "a strategy says when files are put together"),
        (lambda: when().set_size_threshold(0), InvalidProgramError, "set_size_threshold takes a number above 0, not 0"),
        (lambda: when().set_num_compact_threads("2"), InvalidTypeError, "set_num_compact_threads takes an int"),
        (lambda: FileCompactor.concat_file_compactor("-"), InvalidTypeError, "concat_file_compactor takes a bytes"),
    ],
)
def test_what_makes_no_sense_is_refused(build: Callable[[], Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        build()
