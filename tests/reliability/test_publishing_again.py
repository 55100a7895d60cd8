"""What a job goes on with appears once, also when program, disk or checkpoint directory have changed meanwhile."""

from __future__ import annotations

import os
import shutil
import stat
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.checkpoint.manifest import Manifest, PartitionSnapshot, StageSnapshot
from headrace.checkpoint.manifest_folder import ManifestFolder
from headrace.checkpoint.store import CheckpointStore
from headrace.client import running
from headrace.common import Configuration, Duration, Encoder, WatermarkStrategy, durable
from headrace.common.durable import Permissions, make_folder
from headrace.common.errors import CheckpointError, StateMigrationError
from headrace.connectors.file_system.committer import FileCommitter
from headrace.connectors.file_system.staging import StagingArea
from headrace.connectors.sink import Committer, CommitterContext, Sink, SinkWriter, WriterContext
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)
from headrace.datastream.formats.csv import CsvEncoder
from headrace.state.state_file import CompactedName, VersionRef
from headrace.storage.file_system import PosixFileSystem
from headrace.storage.folder import posix_folder
from tests.reliability.support.file_sinks import ROLLED_AT_THE_END, ROLLED_BY_SIZE, by_name, contents
from tests.reliability.support.small_jobs import CrashError, SmallJob, WatchedSink, expected
from tests.waiting import PATIENCE

FAST = {
    "restart-strategy.type": "exponential-delay",
    "restart-strategy.exponential-delay.initial-backoff": "1ms",
    "restart-strategy.exponential-delay.max-backoff": "5ms",
}
CSV = by_name("csv-rolled-by-size")


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "output"


def sink(folder: Path, *, header: bool = True, policy: RollingPolicy = ROLLED_BY_SIZE, suffix: str = "") -> FileSink:
    return (
        FileSink.for_row_format(folder, CsvEncoder(header=header))
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(policy)
        .with_output_file_config(OutputFileConfig.builder().with_part_suffix(suffix).build())
        .build()
    )


def die(*_: Any) -> None:
    raise CrashError


def crash_when_shown(tmp_path: Path, output: Path) -> None:
    """The driver dies when parts are visible and their chunks have not been removed."""
    original = PosixFileSystem.make_durable

    def make_durable(file_system: PosixFileSystem, paths: Iterable[str]) -> None:
        names = list(paths)
        if any("/.headrace-" not in name for name in names):
            raise CrashError
        original(file_system, names)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PosixFileSystem, "make_durable", make_durable)
        SmallJob(tmp_path, sink(output)).crash()
    assert contents(output)


def crash_when_committed(tmp_path: Path, output: Path) -> None:
    """The driver dies when a commit is done and nobody knows."""
    SmallJob(tmp_path, WatchedSink(sink(output), after=die)).crash()
    assert contents(output)


