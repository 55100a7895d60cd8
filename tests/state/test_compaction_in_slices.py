"""Keyed state that is large is merged slice by slice: each piece of work, and each file, stays as small as a slice."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from headrace.common.typeinfo import Types
from headrace.state.compaction import CompactionTask
from headrace.state.descriptors import ListStateDescriptor, ValueStateDescriptor
from headrace.state.rocksdb.backend import RocksDBBackend
from headrace.state.rocksdb.table import RocksDBSettings
from headrace.state.runs import HashRange, Run
from headrace.state.state_file import CompactedName
from headrace.storage.folder import posix_folder
from tests.state.harness import UID, Job
from tests.state.test_state_model import most_runs_of_a_key

VALUE = ValueStateDescriptor("value", Types.LONG())
NAMES = ListStateDescriptor("names", Types.STRING())
SLICE = 20_000


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.state.runs.merging.INLINE_ROWS", 0)
    monkeypatch.setattr("headrace.state.compaction.INLINE_ROWS", 10)
    monkeypatch.setattr("headrace.state.compaction.SLICE_BYTES", SLICE)


def job_in(folder: Path, backend: str = "hashmap") -> Job:
    """A job whose state is in a folder, so that files have sizes."""
    state = posix_folder(folder / "state")
    state.make()
    small = RocksDBSettings(local_dir=str(folder / "local"), smallest_table=0, largest_columns=0)
    chosen = RocksDBBackend("rocksdb", small) if backend == "rocksdb" else None
    return Job(storage=state, inline_threshold=0, backend=chosen)


def write(job: Job, keys: Any, value: int = 0) -> None:
    job.on_keys(job.begin(), list(keys), lambda op, key, _: op.keyed.state(VALUE).update(key + value))
    job.end()


def read(job: Job, keys: range) -> list[Any]:
    found = job.on_keys(job.begin(), keys, lambda op, key, _: op.keyed.state(VALUE).value())
    job.end()
    return found


def runs(job: Job) -> list[Run]:
    return list(job._open(0).store(UID, "state/value").runs)


def planned(job: Job) -> list[CompactionTask]:
    return list(job.backend.plan_compaction(job.storage, job.refs[0], 0, 0))  # type: ignore[arg-type]


def range_of(task: CompactionTask) -> HashRange:
    return min(run["hashes"][0] for run in task.runs), max(run["hashes"][1] for run in task.runs)


def test_each_slice_is_a_piece_of_work_of_its_own(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    for value in range(3):
        write(job, range(2_000), value)
    tasks = planned(job)
    assert len(tasks) == 8
    assert [len(task.runs) for task in tasks] == [3] * 8
    assert all(task.size <= SLICE and task.is_oldest for task in tasks)
    ranges = sorted(map(range_of, tasks))
    assert [low for low, _ in ranges[1:]] == [high for _, high in ranges[:-1]]
    assert job.compact() == 8
    assert read(job, range(2_000)) == [key + 2 for key in range(2_000)]
    assert [run.whole for run in runs(job)] == [True] * 8
    assert sum(run.rows for run in runs(job)) == 2_000
    assert all(CompactedName.parse(run.section.file) for run in runs(job))
    assert planned(job) == []


def test_of_a_run_only_what_is_not_merged_yet_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And its file is needed as long as there is some of it."""
    monkeypatch.setattr("headrace.state.compaction.MOST_SLICES", 3)
    job = job_in(tmp_path)
    for value in range(3):
        write(job, range(2_000), value)
    first = set(job.refs[0].files)
    kept = []
    for _ in range(3):
        assert 0 < job.compact() <= 3
        assert read(job, range(2_000)) == [key + 2 for key in range(2_000)]
        job.collect_garbage()
        kept.append(len(first & set(job.refs[0].files)))
    assert kept == [3, 3, 0]


def test_an_outcome_is_adopted_whatever_became_of_other_slices(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    for value in range(3):
        write(job, range(2_000), value)
    job.compact()
    results, job.results = job.results, []
    random.Random(7).shuffle(results)
    for number, result in enumerate(results):
        job.results = [result]
        write(job, range(number * 10, number * 10 + 10), 2)
        assert read(job, range(2_000)) == [key + 2 for key in range(2_000)]
    job.results = results[:1]  # once more: what it was made of is gone
    before = [(run.section.file, run.hashes) for run in runs(job)]
    write(job, [5], 2)
    assert [(run.section.file, run.hashes) for run in runs(job)][: len(before)] == before


def test_what_was_merged_behind_an_older_run_does_not_count_as_the_oldest(tmp_path: Path) -> None:
    """A tombstone stays as long as there is something that it hides."""
    job = job_in(tmp_path)
    write(job, range(2_000))
    for _ in range(3):
        job.on_keys(job.begin(), list(range(100)), lambda op, key, _: op.keyed.state(VALUE).clear())
        job.end()
    assert job.compact()
    assert not any(result.task.is_oldest for result in job.results)
    assert read(job, range(120)) == [None] * 100 + list(range(100, 120))


def test_slices_survive_another_parallelism(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    for value in range(3):
        write(job, range(2_000), value)
    job.compact()
    write(job, range(500), 7)
    for parallelism in (3, 2, 1):
        job.rescale(parallelism)
        assert read(job, range(2_000)) == [key + (7 if key < 500 else 2) for key in range(2_000)]
        job.compact()
        write(job, range(500), 7)
    assert read(job, range(2_000)) == [key + (7 if key < 500 else 2) for key in range(2_000)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "epochs"),
    [("hashmap", 40), *(pytest.param(*case, marks=pytest.mark.slow) for case in [("hashmap", 120), ("rocksdb", 40)])],
)
def test_files_are_few_and_well_sized_and_no_work_grows_with_the_state(
    backend: str, epochs: int, tmp_path: Path
) -> None:
    """Each epoch changes a tenth of what there is; the background is asked every fourth one."""
    source, job = random.Random(backend), job_in(tmp_path, backend)
    written: dict[int, int] = {}
    most_files = 0
    for epoch in range(epochs):
        keys = source.sample(range(5_000), 500)
        write(job, keys, epoch)
        written |= {key: key + epoch for key in keys}
        if epoch % 4 == 3:
            job.compact()
            assert all(result.task.size <= 2 * SLICE for result in job.results)
            assert all(job.storage.size(result.file) <= 2 * SLICE for result in job.results)  # type: ignore[operator]
        job.collect_garbage()
        most_files = max(most_files, len(job.refs[0].files))
        assert most_runs_of_a_key(runs(job)) <= 12
    assert read(job, range(5_000)) == [written.get(key) for key in range(5_000)]
    live = 5_000 * 24
    sizes = [job.storage.size(name) or 0 for name in job.refs[0].files]
    assert live / 2 < sum(sizes) < 5 * live
    assert most_files <= 60
    assert sorted(sizes)[len(sizes) // 2] > SLICE / 8


def test_a_list_at_one_key_is_in_one_slice_however_long_it_is(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    for epoch in range(4):

        def add(op: Any, key: int, _: int, epoch: int = epoch) -> None:
            op.keyed.state(NAMES).add_all([f"{epoch}-{key}"] * (20_000 if key == 1 else 2))

        job.on_keys(job.begin(), list(range(20)), add)
        job.end()
    assert job.compact()
    found = job.on_keys(job.begin(), [1, 2], lambda op, *_: list(op.keyed.state(NAMES).get()))
    assert found == [[f"{epoch}-1" for epoch in range(4) for _ in range(20_000)], [f"{e}-2" for e in "00112233"]]
