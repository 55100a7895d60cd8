"""The pages, made on the server: an overview of jobs, one page a job, and the dialogs of its buttons."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from headrace.common.errors import HeadraceError
from headrace.common.logs import get_logger
from headrace.server.bodies import read_body
from headrace.server.dashboard import actions
from headrace.server.dashboard.actions import FormTokens
from headrace.server.dashboard.job_view import JobView
from headrace.server.dashboard.jobs import DashboardJobs
from headrace.server.dashboard.rendering import checkpoint_context, job_context, jobs_context, render
from headrace.server.dashboard.static_files import STATIC, StaticFile
from headrace.server.dashboard.topics_view import topics_view
from headrace.server.errors import RestError, bad_request
from headrace.server.guard import CHALLENGE, RequestGuard
from headrace.server.recent_answers import RecentAnswers
from headrace.server.routing import REST, Endpoint, answers_again
from headrace.server.settings import RestSettings

logger = get_logger(__name__)

_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)

_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_SHARED: Final = {**_HEADERS, "Vary": "Accept-Encoding, HX-Request"}
_SHARED_COMPRESSED: Final = {**_SHARED, "Content-Encoding": "gzip"}
"""The headers of pages that are the same for everybody."""

_HTML: Final = "text/html; charset=utf-8"

_LEAST_SECONDS: Final = 1.0
_MOST_SECONDS: Final = 5.0
"""The shortest and the longest that a page is shown again as it was."""

_SHARE: Final = 0.005
"""The share of a core for making pages while many ask."""

_LEVEL: Final = 4
"""The compression level of pages."""

_Handler = Callable[["Dashboard", Request], Awaitable[Response]]


class SharedPage(NamedTuple):
    """A page that is the same for everybody, as it is and by gzip."""

    plain: Response
    compressed: Response

    def answer(self, is_compressed: bool) -> Response:
        """The page as a client takes it."""
        return self.compressed if is_compressed else self.plain


@dataclass(frozen=True, slots=True)
class Dashboard:
    """The sources of what pages show.

    Attributes:
        jobs: the jobs.
        guard: the rules of access.
        refresh_millis: how often pages ask for what is new.
        tokens: those of forms.
        recent: pages without forms, which are the same for everybody.
    """

    jobs: DashboardJobs
    guard: RequestGuard
    refresh_millis: int
    tokens: FormTokens
    recent: RecentAnswers[SharedPage]

    def page(self, template: str, status: HTTPStatus = HTTPStatus.OK, **context: Any) -> Response:
        """A page or a part of one."""
        return Response(self.text(template, context), status, _HEADERS, _HTML)

    def text(self, template: str, context: Mapping[str, Any]) -> str:
        """A page or a part of one, as text."""
        more = {"refresh_millis": self.refresh_millis, "now": time.time_ns() // 1_000_000}
        return render(template, **more, **context)

    async def shared(
        self, request: Request, key: tuple[str, ...], context: Callable[[], Mapping[str, Any]]
    ) -> Response:
        """A page that is the same for everybody, as it was a few seconds ago at most.

        Args:
            request: that of the client.
            key: which page; the name of the template first.
            context: what that is given; from a thread that may wait.
        """
        found = self.recent.fresh(key)
        if found is None:
            make = partial(self._shared, key[0], context)
            found = await asyncio.to_thread(self.recent.get, key, make)
        is_compressed = "gzip" in request.headers.get("accept-encoding", "")
        answers_again(request, partial(self._again, key, is_compressed))
        return found.answer(is_compressed)

    def _again(self, key: tuple[str, ...], is_compressed: bool) -> Response | None:
        found = self.recent.fresh(key)
        return None if found is None else found.answer(is_compressed)

    def _shared(self, template: str, context: Callable[[], Mapping[str, Any]]) -> SharedPage:
        text = self.text(template, context()).encode(errors="replace")
        compressed = gzip.compress(text, _LEVEL, mtime=0)
        return SharedPage(
            Response(text, HTTPStatus.OK, _SHARED, _HTML),
            Response(compressed, HTTPStatus.OK, _SHARED_COMPRESSED, _HTML),
        )


def dashboard_endpoints(jobs: DashboardJobs, settings: RestSettings) -> list[Endpoint]:
    """The endpoint of the pages.

    Args:
        jobs: the jobs that are shown.
        settings: the rules of access, and how often pages are refreshed.
    """
    recent = RecentAnswers[SharedPage](_LEAST_SECONDS, _MOST_SECONDS, _SHARE)
    dashboard = Dashboard(jobs, RequestGuard(settings), settings.refresh_millis, FormTokens(), recent)
    return [Endpoint(method, path, partial(_answered, handler, dashboard)) for method, path, handler in _PATHS]


async def _answered(handler: _Handler, dashboard: Dashboard, request: Request) -> Response:
    """Errors are pages as well: of clients without access, and of what fails."""
    try:
        dashboard.guard.check_host(request.headers)
        dashboard.guard.check_token(request.headers)
        if request.method != "GET":
            dashboard.guard.check_origin(request.method, request.headers)
        return await handler(dashboard, request)
    except RestError as error:
        return _refused(dashboard, request, error.status, str(error))
    except HeadraceError as error:
        return _refused(dashboard, request, HTTPStatus.BAD_REQUEST, str(error))
    except Exception as error:
        logger.exception("%s %s failed", request.method, request.url.path)
        text = f"{type(error).__name__}: see the log of the job"
        return _refused(dashboard, request, HTTPStatus.INTERNAL_SERVER_ERROR, text)


def _refused(dashboard: Dashboard, request: Request, status: HTTPStatus, message: str) -> Response:
    template = "_error.html" if _is_part(request) else "error.html"
    answer = dashboard.page(template, status, answered=status, message=message)
    if status is HTTPStatus.UNAUTHORIZED:
        answer.headers.update(CHALLENGE)
    return answer


def _is_part(request: Request) -> bool:
    """Return whether it is the request of a page's script, for a part of it."""
    return bool(request.headers.get("hx-request") == "true")


