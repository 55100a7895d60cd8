"""The table of routes: each path of the REST API, who answers it, and with what."""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from headrace.server.handlers import cluster, jobs
from headrace.server.models import cluster as of_cluster
from headrace.server.models import jobs as of_jobs
from headrace.server.requests import RestRequest


@dataclass(frozen=True, slots=True)
class RestRoute:
    """One path and method.

    Attributes:
        method: ``GET``, ``POST``, ``PATCH``, ``PUT`` or ``DELETE``.
        path: the path below ``/v1``, and without that as well; ``:name`` stands for a part of any name.
        handler: answers it.
        answer: the model of the answer.
        about: a sentence for people.
        status: the status of the answer.
        changes: whether it changes something, so that no foreign page may ask for it.
    """

    method: str
    path: str
    handler: Callable[[RestRequest], Any]
    answer: Any
    about: str
    status: HTTPStatus = HTTPStatus.OK

    @property
    def changes(self) -> bool:
        """Whether it changes something: then a page of another site may not ask for it."""
        return self.method != "GET" or self.path.endswith("/yarn-cancel")


ROUTES: Final[tuple[RestRoute, ...]] = (
    RestRoute(
        "GET",
        "/config",
        cluster.dashboard_configuration,
        of_cluster.DashboardConfiguration,
        "What dashboards ask first.",
    ),
    RestRoute("GET", "/overview", cluster.overview, of_cluster.ClusterOverview, "The number of slots and jobs."),
    RestRoute("GET", "/jobs", jobs.job_ids, of_jobs.JobIdsWithStatusOverview, "All jobs, by id."),
    RestRoute("GET", "/jobs/overview", jobs.jobs_overview, of_jobs.MultipleJobsDetails, "All jobs, a line each."),
    RestRoute("GET", "/jobs/:jobid", jobs.job_details, of_jobs.JobDetailsInfo, "A job and its vertices."),
    RestRoute("GET", "/jobs/:jobid/plan", jobs.job_plan, of_jobs.JobPlanInfo, "The graph of a job."),
    RestRoute("GET", "/jobs/:jobid/status", jobs.job_status, of_jobs.JobStatusInfo, "How a job fares."),
)
