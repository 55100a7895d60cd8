"""A savepoint's work in tasks: the state of one task to tables, and tables to the state of a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.savepoint.tables import read_table, write_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.savepoint.metadata import TableFile
    from headrace.state.backend import NewVersion, StateBackend, StateOwner
    from headrace.state.version import VersionRef
    from headrace.storage.folder import Folder


@dataclass(frozen=True, slots=True)
class Export:
    """Writes the state of tasks into a savepoint.

    Attributes:
        backend: what has written the state.
        state: where its files are.
        savepoint: the directory of the savepoint.
        now: processing time in milliseconds; what has expired by then is left out.
    """

    backend: StateBackend
    state: Folder
    savepoint: Folder
    now: int

    def __call__(self, ref: VersionRef) -> list[TableFile]:
        """Write one version; the same one always gives the same files."""
        tables = self.backend.export_tables(self.state, ref, self.now)
        return [write_table(self.savepoint, table, ref.stage, ref.partition) for table in tables]


@dataclass(frozen=True, slots=True)
class TaskTables:
    """What the state of one task is made of.

    Attributes:
        version: which version it becomes.
        tables: the files.
        operators: whose they are.
    """

    version: NewVersion
    tables: tuple[TableFile, ...]
    operators: Mapping[str, StateOwner]


@dataclass(frozen=True, slots=True)
class Import:
    """Makes state of tables of a savepoint; attributes as of :class:`Export`."""

    backend: StateBackend
    state: Folder
    savepoint: Folder

    def __call__(self, task: TaskTables) -> VersionRef:
        """Write one version.

        Raises:
            SavepointError: naming the file, when one is missing, damaged or another one.
        """
        tables = (read_table(self.savepoint, file) for file in task.tables)
        return self.backend.import_tables(self.state, tables, task.version, task.operators)
