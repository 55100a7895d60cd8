"""Commands to a job in a process of its own, by its REST API: the same that a job of this process takes."""

import http.client
import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from headrace.common.completable_future import CompletableFuture
from headrace.common.errors import JobExecutionError
from headrace.common.logs import get_logger
from headrace.jobmanager.status import JobSnapshot
from headrace.savepoint.metadata import SavepointFormat
from headrace.server.client import RestClient, RestClientError

logger = get_logger(__name__)

_FIRST_LOOK_SECONDS: Final = 0.05
_LAST_LOOK_SECONDS: Final = 0.5


class RemoteProcess(Protocol):
    """A job that may have a process."""

    last_snapshot: JobSnapshot
    """All that is known of the job."""

    def client(self) -> RestClient | None:
        """The client of its process; None while there is none that is served."""

    def give_up(self) -> None:
        """See to it that the job is given up, whatever becomes of its process."""


class RemoteControl:
    """Controls a job by requests to its process.

    Args:
        job: the job.
    """

    def __init__(self, job: RemoteProcess) -> None:
        self._job = job

    def snapshot(self) -> JobSnapshot:
        """All that is known of the job."""
        return self._job.last_snapshot

    def cancel(self) -> CompletableFuture[None]:
        """Give up the epoch that runs and end the job."""
        self._job.give_up()
        return CompletableFuture.completed(None)

    def stop(self, *, drain: bool = False) -> CompletableFuture[None]:
        """End the job at the end of the epoch that runs: a process gets a signal for that, and this is never called."""
        raise JobExecutionError("a job of a dispatcher is stopped with a savepoint, or cancelled")

    def rescale(self, parallelism: int) -> CompletableFuture[None]:
        """Have the job go on at another parallelism."""
        return self._triggered(
            ("PATCH", f"rescaling?parallelism={parallelism}", None), "rescaling", lambda operation: None
        )

    def release_epoch(self) -> int:
        """Publish the epoch that is held back; gives its number."""
        client, job_id = self._client()
        return int(_read(*client.forward("POST", f"/v1/jobs/{job_id}/held-epoch/release", b"{}"))["epoch"])

    def trigger_checkpoint(self) -> CompletableFuture[int]:
        """Complete an epoch at once; gives its number."""
        body = {"checkpointType": "CONFIGURED"}
        return self._triggered(
            ("POST", "checkpoints", body), "checkpoints", lambda operation: int(operation["checkpointId"])
        )

    def trigger_savepoint(
        self, savepoint_directory: str | None = None, format_type: SavepointFormat = "canonical"
    ) -> CompletableFuture[str]:
        """Take a savepoint; gives its place."""
        body = {"target-directory": savepoint_directory, "cancel-job": False, "formatType": format_type.upper()}
        return self._triggered(("POST", "savepoints", body), "savepoints", lambda operation: operation["location"])

    def stop_with_savepoint(
        self,
        advance_to_end_of_event_time: bool,
        savepoint_directory: str | None = None,
        format_type: SavepointFormat = "canonical",
    ) -> CompletableFuture[str]:
        """Take a savepoint and end the job with it; gives its place."""
        body = {
            "targetDirectory": savepoint_directory,
            "drain": advance_to_end_of_event_time,
            "formatType": format_type.upper(),
        }
        return self._triggered(("POST", "stop", body), "savepoints", lambda operation: operation["location"])

    def _triggered(
        self, request: tuple[str, str, Mapping[str, Any] | None], outcome: str, result: Callable[[Any], Any]
    ) -> CompletableFuture[Any]:
        """Ask for something, and wait for its outcome on a thread of its own.

        Raises:
            RestClientError: when the process cannot be reached, or refuses.
        """
        client, job_id = self._client()
        method, what, body = request
        if body is not None:
            body = {**body, "triggerId": secrets.token_hex(16)}
        target = f"/v1/jobs/{job_id}/{what}"
        trigger = _read(*client.forward(method, target, None if body is None else json.dumps(body).encode()))
        found: CompletableFuture[Any] = CompletableFuture()
        path = ("jobs", job_id, outcome, str(trigger["request-id"]))
        wait = threading.Thread(
            target=self._wait, args=(client, path, result, found), name="headrace-outcome", daemon=True
        )
        wait.start()
        return found

    def _client(self) -> tuple[RestClient, str]:
        """The client of the process, and the id of the job.

        Raises:
            JobExecutionError: when there is no process.
        """
        client = self._job.client()
        if client is None:
            raise JobExecutionError(
                f"job {self._job.last_snapshot.name!r} has no process at the moment, since it is starting or restarting"
                ": ask again when it runs"
            )
        return client, self._job.last_snapshot.job_id

    def _wait(
        self,
        client: RestClient,
        path: tuple[str, ...],
        result: Callable[[Any], Any],
        found: CompletableFuture[Any],
    ) -> None:
        pause = _FIRST_LOOK_SECONDS
        try:
            while (answer := self._answer_of(client, path)) is None or answer["status"]["id"] != "COMPLETED":
                time.sleep(pause)
                pause = min(pause * 1.5, _LAST_LOOK_SECONDS)
            operation = answer.get("operation") or {}
            failure = operation.get("failure-cause")
            if failure:
                first = failure["stack-trace"].split("\n", maxsplit=1)[0]
                found.set_exception(JobExecutionError(first.removeprefix(f"{failure['class']}: ")))
            else:
                found.set_result(result(operation))
        except Exception as error:  # whatever it is, the caller that waits has to get it
            found.set_exception(error)

    def _answer_of(self, client: RestClient, path: tuple[str, ...]) -> Any:
        """An answer; None where there was none, and the process lives.

        Raises:
            JobExecutionError: when the process is gone.
            RestClientError: when it refuses.
        """
        try:
            status, content = client.forward("GET", f"/v1/{'/'.join(path)}", None)
        except RestClientError:
            if self._job.client() is not client:
                raise JobExecutionError(
                    "the process of the job is gone without an answer: whether the request was executed is not known. "
                    "Ask again when the job runs"
                ) from None
            return None
        return _read(status, content)


def _read(status: int, content: bytes) -> Any:
    document = json.loads(content)
    if status >= http.client.BAD_REQUEST:
        raise RestClientError("; ".join(map(str, document.get("errors", [f"status {status}"]))))
    return document
