"""Flink's own web UI: its files out of a jar, and its requests to a server of jobs."""

import asyncio
import mimetypes
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from headrace.common import server_options as options
from headrace.common.errors import ConfigurationError
from headrace.server.application import error_response, refuse
from headrace.server.bodies import MOST_BYTES, read_body
from headrace.server.client import RestClient, RestClientError
from headrace.server.errors import RestError
from headrace.server.guard import RequestGuard
from headrace.server.routing import REST, Endpoint, RoutedApplication
from headrace.server.settings import RestSettings

_FOLDER: Final = "web/"
_FIRST: Final = "index.html"

_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")

_IN_TARGETS: Final = "/%?:@!$&'()*+,;=~-._"
"""The characters that are kept in the target of a request; others are escaped."""


class FlinkWeb:
    """The files of Flink's web UI.

    Args:
        place: the jar that has them, or the folder.

    Raises:
        ConfigurationError: when they are not there.
    """

    def __init__(self, place: Path) -> None:
        try:
            self._files = dict(_in_folder(place) if place.is_dir() else _in_jar(place))
        except zipfile.BadZipFile:
            raise ConfigurationError(f"{place} is no jar") from None
        if _FIRST not in self._files:
            raise ConfigurationError(
                f"{place} has no {_FOLDER}{_FIRST}: give the jar of org.apache.flink:flink-runtime-web:2.3.0, which is "
                "on Maven Central"
            )

    def file(self, path: str) -> bytes | None:
        """A file by its path; None where there is none."""
        read = self._files.get(path.strip("/") or _FIRST)
        return None if read is None else read()


def _in_jar(place: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    jar = zipfile.ZipFile(place)
    for name in jar.namelist():
        if name.startswith(_FOLDER) and not name.endswith("/"):
            yield name.removeprefix(_FOLDER), partial(jar.read, name)


def _in_folder(place: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    for file in place.rglob("*"):
        if file.is_file():
            yield file.relative_to(place).as_posix(), file.read_bytes


def flink_web_application(web: FlinkWeb, client: RestClient, settings: RestSettings) -> RoutedApplication:
    """The application that shows the UI; it has the rights of the user that started it, so pages of others are refused.

    Args:
        web: the files.
        client: the server of jobs.
        settings: where it is shown.
    """
    answer = partial(_answer, web, client, RequestGuard(settings))
    return RoutedApplication((Endpoint(method, f"/{REST}", answer) for method in _METHODS), refuse)


async def _answer(web: FlinkWeb, client: RestClient, guard: RequestGuard, request: Request) -> Response:
    try:
        guard.check_host(request.headers)
        content = web.file(request.url.path) if request.method == "GET" else None
        if content is not None:
            shown = mimetypes.guess_type(request.url.path if request.url.path != "/" else _FIRST)[0]
            return Response(content, media_type=shown or "application/octet-stream")
        if request.method != "GET" or request.url.path.endswith("/yarn-cancel"):
            guard.check_origin(request.method, request.headers)
        path, query = request.scope["raw_path"], request.scope["query_string"]
        target = quote(path + (b"?" + query if query else b""), safe=_IN_TARGETS)
        is_upload = request.url.path.endswith("/jars/upload")
        body = await read_body(request, options.UPLOAD_LIMIT.default if is_upload else MOST_BYTES)
        sent = request.headers.get("content-type", "application/json")
        status, answer, kind = await asyncio.to_thread(client.relay, request.method, target, body or None, sent)
        return Response(answer, status, {"X-Content-Type-Options": "nosniff"}, kind)
    except RestError as error:
        return error_response(error.status, str(error))
    except RestClientError as error:
        return error_response(HTTPStatus.BAD_GATEWAY, str(error))
