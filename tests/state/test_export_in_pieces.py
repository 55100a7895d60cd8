"""State that is exported piece by piece is what it would be as a whole, and takes the memory of a piece."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.savepoint.metadata import IN_PROGRESS, TableFile
from headrace.savepoint.tables import read_table, write_table
from headrace.state.exported_tables import ExportedTable
from headrace.state.hashmap_backend import HashMapBackend, HashMapTaskStates
from headrace.state.runs import Run
from headrace.state.runs.layout import LIVE
from headrace.state.runs.merge_input import FLOOR, LOW, NEXT, concat, rows_above
from headrace.state.runs.merging import describe_run, merge_runs, merged_pieces
from headrace.state.runs.run import starts_of_levels
from headrace.state.runs.sections import Section
from headrace.state.state_file import CompactedName, NewVersion
from headrace.storage.folder import Folder, posix_folder
from tests.draws import draws
from tests.state.harness import UID, MemoryFolder
from tests.state.large_tables import META, OWNERS, STORES, batch_of, stored

BACKEND = HashMapBackend("hashmap")
SMALL = 300_000
"""Bytes of a piece that is just too large to be held in memory when it has been written."""

IN_ONE_RUN = ("join", "sessions")
"""Logs in the order of hashes."""


def folder(path: Path) -> Folder:
    made = posix_folder(path)
    made.make()
    return made


def exported(storage: Any, ref: Any) -> ExportedTable:
    (table,) = BACKEND.export_tables(storage, ref, 0)
    return table


def written(savepoint: Folder, table: ExportedTable) -> TableFile:
    savepoint.write(IN_PROGRESS, [])
    return write_table(savepoint, table, 1, 0)


def taken_in(storage: Any, *tables: ExportedTable) -> Any:
    return BACKEND.import_tables(storage, tables, NewVersion(1, 0, 9, 1, 0), OWNERS)


def runs_of(storage: Any, ref: Any, kind: str) -> list[Run]:
    return list(HashMapTaskStates.open(storage, [ref], 1, 0, OWNERS).store(UID, STORES[kind]).runs)


def some_runs(kind: str, source: random.Random) -> list[Run]:
    """Runs with few keys and times, so that many rows are equal; of some rows are over, of some tasks own few."""
    runs = []
    for number in range(source.randint(1, 5)):
        count = source.randint(1, 40)
        keys = np.array(source.choices(range(-6, 6), k=count))
        last = (1 << 62) if kind == "join" else (1 << 63) - 1  # what is added to the time of a record is a time
        times = np.array(source.choices([-(1 << 62), 0, 1, 2, 3, last], k=count))
        batch = batch_of(kind, keys, times, number)
        if LIVE in batch.schema.names:
            live = pa.array([source.random() < 0.7 for _ in range(batch.num_rows)])
            batch = batch.set_column(batch.schema.get_field_index(LIVE), LIVE, live)
        meta = describe_run(META[kind], batch)
        hashes = source.choice([(0, 1 << 64), (0, 1 << 63), (1 << 63, 1 << 64)])
        run = Run(Section(batch), meta, hashes, whole=hashes == (0, 1 << 64))
        if NEXT in meta and source.random() < 0.3:
            bound = rows_above(run, source.choice([0, 1]))
            run = run.with_meta({**meta, FLOOR: bound.time, LOW: bound.row, NEXT: bound.next})
        runs.append(run)
    return runs


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", META)
@given(seed=st.integers(0, 1 << 32), rows=st.integers(1, 30))
@settings(max_examples=draws(60), deadline=None)
def test_pieces_make_together_what_a_merge_of_all_does(kind: str, seed: int, rows: int) -> None:
    runs = some_runs(kind, random.Random(seed))
    whole, _ = merge_runs(runs, is_oldest=True, now=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.state.runs.merging.CHUNK_ROWS", rows)
        pieces = [piece for piece, _ in merged_pieces(runs, 0)]
    assert all(piece.num_rows for piece in pieces)
    assert (concat(pieces) if pieces else None) == whole


def test_a_piece_has_no_more_rows_than_it_is_to_have_wherever_they_lie() -> None:
    """All of one time, say, or of times of which each is in a run of its own."""
    rows, kind = 5_000, "windows"
    keys, one_time = np.arange(rows), np.zeros(rows, np.int64)
    for times in ([one_time] * 3, [one_time, one_time + 1, one_time + 2], [keys, keys, keys]):
        batches = [batch_of(kind, keys, each, number) for number, each in enumerate(times)]
        runs = [Run(Section(batch), describe_run(META[kind], batch), (0, 1 << 64)) for batch in batches]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("headrace.state.runs.merging.CHUNK_ROWS", 300)
            sizes = [piece.num_rows for piece, _ in merged_pieces(runs, 0)]
        assert sum(sizes) == 3 * rows
        assert max(sizes) <= 300
        assert len(sizes) < 3 * rows / 100, "nor are they many and small"


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of few rows, so that there are many."""
    monkeypatch.setattr("headrace.state.runs.merging.CHUNK_ROWS", 1_000)
    for name in ("PIECE_BYTES", "ORDERED_BYTES", "MOST_HELD"):
        monkeypatch.setattr(f"headrace.state.exported_tables.{name}", SMALL)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", META)
