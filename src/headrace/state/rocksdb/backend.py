"""``RocksDBStateBackend``: versions as ``hashmap`` has them, of runs of which the large ones are tables of RocksDB."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from headrace.state.compaction import (
    CompactionResult,
    CompactionTask,
    mapped,
    plan_compaction,
    run_compaction,
)
from headrace.state.hashmap_backend import HashMapStateBackend
from headrace.state.rocksdb.local_tables import LocalTables
from headrace.state.rocksdb.merging import becomes_table, is_worth_a_table, merge_into_table
from headrace.state.rocksdb.settings import RocksDBSettings
from headrace.state.rocksdb.table import rocksdict
from headrace.state.rocksdb.table_section import TABLE, TableSection
from headrace.state.run_entries import run_of_entry
from headrace.state.runs.sections import Section

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.common.configuration import Configuration
    from headrace.state.task_state import SectionOf
    from headrace.state.version import VersionRef
    from headrace.storage.folder import Folder, MappedFile


class RocksDBStateBackend(HashMapStateBackend):
    """Keyed state in sorted tables of RocksDB, behind changes in columns that have not been merged into them yet.

    Raises:
        ConfigurationError: when the library is not installed.
    """

    def __init__(self, name: str, settings: RocksDBSettings | None = None) -> None:
        super().__init__(name)
        rocksdict()
        self.settings = settings or RocksDBSettings()

    def configured(self, configuration: Configuration) -> RocksDBStateBackend:
        return RocksDBStateBackend(self.name, RocksDBSettings.of(configuration))

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
