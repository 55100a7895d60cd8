"""Jobs of statements that a dispatcher runs: each is a script, which opens the catalogs that outlast this program."""

from __future__ import annotations

import secrets
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.common import options
from headrace.common.durable import write_file
from headrace.common.errors import InvalidProgramError, JobExecutionError
from headrace.common.job_status import JobStatus
from headrace.common.logs import get_logger
from headrace.server.client import RestClient, RestClientError
from headrace.table.catalog.objects import ObjectPath
from headrace.table.ddl.text import create_catalog
from headrace.table.logical.relations import Relation, Scan, Sink
from headrace.table.options import is_of_tables
from headrace.table.parse.format import literal

if TYPE_CHECKING:
    from headrace.table.environment.session import TableSession

logger = get_logger(__name__)

_OF_SERVERS: Final = ("rest.", "security.ssl.")
"""Settings that reach the dispatcher, and are not for the job."""

_REQUEST_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 600.0
_LOOK_SECONDS: Final = 0.5


@dataclass(frozen=True)
class StatementDispatcher:
    """A dispatcher that runs jobs of statements.

    Attributes:
        address: ``HOST:PORT``, or a URL.
        tables: the environment, whose settings say how it is reached.
    """

    address: str
    tables: TableSession

    def submit(self, environment: TableSession, relation: Relation, statement: str) -> str:
        """Have a statement run as a job; gives the id of that.

        Args:
            environment: with the settings of the job.
            relation: the statement, as it was bound here.
            statement: its text.

        Raises:
            InvalidProgramError: when it reads or writes what this program alone has.
            RestClientError: when the dispatcher does not answer, or refuses it.
        """
        check_kept(environment, relation, "the dispatcher")
        settings = environment.session_settings()
        body = {
            "flinkConfiguration": {
                key: str(value)
                for key, value in settings.items()
                if not is_of_tables(key) and not key.startswith(_OF_SERVERS)
            },
            "jobId": None if options.CHECKPOINT_DIR.key in settings else secrets.token_hex(16),
        }
        client = self._client
        with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
            program = Path(folder) / "refresh.sql"
            write_file(program, [_script(environment, statement).encode()], durable=False)
            uploaded = client.upload(program)
        try:
            return str(client.ask("POST", ("jars", uploaded, "run"), body=body)["jobid"])
        finally:
            _remove(client, uploaded)

    def is_running(self, job_id: str) -> bool:
        """Return whether a job runs, or is about to."""
        status = self._status(job_id)
        return status is not None and not status.is_terminal_state()

    def stop(self, job_id: str, directory: str) -> str:
        """Stop a job with a savepoint; gives the place of that.

        Raises:
            RestClientError: when none is taken.
        """
        body = {"targetDirectory": directory, "drain": False, "formatType": "CANONICAL"}
        trigger = self._client.ask("POST", ("jobs", job_id, "stop"), body=body)["request-id"]
        outcome = self._client.outcome("jobs", job_id, "savepoints", trigger, timeout=_STOP_SECONDS)
        self._wait_for_end(job_id)
        return str(outcome["location"])

    def cancel(self, job_id: str) -> None:
        """Cancel a job, and wait for its end."""
        self._client.ask("PATCH", ("jobs", job_id), {"mode": "cancel"})
        self._wait_for_end(job_id)

    def wait(self, job_id: str) -> None:
        """Wait for the end of a job.

        Raises:
            JobExecutionError: when it has not finished.
        """
        self._wait_for_end(job_id)
        if (failure := self.failure(job_id)) is not None:
            raise JobExecutionError(failure)

    def failure(self, job_id: str) -> str | None:
        """The failure of a job that has ended without having finished; None for others."""
        status = self._status(job_id)
        if status is JobStatus.FINISHED or (status is not None and not status.is_terminal_state()):
            return None
        name = status.name if status is not None else "gone"
        return f"job {job_id} of the dispatcher at {self.address} is {name}: headrace logs {job_id} says why"

    def _wait_for_end(self, job_id: str) -> None:
        while self.is_running(job_id):
            time.sleep(_LOOK_SECONDS)

    def _status(self, job_id: str) -> JobStatus | None:
        """The status of a job; None where the dispatcher knows of none."""
        known: list[dict[str, Any]] = self._client.get("jobs", "overview")["jobs"]
        state = next((job["state"] for job in known if job["jid"] == job_id), None)
        return None if state is None else JobStatus[state]

    @property
    def _client(self) -> RestClient:
        client = RestClient.at(self.address, self.tables.job_configuration())
        return RestClient(client.address, client.token, client.tls, _REQUEST_SECONDS)


def _remove(client: RestClient, program: str) -> None:
    """Remove the program of a job; the job that has been started from it does not depend on that."""
    try:
        client.ask("DELETE", ("jars", program))
    except RestClientError as error:
        logger.warning("program %s stays at the dispatcher, and no job needs it any more: %s", program, error)


def check_kept(environment: TableSession, relation: Relation, reader: str) -> None:
    """Refuse a statement that reads or writes what only this program has.

    Args:
        environment: with the catalogs.
        relation: the statement.
        reader: the process that has to find all of it.

    Raises:
        InvalidProgramError: naming the table.
    """
    for node in relation.walk():
        if not isinstance(node, Scan | Sink):
            continue
        path = ObjectPath(*node.path)
        catalog = environment.catalogs.catalogs.get(path.catalog)
        is_kept = catalog is not None and catalog.outlasts_session and path not in environment.catalogs.temporary
        if not is_kept:
            raise InvalidProgramError(
                f"table {path} exists in this program alone, and {reader} would not find it: create it in a catalog "
                "that outlasts the program (CREATE CATALOG ... WITH ('type' = 'file', ...)), without TEMPORARY"
            )


def _script(environment: TableSession, statement: str) -> str:
    """The statements of the job's program."""
    catalogs = environment.catalogs
    described = (
        create_catalog(name, found.comment, found.options)
        for name, found in catalogs.descriptions.items()
        if catalogs.catalogs[name].outlasts_session
    )
    settings = (
        f"SET {literal(key)} = {literal(str(value))}"
        for key, value in environment.session_settings().items()
        if is_of_tables(key) and not key.startswith("table.catalog-store.")
    )
    return ";\n".join([*described, *settings, statement]) + ";\n"
