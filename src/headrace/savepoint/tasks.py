"""A savepoint's work in tasks: the state of one task to tables, and tables to the state of a task."""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace

from headrace.checkpoint.manifest import Manifest, OperatorSnapshot
from headrace.savepoint.metadata import TableFile
from headrace.savepoint.tables import read_table, write_table
from headrace.state.backend import StateBackendPlugin, StateOwner
from headrace.state.state_file import NewVersion, VersionRef
from headrace.storage.folder import Folder

TaskTables = tuple[NewVersion, tuple[TableFile, ...], Mapping[str, StateOwner]]
"""The new version of a task's state, its files, and the owners of the state."""

TaskVersion = tuple[NewVersion, VersionRef, Mapping[str, StateOwner]]
"""The new version of a task's state, the current one, and its operators by the uids there."""


def export_version(
    backend: StateBackendPlugin, state: Folder, savepoint: Folder, now: int, ref: VersionRef
) -> list[TableFile]:
    """Writes a version into a savepoint; the same one always gives the same files.

    Args:
        backend: what has written the state.
        state: where its files are.
        savepoint: the directory of the savepoint.
        now: processing time in milliseconds; what has expired by then is left out.
        ref: the version.

    Raises:
        SavepointError: as of :func:`~headrace.savepoint.tables.write_table`.
    """
    tables = backend.export_tables(state, ref, now)
    return [write_table(savepoint, table, ref.stage, ref.partition) for table in tables]


def import_version(backend: StateBackendPlugin, state: Folder, savepoint: Folder, task: TaskTables) -> VersionRef:
    """Writes a version that holds what tables of a savepoint do; arguments as of :func:`export_version`.

    Raises:
        SavepointError: naming the file, when one is missing, damaged or another one.
    """
    version, files, operators = task
    return backend.import_tables(state, (read_table(savepoint, file) for file in files), version, operators)


def rename_version(
    backend: StateBackendPlugin, state: Folder, uids: Mapping[str, str], task: TaskVersion
) -> VersionRef:
    """Writes a version with new uids by old ones, of which all but the index stays where it is."""
    version, ref, operators = task
    return backend.rename_operators(state, ref, uids, version, operators)


def tasks_of(
    tables: Iterable[TableFile], manifest: Manifest, uids: Container[str], inline_threshold: int
) -> Iterator[TaskTables]:
    """The tables of each task of a manifest, of the tables of a savepoint.

    Args:
        tables: the tables.
        manifest: says which tasks there were; versions get its epoch and generation.
        uids: the operators that are kept.
        inline_threshold: as for :class:`~headrace.state.backend.NewVersion`.
    """
    by_task: dict[tuple[int, int], list[TableFile]] = {}
    for table in tables:
        if table.uid in uids:
            by_task.setdefault((table.stage, table.partition), []).append(table)
    for (stage, partition), found in sorted(by_task.items()):
        version = NewVersion(stage, partition, manifest.epoch, manifest.generation, inline_threshold)
        yield version, tuple(found), _owners(manifest, stage)


def versions_of(manifest: Manifest, epoch: int, generation: int, inline_threshold: int) -> Iterator[TaskVersion]:
    """The versions of a manifest that hold something, each to become another one; arguments as in :func:`tasks_of`."""
    for ref in manifest.versions():
        version = NewVersion(ref.stage, ref.partition, epoch, generation, inline_threshold)
        yield version, ref, _owners(manifest, ref.stage)


def _owners(manifest: Manifest, stage: int) -> dict[str, StateOwner]:
    return {uid: owner_of(operator) for uid, operator in manifest.stages[stage].operators.items()}


def owner_of(operator: OperatorSnapshot) -> StateOwner:
    """An operator of a manifest as state backends know it."""
    return StateOwner(operator.parallelism, operator.max_parallelism, operator.state_kinds)


def with_versions(manifest: Manifest, refs: Iterable[VersionRef]) -> Manifest:
    """A manifest with these versions of the state of tasks; all other tasks have no state."""
    written = {(ref.stage, ref.partition): ref for ref in refs}
    stages = (
        replace(
            stage,
            partitions=tuple(
                replace(part, version=part.version and written.get((index, number), VersionRef(index, number, 0)))
                for number, part in enumerate(stage.partitions)
            ),
        )
        for index, stage in enumerate(manifest.stages)
    )
    return replace(manifest, stages=tuple(stages))


def with_tables(manifest: Manifest, tables: Iterable[TableFile]) -> Manifest:
    """A manifest that says of each task, in place of its version, in which files of the savepoint its state is."""
    by_task: dict[tuple[int, int], list[str]] = {}
    for table in tables:
        by_task.setdefault((table.stage, table.partition), []).append(table.path)
    return with_versions(manifest, (VersionRef(*task, 0, files=tuple(paths)) for task, paths in by_task.items()))
