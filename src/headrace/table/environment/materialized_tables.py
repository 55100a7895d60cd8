"""Materialized tables: what statements on them do to the catalog and to the jobs that keep them up to date.

A statement puts into the catalog what is to be before it starts a job, and what has been after it has stopped one. So a
table whose job does not run, since a program was killed in between, can be resumed in any case: the job goes on in the
checkpoint directory that the catalog names, or begins there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from queue import SimpleQueue
from typing import TYPE_CHECKING

from headrace.common import options
from headrace.common.configuration import Configuration
from headrace.common.errors import HeadraceError, InvalidProgramError, JobCancelledError, SavepointError
from headrace.common.logical_types import MapType
from headrace.common.logs import get_logger
from headrace.connectors.file_system.paths import resolved
from headrace.savepoint.requests import JobProcess
from headrace.table.catalog.materialization import (
    RefreshHandler,
    RefreshStatus,
    partition_formatters,
)
from headrace.table.catalog.objects import CatalogTable, ObjectPath
from headrace.table.environment.continuous_refresh import ContinuousRefresh
from headrace.table.environment.refresh_jobs import (
    RefreshJob,
    batch_settings,
    check_job,
    insert_statement,
    job_name,
    materialization_of,
    overwrite_statement,
    partition_value,
    start_job,
)
from headrace.table.environment.refresh_schedule import (
    RefreshSchedule,
    ScheduledRefresh,
    leaves_to_dispatcher,
    left_to_dispatcher,
    wait_until_taken,
)
from headrace.table.environment.table_result import STRING, static_result
from headrace.table.options import DISPATCHER, START_POSITION
from headrace.table.parse.tree.definitions import RefreshMode

if TYPE_CHECKING:
    from headrace.client.job_client import JobClient
    from headrace.table.environment.session import TableSession
    from headrace.table.environment.table_result import TableResult

logger = get_logger(__name__)


class MaterializedTables:
    """The materialized tables of the catalogs of an environment.

    Args:
        tables: the environment.
    """

    def __init__(self, tables: TableSession) -> None:
        self._tables = tables
        self._schedule = RefreshSchedule(self._refresh_periodically)
        self._jobs: list[JobClient] = []
        self._ended: SimpleQueue[JobClient] = SimpleQueue()
        self._by_hand: dict[ObjectPath, tuple[datetime, RefreshJob]] = {}

    def create(self, path: ObjectPath, table: CatalogTable) -> None:
        """Put a table into its catalog, and begin to refresh it; the catalog is unchanged if that fails.

        Raises:
            HeadraceError: when the job cannot be started.
        """
        if materialization_of(table).mode is RefreshMode.FULL:
            self._check_refresh(path, table)
            self._put_scheduled(path, table, self._schedule.now())
            return
        jobs = ContinuousRefresh(self._tables, path)
        planned = _handled(table, replace(jobs.new_handler(), begins=self._beginning(table)))
        with self._tables.catalogs.kept_on_failure(path):
            self._put(path, planned)
            self._put(path, self._started(jobs, planned))

    def suspend(self, path: ObjectPath, table: CatalogTable) -> None:
        """Stop refreshing a table; a streaming job is stopped with a savepoint.

        Raises:
            InvalidProgramError: when it is suspended already.
            HeadraceError: when no savepoint can be taken; the job then goes on.
        """
        if materialization_of(table).status is RefreshStatus.SUSPENDED:
            raise InvalidProgramError(f"materialized table {path} is suspended already")
        if materialization_of(table).mode is RefreshMode.FULL:
            self._schedule.remove(path)
            handler = replace(materialization_of(table).handler, process=None, cluster="")
            self._put(path, _with_status(_handled(table, handler), RefreshStatus.SUSPENDED))
        else:
            self._suspend_job(path, table)

    def _suspend_job(self, path: ObjectPath, table: CatalogTable) -> CatalogTable:
        """Stop the job, and have the catalog know the savepoint; a job that runs no more goes on where it has ended."""
        jobs, handler = ContinuousRefresh(self._tables, path), materialization_of(table).handler
        if jobs.is_running(handler):
            following = jobs.new_handler(handler.dispatcher)  # before the job ends: it can fail
            savepoint, former = jobs.stop(handler), handler.directories
            handler = replace(
                following, savepoint=savepoint, job_id=handler.job_id, former=former, begins=handler.begins
            )
        elif not handler.directory:
            raise SavepointError(
                f"the job of materialized table {path} has ended without a checkpoint to go on from: DROP the table, "
                f"and CREATE it anew, with {options.CHECKPOINT_DIR.key}"
            )
        suspended = _with_status(_handled(table, handler), RefreshStatus.SUSPENDED)
        self._put(path, suspended)
        return suspended

    def resume(self, path: ObjectPath, table: CatalogTable, dynamic: Sequence[tuple[str, str]]) -> None:
        """Refresh a table again, from where that was suspended, or where its job has ended.

        Args:
            path: the table.
            table: its definition.
            dynamic: options of the table for the streaming job.

        Raises:
            InvalidProgramError: when it is being refreshed.
            HeadraceError: when the job cannot be started; the table is then as it was.
        """
        if materialization_of(table).mode is RefreshMode.FULL:
            self._resume_schedule(path, table, dynamic)
            return
        jobs, handler = ContinuousRefresh(self._tables, path), materialization_of(table).handler
        if materialization_of(table).status is RefreshStatus.ACTIVATED and jobs.is_running(handler):
            raise InvalidProgramError(f"materialized table {path} is being refreshed already, by job {handler.job_id}")
        self._start(path, _with_status(table, RefreshStatus.ACTIVATED), table, dynamic)

    def _start(
        self, path: ObjectPath, table: CatalogTable, before: CatalogTable, dynamic: Sequence[tuple[str, str]] = ()
    ) -> None:
        self._put(path, table)
        try:
            running = self._started(ContinuousRefresh(self._tables, path), table, dynamic)
        except HeadraceError:
            self._put(path, before)
            raise
        self._put(path, running)

    def _started(
        self, jobs: ContinuousRefresh, table: CatalogTable, dynamic: Sequence[tuple[str, str]] = ()
    ) -> CatalogTable:
        """The table whose job runs."""
        job = jobs.start(table, dynamic)
        if job.client is not None:
            self._follow(job.client)
        return _handled(table, replace(materialization_of(table).handler, job_id=job.job_id))

    def _follow(self, client: JobClient) -> None:
        self._jobs.append(client)
        client.get_job_execution_result().add_done_callback(lambda _: self._ended.put(client))

    def _resume_schedule(self, path: ObjectPath, table: CatalogTable, dynamic: Sequence[tuple[str, str]]) -> None:
        if dynamic:
            raise InvalidProgramError(
                f"RESUME WITH is of streaming jobs, and materialized table {path} is refreshed as a whole: "
                "ALTER MATERIALIZED TABLE ... SET changes its options"
            )
        materialization = materialization_of(table)
        if materialization.status is RefreshStatus.SUSPENDED:
            self._put_scheduled(path, _with_status(table, RefreshStatus.ACTIVATED), self._schedule.now())
            return
        if self._schedule.entry(path) is not None:
            raise InvalidProgramError(f"materialized table {path} is being refreshed already")
        if (process := materialization.handler.scheduled_elsewhere) is not None:
            raise InvalidProgramError(
                f"materialized table {path} is being refreshed already, by process {process.pid} of machine "
                f"{process.machine.partition(' ')[0]}: SUSPEND it first, if that one has ended"
            )
        self._put_scheduled(path, table, materialization.handler.refreshed_at)

    def _put_scheduled(self, path: ObjectPath, table: CatalogTable, refreshed: datetime | None) -> None:
        """Have this program refresh a table as a whole.

        Args:
            path: the table.
            table: its definition.
            refreshed: the time up to which it has been refreshed; None where that is not known.
        """
        began = self._schedule.now() if refreshed is None else refreshed
        handler = replace(materialization_of(table).handler, refreshed=began.isoformat())
        if leaves_to_dispatcher(self._tables):
            with self._tables.catalogs.kept_on_failure(path):
                self._put(path, _handled(table, left_to_dispatcher(handler, path, self._tables)))
                wait_until_taken(path, self._tables)
            return
        handler = replace(handler, process=self._process(path), cluster="", settings=())
        self._put(path, _handled(table, handler))
        self._schedule.put(path, materialization_of(table).freshness, self._tables, refreshed)

    def adopt(self, path: ObjectPath, table: CatalogTable, cluster: str) -> None:
        """Have this process refresh a table as a whole, unless another one does; as of a dispatcher.

        Args:
            path: the table.
            table: its definition.
            cluster: the storage of the dispatcher. What another one of the same storage has left, this one takes over.
        """
        freshness, handler = materialization_of(table).freshness, materialization_of(table).handler
        entry = self._schedule.entry(path)
        if entry is not None and self._is_of_this_program(path, table):
            if entry.freshness != freshness:
                self._schedule.put(path, freshness, entry.session)
        elif handler.scheduled_elsewhere is None or (handler.cluster and resolved(handler.cluster) == cluster):
            refreshed = handler.refreshed_at or self._schedule.now()
            taken = replace(handler, process=self._process(path), cluster=cluster, refreshed=refreshed.isoformat())
            self._put(path, _handled(table, taken))
            self._schedule.put(path, freshness, self._tables.with_settings(dict(handler.settings)), refreshed)

    def hand_over(self, paths: Iterable[ObjectPath]) -> None:
        """Refresh tables no more, which another process does from now on."""
        for path in paths:
            self._schedule.remove(path)

    def _process(self, path: ObjectPath) -> JobProcess | None:
        """The process that the catalog names as refreshing a table; None if no other process sees the catalog."""
        return JobProcess.present() if self._tables.catalogs.catalogs[path.catalog].outlasts_session else None

    def alter(self, path: ObjectPath, table: CatalogTable, changed: CatalogTable) -> None:
        """Give a table another definition.

        A streaming job is stopped with a savepoint. With another query a new one begins without its state, and reads as
        START_MODE says; else it goes on from the savepoint. Where it cannot be started, the table and its job are as
        before.

        Raises:
            HeadraceError: when the job cannot be stopped, or the new one cannot be started.
        """
        if materialization_of(table).mode is RefreshMode.FULL:
            self._check_refresh(path, changed)
            self._put(path, changed)
            materialization = materialization_of(changed)
            if (entry := self._schedule.entry(path)) is not None:
                self._schedule.put(path, materialization.freshness, entry.session)
            elif materialization.is_scheduled and materialization.handler.scheduled_elsewhere is None:
                self._put_scheduled(path, changed, materialization.handler.refreshed_at)
            return
        if materialization_of(table).status is RefreshStatus.SUSPENDED:
            self._put(path, self._begun_anew(path, table, changed))
            return
        begins = self._beginning(changed) if _is_other_query(table, changed) else ""
        settings = {options.RUNTIME_MODE.key: "STREAMING", START_POSITION.key: begins or None}
        streaming = self._tables.with_settings(settings)
        check_job(streaming, path, changed, insert_statement(path, changed))
        suspended = self._suspend_job(path, table)
        with_savepoint = _handled(changed, materialization_of(suspended).handler)
        following = self._begun_anew(path, table, with_savepoint)
        try:
            self._start(path, following, suspended)
        except HeadraceError:
            logger.warning("materialized table %s keeps its definition: the job of the new one cannot be started", path)
            self._start(path, _with_status(suspended, RefreshStatus.ACTIVATED), suspended)
            raise

    def _begun_anew(self, path: ObjectPath, table: CatalogTable, changed: CatalogTable) -> CatalogTable:
        """The changed table, whose job begins without state where the query is another one."""
        if not _is_other_query(table, changed):
            return changed
        before, jobs = materialization_of(changed).handler, ContinuousRefresh(self._tables, path)
        following = replace(
            jobs.new_handler(before.dispatcher), former=before.directories, begins=self._beginning(changed)
        )
        if materialization_of(changed).start.resumes and (reached := jobs.reached(before)):
            following = replace(following, savepoint=reached, takes_positions=True)
        return _handled(changed, following)

    def _beginning(self, table: CatalogTable) -> str:
        """The position that sources have which do not go on, as text; empty for where they say themselves."""
        zone = self._tables.get_config().get_local_timezone()
        position = materialization_of(table).start.position(self._schedule.now(), zone)
        return "" if position is None else str(position)

    def drop(self, path: ObjectPath, table: CatalogTable) -> None:
        """Stop refreshing a table, and remove it from its catalog, and then the checkpoints of its streaming jobs.

        Raises:
            HeadraceError: when its job cannot be cancelled; the table then stays.
        """
        jobs, handler = ContinuousRefresh(self._tables, path), materialization_of(table).handler
        if materialization_of(table).mode is RefreshMode.FULL:
            self._schedule.remove(path)
        else:
            jobs.cancel(handler)
        self._tables.catalogs.catalogs[path.catalog].drop_table(path.database, path.name)
        jobs.remove_checkpoints(handler)

    def wait(self) -> None:
        """Wait while this environment refreshes tables: until its streaming jobs have ended, and no refresh is due.

        Raises:
            JobExecutionError: when a streaming job has failed.
        """
        while self._jobs:
            client = self._ended.get()
            self._jobs.remove(client)
            error = client.get_job_execution_result().exception()
            if error is not None and not isinstance(error, JobCancelledError):  # as DROP does
                raise error
        self._schedule.wait()

    # --- full refreshes ----------------------------------------------------------------------------------------------

    def refresh(self, path: ObjectPath, table: CatalogTable, partition: dict[str, str]) -> TableResult:
        """Start a job that computes the rows of a table anew, or those of a partition.

        Raises:
            HeadraceError: when it cannot be started.
        """
        job = _refreshing(self._tables, path, table, partition, "one_time")
        self._by_hand[path] = self._schedule.now(), job
        columns = [("job id", STRING), ("cluster info", MapType(STRING, STRING))]
        dispatcher = _dispatcher(self._tables)
        cluster = [("execution.target", "remote"), ("rest.address", dispatcher)] if dispatcher else []
        rows = [(job.job_id, cluster or [("execution.target", "local")])]
        return static_result(columns, rows, client=job.client)

    def entry(self, path: ObjectPath) -> ScheduledRefresh | None:
        """The schedule of a table's full refreshes in this environment; None where it has none."""
        return self._schedule.entry(path)

    def last_refresh(self, path: ObjectPath) -> tuple[datetime | None, str | None]:
        """The time of the last refresh of a table as a whole, by the schedule or by hand, and why it has failed."""
        entry, by_hand = self._schedule.entry(path), self._by_hand.get(path)
        last = None if entry is None else entry.last
        if by_hand is not None and (last is None or last < by_hand[0]):
            return by_hand[0], by_hand[1].failure()
        return last, None if entry is None else entry.failure

    def run_due(self) -> None:
        """Refresh the tables that are due, and wait for that."""
        self._schedule.run_due()

    def _refresh_periodically(self, path: ObjectPath, entry: ScheduledRefresh) -> None:
        table = self._tables.catalogs.permanent_table(path)
        if not isinstance(table, CatalogTable) or not self._is_of_this_program(path, table):
            self._schedule.remove(path)  # another session has dropped or suspended it, or refreshes it
            return
        freshness = materialization_of(table).freshness
        if self._schedule.entry(path) is entry and entry.freshness != freshness:
            self._schedule.put(path, freshness, entry.session)  # another session has changed it
        _refreshing(entry.session, path, table, _partition_of(table, entry), "periodic").wait()
        self._note_refreshed(path, entry.due)

    def _is_of_this_program(self, path: ObjectPath, table: CatalogTable) -> bool:
        found = table.materialization
        return found is not None and found.is_scheduled and found.handler.process == self._process(path)

    def _note_refreshed(self, path: ObjectPath, due: datetime) -> None:
        """Have the catalog know how far a table has been refreshed, so that another program goes on from there."""
        table = self._tables.catalogs.permanent_table(path)
        if isinstance(table, CatalogTable) and self._is_of_this_program(path, table):
            handler = replace(materialization_of(table).handler, refreshed=due.isoformat())
            self._put(path, _handled(table, handler))

    def _check_refresh(self, path: ObjectPath, table: CatalogTable) -> None:
        """Refuse a table that could not be refreshed: its connector may not overwrite, or the query not be bounded."""
        batch = self._tables.with_settings({options.RUNTIME_MODE.key: "BATCH"})
        check_job(batch, path, table, overwrite_statement(path, table, {}))

    def _put(self, path: ObjectPath, table: CatalogTable) -> None:
        self._tables.catalogs.catalogs[path.catalog].put_table(path.database, path.name, table)


