"""The jobs that pages show, and how they change them: by the REST API of the same server."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final, Protocol

from headrace.jobmanager.status import JobSnapshot
from headrace.server.dashboard.checkpoint_view import CheckpointView, checkpoint_view
from headrace.server.dashboard.job_view import JobView
from headrace.server.dashboard.snapshot_view import job_view
from headrace.server.errors import not_found
from headrace.server.jobs import LOGS, ServedJob
from headrace.server.requests import RestRequest, RestService
from headrace.server.wire import to_document

_FRESH_SECONDS: Final = 0.5

_MOST_KEPT: Final = 20

_MOST_LOGGED: Final = 200_000
"""The size of the end of a log in a page."""


class Answer(Protocol):
    """Answers a request of the REST API by its method and path."""

    def __call__(self, method: str, path: tuple[str, ...], request: RestRequest) -> Any:
        """The model of the answer.

        Raises:
            HeadraceError: when it is refused.
        """


class DashboardJobs:
    """The jobs of a server: of this process, of a dispatcher, or out of archives; from any thread.

    Args:
        service: what is served.
        answer: answers a request of the REST API.
    """

    def __init__(self, service: RestService, answer: Answer) -> None:
        self._service = service
        self._answer = answer
        self._known: dict[str, tuple[JobSnapshot, float, JobView]] = {}

    def views(self) -> list[JobView]:
        """All jobs that have begun."""
        return [self._view(job) for job in self._service.jobs.all()]

    def served(self) -> list[tuple[ServedJob, JobView]]:
        """All jobs that have begun, each with its view."""
        return [(job, self._view(job)) for job in self._service.jobs.all()]

    def lineage(self, job_id: str) -> Mapping[str, Any] | None:
        """The datasets of a job and their flow, as a document; None while they are not known.

        Raises:
            RestError: when there is none of that id.
        """
        return self._service.jobs.get(job_id).lineage()

    def logs(self, job_id: str) -> list[tuple[str, int]]:
        """The logs of the process of a job that are known here, each with its size.

        Raises:
            RestError: when there is none of that id.
        """
        job = self._service.jobs.get(job_id)
        return [(name, size) for name in LOGS if (size := job.log_size(name)) is not None]

    def log(self, job_id: str, name: str) -> tuple[str, bool]:
        """The end of a log, from the beginning of a line, and whether there is more before it.

        Raises:
            RestError: when there is no such job, or it has no such log.
        """
        job = self._service.jobs.get(job_id)
        found = job.log(name, most=_MOST_LOGGED) if name in LOGS else None
        if found is None:
            raise not_found(f"the job has no log {name!r}: only jobs of a dispatcher have {' and '.join(LOGS)}")
        is_cut = (job.log_size(name) or 0) > _MOST_LOGGED
        return found.text, is_cut

    def view(self, job_id: str) -> JobView:
        """A job, as it is now or was half a second ago.

        Raises:
            RestError: when there is none of that id.
        """
        return self._view(self._service.jobs.get(job_id))

    def checkpoint(self, job_id: str, number: str) -> CheckpointView:
        """A checkpoint of a job, by the number that an address has.

        Raises:
            RestError: when there is no such job, or nothing is known of that.
        """
        job = self._service.jobs.get(job_id)
        return checkpoint_view(job.snapshot(), job.configuration, number)

    def ask(
        self, method: str, path: tuple[str, ...], query: Mapping[str, object] | None = None, body: Any = None
    ) -> Any:
        """Return the answer of the REST API.

        Args:
            method: of HTTP.
            path: its parts, below ``/v1``.
            query: what follows it.
            body: an object of JSON; None for none.

        Raises:
            HeadraceError: when that is refused.
        """
        text = {name: str(value) for name, value in (query or {}).items()}
        return to_document(self._answer(method, path, RestRequest(self._service, {}, text, body or {})))

    def _view(self, job: ServedJob) -> JobView:
        snapshot, moment = job.snapshot(), time.monotonic()
        known = self._known.get(snapshot.job_id)
        if known is not None and known[0] is snapshot and moment - known[1] <= _FRESH_SECONDS:
            return known[2]
        now = time.time_ns() // 1_000_000
        view = job_view(snapshot, job.configuration, now, job.at_work(), job.waits_for())
        others = [each for each in self._known.items() if each[0] != snapshot.job_id]
        self._known = {**dict(others[-_MOST_KEPT:]), snapshot.job_id: (snapshot, moment, view)}
        return view
