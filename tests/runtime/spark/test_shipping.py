"""What lies in files for the tasks: each reads its own part, nothing that was changed, and nothing stays for ever."""

from __future__ import annotations

import os
import pickle
import stat
from pathlib import Path

import pytest

from headrace.checkpoint.manifest import OperatorProgress
from headrace.common.durable import Permissions
from headrace.common.errors import InfrastructureError, JobExecutionError
from headrace.runtime.spark.shipping import Parts, ShippedFiles, read_job
from headrace.runtime.task.messages import EpochContext, PartitionContext, SplitAssignment
from headrace.state.state_file import VersionRef
from headrace.storage.folder import posix_folder

INLINE = 4_000


@pytest.fixture
def files(tmp_path: Path) -> ShippedFiles:
    return ShippedFiles(posix_folder(tmp_path / "shipped"))


def path_of(files: ShippedFiles, parts: Parts) -> Path:
    return Path(files.folder.locate(parts.name))


def context(parallelism: int) -> EpochContext:
    """One with two stages behind the first; each of their tasks has a small state in it."""
    starts = {
        (stage, partition): PartitionContext(
            (VersionRef(stage, partition, 1, inline=os.urandom(INLINE)),),
            dict.fromkeys("abcde", OperatorProgress(1, 1)),
        )
        for stage in (1, 2)
        for partition in range(parallelism)
    }
    assignments = {
        subtask: (SplitAssignment("in", subtask, 0, (f"file-{subtask}",), {}),) for subtask in range(parallelism)
    }
    return EpochContext("job", 2, 1, 0, 0, assignments, starts)


@pytest.mark.parametrize("parallelism", [2, 64, 512])
def test_what_a_task_is_sent_does_not_grow_with_the_number_of_tasks(files: ShippedFiles, parallelism: int) -> None:
    """Not with a setting that all get; and of the file each reads its own part, which is the same size for all."""
    whole = context(parallelism)
    parts = files.write_parts([pickle.dumps(part) for part in whole.for_sources()])
    assert len(parts.to_text()) < 400
    read = [len(parts.part(subtask, files.folder)) for subtask in range(parallelism)]
    assert max(read) < 2 * INLINE + 2_000
    assert sum(read) > parallelism * 2 * INLINE


def test_every_task_gets_what_it_reads_and_hands_on_its_share(files: ShippedFiles) -> None:
    whole = context(7)
    parts = Parts.from_text(files.write_parts([pickle.dumps(part) for part in whole.for_sources()]).to_text())
    handed_on: dict[tuple[int, int], PartitionContext] = {}
    for subtask in range(7):
        part = pickle.loads(parts.part(subtask, files.folder))
        assert part.assignments == {subtask: whole.assignments[subtask]}
        assert len(part.partitions) == 2
        handed_on |= part.partitions
        assert (part.epoch, part.job_id) == (2, "job")
    assert handed_on == whole.partitions


def test_stages_of_other_sizes_are_shared_fairly() -> None:
    """Two readers and nine later tasks, or nine readers and two."""
    for readers, later, most in ((2, 9, 5), (9, 2, 1)):
        starts = {(1, partition): PartitionContext() for partition in range(later)}
        whole = EpochContext("job", 2, 1, 0, 0, dict.fromkeys(range(readers), ()), starts)
        shares = [len(part.partitions) for part in whole.for_sources()]
        assert sum(shares) == later
        assert max(shares) == most


def test_what_is_small_travels_as_it_is(files: ShippedFiles) -> None:
    parts = Parts.from_text(Parts(here=b"all of it").to_text())
    assert parts.part(3, files.folder) == parts.part(0, files.folder) == b"all of it"


@pytest.mark.parametrize("place", [0, 20, 33, 100])
def test_a_part_that_was_changed_is_not_used(files: ShippedFiles, place: int) -> None:
    parts = files.write_parts([b"x" * 50, b"y" * 50])
    content = bytearray(path_of(files, parts).read_bytes())
    content[place] ^= 1
    path_of(files, parts).write_bytes(content)
    with pytest.raises(InfrastructureError, match=r"part [01] of .* is damaged"):
        [parts.part(number, files.folder) for number in (0, 1)]


def test_a_part_of_another_epoch_or_task_is_not_used(files: ShippedFiles) -> None:
    older, newer = (files.write_parts([b"same size", b"SAME SIZE"]) for _ in range(2))
    path_of(files, newer).write_bytes(path_of(files, older).read_bytes())
    with pytest.raises(InfrastructureError, match="is damaged"):
        newer.part(0, files.folder)
    content = path_of(files, older).read_bytes()
    path_of(files, older).write_bytes(content[32:64] + content[:32] + content[64:])
    with pytest.raises(InfrastructureError, match="is damaged"):
        older.part(0, files.folder)
    with pytest.raises(InfrastructureError, match="is damaged"):
        older.part(2, files.folder)


def test_a_job_file_is_known_by_its_content(files: ShippedFiles) -> None:
    name = files.write_job(b"a pickle")
    assert read_job(files.folder, name) == b"a pickle"
    files.folder.write(name, [b"a pickl!"])
    with pytest.raises(JobExecutionError, match="has been changed since the driver wrote it"):
        read_job(files.folder, name)


def test_only_shipped_files_are_removed(files: ShippedFiles) -> None:
    job = Path(files.folder.locate(files.write_job(b"a pickle")))
    parts = files.write_parts([b"x"])
    half = job.with_name(f".{job.name}.{'0' * 32}.tmp")
    others = [job.with_name(name) for name in ("job-1.pickle", "notes.txt", "parts-x.bin", f"{job.name}.bak")]
    for path in (half, *others):
        path.write_bytes(b"")
    assert files.remove_leftovers() == sorted([half.name, job.name, parts.name])
    assert sorted(job.parent.iterdir()) == sorted(others)
    files.forget(parts)
    files.forget(Parts(here=b"nothing to forget"))


@pytest.mark.parametrize(
    ("permissions", "file", "folder"), [(Permissions.OWNER, 0o600, 0o700), (Permissions.GROUP, 0o660, 0o770)]
)
def test_who_may_read_them(tmp_path: Path, permissions: Permissions, file: int, folder: int) -> None:
    files = ShippedFiles(posix_folder(tmp_path / "shipped", permissions))
    paths = [Path(files.folder.locate(files.write_job(b"a pickle"))), path_of(files, files.write_parts([b"x"]))]
    assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [file, file]
    assert stat.S_IMODE(paths[0].parent.stat().st_mode) == folder
