"""The procedures that come with headrace: ``CALL sys.<name>(...)``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.checkpoint.directory import has_begun
from headrace.client import running
from headrace.common import options
from headrace.common.errors import ConfigurationError, HeadraceError, InvalidProgramError, SavepointError
from headrace.savepoint.disposal import dispose
from headrace.savepoint.metadata import is_savepoint, read_metadata, savepoint_format
from headrace.savepoint.requests import JobNotFoundError, JobRequest, ask
from headrace.storage.folder import Folder
from headrace.storage.locations import open_storage
from headrace.table.catalog.catalog import Catalog
from headrace.table.catalog.materialization import RefreshHandler, RefreshStatus
from headrace.table.catalog.objects import CatalogTable, ObjectPath
from headrace.table.environment.compaction import Compacted, CompactedLog, compact_files, compact_log
from headrace.table.environment.continuous_refresh import ContinuousRefresh
from headrace.table.environment.refresh_jobs import materialization_of
from headrace.table.parse.format import quoted_path
from headrace.table.parse.tree.definitions import RefreshMode

if TYPE_CHECKING:
    from headrace.table.environment.session import TableSession

_SECONDS: Final = 600.0
"""The time limit for a job to accept a request and to execute it."""


# --- tables ----------------------------------------------------------------------------------------------------------


def compact(tables: TableSession, table_name: str, file_size: str = "128 mb") -> Compacted:
    """Put the small files of a table of files together, those of each partition by themselves.

    Args:
        tables: the environment.
        table_name: the path of the table.
        file_size: files of this size and more stay as they are.
    """
    return compact_files(tables, *_table(tables, table_name), file_size)


def compact_topics(tables: TableSession, table_name: str) -> CompactedLog:
    """Apply retention and compaction to the topics of a table of a log, and merge small segments.

    Args:
        tables: the environment.
        table_name: the path of the table.
    """
    return compact_log(tables, *_table(tables, table_name))


def _table(tables: TableSession, name: str) -> tuple[ObjectPath, CatalogTable]:
    path = tables.path_of(name)
    found = tables.catalogs.table(path)
    if not isinstance(found, CatalogTable):
        raise InvalidProgramError(f"table '{path}' does not exist" if found is None else f"'{path}' is a view")
    return path, found


# --- savepoints ------------------------------------------------------------------------------------------------------


def trigger_savepoint(
    tables: TableSession, job: str, directory: str | None = None, format_type: str = "canonical"
) -> str:
    """Have a job take a savepoint while it goes on; gives the place of that.

    Args:
        tables: the environment.
        job: the id of a job of this process, or the checkpoint directory of any job.
        directory: where the savepoint is made; what ``execution.checkpointing.savepoint-dir`` says by default.
        format_type: ``canonical`` or ``native``.
    """
    target = directory or tables.job_configuration().get(options.SAVEPOINT_DIR)
    if target is None:
        raise ConfigurationError(
            f"where is the savepoint to be? Name its directory, or SET '{options.SAVEPOINT_DIR.key}' = '/a/folder'"
        )
    wanted = savepoint_format(format_type)
    client = next((each for each in running.jobs() if str(each.get_job_id()) == job), None)
    if client is not None:
        return client.trigger_savepoint(_absolute(target), wanted).result()
    request = JobRequest(_absolute(target), wanted, needs_savepoint=True)
    checkpoints = _storage(tables, job)
    if not has_begun(checkpoints):
        here = ", ".join(str(each.get_job_id()) for each in running.jobs()) or "none"
        raise JobNotFoundError(
            f"'{job}' is neither the id of a job of this program, nor a checkpoint directory in which a job has run. "
            f"Jobs of this program: {here}. A job of another program is named by its checkpoint directory"
        )
    answer = ask(checkpoints, request, accept_seconds=_SECONDS, timeout_seconds=_SECONDS)
    if answer.error:
        raise SavepointError(answer.error)
    return answer.savepoint


class SavepointRow(NamedTuple):
    """A savepoint, or what is wrong with it."""

    path: str
    job_id: str | None
    job_name: str | None
    checkpoint: int | None
    format: str | None
    time: datetime | None
    problem: str | None


def list_savepoints(tables: TableSession, directory: str | None = None) -> list[SavepointRow]:
    """The complete savepoints in a folder, the newest first.

    Args:
        tables: the environment.
        directory: the folder; what ``execution.checkpointing.savepoint-dir`` says by default.
    """
    place = directory or tables.job_configuration().get(options.SAVEPOINT_DIR)
    if place is None:
        raise ConfigurationError(
            f"where are the savepoints? Name their directory, or SET '{options.SAVEPOINT_DIR.key}' = '/a/folder'"
        )
    storage = _storage(tables, place)
    try:
        names = storage.names()
    except FileNotFoundError:
        if directory is None:  # no job has made it yet
            return []
        raise SavepointError(f"there is no folder {storage}") from None
    found = [_savepoint(storage.folder(name)) for name in names if is_savepoint(storage.folder(name))]
    return sorted(found, key=lambda row: (row.time or datetime.min, row.path), reverse=True)


def _savepoint(folder: Folder) -> SavepointRow:
    try:
        metadata = read_metadata(folder)
    except HeadraceError as error:
        return SavepointRow(str(folder), None, None, None, None, None, str(error))
    manifest = metadata.checkpoint
    time = datetime.fromtimestamp(manifest.processing_time / 1000, UTC).replace(tzinfo=None)
    return SavepointRow(str(folder), manifest.job_id, manifest.job_name, manifest.epoch, metadata.format, time, None)


def dispose_savepoint(tables: TableSession, savepoint: str) -> None:
    """Remove a savepoint.

    Args:
        tables: the environment.
        savepoint: its directory.
    """
    open_ = partial(open_storage, options=tables.job_configuration().storage_options())
    dispose(open_(_absolute(savepoint)), open_)


def _storage(tables: TableSession, location: str) -> Folder:
    return open_storage(_absolute(location), options=tables.job_configuration().storage_options())


def _absolute(location: str) -> str:
    return location if "://" in location else str(Path(location).expanduser().absolute())


# --- catalogs --------------------------------------------------------------------------------------------------------


class CatalogRow(NamedTuple):
    """A row of ``CALL sys.list_catalogs()``."""

    name: str
    type: str
    default_database: str
    databases: int
    tables: int
    outlasts_session: bool


def list_catalogs(tables: TableSession) -> list[CatalogRow]:
    """The catalogs of the session, and what is in them."""
    return [_catalog_row(tables, name, catalog) for name, catalog in sorted(tables.catalogs.catalogs.items())]


def _catalog_row(tables: TableSession, name: str, catalog: Catalog) -> CatalogRow:
    description = tables.catalogs.descriptions.get(name)
    kind = dict(description.options).get("type", "") if description is not None else "generic_in_memory"
    databases = catalog.databases()
    count = sum(len(catalog.tables(database)) for database in databases)
    return CatalogRow(name, kind, catalog.default_database, len(databases), count, catalog.outlasts_session)


def _catalog_of(tables: TableSession, catalog: str | None) -> tuple[str, Catalog]:
    name = catalog or tables.catalogs.catalog
    found = tables.catalogs.catalogs.get(name)
    if found is None:
        raise InvalidProgramError(f"catalog '{name}' does not exist")
    return name, found


class CatalogProblem(NamedTuple):
    """An object of a catalog that cannot be read."""

    object: str
    problem: str


def check_catalog(tables: TableSession, catalog: str | None = None) -> list[CatalogProblem]:
    """The objects of a catalog that cannot be read; none where all is well.

    Args:
        tables: the environment.
        catalog: its name; the current one by default.
    """
    name, found = _catalog_of(tables, catalog)
    return list(_problems(name, found))


def _problems(name: str, catalog: Catalog) -> Iterator[CatalogProblem]:
    for database in catalog.databases():
        read: list[tuple[str, Callable[[], object]]] = [(f"{name}.{database}", partial(catalog.database, database))]
        read += [
            (f"{name}.{database}.{each}", partial(catalog.table, database, each)) for each in catalog.tables(database)
        ]
        read += [
            (f"{name}.{database}.{each}()", partial(catalog.function, database, each))
            for each in catalog.functions(database)
        ]
        for path, look in read:
            try:
                look()
            except HeadraceError as error:
                yield CatalogProblem(path, str(error))


class MaterializedRow(NamedTuple):
    """A materialized table and its refresh; ``failure`` also says why some of that is not known."""

    table: str
    refresh_mode: str | None = None
    freshness: str | None = None
    refresh_status: str | None = None
    is_running: bool | None = None
    job_id: str | None = None
    checkpoint_directory: str | None = None
    savepoint: str | None = None
    last_refresh: datetime | None = None
    next_refresh: datetime | None = None
    failure: str | None = None


def materialized_tables(tables: TableSession, catalog: str | None = None) -> list[MaterializedRow]:
    """The materialized tables of a catalog, and how they are refreshed.

    Args:
        tables: the environment.
        catalog: its name; the current one by default.
    """
    return [row for path in _table_paths(tables, catalog) if (row := _row_of(tables, path)) is not None]


def _table_paths(tables: TableSession, catalog: str | None) -> list[ObjectPath]:
    """The paths of all tables of a catalog, the current one by default."""
    name, found = _catalog_of(tables, catalog)
    return [ObjectPath(name, database, each) for database in found.databases() for each in found.tables(database)]


def _row_of(tables: TableSession, path: ObjectPath) -> MaterializedRow | None:
    """The row of a table; None where that is not materialized. A damaged one may be."""
    try:
        table = tables.catalogs.permanent_table(path)
    except (HeadraceError, OSError) as error:
        return MaterializedRow(str(path), failure=str(error))
    if not isinstance(table, CatalogTable) or table.materialization is None:
        return None
    return _materialized_row(tables, path, table)


def _materialized_row(tables: TableSession, path: ObjectPath, table: CatalogTable) -> MaterializedRow:
    materialization, entry = materialization_of(table), tables.scheduled_refresh(path)
    handler = materialization.handler
    last: datetime | None = None
    due = entry.due if entry is not None else None
    failure: str | None = None
    is_running: bool | None = entry is not None or _is_refreshed_elsewhere(handler)
    try:
        last, failure = tables.last_refresh(path)
        if entry is None and handler.cluster:
            of_dispatcher, due = materialization.times_of_dispatcher()
            last = max(filter(None, (last, of_dispatcher)), default=None)
        if materialization.mode is not RefreshMode.FULL:
            is_running = ContinuousRefresh(tables, path).is_running(handler)
    except (HeadraceError, OSError) as error:
        is_running, failure = None, f"whether the job runs is not known: {error}"
    return MaterializedRow(
        str(path),
        materialization.mode.value,
        str(materialization.freshness),
        materialization.status.value,
        is_running,
        handler.job_id or None,
        handler.directory or None,
        handler.savepoint or None,
        _plain(last),
        _plain(due),
        failure,
    )


def _is_refreshed_elsewhere(handler: RefreshHandler) -> bool | None:
    """Return whether another program has the schedule of a table; None where it may, on another machine."""
    process = handler.scheduled_elsewhere
    if process is None:
        return False
    return True if process.is_here else None


class ResumedRow(NamedTuple):
    """A materialized table whose refresh goes on, or why it does not."""

    table: str
    refresh_mode: str
    failure: str | None


def resume_refreshes(tables: TableSession, catalog: str | None = None) -> list[ResumedRow]:
    """Have this program refresh the materialized tables of a catalog that are activated, and that no program refreshes.

    Args:
        tables: the environment.
        catalog: its name; the current one by default.
    """
    return [row for path in _table_paths(tables, catalog) if (row := _resumed(tables, path)) is not None]


def _resumed(tables: TableSession, path: ObjectPath) -> ResumedRow | None:
    """The row of a table; None where nothing is to be done."""
    known = _row_of(tables, path)
    if known is None or known.refresh_status != RefreshStatus.ACTIVATED.value or known.is_running:
        return None
    mode = known.refresh_mode or ""
    try:
        tables.execute_sql(f"ALTER MATERIALIZED TABLE {quoted_path(path)} RESUME")
    except (HeadraceError, OSError) as error:
        return ResumedRow(str(path), mode, str(error))
    return ResumedRow(str(path), mode, None)


def _plain(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC).replace(tzinfo=None)


PROCEDURES: Final[dict[str, Callable[..., Any]]] = {
    function.__name__: function
    for function in (
        check_catalog,
        compact,
        compact_topics,
        dispose_savepoint,
        list_catalogs,
        list_savepoints,
        materialized_tables,
        resume_refreshes,
        trigger_savepoint,
    )
}
"""By name."""