@pytest.mark.usefixtures("small_pieces")
def test_memory_does_not_grow_with_the_rows(kind: str, tmp_path: Path) -> None:
    """Neither of a savepoint nor of a start from it; what is counted is what Arrow holds at once."""
    exports, imports = zip(*(peaks(kind, folder(tmp_path / f"{rows}"), rows) for rows in (24_000, 96_000)), strict=True)
    assert exports[1] < 1.5 * exports[0]
    assert imports[1] < 1.5 * imports[0]
    assert max(*exports, *imports) < 96_000 * 100 / 3


@pytest.mark.usefixtures("small_pieces")
def test_a_piece_is_gone_before_the_next_one_is_made(tmp_path: Path) -> None:
    """What a piece is made of, itself, and its bytes: there is no other one besides."""
    _, taking_in = peaks("windows", folder(tmp_path), 24_000)
    assert taking_in < 3.7 * SMALL


def peaks(kind: str, place: Folder, rows: int) -> tuple[int, int]:
    """How many bytes a savepoint takes at most, and a start from it."""
    ref = stored(kind, place, rows)
    savepoint, storage = folder(Path(place.path, "savepoint")), folder(Path(place.path, "new"))
    with Peak() as export:
        file = written(savepoint, exported(place, ref))
    assert file.rows > rows / 2
    with Peak() as taking_in:
        taken_in(storage, read_table(savepoint, file))
    return export.size, taking_in.size


_pools: list[pa.MemoryPool] = []
"""Those of all blocks: what is left of one needs its pool to be let go of, some time."""


class Peak:
    """How many bytes Arrow has had at most within a block, of those that it has taken there.

    Attributes:
        size: them, when it has ended.
    """

    size: int

    def __enter__(self) -> Peak:
        self._before = pa.default_memory_pool()
        self._pool = pa.proxy_memory_pool(self._before)
        _pools.append(self._pool)
        pa.set_memory_pool(self._pool)
        return self

    def __exit__(self, *_: object) -> None:
        pa.set_memory_pool(self._before)
        self.size = self._pool.max_memory()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", META)
@pytest.mark.usefixtures("small_pieces")
def test_the_same_state_gives_the_same_bytes_and_is_the_same_when_it_was_taken_in(kind: str, tmp_path: Path) -> None:
    storage = MemoryFolder()
    ref = stored(kind, storage, 20_000)
    one, other = (written(folder(tmp_path / name), exported(storage, ref)) for name in ("one", "other"))
    assert one == other
    whole = exported(storage, ref).whole()
    back = read_table(posix_folder(tmp_path / "one"), one)
    assert back.is_in_order
    assert back.whole() == whole
    again = MemoryFolder()
    ref = taken_in(again, read_table(posix_folder(tmp_path / "one"), one))
    assert exported(again, ref).whole() == whole
    runs = runs_of(again, ref, kind)
    assert len(runs) > 2
    assert sum(CompactedName.parse(run.section.file) is None for run in runs) <= 1, "what may wait in memory"