def _is_other_query(table: CatalogTable, changed: CatalogTable) -> bool:
    return materialization_of(table).query != materialization_of(changed).query


def _handled(table: CatalogTable, handler: RefreshHandler) -> CatalogTable:
    return replace(table, materialization=replace(materialization_of(table), handler=handler))


def _with_status(table: CatalogTable, status: RefreshStatus) -> CatalogTable:
    return replace(table, materialization=replace(materialization_of(table), status=status))


def _partition_of(table: CatalogTable, entry: ScheduledRefresh) -> dict[str, str]:
    """The partition of a scheduled refresh: that of the time which is its freshness before."""
    moment = materialization_of(table).freshness.before(entry.due, entry.zone)
    return {
        column: partition_value(moment, pattern, entry.zone)
        for column, pattern in partition_formatters(table.options).items()
    }


def _refreshing(
    session: TableSession, path: ObjectPath, table: CatalogTable, partition: dict[str, str], kind: str
) -> RefreshJob:
    """The job of a full refresh, under the settings of a session."""
    batch = session.with_settings(batch_settings(job_name(path, kind)))
    statement = overwrite_statement(path, table, partition)
    return start_job(batch, path, table, statement, _dispatcher(session))


def _dispatcher(session: TableSession) -> str:
    return Configuration.from_dict(session.session_settings()).get(DISPATCHER) or ""
