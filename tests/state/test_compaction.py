"""Compaction: planned from a version, run anywhere, adopted only while it fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.common.errors import StateCorruptedError, StateError
from headrace.common.typeinfo import Types
from headrace.runtime.task.background import compact
from headrace.state.compaction import CompactionResult, CompactionTask, plan_compaction, run_compaction
from headrace.state.descriptors import ValueStateDescriptor
from headrace.state.hashmap_backend import HashMapBackend
from headrace.state.runs import ALL_HASHES, RunStore, merging
from headrace.state.runs.merging import merge_runs, register_merger
from headrace.state.state_file import VersionRef
from headrace.storage.folder import Folder, posix_folder
from tests.state.harness import UID, Job

VALUE = ValueStateDescriptor("value", Types.LONG())


@pytest.fixture(autouse=True)
def _leave_everything_to_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.state.runs.merging.INLINE_ROWS", 0)
    monkeypatch.setattr("headrace.state.compaction.INLINE_ROWS", 10)


def write(job: Job, keys: range, value: int = 0) -> None:
    job.on_keys(job.begin(), keys, lambda op, key, _: op.keyed.state(VALUE).update(key + value))
    job.end()


def read(job: Job, keys: range) -> list[Any]:
    return job.on_keys(job.begin(), keys, lambda op, key, _: op.keyed.state(VALUE).value())


def runs(job: Job) -> list[int]:
    return [run.rows for run in job._open(0).store(UID, "state/value").runs]


def test_runs_are_merged_and_adopted() -> None:
    job = Job()
    for value in range(4):
        write(job, range(100), value)
    assert runs(job) == [100] * 4
    assert job.compact() == 1
    assert read(job, range(100)) == [key + 3 for key in range(100)]
    assert job.tasks[0].store(UID, "state/value").changed
    job.end()
    assert runs(job) == [100]
    assert [name.split("-")[0] for name in job.refs[0].files] == ["4", "compacted"]
    assert plan_compaction(job.storage, job.refs[0]) == []


def test_the_same_task_writes_the_same_file(tmp_path: Path) -> None:
    job = Job(storage=posix_folder(tmp_path))
    for value in range(4):
        write(job, range(1000), value)
    (task,) = plan_compaction(job.storage, job.refs[0])
    assert sum(run["rows"] for run in task.runs) == 4000
    first, second = run_compaction(job.storage, task), run_compaction(job.storage, task)
    assert first == second
    (tmp_path / job.refs[0].files[0]).unlink()
    with pytest.raises(StateCorruptedError, match="missing"):
        run_compaction(job.storage, task)


def test_a_compacted_file_in_the_place_of_a_version_is_found_out(tmp_path: Path) -> None:
    """Its index says other things than that of a version."""
    job = Job(storage=posix_folder(tmp_path))
    for value in range(4):
        write(job, range(1000), value)
    job.compact()
    (compacted,) = tmp_path.glob("compacted-*")
    (tmp_path / job.refs[0].name).write_bytes(compacted.read_bytes())
    for open_version in (job.begin, lambda: plan_compaction(job.storage, job.refs[0])):
        with pytest.raises(StateCorruptedError, match=f"{job.refs[0].name} has the content of another one"):
            open_version()


def test_an_outcome_that_came_too_late_is_not_adopted() -> None:
    job = Job()
    for value in range(4):
        write(job, range(100), value)
    job.compact()
    late = job.results
    job.results = []
    job.compact()
    job.begin()
    job.end()
    assert runs(job) == [100]
    job.results = late
    write(job, range(100), 9)
    assert read(job, range(100)) == [key + 9 for key in range(100)]
    assert runs(job) == [100, 100]


def test_what_was_written_meanwhile_stays() -> None:
    job = Job()
    for value in range(4):
        write(job, range(100), value)
    job.compact()
    merged, job.results = job.results, []
    write(job, range(50), 7)
    job.results = merged
    assert read(job, range(100)) == [key + (7 if key < 50 else 3) for key in range(100)]
    job.end()
    assert runs(job) == [100, 50]


def test_nothing_may_be_left() -> None:
    job = Job()
    write(job, range(20))
    job.on_keys(job.begin(), range(20), lambda op, *_: op.keyed.state(VALUE).clear())
    job.end()
    job.compact()
    assert job.results[0].run is None
    assert read(job, range(20)) == [None] * 20
    job.end()
    assert runs(job) == []


def test_timers_that_fired_meanwhile_stay_dead() -> None:
    job = Job()
    for epoch in range(3):
        job.on_keys(job.begin(), range(10), lambda op, key, _, e=epoch: op.timers.event.register(key * 10 + e))
        job.end()
    job.compact()
    merged, job.results = job.results, []
    (operator,) = job.begin()
    assert len(list(operator.timers.event.pop_due(49))) == 15
    job.on_keys([operator], [99], lambda op, *_: op.timers.event.register(3))  # overdue: fires with the next advance
    job.watermark = 49
    job.end()
    job.results = merged
    (operator,) = job.begin()
    fired = [(timer.time, timer.entry.key) for timer in operator.timers.event.pop_due(1000)]
    assert fired == [(3, 99), *((key * 10 + epoch, key) for key in range(5, 10) for epoch in range(3))]
    job.watermark = 1000
    job.end()
    assert job._open(0).store(UID, "timers/event").runs == ()


def test_a_run_of_timers_that_have_mostly_fired_is_written_anew() -> None:
    job = Job()
    job.on_keys(job.begin(), range(100), lambda op, key, _: op.timers.event.register(key))
    job.end()
    (operator,) = job.begin()
    assert len(list(operator.timers.event.pop_due(79))) == 80
    job.watermark = 79
    job.end()
    assert job.compact() == 1
    (operator,) = job.begin()
    assert operator.timers.event.next_due == 80
    job.end()
    assert job._open(0).store(UID, "timers/event").rows == 20


def test_versions_without_files_have_nothing_to_compact() -> None:
    job = Job(inline_threshold=1 << 20)
    for _ in range(4):
        write(job, range(100))
    assert job.refs[0].inline
    assert plan_compaction(job.storage, job.refs[0]) == []
    assert plan_compaction(job.storage, VersionRef(1, 0, 0)) == []


def store_of(meta: dict[str, Any]) -> RunStore:
    store = RunStore("windows", ALL_HASHES)
    for part in ([3, 1], [2]):
        store.append(pa.table({"end": part, "n": [len(part)] * len(part)}), meta)
    return store


def test_what_this_process_cannot_merge_is_left_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """And what other tasks have is merged all the same."""

    class Backend(HashMapBackend):
        def run_compaction(self, storage: Folder, work: CompactionTask) -> CompactionResult:
            merge_runs(store_of({"kind": "theirs", "sort": []}).runs, is_oldest=True, now=0)
            raise AssertionError("it is merged")

    work = CompactionTask(1, 2, "operator", "windows", (), 0, is_oldest=True, now=0)
    assert compact(Backend("hashmap"), posix_folder(Path("nowhere")), work) is None
    assert "partition 2 of stage 1 is not compacted: runs of the kind 'theirs'" in caplog.text


def test_runs_without_a_kind_keep_all_rows() -> None:
    batch, meta = merge_runs(store_of({"sort": ["end"]}).runs, is_oldest=True, now=0)
    assert batch is not None
    assert batch.to_pydict() == {"end": [1, 2, 3], "n": [2, 1, 2]}
    assert meta == {"sort": ["end"]}


def test_other_kinds_are_merged_as_their_owner_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "_MERGERS", dict(merging._MERGERS))
    store = store_of({"kind": "mine", "sort": ["end"]})
    with pytest.raises(StateError, match=r"kind 'mine' cannot be merged in this process.*register_merger"):
        merge_runs(store.runs, is_oldest=True, now=0)
    register_merger("mine", lambda given: given.table().slice(0, 1), lambda meta, rows: {**meta, "rows": rows.num_rows})
    _, meta = merge_runs(store.runs, is_oldest=True, now=0)
    assert meta["rows"] == 1
    register_merger("mine", lambda given: None)
    assert merge_runs(store.runs, is_oldest=True, now=0)[0] is None


@pytest.mark.slow
def test_a_few_keys_are_found_without_reading_the_rest(tmp_path: Path) -> None:
    job = Job(storage=posix_folder(tmp_path))
    write(job, range(200_000))
    path = tmp_path / job.refs[0].name
    column = job.codec.encode(range(200_000)).hashes
    key = int(column.argmin())  # the first row: what lies at the end of the columns is not needed for it
    data = bytearray(path.read_bytes())
    data[1_500_000] ^= 1  # within the hashes
    path.write_bytes(data)
    assert read(job, range(key, key + 1)) == [key]
    job.tasks = []
    with pytest.raises(StateCorruptedError, match=path.name):
        read(job, range(1000))
