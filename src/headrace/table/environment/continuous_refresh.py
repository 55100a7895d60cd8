"""The streaming job that keeps a materialized table up to date: it is started, found again, and stopped."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.checkpoint.directory import has_begun, remove_checkpoints
from headrace.client import running
from headrace.client.job_client import JobClient
from headrace.common import options
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, HeadraceError, SavepointError
from headrace.common.job_status import JobStatus
from headrace.common.logs import get_logger
from headrace.savepoint.requests import (
    REQUESTS,
    JobNotFoundError,
    JobRequest,
    ask,
    is_job_running,
    read_checkpoint,
)
from headrace.savepoint.requests import running as running_in
from headrace.storage.folder import Folder
from headrace.storage.locations import open_storage
from headrace.table.catalog.materialization import Materialization, RefreshHandler
from headrace.table.catalog.objects import CatalogTable, ObjectPath
from headrace.table.environment.dispatched_jobs import StatementDispatcher
from headrace.table.environment.refresh_jobs import (
    RefreshJob,
    insert_statement,
    job_name,
    materialization_of,
    start_job,
)
from headrace.table.options import DISPATCHER, START_POSITION

if TYPE_CHECKING:
    from headrace.table.environment.session import TableSession

logger = get_logger(__name__)

_FOLDER: Final = "materialized-tables"

_ACCEPT_SECONDS: Final = 60.0
"""The time limit for a job of another process to accept a request: it looks for them after each epoch."""

_STOP_SECONDS: Final = 600.0

_LOOK_SECONDS: Final = 10.0


@dataclass(frozen=True)
class ContinuousRefresh:
    """The jobs of one materialized table.

    Attributes:
        tables: the environment, whose settings they have.
        path: the path of the table.
    """

    tables: TableSession
    path: ObjectPath

    def new_handler(self, dispatcher: str = "") -> RefreshHandler:
        """The handler of a job that is to start, with a checkpoint directory in which none has been.

        It is in the catalog before the job starts. So a process that finds it without a job starts that again, which
        then goes on from where the one before has come to.

        Args:
            dispatcher: the dispatcher that has run the job before; it stays unless the session names another one.

        Raises:
            ConfigurationError: when the table outlasts the session, and the session has no checkpoint directory.
        """
        place = self.tables.job_configuration().get(options.CHECKPOINT_DIR)
        dispatcher = Configuration.from_dict(self.tables.session_settings()).get(DISPATCHER) or dispatcher
        if place is not None:
            own = "-".join((_safe(".".join(self.path)), secrets.token_hex(6)))
            directory = f"{_absolute(place).rstrip('/')}/{_FOLDER}/{own}"
            return RefreshHandler(directory=directory, dispatcher=dispatcher)
        if dispatcher or self.tables.catalogs.catalogs[self.path.catalog].outlasts_session:
            raise ConfigurationError(
                f"materialized table {self.path} outlasts this program, and its job would lose its state with it: set "
                f"{options.CHECKPOINT_DIR.key}, below which each table gets a checkpoint directory of its own"
            )
        return RefreshHandler()

    def start(self, table: CatalogTable, dynamic: Sequence[tuple[str, str]] = ()) -> RefreshJob:
        """Start the job that the handler of a table describes.

        Args:
            table: the definition.
            dynamic: options of the table that hold for this job.

        Raises:
            HeadraceError: when it cannot be started.
        """
        materialization = materialization_of(table)
        environment = self.tables.with_settings(self._settings(materialization))
        statement = insert_statement(self.path, table, dynamic)
        job = start_job(environment, self.path, table, statement, materialization.handler.dispatcher)
        if job.client is not None:  # having its id, it has found its checkpoint or its savepoint, or has failed
            status = job.client.get_job_status().result()
            has_ended = status is JobStatus.FAILING or status.is_terminal_state()
            if has_ended and (error := job.client.get_job_execution_result().exception()) is not None:
                raise error
        return job

    def _settings(self, materialization: Materialization) -> dict[str, str | None]:
        handler, session = materialization.handler, self.tables.job_configuration()
        settings: dict[str, str | None] = {
            options.PIPELINE_NAME.key: job_name(self.path, "continuous"),
            options.RUNTIME_MODE.key: "STREAMING",
            options.CHECKPOINT_DIR.key: handler.directory or None,
            options.RECOVERY_PATH.key: handler.savepoint or None,
            options.RECOVERS_POSITIONS.key: "true" if handler.takes_positions else None,
            START_POSITION.key: handler.begins or None,
        }
        if session.get(options.CHECKPOINT_INTERVAL) is None:
            settings[options.CHECKPOINT_INTERVAL.key] = f"{materialization.freshness.milliseconds} ms"
        return settings

    def reached(self, handler: RefreshHandler) -> str:
        """The place that says how far a job, which runs no more, has read its sources; empty where it has read none."""
        if handler.directory and read_checkpoint(self._storage(handler.directory), None) is not None:
            return handler.directory
        return handler.savepoint

    # --- the job that runs -------------------------------------------------------------------------------------------

    def is_running(self, handler: RefreshHandler) -> bool:
        """Return whether the job runs: in this process, or in one that answers in its checkpoint directory."""
        return self._is_dispatched(handler) or self._client(handler) is not None or self._is_elsewhere(handler)

    def stop(self, handler: RefreshHandler) -> str:
        """Stop the job with a savepoint; gives the place of that.

        Raises:
            ConfigurationError: when no place for savepoints is set.
            SavepointError: when none can be taken; the job then goes on.
            JobNotFoundError: when no job runs.
        """
        target = self.tables.job_configuration().get(options.SAVEPOINT_DIR)
        if target is None:
            raise ConfigurationError(
                f"{options.SAVEPOINT_DIR.key} is not set, and the job of materialized table {self.path} is stopped "
                f"with a savepoint: SET '{options.SAVEPOINT_DIR.key}' = '/a/folder'"
            )
        if self._is_dispatched(handler):
            return self._dispatcher(handler).stop(handler.job_id, _absolute(target))
        client = self._client(handler)
        if client is not None:
            return client.stop_with_savepoint(False, _absolute(target)).result()
        wanted = JobRequest(_absolute(target), stops=True, needs_savepoint=True)
        return self._requested(handler, wanted)

    def cancel(self, handler: RefreshHandler) -> None:
        """Cancel the job, if it runs.

        Raises:
            SavepointError: when it runs in another process, and does not end.
        """
        client = self._client(handler)
        if self._is_dispatched(handler):
            self._dispatcher(handler).cancel(handler.job_id)
        elif client is not None:
            client.cancel().result()
        elif self._is_elsewhere(handler):
            self._requested(handler, JobRequest("", cancels=True))

    def remove_checkpoints(self, handler: RefreshHandler) -> None:
        """Remove the checkpoint directories of the jobs, which were those of this table alone; none runs any more."""
        for directory in handler.directories:
            try:
                is_gone = remove_checkpoints(self._storage(directory))
            except (HeadraceError, OSError) as error:
                logger.warning("checkpoints in %s stay, although they are not needed any more: %s", directory, error)
                continue
            if not is_gone:
                logger.warning("checkpoints in %s stay: native savepoints refer to files in it", directory)

    def _is_dispatched(self, handler: RefreshHandler) -> bool:
        """Return whether the dispatcher runs the job, or is about to."""
        is_known = bool(handler.dispatcher and handler.job_id)
        return is_known and self._dispatcher(handler).is_running(handler.job_id)

    def _dispatcher(self, handler: RefreshHandler) -> StatementDispatcher:
        return StatementDispatcher(handler.dispatcher, self.tables)

    def _requested(self, handler: RefreshHandler, wanted: JobRequest) -> str:
        if not self._is_elsewhere(handler):
            raise JobNotFoundError(f"the job of materialized table {self.path} does not run")
        answer = ask(
            self._storage(handler.directory), wanted, accept_seconds=_ACCEPT_SECONDS, timeout_seconds=_STOP_SECONDS
        )
        if answer.error:
            raise SavepointError(answer.error)
        return answer.savepoint

    @staticmethod
    def _client(handler: RefreshHandler) -> JobClient | None:
        if not handler.job_id:
            return None
        return next((job for job in running.jobs() if str(job.get_job_id()) == handler.job_id), None)

    def _is_elsewhere(self, handler: RefreshHandler) -> bool:
        if not handler.directory:
            return False
        storage = self._storage(handler.directory)
        try:
            is_marked = has_begun(storage) and bool(running_in(storage.folder(REQUESTS)))
        except FileNotFoundError:  # a job that was killed before it accepted requests
            return False
        except OSError as error:
            raise HeadraceError(
                f"whether the job of materialized table {self.path} runs is not known: {error}"
            ) from error
        return is_marked and is_job_running(storage, _LOOK_SECONDS)

    def _storage(self, directory: str) -> Folder:
        return open_storage(directory, options=self.tables.job_configuration().storage_options())


def _absolute(location: str) -> str:
    """A place as a process with another working directory finds it."""
    return location if "://" in location else str(Path(location).absolute())


def _safe(name: str) -> str:
    return "".join(each if each.isalnum() or each in "._" else "_" for each in name)[:80]
