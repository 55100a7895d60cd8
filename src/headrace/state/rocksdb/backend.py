"""``RocksDBBackend``: versions as ``hashmap`` has them, of runs of which the large ones are tables of RocksDB."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.common.constants import MAX_WATERMARK
from headrace.state.compaction import CompactionResult, CompactionTask, mapped, plan_compaction, run_compaction
from headrace.state.hashmap_backend import HashMapBackend
from headrace.state.keys import KeyColumn
from headrace.state.rocksdb.local_tables import PIECE, LocalTables
from headrace.state.rocksdb.table import RocksDBSettings, TableWriter, rocksdict
from headrace.state.rocksdb.table_section import TABLE, RowCodec, TableSection, row_keys
from headrace.state.run_entries import entry_of_run, run_of_entry
from headrace.state.runs import ELEMENT_COUNT, HASH, Run
from headrace.state.runs.layout import HALF_EXPIRED, KEY
from headrace.state.runs.range_merging import merged_in_ranges
from headrace.state.runs.run import hashes_of
from headrace.state.runs.sections import Section
from headrace.state.state_file import CompactedName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from headrace.common.configuration import Configuration
    from headrace.state.task_state import SectionOf
    from headrace.state.version import VersionRef
    from headrace.storage.file_system import MappedFile
    from headrace.storage.folder import Folder


def becomes_table(task: CompactionTask, settings: RocksDBSettings) -> bool:
    """Whether a table is made of the runs that a task merges."""
    return task.is_of_keys and (any(TABLE in entry for entry in task.runs) or task.size >= settings.smallest_table)


def is_worth_a_table(task: CompactionTask, settings: RocksDBSettings) -> bool:
    """Whether runs of columns are to become a table for their size alone."""
    return task.is_of_keys and TABLE not in task.runs[-1] and task.size >= settings.largest_columns


def merge_into_table(
    storage: Folder, tables: LocalTables, settings: RocksDBSettings, task: CompactionTask, runs: Sequence[Run]
) -> CompactionResult:
    """Merges the runs of a task into a table.

    Unlike those of columns, tables of the same rows differ: RocksDB marks each with a number of its own. Whoever merges
    twice writes two files, of which one is needed.

    Raises:
        StateCorruptedError: when a file is missing or damaged.
        OSError: when the table cannot be written.
    """
    with tables.new_file() as path:
        made = _TableBuilder(path, settings)
        for batch, meta in merged_in_ranges(runs, is_oldest=task.is_oldest, now=task.now):
            made.add(batch, meta)
        if made.meta is None:
            return CompactionResult(task, None)
        about = made.finish()
        name = str(CompactedName(task.generation, task.stage, task.partition, _digest(path)))
        storage.write(name, _pieces(path))
        size = path.stat().st_size
    whole = Run(Section(pa.RecordBatch.from_pylist([], made.schema)), made.meta, hashes_of(runs), origin=task.partition)
    return CompactionResult(
        task, {**entry_of_run(whole), "at": 0, "rows": made.rows, "size": size, TABLE: about, "file": name}
    )


class _TableBuilder:
    """Puts merged rows into a new table, and notes what is to be known of it."""

    def __init__(self, path: Path, settings: RocksDBSettings) -> None:
        self._writer = TableWriter(path, settings)
        self._codec: RowCodec | None = None
        self._elements = 0
        self._half_expired: list[int] = []
        self.meta: dict[str, Any] | None = None

    @property
    def rows(self) -> int:
        return self._writer.rows

    @property
    def schema(self) -> pa.Schema:
        assert self._codec is not None
        return self._codec.schema

    def add(self, batch: pa.RecordBatch, meta: dict[str, Any]) -> None:
        """Adds the rows of the next range of hashes."""
        if self._codec is None:
            self._codec = RowCodec(batch.schema)
        keys = KeyColumn(batch.column(KEY), batch.column(HASH).to_numpy())
        self._writer.write(row_keys(keys), self._codec.encode(batch))
        self._elements += meta.get(ELEMENT_COUNT, 0)
        self.meta = {entry: said for entry, said in meta.items() if entry != HALF_EXPIRED}
        if ELEMENT_COUNT in meta:
            self.meta[ELEMENT_COUNT] = self._elements
        self._note_expiry(meta)

    def finish(self) -> dict[str, Any]:
        """Completes the table; gives what its entry says besides."""
        self._writer.finish()
        schema = base64.b64encode(self.schema.serialize().to_pybytes()).decode()
        return {"schema": schema}

    def _note_expiry(self, meta: dict[str, Any]) -> None:
        """Half of the rows have expired when half of the ranges, which are about as large, have come that far."""
        self._half_expired.append(meta.get(HALF_EXPIRED, MAX_WATERMARK))
        assert self.meta is not None
        half = sorted(self._half_expired)[len(self._half_expired) // 2]
        if half < MAX_WATERMARK:
            self.meta[HALF_EXPIRED] = half


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece


def _digest(path: Path) -> str:
    digest = blake2b(digest_size=8)
    for piece in _pieces(path):
        digest.update(piece)
    return digest.hexdigest()


class RocksDBBackend(HashMapBackend):
    """Keyed state in sorted tables of RocksDB, behind changes in columns that have not been merged into them yet.

    Raises:
        ConfigurationError: when the library is not installed.
    """

    def __init__(self, name: str, settings: RocksDBSettings | None = None) -> None:
        super().__init__(name)
        rocksdict()
        self.settings = settings or RocksDBSettings()

    def configured(self, configuration: Configuration) -> RocksDBBackend:
        return RocksDBBackend(self.name, RocksDBSettings.of(configuration))

    def sections(self, storage: Folder) -> SectionOf:
        return _Sections(LocalTables(storage, self.settings))

    def plan_compaction(
        self,
        storage: Folder,
        ref: VersionRef,
        now: int,
        generation: int,
        event_times: Mapping[str, int] = MappingProxyType({}),
    ) -> list[CompactionTask]:
        is_worth = partial(is_worth_a_table, settings=self.settings)
        return plan_compaction(storage, ref, now, generation, is_worth, event_times)

    def run_compaction(self, storage: Folder, work: CompactionTask) -> CompactionResult:
        if not becomes_table(work, self.settings):
            return run_compaction(storage, work)
        tables = LocalTables(storage, self.settings)
        section_of = _Sections(tables)
        runs = [
            run_of_entry(entry, section_of(entry, entry["file"], partial(mapped, storage, entry["file"])))
            for entry in work.runs
        ]
        return merge_into_table(storage, tables, self.settings, work, runs)


@dataclass(frozen=True, slots=True)
class _Sections:
    """Opens sections, those in tables as well."""

    tables: LocalTables

    def __call__(self, entry: dict[str, Any], name: str, load: Callable[[], MappedFile]) -> Section:
        return TableSection(entry, name, self.tables) if TABLE in entry else Section.stored(entry, name, load)
