"""State that is made of tables piece by piece is what it would be if they were taken as a whole."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Types
from headrace.common.errors import StateError
from headrace.state.backend import StateBackendPlugin, StateOwner
from headrace.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from headrace.state.exported_tables import ExportedTable
from headrace.state.hashmap_backend import HashMapTaskStates
from headrace.state.rocksdb.backend import RocksDBBackend
from headrace.state.rocksdb.table import RocksDBSettings
from headrace.state.runs import Run
from headrace.state.runs.run import starts_of_levels
from headrace.state.state_file import CompactedName, NewVersion
from headrace.storage.folder import Folder, posix_folder
from tests.draws import draws
from tests.state.harness import MAX_PARALLELISM, UID, Job, MemoryFolder
from tests.state.test_state_model import KEY_KINDS, Checker

OWNERS = {UID: StateOwner(1, MAX_PARALLELISM)}
VALUE = ValueStateDescriptor("value", Types.LONG())
NAMES = ListStateDescriptor("names", Types.STRING())
COUNTS = MapStateDescriptor("counts", Types.STRING(), Types.LONG())


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets how many bytes a piece has, and how many may wait in memory."""

    def set_limit(size: int) -> None:
        for name in ("PIECE_BYTES", "ORDERED_BYTES", "MOST_HELD"):
            monkeypatch.setattr(f"headrace.state.exported_tables.{name}", size)

    return set_limit


def everything(keys: int) -> Job:
    """A job with states of all kinds, with namespaces too, and timers."""
    job = Job()

    def add(op: Any, key: int, _: int) -> None:
        op.keyed.state(VALUE).update(key * key)
        op.keyed.state(NAMES).update([f"{key}-{number}" for number in range(key % 5 + 1)])
        op.keyed.state(COUNTS).put_all({f"entry-{number}": number for number in range(key % 4, -1, -1)})
        op.timers.event.register(1_000 - key % 7, (key, key + 1))
        for namespace in (7, (0, 7)):
            op.keyed.enter_namespace(namespace, (op.keyed.current,))
            op.keyed.namespaced_state(NAMES).add(f"{key} in {namespace}")

    job.on_keys(job.begin(), range(keys), add)
    job.end()
    return job


def tables_of(job: Job) -> list[ExportedTable]:
    """All of its tables; unlike those of a backend they may be gone through again and again."""
    found = job.backend.export_tables(job.storage, job.refs[0], 0)
    return [ExportedTable(each.uid, each.store, each.about, each.schema, [*each.batches]) for each in found]


def reordered(table: ExportedTable, source: random.Random, rows_of_batch: int) -> ExportedTable:
    """The same rows in small batches, those of a key in their order but the keys in any."""
    whole = ExportedTable(table.uid, table.store, table.about, table.schema, table.batches).whole()
    keys = whole.column("key").to_pylist()
    places = {key: source.random() for key in keys}
    rows = whole.take(pa.array(sorted(range(len(keys)), key=lambda row: places[keys[row]])))
    batches = [rows.slice(start, rows_of_batch) for start in range(0, rows.num_rows, rows_of_batch)]
    return ExportedTable(table.uid, table.store, table.about, table.schema, batches)


def taken_in(tables: list[ExportedTable], backend: StateBackendPlugin) -> tuple[MemoryFolder, Any]:
    storage = MemoryFolder()
    return storage, backend.import_tables(storage, tables, NewVersion(1, 0, 3, 1, 0), OWNERS)


def content(job: Job, storage: MemoryFolder, ref: Any) -> dict[str, list[dict[str, Any]]]:
    tables = job.backend.export_tables(storage, ref, 0)
    return {table.store: [row for batch in table.batches for row in batch.to_pylist()] for table in tables}


def runs_of(storage: Any, ref: Any, store: str) -> list[Run]:
    return list(HashMapTaskStates.open(storage, [ref], 1, 0, OWNERS).store(UID, store).runs)


@given(size=st.integers(1, 3_000), keys=st.integers(0, 60), rows=st.integers(1, 40), is_mixed=st.booleans())
@settings(max_examples=draws(25), deadline=None)
def test_all_kinds_of_tables_in_any_order_and_pieces_of_any_size(
    size: int, keys: int, rows: int, is_mixed: bool
) -> None:
    job = everything(keys)
    tables = tables_of(job)
    whole = content(job, *taken_in(tables, job.backend))
    assert len(whole) == (5 if keys else 0)
    given_tables = [reordered(table, random.Random(keys), rows) for table in tables] if is_mixed else tables
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PIECE_BYTES", "ORDERED_BYTES", "MOST_HELD"):
            patch.setattr(f"headrace.state.exported_tables.{name}", size)
        assert content(job, *taken_in(given_tables, job.backend)) == whole


@pytest.mark.parametrize("store", ["state/value", "state/names", "state/counts", "namespaced/names"])
def test_pieces_in_order_are_one_level_in_files_of_their_own(store: str, limit: Callable[[int], None]) -> None:
    job = everything(200)
    tables = [table for table in tables_of(job) if table.store == store]
    limit(500)
    storage, ref = taken_in(tables, job.backend)
    runs = runs_of(storage, ref, store)
    assert len(runs) > 5
    assert starts_of_levels([run.hashes for run in runs]) == [0]
    assert (runs[0].hashes[0], runs[-1].hashes[1]) == (0, 1 << 64)
    assert sum(CompactedName.parse(run.section.file) is None for run in runs) <= 2, "what may wait in memory"
    assert set(storage.names()) == set(ref.files)
    assert all(run.whole for run in runs)
    job.backend.verify(storage, ref)


