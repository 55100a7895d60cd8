"""The file sink: every record visible exactly once, wherever a crash happens."""

from __future__ import annotations

import datetime
import itertools
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.errors import CommitRefusedError, InvalidProgramError, InvalidTypeError, UnsupportedOperationError
from headrace.common.serialization import Encoder
from headrace.common.time import Duration
from headrace.common.typeinfo import Types
from headrace.connectors.file_system.buckets import BucketContext
from headrace.connectors.file_system.rolling import DefaultRollingPolicy, OnCheckpointRollingPolicy
from headrace.connectors.sink import CommitterContext, WriterContext, WriterEpoch
from headrace.datastream.connectors.file_system import BucketAssigner, FileSink, OutputFileConfig, RollingPolicy
from headrace.formats.csv.writer import CsvEncoder
from tests.connectors.harness import SinkRun, batch_of
from tests.draws import draws

EVERY_EPOCH = RollingPolicy.on_checkpoint_rolling_policy()
BY_TIME = RollingPolicy.default_rolling_policy(part_size=10_000, rollover_interval=3000, inactivity_interval=2000)


ROWS = FileSink.for_row_format("out", Encoder.simple_string_encoder())


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: FileSink.for_row_format("out", 3), "FileSink.for_row_format takes an Encoder, not 3"),
        (
            lambda: FileSink.for_row_format(None, CsvEncoder()),
            "a path is a string or a Path, not None",
        ),
        (lambda: RollingPolicy.default_rolling_policy("1MB"), "part_size takes an int, not '1MB'"),
        (lambda: OutputFileConfig.builder().with_part_prefix(3).build(), "part_prefix takes a str, not 3"),
        (lambda: FileSink.for_bulk_format("out", 3), "FileSink.for_bulk_format takes a BulkWriterFactory, not 3"),
        (lambda: ROWS.with_bucket_assigner("day"), "with_bucket_assigner takes a BucketAssigner, not 'day'"),
        (lambda: ROWS.with_rolling_policy(60_000), "with_rolling_policy takes a RollingPolicy, not 60000"),
        (lambda: ROWS.with_output_file_config(OutputFileConfig.builder()), "takes an OutputFileConfig, .*its build"),
    ],
)
def test_arguments_of_another_kind(build: Callable[[], Any], said: str) -> None:
    with pytest.raises(InvalidTypeError, match=f"{said}.*\n  at {__file__}"):
        build()


def test_an_empty_path_is_a_mistake() -> None:
    with pytest.raises(InvalidProgramError, match=r"a path is empty: '\.' is the folder"):
        FileSink.for_row_format("", CsvEncoder())


def test_an_encoder_gives_bytes(tmp_path: Path) -> None:
    run = SinkRun(file_sink(tmp_path, encoder=Encoder(str.upper)), Types.STRING())  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match="Encoder gave 'TEA' for a record: return bytes"):
        run.run_epoch(["tea"])


def test_intervals_of_rolling_are_durations_too() -> None:
    policy = RollingPolicy.default_rolling_policy(
        rollover_interval=Duration.of_minutes(5), inactivity_interval=datetime.timedelta(seconds=1)
    )
    assert (policy.rollover_interval, policy.inactivity_interval) == (300_000, 1000)


class FirstLetter(BucketAssigner):
    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        assert context.timestamp() is None
        assert context.current_watermark() < 0
        return f"letter={element[0]}" if context.current_processing_time() >= 0 else ""


def file_sink(
    path: Path, policy: RollingPolicy = EVERY_EPOCH, assigner: BucketAssigner | None = None, encoder: Any = None
) -> FileSink:
    builder = FileSink.for_row_format(path, encoder or Encoder.simple_string_encoder())
    builder.with_bucket_assigner(assigner or BucketAssigner.base_path_bucket_assigner())
    config = OutputFileConfig.builder().with_part_prefix("out").with_part_suffix(".txt").build()
    return builder.with_rolling_policy(policy).with_output_file_config(config).build()


def job(path: Path, policy: RollingPolicy = EVERY_EPOCH, **options: Any) -> SinkRun:
    return SinkRun(file_sink(path, policy, **options), Types.STRING(), parallelism=2)