@pytest.mark.parametrize("kind", IN_ONE_RUN)
@pytest.mark.usefixtures("small_pieces")
def test_logs_become_one_level_of_many_runs_that_is_left_alone(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge of all of them would have as much in memory as the start has avoided."""
    storage = MemoryFolder()
    table = exported(storage, stored(kind, storage, 20_000))
    storage = MemoryFolder()
    ref = taken_in(storage, table)
    runs = runs_of(storage, ref, kind)
    assert len(runs) > 5
    assert starts_of_levels([run.hashes for run in runs]) == [0]
    assert (runs[0].hashes[0], runs[-1].hashes[1]) == (0, 1 << 64)
    monkeypatch.setattr("headrace.state.compaction.SLICE_BYTES", 600_000)
    assert BACKEND.plan_compaction(storage, ref, 0, 1) == [], "one level need not be merged"


def test_a_merge_of_a_slice_of_a_log_takes_the_place_of_that_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.state.compaction.INLINE_ROWS", 10)
    monkeypatch.setattr("headrace.state.compaction.SLICE_BYTES", 600_000)
    for kind in IN_ONE_RUN:
        storage = MemoryFolder()
        ref = stored(kind, storage, 20_000)
        whole = exported(storage, ref).whole()
        task = HashMapTaskStates.open(storage, [ref], 1, 0, OWNERS)
        planned = BACKEND.plan_compaction(storage, ref, 0, 1)
        assert len(planned) == 8
        for work in planned:
            assert work.size <= 600_000
            assert task.adopt(BACKEND.run_compaction(storage, work))
        ref = task.snapshot(10, 1, 0)
        assert exported(storage, ref).whole() == whole
        assert len(runs_of(storage, ref, kind)) == 8


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", IN_ONE_RUN)
@pytest.mark.usefixtures("small_pieces")
def test_a_log_that_is_in_another_order_is_one_run(kind: str, tmp_path: Path) -> None:
    """Of most logs all rows of a key have to be in one, and others have written them."""
    storage = MemoryFolder()
    table = exported(storage, stored(kind, storage, 20_000))
    rows = table.whole()
    mixed = rows.take(pa.array(np.random.default_rng(1).permutation(rows.num_rows)))
    given_table = ExportedTable(table.uid, table.store, table.about, rows.schema, [mixed])
    file = written(folder(tmp_path), given_table)
    back = read_table(posix_folder(tmp_path), file)
    assert not back.is_in_order
    again = MemoryFolder()
    ref = taken_in(again, back)
    assert len(runs_of(again, ref, kind)) == 1
    assert sorted(map(str, exported(again, ref).whole().to_pylist())) == sorted(map(str, rows.to_pylist()))


def test_a_file_is_written_while_its_rows_come(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_pydict({"key": [1, 2, 3], "value": [random.Random(1).randbytes(1_000)] * 3})
    sizes: list[int] = []

    def batches() -> Any:
        for _ in range(3):
            sizes.append(sum(path.stat().st_size for path in tmp_path.rglob("*.tmp")))
            yield rows

    table = ExportedTable("totals", "log", {"kind": "value"}, rows.schema, batches())
    file = written(folder(tmp_path), table)
    assert sizes[0] == 0
    assert 1_000 < sizes[1] < sizes[2] - 1_000 < file.size - 2_000
    assert file.rows == 9
    assert (tmp_path / file.path).stat().st_size == file.size


@pytest.mark.usefixtures("small_pieces")
def test_what_is_taken_in_of_a_subtask_in_the_order_of_time_has_files_of_its_own() -> None:
    storage = MemoryFolder()
    table = exported(storage, stored("windows", storage, 20_000))
    again = MemoryFolder()
    ref = taken_in(again, ExportedTable(UID, "list/waiting", table.about, table.schema, table.batches))
    assert len([name for name in ref.files if CompactedName.parse(name)]) > 3