CRASHES = [crash_when_shown, crash_when_committed]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("crash", CRASHES)
def test_what_is_found_to_be_shown_is_confirmed(
    crash: Callable[[Path, Path], None], tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not what a call has shown, and before anything goes from which it could be shown again."""
    confirmed, hidden = list[str](), list[bool]()

    def confirm(staging: StagingArea, found: Sequence[str]) -> None:
        confirmed.extend(path.removeprefix(f"{staging.base}/") for path in found)
        if found:
            chunks = staging.file_system.walk(staging.chunk_folder(), lambda _: True)
            hidden.append(any(True for _ in chunks))

    monkeypatch.setattr(StagingArea, "confirm", confirm)
    crash(tmp_path, output)
    shown = set(contents(output))
    assert confirmed == []
    SmallJob(tmp_path, sink(output)).run()
    assert confirmed
    assert set(confirmed) <= shown
    assert hidden[0] or crash is crash_when_committed
    assert CSV.records(output) == expected()


@pytest.mark.parametrize("crash", CRASHES)
def test_another_suffix_after_a_crash(crash: Callable[[Path, Path], None], tmp_path: Path, output: Path) -> None:
    """What is published, and under which name, was decided when the manifest was written."""
    crash(tmp_path, output)
    SmallJob(tmp_path, sink(output, suffix=".csv")).run()
    assert CSV.records(output) == expected()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("crash", CRASHES)
def test_another_header_after_a_crash(crash: Callable[[Path, Path], None], tmp_path: Path, output: Path) -> None:
    crash(tmp_path, output)
    before = contents(output)
    SmallJob(tmp_path, sink(output, header=False)).run()
    assert contents(output).items() >= before.items()


def test_an_old_copy_that_still_holds_back_what_is_visible(tmp_path: Path, output: Path) -> None:
    """A part may be shown by a later epoch than the last one in it, so its name does not tell that a copy is old."""
    SmallJob(tmp_path, sink(output, policy=ROLLED_AT_THE_END)).run(stop_after=2)
    shutil.copytree(tmp_path / "checkpoints", tmp_path / "copy")
    shown = 0
    with pytest.MonkeyPatch.context() as patch:
        original = StagingArea.publish

        def show(staging: StagingArea, source: str, target: str) -> bool:
            nonlocal shown
            is_new = original(staging, source, target)
            shown += 1
            if shown == 2:
                raise CrashError
            return is_new

        patch.setattr(StagingArea, "publish", show)
        SmallJob(tmp_path, sink(output, policy=RollingPolicy.default_rolling_policy(part_size=500))).crash()
    shutil.rmtree(tmp_path / "checkpoints")
    shutil.move(tmp_path / "copy", tmp_path / "checkpoints")
    with pytest.raises(CheckpointError, match="old copy"):
        SmallJob(tmp_path, sink(output, policy=ROLLED_AT_THE_END)).run()


class _Nothing(Sink):
    """A sink that holds nothing back."""

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _NoWriter()

    def create_committer(self, context: CommitterContext) -> Committer:
        return _NoCommitter()


class _NoWriter(SinkWriter):
    def write(self, batch: Any) -> None:
        pass

    def prepare_commit(self) -> list[Any]:
        return []


class _NoCommitter(Committer):
    def commit(self, epoch: int, committables: Any, processing_time: int) -> None:
        pass


def test_a_sink_of_another_kind_does_not_forget_what_is_held_back(tmp_path: Path, output: Path) -> None:
    SmallJob(tmp_path, sink(output, policy=ROLLED_AT_THE_END)).run(stop_after=3)
    with pytest.raises(StateMigrationError, match="output in progress"):
        SmallJob(tmp_path, _Nothing()).run()
    SmallJob(tmp_path, sink(output, policy=ROLLED_AT_THE_END)).run()
    assert CSV.records(output) == expected()


def test_empty_folders_are_cleaned_away(tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has taken over: the job makes itself another folder."""
    original, commits = FileCommitter.commit, 0

    def commit(self: FileCommitter, *arguments: Any) -> None:
        nonlocal commits
        commits += 1
        if commits == 2:
            for folder in output.glob(".headrace-*/publish-*"):
                folder.rmdir()
        original(self, *arguments)

    monkeypatch.setattr(FileCommitter, "commit", commit)
    SmallJob(tmp_path, sink(output), FAST).run()
    assert CSV.records(output) == expected()


@pytest.mark.parametrize("dies", [False, True])
def test_readers_take_files_away_long_before_an_idle_job_begins_again(dies: bool, tmp_path: Path) -> None:
    """What was committed long ago is not asked for again, however little has happened since."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("a\n")
    errors: list[BaseException] = []

    def run() -> None:
        settings = {"headrace.runtime": "local", "execution.checkpointing.dir": str(tmp_path / "checkpoints"), **FAST}
        configuration = Configuration()
        for key, value in settings.items():
            configuration.set_string(key, value)
        env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path / "in"))
        lines = env.from_source(
            source.monitor_continuously(Duration.of_millis(20)).build(), WatermarkStrategy.no_watermarks(), "lines"
        )
        files = (
            FileSink.for_row_format(tmp_path / "output", Encoder.simple_string_encoder())
            .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
            .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
            .build()
        )
        lines.uid("lines").sink_to(files).uid("files")
        try:
            env.execute("idle")
        except BaseException as error:
            errors.append(error)

    def take(count: int) -> None:
        end = time.monotonic() + PATIENCE
        while len(found := list((tmp_path / "output").glob("part-*"))) < count and not errors:
            assert time.monotonic() < end
            time.sleep(0.01)
        time.sleep(0.5)  # hours
        for path in found:
            path.unlink()

    with pytest.MonkeyPatch.context() as patch, pytest.MonkeyPatch.context() as always:
        always.setattr("headrace.jobmanager.job_manager.ACKNOWLEDGE_SECONDS", 0.0)
        thread = threading.Thread(target=run)
        thread.start()
        take(1)
        if dies:
            patch.setattr(CheckpointStore, "is_owned_by", die)
            thread.join(PATIENCE)
            assert isinstance(errors.pop(), CrashError)
            patch.undo()
            thread = threading.Thread(target=run)
            thread.start()
        else:
            (tmp_path / "in").rename(tmp_path / "away")
            time.sleep(0.2)
            (tmp_path / "away").rename(tmp_path / "in")
        (tmp_path / "in" / "b.txt").write_text("b\n")
        take(1)
        running.stop_all()
        thread.join(PATIENCE)
    assert errors == []


def test_a_damaged_manifest_that_nothing_needs_any_more(tmp_path: Path, output: Path) -> None:
    SmallJob(tmp_path, sink(output)).run(stop_after=4)
    job = SmallJob(tmp_path, sink(output))
    oldest = job.manifests / f"{job.epochs()[0]:012}.json"
    oldest.write_bytes(oldest.read_bytes()[:-1])
    job.run()
    assert CSV.records(output) == expected()


def test_generations_that_vanish_are_told(tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, done = CheckpointStore.collect_garbage, 0

    def collect_garbage(self: CheckpointStore) -> list[str]:
        nonlocal done
        done += 1
        if done == 2:
            shutil.rmtree(tmp_path / "checkpoints" / "generations")
            (tmp_path / "checkpoints" / "generations").mkdir()
            raise OSError(5, "Input/output error")
        return original(self)

    monkeypatch.setattr(CheckpointStore, "collect_garbage", collect_garbage)
    attempts = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "restart-strategy.fixed-delay.delay": "1ms",
    }
    with pytest.raises(CheckpointError, match="generations have been removed"):
        SmallJob(tmp_path, sink(output), attempts).run()
    monkeypatch.undo()
    SmallJob(tmp_path, sink(output)).run()
    assert CSV.records(output) == expected()


def _manifest(epoch: int, generation: int, *files: str) -> Manifest:
    version = VersionRef(1, 0, epoch, name=files[0], files=tuple(files)) if files else None
    return Manifest(epoch, generation, "job", "job", 128, 0, stages=(StageSnapshot({}, (PartitionSnapshot(version),)),))


def test_an_older_one_that_wakes_up_removes_nothing_that_the_younger_one_has_merged(tmp_path: Path) -> None:
    """It took its time over the recovery of its sinks, and removes what is left over only then."""
    older, younger = (CheckpointStore(posix_folder(tmp_path / "checkpoints")) for _ in range(2))
    first = older.begin(_manifest(0, 0))
    assert first is not None
    older.write(_manifest(1, first.generation))
    mine = older.restart(_manifest(1, first.generation))
    taken = younger.take_over(mine)
    merged = str(CompactedName(taken.generation, 1, 0, "00"))
    (tmp_path / "checkpoints" / "state" / merged).write_bytes(b"merged")
    younger.write(_manifest(taken.epoch + 1, taken.generation, merged))
    assert older.remove_leftovers(mine.generation) == []
    assert (tmp_path / "checkpoints" / "state" / merged).exists()


def test_of_two_that_begin_together_one_goes_on(tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The older one has just created the first manifest, and has yet to find out that it should not have."""
    begun, created, tried = threading.Event(), threading.Event(), threading.Event()
    original_create, original_check = ManifestFolder.create, CheckpointStore._check_owner
    owners: list[ManifestFolder] = []

    def create(self: ManifestFolder, manifest: Manifest) -> bool:
        if self not in owners:
            owners.append(self)
            if len(owners) == 1:
                assert begun.wait(PATIENCE)
            else:
                begun.set()
                assert created.wait(PATIENCE)
        return original_create(self, manifest)

    def check_owner(self: CheckpointStore, manifest: Manifest) -> None:
        if self._manifests is owners[0] and not created.is_set():
            created.set()
            assert tried.wait(PATIENCE)
        original_check(self, manifest)

    monkeypatch.setattr(ManifestFolder, "create", create)
    monkeypatch.setattr(CheckpointStore, "_check_owner", check_owner)
    errors: list[BaseException] = []
    threads = []
    for count in (1, 2):
        threads.append(SmallJob(tmp_path, sink(output), FAST).in_background(errors))
        if count == 1:
            end = time.monotonic() + PATIENCE
            while not owners and time.monotonic() < end:
                time.sleep(0.01)
    threads[1].join(PATIENCE)
    tried.set()
    threads[0].join(PATIENCE)
    assert len(errors) == 1, errors
    assert CSV.records(output) == expected()


def test_a_folder_that_could_not_be_made_durable_is_not_taken_to_be_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []

    def sync_folder(folder: Path) -> None:
        if not synced:
            synced.append(Path())
            raise OSError(5, "Input/output error")
        synced.append(folder)

    monkeypatch.setattr(durable, "sync_folder", sync_folder)
    with pytest.raises(OSError, match="Input/output error"):
        make_folder(tmp_path / "new")
    make_folder(tmp_path / "new")
    assert tmp_path in synced


def test_a_folder_is_never_open_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever makes it may die before it has set the mode."""
    monkeypatch.setattr(Path, "chmod", die)
    monkeypatch.setattr(Path, "rmdir", lambda self: None)
    before = os.umask(0)
    try:
        with pytest.raises(CrashError):
            make_folder(tmp_path / "new", Permissions.OWNER)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