async def _front(dashboard: Dashboard, _: Request) -> Response:
    """The only job, or the list of all."""
    views = await asyncio.to_thread(dashboard.jobs.views)
    place = _place_of(views[0].id) if len(views) == 1 else "/dashboard"
    return RedirectResponse(place, HTTPStatus.SEE_OTHER, _HEADERS)


async def _overview(dashboard: Dashboard, request: Request) -> Response:
    template = "_jobs.html" if _is_part(request) else "jobs.html"
    jobs = dashboard.jobs
    return await dashboard.shared(request, (template,), lambda: jobs_context(jobs.views()))


async def _topics(dashboard: Dashboard, request: Request) -> Response:
    template = "_topics.html" if _is_part(request) else "topics.html"
    jobs = dashboard.jobs
    return await dashboard.shared(request, (template,), lambda: {"topics": topics_view(jobs.served())})


async def _job(dashboard: Dashboard, request: Request) -> Response:
    template, job_id = "_live.html" if _is_part(request) else "job.html", _id(request)
    jobs = dashboard.jobs
    return await dashboard.shared(
        request, (template, job_id), lambda: job_context(jobs.view(job_id), jobs.lineage(job_id), jobs.logs(job_id))
    )


async def _checkpoint(dashboard: Dashboard, request: Request) -> Response:
    job_id, number = _id(request), str(request.path_params["number"])
    return await asyncio.to_thread(_page_of_checkpoint, dashboard, job_id, number)


def _page_of_checkpoint(dashboard: Dashboard, job_id: str, number: str) -> Response:
    checkpoint = dashboard.jobs.checkpoint(job_id, number)
    return dashboard.page("checkpoint.html", **checkpoint_context(dashboard.jobs.view(job_id), checkpoint))


async def _log(dashboard: Dashboard, request: Request) -> Response:
    job_id, name = _id(request), str(request.path_params["name"])
    return await asyncio.to_thread(_page_of_log, dashboard, job_id, name)


def _page_of_log(dashboard: Dashboard, job_id: str, name: str) -> Response:
    text, is_cut = dashboard.jobs.log(job_id, name)
    job, logs = dashboard.jobs.view(job_id), dashboard.jobs.logs(job_id)
    return dashboard.page("log.html", job=job, name=name, text=text, is_cut=is_cut, logs=logs)


