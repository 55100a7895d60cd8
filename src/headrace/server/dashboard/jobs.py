"""The jobs that pages show: where they are known, and who is asked for changes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, Protocol

from headrace.server.client import RestClient, RestClientError
from headrace.server.dashboard.job_view import JobView
from headrace.server.dashboard.snapshot_view import job_view
from headrace.server.errors import RestError, not_found
from headrace.server.jobs import ServedJob
from headrace.server.requests import RestRequest, RestService
from headrace.server.wire import from_document, to_document

_FRESH_SECONDS: Final = 0.5


class DashboardJobs(Protocol):
    """The jobs of a dashboard, in this process or anywhere else; from any thread."""

    def views(self) -> Sequence[JobView]:
        """All jobs, in the order of their start."""

    def view(self, job_id: str) -> JobView:
        """A job.

        Raises:
            RestError: when there is none of that id.
        """

    def ask(
        self, method: str, path: tuple[str, ...], query: Mapping[str, object] | None = None, body: Any = None
    ) -> Any:
        """What the REST API answers.

        Args:
            method: of HTTP.
            path: its parts, below ``/v1``.
            query: what follows it.
            body: an object of JSON; None for none.

        Raises:
            HeadraceError: when that is refused.
        """


class ServedDashboard:
    """The jobs of this process.

    Args:
        service: what is served.
        answer: answers a request of the REST API.
    """

    def __init__(self, service: RestService, answer: Answer) -> None:
        self._service = service
        self._answer = answer
        self._known: dict[str, tuple[object, float, JobView]] = {}

    def views(self) -> list[JobView]:
        """All jobs that have begun."""
        return [self._view(job) for job in self._service.jobs.all()]

    def view(self, job_id: str) -> JobView:
        """A job, as it is now or was half a second ago."""
        return self._view(self._service.jobs.get(job_id))

    def ask(
        self, method: str, path: tuple[str, ...], query: Mapping[str, object] | None = None, body: Any = None
    ) -> Any:
        """Have the handler of the path answer."""
        text = {name: str(value) for name, value in (query or {}).items()}
        return to_document(self._answer(method, path, RestRequest(self._service, {}, text, body or {})))

    def _view(self, job: ServedJob) -> JobView:
        snapshot, moment = job.snapshot(), time.monotonic()
        known = self._known.get(snapshot.job_id)
        if known is None or known[0] is not snapshot or moment - known[1] > _FRESH_SECONDS:
            view = job_view(snapshot, job.configuration, time.time_ns() // 1_000_000)
            self._known = {**_of_last(self._known), snapshot.job_id: (snapshot, moment, view)}
            return view
        return known[2]


_MOST_KEPT: Final = 20


def _of_last(known: Mapping[str, tuple[object, float, JobView]]) -> dict[str, tuple[object, float, JobView]]:
    """Those that were asked for last: plans of jobs that are forgotten are not kept in memory."""
    return dict(list(known.items())[-_MOST_KEPT:])


class Answer(Protocol):
    """Answers a request of the REST API by its method and path."""

    def __call__(self, method: str, path: tuple[str, ...], request: RestRequest) -> Any:
        """The model of the answer.

        Raises:
            HeadraceError: when it is refused.
        """


class RemoteDashboard:
    """The jobs of a server of the REST API.

    Args:
        client: asks it.
    """

    def __init__(self, client: RestClient) -> None:
        self._client = client

    def views(self) -> list[JobView]:
        """All of its jobs."""
        return [self.view(str(job["id"])) for job in self.ask("GET", ("jobs",))["jobs"]]

    def view(self, job_id: str) -> JobView:
        """One of its jobs."""
        try:
            view: JobView = from_document(JobView, self._client.get("jobs", job_id, "view"))
        except RestClientError as error:
            raise not_found(str(error)) from None
        except ValueError as error:
            raise RestError(HTTPStatus.BAD_GATEWAY, f"{self._client.address} is of another version: {error}") from None
        return view

    def ask(
        self, method: str, path: tuple[str, ...], query: Mapping[str, object] | None = None, body: Any = None
    ) -> Any:
        """Have the server answer."""
        return self._client.ask(method, path, query, body)