def visible(path: Path) -> list[Path]:
    """The files that a reader sees."""
    files = (file for file in path.rglob("*") if file.is_file())
    return sorted(file for file in files if not any(part[0] in "._" for part in file.relative_to(path).parts))


def hidden(path: Path) -> list[Path]:
    return sorted({file for file in path.rglob("*") if file.is_file()} - set(visible(path)))


def lines(path: Path) -> list[str]:
    """The lines that a reader sees, by file."""
    return [line for file in visible(path) for line in file.read_text().splitlines()]


def test_every_epoch_has_its_files(tmp_path: Path) -> None:
    run = job(tmp_path / "new" / "folder")
    run.run_epoch(["a", "b", "c"])
    run.run_epoch([])
    run.run_epoch(["d"])
    found = visible(tmp_path)
    assert [file.read_text() for file in found] == ["a\nc\n", "d\n", "b\n"]
    assert all(file.name.startswith("out-") and file.suffix == ".txt" for file in found)
    assert hidden(tmp_path) == []


def test_nothing_is_visible_before_the_commit(tmp_path: Path) -> None:
    run = job(tmp_path)
    committables = run.write(["a"], epoch=1)
    assert visible(tmp_path) == []
    assert len(hidden(tmp_path)) == 1
    run.committer.commit(1, run.prepare(committables), 0)
    assert lines(tmp_path) == ["a"]


def test_attempts_that_write_the_same_make_one_file(tmp_path: Path) -> None:
    run = job(tmp_path)
    first, second = run.write(["a"], epoch=1), run.write(["a"], epoch=1)
    other = run.write(["b"], epoch=1)
    assert first == second != other
    ready = run.prepare(first)
    run.committer.commit(1, ready, 0)
    assert run.write(["a"], epoch=1) == first  # a late attempt
    run.committer.commit(1, ready, 0)
    run.committer.finish()
    assert lines(tmp_path) == ["a"]
    assert hidden(tmp_path) == []


def test_an_attempt_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    run = job(tmp_path)
    writer = run.sink.create_writer(WriterContext("job", "sink", 1, 0, 1, Types.STRING()))
    writer.begin_epoch(WriterEpoch(1, 0))
    writer.write(batch_of(Types.STRING(), ["x" * 100] * 20_000))
    assert len(hidden(tmp_path)) == 1
    writer.abort()
    assert hidden(tmp_path) == []


@pytest.mark.parametrize("policy", [EVERY_EPOCH, BY_TIME])
def test_a_commit_may_come_again(tmp_path: Path, policy: RollingPolicy) -> None:
    run = job(tmp_path, policy)
    for now in (0, 1000, 4000):
        committables = run.run_epoch([f"{now}a", f"{now}b"], now)
        run.committer.commit(run.epoch, committables, now)
        run.new_committer().commit(run.epoch, committables, now)
    run.committer = run.new_committer()
    run.end()
    assert sorted(lines(tmp_path)) == sorted(f"{now}{letter}" for now in (0, 1000, 4000) for letter in "ab")
    assert hidden(tmp_path) == []


def test_what_is_gone_is_refused(tmp_path: Path) -> None:
    run = job(tmp_path)
    committables = run.run_epoch(["a"])
    (file,) = visible(tmp_path)
    file.write_text("something else")
    with pytest.raises(CommitRefusedError, match="what is to be published there has 2"):
        run.committer.commit(1, committables, 0)
    file.unlink()
    with pytest.raises(CommitRefusedError, match="is missing"):
        run.committer.commit(1, committables, 0)


def test_the_file_of_another_run_is_not_replaced(tmp_path: Path) -> None:
    run, again = job(tmp_path, BY_TIME), job(tmp_path, BY_TIME)
    run.run_epoch(["a"], 0)
    run.end()
    ready = again.prepare(again.write(["other"], epoch=1), is_last=True)
    with pytest.raises(CommitRefusedError, match="remove it"):
        again.committer.commit(1, ready, 0)
    assert lines(tmp_path) == ["a"]


