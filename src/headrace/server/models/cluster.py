"""The process as a whole: what Flink calls the cluster."""

from collections.abc import Mapping, Sequence

from headrace.server.wire import model, wire


@model
class Empty:
    """Nothing is to be told."""


@model
class ErrorResponse:
    """Why there is no answer."""

    errors: Sequence[str]


@model
class ClusterOverview:
    """The number of slots and jobs."""

    taskmanagers: int
    taskmanagers_blocked: int = wire("taskmanagers-blocked")
    slots_total: int = wire("slots-total")
    slots_available: int = wire("slots-available")
    slots_free_and_blocked: int = wire("slots-free-and-blocked")
    jobs_running: int = wire("jobs-running")
    jobs_finished: int = wire("jobs-finished")
    jobs_cancelled: int = wire("jobs-cancelled")
    jobs_failed: int = wire("jobs-failed")
    flink_version: str = wire("flink-version")
    flink_commit: str = wire("flink-commit")


@model
class DashboardFeatures:
    """What a dashboard offers."""

    web_submit: bool = wire("web-submit")
    web_cancel: bool = wire("web-cancel")
    web_rescale: bool = wire("web-rescale")
    web_history: bool = wire("web-history")


@model
class DashboardConfiguration:
    """What a dashboard has to know before anything else."""

    refresh_interval: int = wire("refresh-interval")
    timezone_name: str = wire("timezone-name")
    timezone_offset: int = wire("timezone-offset")
    flink_version: str = wire("flink-version")
    flink_revision: str = wire("flink-revision")
    features: DashboardFeatures


@model
class ConfigurationEntry:
    """A key and its value; secrets are masked."""

    key: str
    value: str


@model
class Health:
    """Whether a probe is content, and of each job how it fares."""

    status: str
    jobs: Mapping[str, str]