async def _question(dashboard: Dashboard, request: Request) -> Response:
    """The question of a button."""
    action = actions.action_of(request.path_params["action"])
    job = await asyncio.to_thread(dashboard.jobs.view, _id(request))
    return _form(dashboard, request, job, action)


def _form(
    dashboard: Dashboard,
    request: Request,
    job: JobView,
    action: actions.JobAction,
    form: Mapping[str, str] | None = None,
) -> Response:
    template = "_question.html" if _is_part(request) else "question.html"
    token, given = dashboard.tokens.of(job.id), form or {}
    return dashboard.page(template, job=job, action=action, token=token, form=given, error=given.get("error", ""))


async def _do(dashboard: Dashboard, request: Request) -> Response:
    """The answer was yes."""
    action, job_id = actions.action_of(request.path_params["action"]), _id(request)
    form = _fields(await read_body(request))
    dashboard.tokens.check(job_id, form.get("token", ""))
    job = await asyncio.to_thread(dashboard.jobs.view, job_id)
    try:
        trigger = await asyncio.to_thread(actions.begin, dashboard.jobs, job, action, form)
    except HeadraceError as error:
        return _form(dashboard, request, job, action, {**form, "error": str(error)})
    place = f"{_place_of(job_id)}/actions/{action.name}/outcome?trigger={quote(trigger, safe='')}"
    return RedirectResponse(place, HTTPStatus.SEE_OTHER, _HEADERS)


async def _outcome(dashboard: Dashboard, request: Request) -> Response:
    """Return its outcome; the page looks again until it is over."""
    action, trigger = actions.action_of(request.path_params["action"]), request.query_params.get("trigger", "")
    job = await asyncio.to_thread(dashboard.jobs.view, _id(request))
    found = await asyncio.to_thread(actions.outcome, dashboard.jobs, job.id, action, trigger)
    template = "_outcome.html" if _is_part(request) else "outcome.html"
    answer = dashboard.page(template, job=job, action=action, outcome=found, trigger=trigger)
    if not (found.is_over or _is_part(request)):
        answer.headers["Refresh"] = "2"
    return answer


def _fields(body: bytes) -> dict[str, str]:
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=20))
    except ValueError as error:
        raise bad_request(f"the form cannot be read: {error}") from None


def _id(request: Request) -> str:
    return str(request.path_params["job_id"])


def _place_of(job_id: str) -> str:
    return f"/dashboard/jobs/{quote(job_id, safe='')}"


async def _static(_: Dashboard, request: Request) -> Response:
    """A file of the pages; its address has a digest of its content, so that browsers may keep it."""
    file: StaticFile | None = STATIC.get(request.path_params["name"])
    if file is None:
        raise RestError(HTTPStatus.NOT_FOUND, f"there is no file {request.path_params['name']!r}")
    kept = {"Cache-Control": "private, max-age=31536000, immutable"}
    return Response(file.content, HTTPStatus.OK, {**_HEADERS, **kept}, file.media_type)


async def _missing(_: Dashboard, request: Request) -> Response:
    raise RestError(HTTPStatus.NOT_FOUND, f"there is no page {request.url.path!r}")


_JOB: Final = "/dashboard/jobs/:job_id"

_PATHS: Final[tuple[tuple[str, str, _Handler], ...]] = (
    ("GET", "/", _front),
    ("GET", "/dashboard", _overview),
    ("GET", "/dashboard/topics", _topics),
    ("GET", _JOB, _job),
    ("GET", f"{_JOB}/checkpoints/:number", _checkpoint),
    ("GET", f"{_JOB}/logs/:name", _log),
    ("GET", f"{_JOB}/actions/:action", _question),
    ("POST", f"{_JOB}/actions/:action", _do),
    ("GET", f"{_JOB}/actions/:action/outcome", _outcome),
    ("GET", "/dashboard/static/:digest/:name", _static),
    ("GET", f"/dashboard/{REST}", _missing),
)