def test_recovery_removes_what_failed_attempts_left(tmp_path: Path) -> None:
    run = job(tmp_path)
    run.run_epoch(["a"])
    run.write(["never committed"], epoch=2)
    temporary = hidden(tmp_path)[0].with_name(f"0000000002-1-0.{'0' * 32}.tmp")
    temporary.write_text("half")
    run.restart()
    assert hidden(tmp_path) == []
    kept = run.write(["newer"], epoch=2)
    run.committer.recover(None)
    run.committer.commit(2, run.prepare(kept), 0)
    assert lines(tmp_path) == ["a", "newer"]


def test_sinks_of_one_folder_leave_each_other_alone(tmp_path: Path) -> None:
    one = job(tmp_path)
    left_over = one.write(["one"], epoch=1)
    other = file_sink(tmp_path).create_committer
    committer = other(CommitterContext("other job", "sink", Types.STRING(), 9, 5))
    committer.recover(None)
    committer.finish()
    one.committer.commit(1, one.prepare(left_over), 0)
    assert lines(tmp_path) == ["one"]


def test_epochs_are_put_together(tmp_path: Path) -> None:
    run = job(tmp_path, BY_TIME)
    for now in (0, 1000, 2000):
        run.run_epoch([f"{now}a", f"{now}b"], now)
        assert visible(tmp_path) == []
    run.run_epoch(["3000a", "3000b"], 3000)
    assert lines(tmp_path) == [f"{now}{letter}" for letter in "ab" for now in (0, 1000, 2000, 3000)]
    assert len(visible(tmp_path)) == 2
    assert hidden(tmp_path) == []
    run.run_epoch(["4000a"], 4000)
    run.run_epoch([], 5500)
    assert len(visible(tmp_path)) == 2
    run.run_epoch([], 6000)  # nothing was written for two seconds
    assert len(visible(tmp_path)) == 3


def test_parts_have_about_their_size(tmp_path: Path) -> None:
    run = job(tmp_path, RollingPolicy.default_rolling_policy(part_size=100))
    run.parallelism = 1
    for _ in range(10):
        run.run_epoch(["x" * 29], 0)
    assert [file.stat().st_size for file in visible(tmp_path)] == [120, 120]
    run.end()
    assert [file.stat().st_size for file in visible(tmp_path)] == [120, 120, 60]


def test_a_part_goes_on_after_a_restart(tmp_path: Path) -> None:
    run = job(tmp_path, BY_TIME)
    run.run_epoch(["a", "b"], 0)
    run.restart()
    run.run_epoch(["c", "d"], 1000)
    assert visible(tmp_path) == []
    run.end()
    assert lines(tmp_path) == ["a", "c", "b", "d"]
    assert len(visible(tmp_path)) == 2
    assert hidden(tmp_path) == []


@pytest.mark.parametrize("header", [False, True])
def test_what_was_held_back_appears_when_the_policy_changes(tmp_path: Path, header: bool) -> None:
    kind = Types.ROW_NAMED(["name"], [Types.STRING()])
    run = SinkRun(file_sink(tmp_path, BY_TIME, encoder=CsvEncoder(header=header)), kind, parallelism=2)
    run.run_epoch([("a",), ("b",)], 0)
    run.sink = file_sink(tmp_path, EVERY_EPOCH, encoder=CsvEncoder(header=header))
    run.restart()
    run.run_epoch([("c",), ("d",)], 0)
    assert sorted(line for line in lines(tmp_path) if line != "name") == ["a", "b", "c", "d"]
    assert all(file.read_text().startswith("name\n") is header for file in visible(tmp_path))


def test_a_quiet_job_knows_when_a_part_is_old_enough(tmp_path: Path) -> None:
    run = job(tmp_path, BY_TIME)
    assert run.sink.pre_commit is not None
    run.run_epoch(["a", "b"], 1000)
    assert run.sink.pre_commit.due(run.in_progress) == 3000  # nothing was written for two seconds
    run.run_epoch(["c", "d"], 2500)
    assert run.sink.pre_commit.due(run.in_progress) == 4000  # three seconds after the first record
    run.run_epoch([], 4000)
    assert run.in_progress is None
    assert sorted(lines(tmp_path)) == ["a", "b", "c", "d"]


