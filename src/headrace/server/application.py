"""The ASGI application: from a request of HTTP to a handler, and back to JSON; and its description by OpenAPI."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any, Final, NoReturn

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

import headrace
from headrace.common.errors import HeadraceError
from headrace.common.masking import log_without_secrets
from headrace.jobmanager.status import JobSnapshot
from headrace.server.bodies import Upload, UploadPlaces, drained, read_body, receive
from headrace.server.dashboard.jobs import DashboardJobs
from headrace.server.dashboard.pages import dashboard_endpoints
from headrace.server.errors import RestError, bad_request, not_found
from headrace.server.guard import CHALLENGE, RequestGuard
from headrace.server.models.cluster import LOG_POSITION, Empty, ErrorResponse, TextFile
from headrace.server.recent_answers import RecentAnswers
from headrace.server.requests import RestRequest, RestService
from headrace.server.routes import ROUTES, RestRoute
from headrace.server.routing import Endpoint, RoutedApplication, answers_again
from headrace.server.wire import SchemaBook, to_document

_FRESH_SECONDS: Final = 0.5
"""An answer is given again for so long, unless what is known of a job has changed."""

_MOST_SECONDS: Final = 3.0
"""The longest that one is reused, as in Flink: clients soon request what it names, which is gone one day."""

_SHARE: Final = 0.003
"""The share of a core for making such answers while many ask."""

_MOST_LONG: Final = 4
"""The largest number of answers of many megabytes that are sent at the same time; other requests wait."""

_BLOCK_BYTES: Final = 1 << 18


def application(service: RestService, routes: Sequence[RestRoute] = ROUTES) -> RoutedApplication:
    """The application that serves jobs.

    Args:
        service: what is served.
        routes: the paths; each is there below ``/v1`` and without.
    """
    guard, places = RequestGuard(service.settings), UploadPlaces()
    recent = RecentAnswers[Response](_FRESH_SECONDS, _MOST_SECONDS, _SHARE)
    long = asyncio.Semaphore(_MOST_LONG)
    described = partial(_described, json_response(openapi(routes), HTTPStatus.OK), guard)
    endpoints = [
        endpoint
        for prefix in ("/v1", "")
        for endpoint in (
            *(
                Endpoint(each.method, prefix + each.path, partial(_answer, each, service, guard, recent, places, long))
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
    recent: RecentAnswers[Response],
    places: UploadPlaces,
    long: asyncio.Semaphore,
    request: Request,
) -> Response:
    try:
        guard.check_host(request.headers)
        if not route.is_open:
            guard.check_token(request.headers)
        if route.changes:
            guard.check_origin(request.method, request.headers)
        if route.is_shared:
            return _shared(route, service, recent, request)
        if route.changes or "triggerid" in request.path_params:
            recent.expire()
        if route.is_upload and service.takes_programs:
            return await _uploaded(route, service, places, request)
        body = await (drained(request) if route.is_drained else read_body(request))
        rest_request = _rest_request(service, request, body)
        return await (_long(route, long, rest_request) if route.is_long else _handled(route, rest_request))
    except RestError as error:
        headers = CHALLENGE if error.status is HTTPStatus.UNAUTHORIZED else {}
        return error_response(error.status, str(error), headers)
    except HeadraceError as error:
        return error_response(HTTPStatus.BAD_REQUEST, str(error))


def _shared(route: RestRoute, service: RestService, recent: RecentAnswers[Response], request: Request) -> Response:
    """An answer that is the same for all clients while the job is as it is; bodies mean nothing to it."""
    key = (request.scope["path"], request.scope["query_string"])
    named = request.path_params.get("jobid")

    def jobs() -> list[JobSnapshot]:
        return [each.snapshot() for each in (service.jobs.all() if named is None else (service.jobs.get(named),))]

    def make() -> Response:
        return json_response(to_document(route.handler(_rest_request(service, request))), route.status)

    def latest() -> Response:
        return recent.get(key, make, jobs())

    answers_again(request, latest)
    return latest()


def _rest_request(
    service: RestService, request: Request, body: bytes = b"", upload: Upload | None = None
) -> RestRequest:
    query = dict(request.query_params) if request.scope["query_string"] else {}
    return RestRequest(service, request.path_params, query, _object(body), upload)


async def _handled(route: RestRoute, rest_request: RestRequest) -> Response:
    found = await asyncio.to_thread(route.handler, rest_request) if route.blocks else route.handler(rest_request)
    return await _text(route, found) if isinstance(found, TextFile) else json_response(to_document(found), route.status)


async def _long(route: RestRoute, places: asyncio.Semaphore, rest_request: RestRequest) -> Response:
    """An answer of many megabytes: from its beginning until it has left it has one of few places."""
    await places.acquire()
    try:
        return HeldResponse(await _handled(route, rest_request), places.release)
    except BaseException:
        places.release()
        raise


class HeldResponse(Response):  # type: ignore[misc] # starlette is not read by mypy
    """An answer that holds something until it has left. It leaves block by block, as the client reads it.

    Args:
        answer: the answer.
        release: lets go.
    """

    def __init__(self, answer: Response, release: Callable[[], None]) -> None:
        super().__init__(status_code=answer.status_code)
        self.body, self.raw_headers = answer.body, answer.raw_headers
        self._release = release

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            for start in range(0, len(self.body), _BLOCK_BYTES):
                block = self.body[start : start + _BLOCK_BYTES]
                await send({"type": "http.response.body", "body": block, "more_body": True})
                await asyncio.sleep(0)  # others have their turn, and whether the client is still there is heard of
            await send({"type": "http.response.body"})
        finally:
            self._release()


async def _text(route: RestRoute, found: TextFile) -> Response:
    text = await asyncio.to_thread(log_without_secrets, found.text)
    return PlainTextResponse(text, route.status, {**_OF_TEXT, LOG_POSITION: found.position})


_OF_TEXT: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


async def _uploaded(route: RestRoute, service: RestService, places: UploadPlaces, request: Request) -> Response:
    with places.take() as place:
        upload = await receive(request, place, service.most_upload_bytes)
        return await _handled(route, _rest_request(service, request, upload=upload))


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
    """The answer to a request without an endpoint, or whose endpoint has failed."""
    return error_response(status, message)


def openapi(routes: Sequence[RestRoute]) -> dict[str, Any]:
    """The document of OpenAPI that describes some routes."""
    book, paths = SchemaBook(), dict[str, dict[str, Any]]()
    error = book.schema_of(ErrorResponse)
    for route in routes:
        path = "/".join(f"{{{part[1:]}}}" if part.startswith(":") else part for part in route.path.split("/"))
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, book, error)
    return {
        "openapi": "3.0.3",
        "info": {"title": "headrace REST API", "version": f"v1/{headrace.__version__}"},
        "servers": [{"url": "/v1"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": book.schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: RestRoute, book: SchemaBook, error: Mapping[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": f"{route.handler.__name__}_{route.path.strip('/').replace('/', '_').replace(':', '')}",
        "description": route.about,
        "parameters": [_parameter(part[1:], "path") for part in route.path.split("/") if part.startswith(":")]
        + [_parameter(name, "query") for name in route.query],
        "responses": {"default": {"description": "It is refused.", "content": {"application/json": {"schema": error}}}},
    }
    if route.body is not None:
        operation["requestBody"] = {"content": {"application/json": {"schema": book.schema_of(route.body)}}}
    if route.answer is not NoReturn:
        is_text = route.answer is TextFile
        schema = {"type": "string"} if is_text else {} if route.answer is Empty else book.schema_of(route.answer)
        content = {"text/plain" if is_text else "application/json": {"schema": schema}}
        response = {"description": HTTPStatus(route.status).phrase, "content": content}
        operation["responses"][str(int(route.status))] = response
    if route.is_open:
        operation["security"] = []
    return operation


def _parameter(name: str, place: str) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": {"type": "string"}}
