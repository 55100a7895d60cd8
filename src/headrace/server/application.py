"""The ASGI application: from a request of HTTP to a handler, and back to JSON."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from headrace.common.errors import HeadraceError
from headrace.common.masking import log_without_secrets
from headrace.server.bodies import drained, read_body
from headrace.server.dashboard.jobs import DashboardJobs
from headrace.server.dashboard.pages import dashboard_endpoints
from headrace.server.errors import RestError, bad_request, not_found
from headrace.server.guard import CHALLENGE, RequestGuard
from headrace.server.models.cluster import LOG_POSITION, TextFile
from headrace.server.openapi import openapi
from headrace.server.recent_answers import RecentAnswers
from headrace.server.requests import RestRequest, RestService
from headrace.server.routes import ROUTES, RestRoute
from headrace.server.routing import Endpoint, RoutedApplication
from headrace.server.uploads import Upload, UploadPlaces, receive
from headrace.server.wire import to_document


def application(service: RestService, routes: Sequence[RestRoute] = ROUTES) -> RoutedApplication:
    """The application that serves jobs.

    Args:
        service: what is served.
        routes: the paths; each is there below ``/v1`` and without.
    """
    guard, recent, places = RequestGuard(service.settings), RecentAnswers(), UploadPlaces()
    described = partial(_described, json_response(openapi(routes), HTTPStatus.OK), guard)
    endpoints = [
        endpoint
        for prefix in ("/v1", "")
        for endpoint in (
            *(
                Endpoint(each.method, prefix + each.path, partial(_answer, each, service, guard, recent, places))
                for each in routes
            ),
            Endpoint("GET", f"{prefix}/openapi.json", described),
        )
    ]
    pages = dashboard_endpoints(DashboardJobs(service, partial(answer, routes)), service.settings)
    return RoutedApplication((*endpoints, *pages), refuse)


def answer(routes: Sequence[RestRoute], method: str, path: tuple[str, ...], request: RestRequest) -> Any:
    """The model of the answer to a request that comes from this process.

    Args:
        routes: the paths that there are.
        method: that of the request.
        path: its parts.
        request: the request, without the parameters of its path.

    Raises:
        HeadraceError: when it is refused.
    """
    for route in routes:
        parameters = route.parameters(path) if route.method == method else None
        if parameters is not None:
            return route.handler(replace(request, parameters=parameters))
    raise not_found(f"Not found: /{'/'.join(path)}")


async def _described(document: Response, guard: RequestGuard, request: Request) -> Response:
    """The document of OpenAPI, which says nothing of any job."""
    try:
        guard.check_host(request.headers)
    except RestError as error:
        return error_response(error.status, str(error))
    return document


async def _answer(
    route: RestRoute,
    service: RestService,
    guard: RequestGuard,
    recent: RecentAnswers,
    places: UploadPlaces,
    request: Request,
) -> Response:
    try:
        guard.check_host(request.headers)
        if not route.is_open:
            guard.check_token(request.headers)
        if route.changes:
            guard.check_origin(request.headers)
        if route.is_shared:
            return _shared(route, service, recent, request)
        if route.is_upload and service.takes_programs:
            return await _uploaded(route, service, places, request)
        body = await (drained(request) if route.is_drained else read_body(request))
        return await _handled(route, _asked(service, request, body))
    except RestError as error:
        headers = CHALLENGE if error.status is HTTPStatus.UNAUTHORIZED else {}
        return error_response(error.status, str(error), headers)
    except HeadraceError as error:
        return error_response(HTTPStatus.BAD_REQUEST, str(error))


def _shared(route: RestRoute, service: RestService, recent: RecentAnswers, request: Request) -> Response:
    """An answer that is the same for everybody who asks while the job is as it is; bodies mean nothing to it."""
    key = (request.scope["path"], request.scope["query_string"])
    named = request.path_params.get("jobid")
    jobs = [each.snapshot() for each in (service.jobs.all() if named is None else (service.jobs.get(named),))]
    found = recent.get(key, jobs)
    if found is None:
        found = json_response(to_document(route.handler(_asked(service, request))), route.status)
        recent.keep(key, jobs, found)
    return found


def _asked(service: RestService, request: Request, body: bytes = b"", upload: Upload | None = None) -> RestRequest:
    query = dict(request.query_params) if request.scope["query_string"] else {}
    return RestRequest(service, request.path_params, query, _object(body), upload)


async def _handled(route: RestRoute, asked: RestRequest) -> Response:
    found = await asyncio.to_thread(route.handler, asked) if route.blocks else route.handler(asked)
    if isinstance(found, TextFile):
        text = await asyncio.to_thread(log_without_secrets, found.text)
        return PlainTextResponse(text, route.status, {**_OF_TEXT, LOG_POSITION: found.position})
    return json_response(to_document(found), route.status)


_OF_TEXT: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


async def _uploaded(route: RestRoute, service: RestService, places: UploadPlaces, request: Request) -> Response:
    with places.take() as place:
        upload = await receive(request, place, service.most_upload_bytes)
        return await _handled(route, _asked(service, request, upload=upload))


def _object(body: bytes) -> dict[str, Any]:
    """The object in a body.

    Raises:
        RestError: when there is something else.
    """
    if not body.strip():
        return {}
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"the body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise bad_request("the body has to be a JSON object")
    return found


def json_response(document: Any, status: HTTPStatus, headers: dict[str, str] | None = None) -> Response:
    """A document as an answer."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    given = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", **(headers or {})}
    content = text.encode(errors="backslashreplace")
    return Response(content, status, given, "application/json; charset=UTF-8")


def error_response(status: HTTPStatus, message: str, headers: dict[str, str] | None = None) -> Response:
    """An error as Flink's clients read it."""
    return json_response({"errors": [message]}, status, headers)


def refuse(_: Request, status: HTTPStatus, message: str) -> Response:
    """What nobody answers, or whose endpoint has failed."""
    return error_response(status, message)