class Crash(Exception):
    """The process ends here."""


def crash_after(steps: int, action: Callable[[], None]) -> bool:
    """Let an action do some steps on the file system and then end; gives whether it came to its end before."""

    def limited(original: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            nonlocal steps
            if steps == 0:
                raise Crash
            steps -= 1
            return original(*args, **kwargs)

        return step

    with pytest.MonkeyPatch.context() as patch:
        for name in ("rename", "unlink", "rmdir", "mkdir"):
            patch.setattr(Path, name, limited(getattr(Path, name)))
        patch.setattr(os, "fsync", limited(os.fsync))
        try:
            action()
        except Crash:
            return False
    return True


class CrashingJob:
    """A job of three epochs with a sink, as its manifests remember it."""

    def __init__(self, path: Path, policy: RollingPolicy, *, header: bool) -> None:
        self.path = path
        self.header = header
        self.sink = file_sink(path, policy, encoder=CsvEncoder(header=header))
        self.kind = Types.ROW_NAMED(["name"], [Types.STRING()])
        self.manifests: list[tuple[int, Any, Any, int]] = []
        self.generation = 0

    def live(self) -> None:
        """One life of the job: commit what is pending, recover, go on to the end."""
        self.generation += 1
        run = SinkRun(self.sink, self.kind, 2, self.generation, epoch=len(self.manifests))
        for epoch, ready, in_progress, now in self.manifests[-1:]:  # it was never acknowledged
            run.in_progress = in_progress
            run.committer.commit(epoch, ready, now)
        run.committer.recover(run.in_progress)
        for epoch, now in ((1, 0), (2, 1000), (3, 4000))[len(self.manifests) :]:
            run.epoch = epoch
            rows = [(f"{epoch}{letter}",) for letter in "abcd"]
            committables = [item for subtask in (0, 1) for item in run.write(rows[subtask::2], now, subtask)]
            ready = run.prepare(committables, now, is_last=epoch == 3)
            self.manifests.append((epoch, ready, run.in_progress, now))
            run.committer.commit(epoch, ready, now)
        run.committer.finish()

    def check(self) -> None:
        found = lines(self.path)
        assert sorted(line for line in found if line != "name") == [
            f"{e}{letter}" for e in (1, 2, 3) for letter in "abcd"
        ]
        assert found.count("name") == (len(visible(self.path)) if self.header else 0)
        assert hidden(self.path) == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("policy", [EVERY_EPOCH, BY_TIME])
@pytest.mark.parametrize("header", [False, True])
def test_a_crash_at_every_step(tmp_path: Path, policy: RollingPolicy, header: bool) -> None:
    for steps in itertools.count():
        crashing = CrashingJob(tmp_path / str(steps), policy, header=header)
        came_to_its_end = crash_after(steps, crashing.live)
        if not came_to_its_end:
            crashing.live()
        crashing.check()
        if came_to_its_end:
            break
    assert steps > 20


@given(st.lists(st.integers(0, 60), max_size=8), st.sampled_from([EVERY_EPOCH, BY_TIME]), st.booleans())
@settings(deadline=None, max_examples=draws(50))
def test_crashes_during_recoveries(crashes: list[int], policy: RollingPolicy, header: bool) -> None:
    with TemporaryDirectory() as folder:
        crashing = CrashingJob(Path(folder), policy, header=header)
        if not any(crash_after(steps, crashing.live) for steps in crashes):
            crashing.live()
        crashing.check()


def test_buckets_are_folders(tmp_path: Path) -> None:
    run = job(tmp_path, assigner=FirstLetter())
    run.parallelism = 1
    run.run_epoch(["a1", "b1", "a2", "c1", "b2"])
    found = {file.parent.name: file.read_text().split() for file in visible(tmp_path)}
    assert found == {"letter=a": ["a1", "a2"], "letter=b": ["b1", "b2"], "letter=c": ["c1"]}
    run.committer.finish()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(
    "bucket", ["/etc", "../up", "a//b", "a/./b", "a/..", ".", ".headrace-x", "a/.headrace-x", "ä" * 128]
)
def test_a_bucket_outside_is_refused(tmp_path: Path, bucket: str) -> None:
    class Bad(BucketAssigner):
        def get_bucket_id(self, element: Any, context: BucketContext) -> str:
            return bucket

    builder = FileSink.for_row_format(tmp_path, Encoder.simple_string_encoder())
    sink = builder.with_bucket_assigner(Bad()).build()
    writer = sink.create_writer(WriterContext("job", "sink", 1, 0, 1, Types.STRING()))
    writer.begin_epoch(WriterEpoch(1, 0))
    with pytest.raises(InvalidProgramError, match="bucket"):
        writer.write(batch_of(Types.STRING(), ["a"]))


@pytest.mark.parametrize(
    ("pattern", "zone", "bucket"),
    [
        ("yyyy-MM-dd--HH", "UTC", "2023-11-14--22"),
        ("yyyy-MM-dd--HH", "Europe/Berlin", "2023-11-14--23"),
        ("yyyy-MM-dd--HH", "GMT-08:00", "2023-11-14--14"),
        ("yyyy-MM-dd--HH", "+0530", "2023-11-15--03"),
        ("'year='yyyy/'month='MM", "UTC", "year=2023/month=11"),
        ("HH:mm:ss.SSS", "UTC", "22:13:20.123"),
        ("yy''DDD{}", "UTC", "23'318{}"),
        ("'o''clock 'H", "UTC", "o'clock 22"),
    ],
)
def test_buckets_by_processing_time(pattern: str, zone: str, bucket: str) -> None:
    assigner = pickle.loads(pickle.dumps(BucketAssigner.date_time_bucket_assigner(pattern, zone)))
    context = BucketContext(1_700_000_000_123, 0, None)
    assert assigner.get_bucket_id(None, context) == bucket
    assert assigner.bucket_ids(None, 1_700_000_000_123) == bucket


@pytest.mark.parametrize(
    ("pattern", "zone"), [("yyyy-QQ", "UTC"), ("yyyy'", "UTC"), ("yyyy", "Mars/Base"), ("e", None)]
)
def test_unknown_patterns_and_zones_are_refused(pattern: str, zone: str | None) -> None:
    with pytest.raises(InvalidProgramError):
        BucketAssigner.date_time_bucket_assigner(pattern, zone)


def test_the_machine_s_time_zone_is_the_default(tmp_path: Path) -> None:
    sink = FileSink.for_row_format(tmp_path, Encoder.simple_string_encoder()).build()
    run = SinkRun(sink, Types.STRING())
    run.run_epoch(["a"], 1_700_000_000_000)
    run.end()
    (file,) = visible(tmp_path)
    assert file.parent.name.startswith("2023-11-1")


def test_arguments_are_checked(tmp_path: Path) -> None:
    encoder = Encoder.simple_string_encoder()
    with pytest.raises(UnsupportedOperationError, match="POSIX paths"):
        FileSink.for_row_format("ftp://host/out", encoder)
    with pytest.raises(InvalidProgramError):
        RollingPolicy.default_rolling_policy(part_size=0)
    with pytest.raises(InvalidProgramError):
        FileSink.for_row_format(tmp_path, encoder).with_bucket_check_interval(0)
    for prefix, suffix in (("", ""), (".a", ""), ("_a", ""), ("a/b", ""), ("a", "/b")):
        with pytest.raises(InvalidProgramError):
            OutputFileConfig(prefix, suffix)
    for prefix, suffix in (("run:1", ""), ("run", ":1")):
        config = OutputFileConfig(prefix, suffix)
        FileSink.for_row_format(tmp_path, encoder).with_output_file_config(config).build()
        with pytest.raises(InvalidProgramError, match="on HDFS cannot contain ':'"):
            FileSink.for_row_format("hdfs://ns/out", encoder).with_output_file_config(config).build()


@pytest.mark.parametrize("base", [DefaultRollingPolicy, OnCheckpointRollingPolicy])
def test_derived_rolling_policies_may_have_fields_of_their_own(base: Any) -> None:
    class Named(base):  # type: ignore[misc]
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    assert Named("mine").name == "mine"
