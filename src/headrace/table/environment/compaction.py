"""Compaction of tables: of files a folder has too many of, and of topics of a log."""

from __future__ import annotations

import re
import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.common.config_options import memory_size
from headrace.common.errors import HeadraceError, InvalidProgramError
from headrace.connectors.file_system.overwrite_log import Overwrite, OverwriteLog
from headrace.connectors.file_system.paths import IGNORE_CORRUPT, IGNORE_MISSING, InputPaths, resolved
from headrace.log.log import Log
from headrace.storage.file_system import FileSystem
from headrace.storage.files import FileStatus, InputFile
from headrace.table.bind.expectations import options_of_connector
from headrace.table.catalog.objects import CatalogTable, Column, ColumnKind, ObjectPath
from headrace.table.connectors.files import FORMAT, PATH_PATTERN
from headrace.table.connectors.partitions import PathFilter, pattern
from headrace.table.environment.refresh_jobs import batch_settings, refuse_places_of_program
from headrace.table.options import NOT_NULL_ENFORCER, TYPE_LENGTH_ENFORCER
from headrace.table.parse.format import quoted_path

if TYPE_CHECKING:
    from headrace.table.environment.session import TableSession

_HIDDEN: Final = ".headrace-compaction-"
_IGNORE_ERRORS: Final = "ignore-parse-errors"
_SKIPS: Final = (f".{_IGNORE_ERRORS}", IGNORE_MISSING, IGNORE_CORRUPT)
_NOT_OF_COPIES: Final = ("sink.partition-commit.", "sink.rolling-policy.", "auto-compaction", "source.monitor-interval")
"""The beginnings of options that say when and how the table shows files, which copies of them do not need."""


class Compacted(NamedTuple):
    """The result of a compaction."""

    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int


class CompactedLog(NamedTuple):
    """The result of the maintenance of a topic."""

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
        InvalidProgramError: when it is no table of files, files were replaced meanwhile, or a copy would lose
            something: columns that the table does not have, rows that it skips.
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
        self._filter = _path_filter(table)
        self._paths = self._inputs(self._location, self._filter)
        self._store = self._paths.store_of(self._location)
        if self._store.is_pattern(self._location):
            raise InvalidProgramError(
                f"table {path} has the files that {self._location} matches, and compaction is of those of a folder"
            )
        self._base = self._store.within(self._location)
        self._log = OverwriteLog(self._store.file_system, self._base)

    def run(self, limit: int) -> Compacted:
        small = self._small(limit)
        if not small:
            return Compacted(0, 0, 0, 0)
        self._check_columns(small)
        copies = f"{self._location}/{_HIDDEN}{self._id}"
        try:
            self._copy(small, copies)
            made = self._inputs(copies).find()
            self._replace(small, self._published(made))
        except BaseException:
            if not self._may_be_published():
                self._remove(self._store.within(copies))
            raise
        self._remove(self._store.within(copies))
        return Compacted(len(small), len(made), sum(f.size for f in small), sum(f.size for f in made))

    def _may_be_published(self) -> bool:
        """Return whether readers may still publish the copies, in which case they have to find them."""
        try:
            return self._log.knows(self._id)
        except (HeadraceError, OSError):
            return True

    def _inputs(self, location: str, accepts: PathFilter | None = None) -> InputPaths:
        return InputPaths([location], self._tables.job_configuration().storage_options(), accepts)

    @property
    def _stored(self) -> tuple[Column, ...]:
        return tuple(column for column in self._table.columns if column.kind is ColumnKind.PHYSICAL)

    def _check_columns(self, files: Sequence[FileStatus]) -> None:
        # Formats import pandas, which sessions that compact no tables need not have.
        from headrace.table.environment.file_columns import check_columns

        keys = self._table.partition_keys
        in_files = {column.name: column.type for column in self._stored if column.name not in keys}
        inputs = (InputFile(self._store, file.path, file.size) for file in files)
        check_columns(self._path, self._table.option(FORMAT.key) or "", inputs, in_files)

    def _small(self, limit: int) -> list[FileStatus]:
        """The files of partitions that have more than one small one."""
        by_folder = defaultdict(list)
        for file in self._paths.find():
            if file.size < limit:
                by_folder[file.path.rpartition("/")[0]].append(file)
        return [file for files in by_folder.values() if len(files) > 1 for file in files]

    def _copy(self, files: Sequence[FileStatus], target: str) -> None:
        """Copy the rows of some files into one file for each partition."""
        refuse_places_of_program("the compaction of a table is a job of its own")
        plain = replace(
            self._table,
            columns=self._stored,
            primary_key=None,
            watermark=None,
            materialization=None,
            options=_options_of_copies(self._table),
        )
        batch = self._tables.with_settings(batch_settings(None))
        batch.get_config().set(NOT_NULL_ENFORCER.key, "ERROR")
        batch.get_config().set(TYPE_LENGTH_ENFORCER.key, "IGNORE")
        source = plain.with_options({PATH_PATTERN.key: "|".join(re.escape(file.path) for file in files)})
        sink = plain.with_options({"path": target, "sink.parallelism": "1"})
        with batch.unnamed_table(source) as read, batch.unnamed_table(sink) as written:
            statement = f"INSERT INTO {quoted_path(written)} SELECT * FROM {quoted_path(read)}"
            job = batch.execute_sql(statement)
        try:
            job.wait()
        except HeadraceError as error:
            skips = next((key for key, _ in self._table.options if key.endswith(_SKIPS)), None)
            if skips is None:
                raise
            raise InvalidProgramError(
                f"table {self._path} stays as it is: the rows of its small files cannot all be copied, and those that "
                f"{skips!r} skips would be lost: {error}"
            ) from error

    def _published(self, made: Sequence[FileStatus]) -> dict[str, str]:
        """The copies, and the paths that the table is to have them by.

        Raises:
            InvalidProgramError: when the table would not read one there.
        """
        hidden, published = f"{_HIDDEN}{self._id}/", {}
        for file in made:
            folder, _, name = self._below(file).removeprefix(hidden).rpartition("/")
            path = f"{folder}/compacted-{self._id[:12]}-{name}".lstrip("/")
            if self._filter is not None and not self._filter(f"{self._location}/{path}"):
                raise InvalidProgramError(
                    f"table {self._path} reads files that match {PATH_PATTERN.key!r}, "
                    f"{self._table.option(PATH_PATTERN.key)!r}, and would not read the compacted one, "
                    f"{self._location}/{path}: have the pattern match it too"
                )
            published[self._below(file)] = path
        return published

    def _replace(self, before: Sequence[FileStatus], published: dict[str, str]) -> None:
        removed = [self._below(file) for file in before]

        def overwrite() -> Overwrite:
            self._check_there(before)
            return Overwrite(self._id, removed, published)

        self._log.add(overwrite, self._id)

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


def _path_filter(table: CatalogTable) -> PathFilter | None:
    """Decides which files the table reads; None for all."""
    text = table.option(PATH_PATTERN.key)
    if text is None:
        return None
    try:
        return PathFilter(pattern(text), (), None, "")
    except ValueError as error:
        raise InvalidProgramError(f"{PATH_PATTERN.key!r} is {text!r}: expected {error}") from None


def _options_of_copies(table: CatalogTable) -> tuple[tuple[str, str], ...]:
    """The options without those that skip rows, which would be lost with the files that have them."""
    return tuple(
        (key, value)
        for key, value in options_of_connector(table.options)
        if not key.startswith(_NOT_OF_COPIES) and not key.endswith(_SKIPS)
    )


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
