"""The ASGI application: from a request of HTTP to a handler, and back to JSON."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from headrace.common.errors import HeadraceError
from headrace.common.logs import get_logger
from headrace.server.bodies import drained, read_body
from headrace.server.dashboard.jobs import DashboardJobs
from headrace.server.dashboard.pages import dashboard_routes
from headrace.server.errors import RestError, bad_request, not_found
from headrace.server.guard import CHALLENGE, RequestGuard
from headrace.server.models.cluster import TextFile
from headrace.server.openapi import openapi
from headrace.server.requests import RestRequest, RestService
from headrace.server.routes import ROUTES, RestRoute
from headrace.server.uploads import Upload, place_for_upload, receive
from headrace.server.wire import to_document

logger = get_logger(__name__)


def application(service: RestService, routes: Sequence[RestRoute] = ROUTES) -> Starlette:
    """The application that serves jobs.

    Args:
        service: what is served.
        routes: the paths; each is there below ``/v1`` and without.
    """
    guard = RequestGuard(service.settings)
    described = partial(_described, json_response(openapi(routes), HTTPStatus.OK), guard)
    paths = [
        path
        for prefix in ("/v1", "")
        for path in (
            *(_path(prefix, route, service, guard) for route in routes),
            Route(f"{prefix}/openapi.json", described, methods=["GET"]),
        )
    ]
    pages = dashboard_routes(DashboardJobs(service, partial(answer, routes)), service.settings)
    made = Starlette(
        routes=[*paths, *pages],
        exception_handlers={HTTPException: _http_error, Exception: _unexpected},
    )
    made.router.redirect_slashes = False
    return made


def _path(prefix: str, route: RestRoute, service: RestService, guard: RequestGuard) -> Route:
    path = "/".join(f"{{{part[1:]}}}" if part.startswith(":") else part for part in route.path.split("/"))
    made = Route(prefix + path, partial(_answer, route, service, guard), methods=[route.method])
    made.methods = {route.method}  # Starlette adds HEAD, for which nobody asks
    return made


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


async def _answer(route: RestRoute, service: RestService, guard: RequestGuard, request: Request) -> Response:
    try:
        guard.check_host(request.headers)
        if not route.is_open:
            guard.check_token(request.headers)
        if route.changes:
            guard.check_origin(request.headers)
        if route.is_upload and service.takes_programs:
            return await _uploaded(route, service, request)
        body = await (drained(request) if route.is_drained else read_body(request))
        return await _handled(route, _asked(service, request, body))
    except RestError as error:
        headers = CHALLENGE if error.status is HTTPStatus.UNAUTHORIZED else {}
        return error_response(error.status, str(error), headers)
    except HeadraceError as error:
        return error_response(HTTPStatus.BAD_REQUEST, str(error))


def _asked(service: RestService, request: Request, body: bytes = b"", upload: Upload | None = None) -> RestRequest:
    return RestRequest(service, request.path_params, dict(request.query_params), _object(body), upload)


async def _handled(route: RestRoute, asked: RestRequest) -> Response:
    found = await asyncio.to_thread(route.handler, asked) if route.blocks else route.handler(asked)
    if isinstance(found, TextFile):
        return PlainTextResponse(found.text, route.status, _OF_TEXT)
    return json_response(to_document(found), route.status)


_OF_TEXT: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


async def _uploaded(route: RestRoute, service: RestService, request: Request) -> Response:
    with place_for_upload() as place:
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


async def _http_error(request: Request, error: Exception) -> Response:
    """What Starlette refuses by itself: paths and methods that there are none of."""
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    what = f"Not found: {request.url.path}" if status is HTTPStatus.NOT_FOUND else f"{status.phrase}: {request.method}"
    return error_response(status, what)


async def _unexpected(request: Request, error: Exception) -> Response:
    logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return error_response(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: see the log of the job")
