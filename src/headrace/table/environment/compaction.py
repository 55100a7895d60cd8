"""Compaction of tables: of files a folder has too many of, and of topics of a log."""

from __future__ import annotations

import re
import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.common.config_options import memory_size
from headrace.common.errors import InvalidProgramError
from headrace.connectors.file_system.overwrite_log import Overwrite, OverwriteLog
from headrace.connectors.file_system.paths import InputPaths, resolved
from headrace.log.log import Log
from headrace.storage.file_system import FileSystem
from headrace.storage.files import FileStatus
from headrace.table.catalog.objects import CatalogTable, ColumnKind, ObjectPath
from headrace.table.parse.format import quoted_path

if TYPE_CHECKING:
    from headrace.table.environment.session import TableSession

_HIDDEN: Final = ".headrace-compaction-"
_NOT_OF_COPIES: Final = ("sink.partition-commit.", "sink.rolling-policy.", "auto-compaction", "source.monitor-interval")
"""The beginnings of options that say when and how the table shows files, which copies of them do not need."""


class Compacted(NamedTuple):
    """What compaction has done."""

    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int


class CompactedLog(NamedTuple):
    """What the maintenance of a topic has done."""

    records_deleted: int
    records_superseded: int
    segments_merged: int
    files_removed: int


def compact_files(tables: TableSession, path: ObjectPath, table: CatalogTable, size: str) -> Compacted:
    """Put the small files of a table of files together, those of each partition by themselves.

    All of them are replaced in one step, so readers find the files of before or those of after it.

    Args:
        tables: the environment, in which a batch job copies the rows.
        path: the path of the table.
        table: its definition.
        size: files of this size and more stay as they are.

    Raises:
        InvalidProgramError: when it is no table of files, or files were replaced meanwhile.
    """
    if table.option("connector") != "filesystem":
        raise InvalidProgramError(f"table {path} is no table of files: its connector is {table.option('connector')!r}")
    try:
        limit = memory_size(size)
    except ValueError as error:
        raise InvalidProgramError(f"{size!r} is no size of files: expected {error}") from None
    return _Compaction(tables, path, table).run(limit)


class _Compaction:
    """One compaction of a table of files."""

    def __init__(self, tables: TableSession, path: ObjectPath, table: CatalogTable) -> None:
        self._tables, self._path, self._table = tables, path, table
        self._location = resolved(table.option("path") or "")
        self._id = uuid.uuid4().hex
        self._paths = self._inputs(self._location)
        self._store = self._paths.store_of(self._location)
        self._base = self._store.within(self._location)

    def run(self, limit: int) -> Compacted:
        small = self._small(limit)
        if not small:
            return Compacted(0, 0, 0, 0)
        copies = f"{self._location}/{_HIDDEN}{self._id}"
        try:
            self._copy(small, copies)
            made = self._inputs(copies).find()
            self._replace(small, made)
        finally:
            self._remove(self._store.within(copies))
        return Compacted(len(small), len(made), sum(f.size for f in small), sum(f.size for f in made))

    def _inputs(self, location: str) -> InputPaths:
        return InputPaths([location], self._tables.job_configuration().storage_options())

    def _small(self, limit: int) -> list[FileStatus]:
        """The files of partitions that have more than one small one."""
        by_folder = defaultdict(list)
        for file in self._paths.find():
            if file.size < limit:
                by_folder[file.path.rpartition("/")[0]].append(file)
        return [file for files in by_folder.values() if len(files) > 1 for file in files]

    def _copy(self, files: Sequence[FileStatus], target: str) -> None:
        """Copy the rows of some files into one file for each partition."""
        options = [each for each in self._table.options if not each[0].startswith(_NOT_OF_COPIES)]
        pattern = "|".join(re.escape(file.path) for file in files)
        stored = tuple(column for column in self._table.columns if column.kind is ColumnKind.PHYSICAL)
        plain = replace(
            self._table, columns=stored, primary_key=None, watermark=None, materialization=None, options=tuple(options)
        )
        batch = self._tables.with_settings(
            {"execution.runtime-mode": "BATCH", "execution.checkpointing.dir": None, "pipeline.name": None}
        )
        source = plain.with_options({"source.path.regex-pattern": pattern})
        sink = plain.with_options({"path": target, "sink.parallelism": "1"})
        with batch.unnamed_table(source) as read, batch.unnamed_table(sink) as written:
            statement = f"INSERT INTO {quoted_path(written)} SELECT * FROM {quoted_path(read)}"
            job = batch.execute_sql(statement)
        job.wait()

    def _replace(self, before: Sequence[FileStatus], made: Sequence[FileStatus]) -> None:
        removed = [self._below(file) for file in before]
        hidden = f"{_HIDDEN}{self._id}/"
        published = {}
        for file in made:
            folder, _, name = self._below(file).removeprefix(hidden).rpartition("/")
            published[self._below(file)] = f"{folder}/compacted-{self._id[:12]}-{name}".lstrip("/")

        def overwrite() -> Overwrite:
            self._check_there(before)
            return Overwrite(self._id, removed, published)

        OverwriteLog(self._file_system, self._base).add(overwrite, self._id)

    def _check_there(self, files: Sequence[FileStatus]) -> None:
        """Refuse to publish rows that another statement has replaced meanwhile."""
        gone = [file.path for file in files if self._store.status(file.path) is None]
        if gone:
            raise InvalidProgramError(
                f"table {self._path} was overwritten while it was compacted, so it stays as it is: {gone[0]} is gone. "
                "Compact it again"
            )

    def _remove(self, folder: str) -> None:
        for path, _ in list(self._file_system.walk(folder, lambda _: True)):
            self._file_system.remove(path)
        for each in (*self._file_system.folders(folder), folder):
            self._file_system.remove_folder(each)

    def _below(self, file: FileStatus) -> str:
        return self._store.within(file.path)[len(self._base) + 1 :]

    @property
    def _file_system(self) -> FileSystem:
        return self._store.file_system


def compact_log(tables: TableSession, path: ObjectPath, table: CatalogTable) -> CompactedLog:
    """Apply retention and compaction to the topics of a table of a log, and merge small segments.

    Raises:
        InvalidProgramError: when it is no table of a log.
    """
    if table.option("connector") not in ("log", "upsert-log"):
        raise InvalidProgramError(f"table {path} is no table of a log: its connector is {table.option('connector')!r}")
    log = Log.open(table.option("path") or "", options=tables.job_configuration().storage_options())
    topics = (table.option("topic") or "").split(";")
    return CompactedLog(*log.maintain([topic for topic in topics if topic] or None, fully=True))
