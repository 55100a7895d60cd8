"""``HashMapStateBackend``: the state backend that keeps runs in state files, and merges them beside the epochs."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from headrace.state.backend import StateBackend
from headrace.state.compaction import plan_compaction, run_compaction
from headrace.state.exporting import exported
from headrace.state.run_entries import RunHead
from headrace.state.runs.sections import Section
from headrace.state.task_state import HashMapTaskStates

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from headrace.state.backend import NewVersion, StateOwner
    from headrace.state.compaction import CompactionResult, CompactionTask
    from headrace.state.exported import ExportedTable
    from headrace.state.task_state import SectionOf
    from headrace.state.version import VersionRef
    from headrace.storage.folder import Folder


class HashMapStateBackend(StateBackend):
    """State in columns, in files that are mapped into memory; only what has changed is written."""

    def sections(self, storage: Folder) -> SectionOf:
        """What opens the sections that an index describes."""
        return Section.stored

    def open(
        self,
        storage: Folder,
        refs: Sequence[VersionRef],
        stage: int,
        partition: int,
        operators: Mapping[str, StateOwner],
    ) -> HashMapTaskStates:
        return HashMapTaskStates.open(storage, refs, stage, partition, operators, self.sections(storage))

    def export_tables(self, storage: Folder, ref: VersionRef, now: int) -> Iterator[ExportedTable]:
        if not ref.is_empty:
            yield from exported(HashMapTaskStates.stored_runs(storage, ref, self.sections(storage)), now)

    def heads(self, storage: Folder, ref: VersionRef) -> Iterator[RunHead]:
        if not ref.is_empty:
            stores = HashMapTaskStates.stored_runs(storage, ref, self.sections(storage))
            for (uid, store), runs in stores.items():
                yield from (RunHead(uid, store, run.meta, run.section.schema) for run in runs)

    def import_tables(
        self, storage: Folder, tables: Iterable[ExportedTable], version: NewVersion, operators: Mapping[str, StateOwner]
    ) -> VersionRef:
        task = HashMapTaskStates(storage, version.stage, version.partition, operators)
        task.fill(tables, version)
        return task.snapshot(version.epoch, version.generation, version.inline_threshold)

    def rename_operators(
        self,
        storage: Folder,
        ref: VersionRef,
        uids: Mapping[str, str],
        version: NewVersion,
        operators: Mapping[str, StateOwner],
    ) -> VersionRef:
        task = HashMapTaskStates.open(
            storage, [ref], version.stage, version.partition, operators, self.sections(storage)
        )
        task.rename_operators(uids)
        return task.snapshot(version.epoch, version.generation, version.inline_threshold)

    def verify(self, storage: Folder, ref: VersionRef) -> None:
        for runs in HashMapTaskStates.stored_runs(storage, ref, self.sections(storage)).values():
            for run in runs:
                run.section.verify()

    def plan_compaction(
        self,
        storage: Folder,
        ref: VersionRef,
        now: int,
        generation: int,
        event_times: Mapping[str, int] = MappingProxyType({}),
    ) -> list[CompactionTask]:
        return plan_compaction(storage, ref, now, generation, event_times=event_times)

    def run_compaction(self, storage: Folder, work: CompactionTask) -> CompactionResult:
        return run_compaction(storage, work)