def test_timers_are_cut_in_the_order_of_time(limit: Callable[[int], None]) -> None:
    job = everything(200)
    tables = [table for table in tables_of(job) if table.store == "timers/event"]
    limit(1_000)
    storage, ref = taken_in(tables, job.backend)
    times = [run.batch.column("time").to_pylist() for run in runs_of(storage, ref, "timers/event")]
    assert len(times) > 3
    assert [*chain(*times)] == sorted(chain(*times))


def test_the_same_tables_give_the_same_bytes_under_the_same_names(limit: Callable[[int], None]) -> None:
    """So whoever makes them twice, after a task has failed or beside it, has changed nothing."""
    job = everything(100)
    tables = tables_of(job)
    limit(700)
    (first, one), (second, other) = taken_in(tables, job.backend), taken_in(tables, job.backend)
    assert one == other
    assert first.files == second.files
    assert len(first.files) > 5


def test_small_state_is_in_the_file_of_its_version_or_in_the_reference() -> None:
    job = everything(20)
    storage, ref = taken_in(tables_of(job), job.backend)
    assert storage.names() == [ref.name]
    inline = job.backend.import_tables(MemoryFolder(), tables_of(job), NewVersion(1, 0, 3, 1, 1 << 20), OWNERS)
    assert inline.inline
    assert not inline.files


def test_large_tables_are_never_there_as_a_whole(limit: Callable[[int], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """When the last batch is asked for, what came before is in files already."""
    job, storage, seen = everything(300), MemoryFolder(), []
    (table,) = (each for each in tables_of(job) if each.store == "state/value")
    rows = table.whole()

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, rows.num_rows, 10):
            seen.append(len(storage.files))
            yield rows.slice(start, 10)

    limit(10 * 24)
    lazy = ExportedTable(table.uid, table.store, table.about, table.schema, batches())
    monkeypatch.setattr(ExportedTable, "whole", None)
    job.backend.import_tables(storage, [lazy], NewVersion(1, 0, 3, 1, 0), OWNERS)
    assert len(seen) == 30
    assert seen[-1] > 10


def test_keys_of_other_partitions_are_refused_in_whichever_piece(limit: Callable[[int], None]) -> None:
    job = everything(200)
    tables = [table for table in tables_of(job) if table.store == "state/value"]
    limit(300)
    owners = {UID: StateOwner(2, MAX_PARALLELISM)}
    with pytest.raises(StateError, match="'state/value' has keys that belong into other files"):
        job.backend.import_tables(MemoryFolder(), tables, NewVersion(1, 0, 3, 1, 0), owners)


def test_rows_of_one_hash_stay_together_however_many_they_are(limit: Callable[[int], None]) -> None:
    job = Job()
    job.on_keys(job.begin(), range(20), lambda op, key, _: op.keyed.state(NAMES).add_all(["x"] * (key % 3 * 200 + 1)))
    job.end()
    limit(100)
    storage, ref = taken_in(tables_of(job), job.backend)
    runs = runs_of(storage, ref, "state/names")
    assert starts_of_levels([run.hashes for run in runs]) == [0]
    assert sum(run.rows for run in runs) == 20


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("name", "kind"), [("hashmap", "anything"), ("hashmap", "bytes"), ("rocksdb", "bytes")])
def test_a_job_goes_on_from_pieces_rescales_and_compacts(
    name: str, kind: str, limit: Callable[[int], None], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(400)
    monkeypatch.setattr("headrace.state.runs.merging.INLINE_ROWS", 0)
    monkeypatch.setattr("headrace.state.compaction.INLINE_ROWS", 10)
    monkeypatch.setattr("headrace.state.compaction.SLICE_BYTES", 4_000)
    small = RocksDBSettings(local_dir=str(tmp_path / "local"), smallest_table=0, largest_columns=0)
    backend = RocksDBBackend("rocksdb", small) if name == "rocksdb" else None
    source, (type_, key_of) = random.Random(kind), KEY_KINDS[kind]
    job = Job(Job().codec.for_type(type_), backend=backend, storage=folder(tmp_path / "state"))
    checker, keys = Checker(source), [key_of(n) for n in range(40)]
    for number, parallelism in enumerate((1, 3, 2) if name == "hashmap" else (1, 2)):
        job.rescale(parallelism)
        for _ in range(3):
            operators = job.begin()
            job.on_keys(operators, keys, checker.check)
            job.on_keys(operators, source.choices(keys, k=100), checker.touch)
            job.end()
            job.compact()
        bring_in(job, folder(tmp_path / f"state-{number}"))
        assert sum(map(bool, map(CompactedName.parse, job.storage.names()))) > 3
        job.on_keys(job.begin(), source.choices(keys, k=50), checker.touch)
        job.end()
        assert job.compact()
        job.on_keys(job.begin(), keys, checker.check)
        job.end()
        job.collect_garbage()
    job.on_keys(job.begin(), keys, checker.check)


def folder(path: Any) -> Folder:
    made = posix_folder(path)
    made.make()
    return made


def bring_in(job: Job, storage: Folder) -> None:
    """Goes on from its tables, in another folder."""
    owners = {UID: StateOwner(len(job.refs), MAX_PARALLELISM)}
    old, job.storage, job.tasks, job.results = job.storage, storage, [], []
    for index, ref in enumerate(job.refs):
        version = NewVersion(1, ref.partition, job.epoch, 1, 0)
        tables = job.backend.export_tables(old, ref, job.clock)
        job.refs[index] = job.backend.import_tables(storage, tables, version, owners)
    job.epoch += 1
