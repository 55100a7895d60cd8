"""The REST API as a document of OpenAPI, made of the table of routes."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, NoReturn

import headrace
from headrace.server.models.cluster import Empty, ErrorResponse, TextFile
from headrace.server.routes import RestRoute
from headrace.server.wire import SchemaBook

_JSON: Final = "application/json"
_TEXT: Final = "text/plain"


def openapi(routes: Sequence[RestRoute]) -> dict[str, Any]:
    """The document of some routes."""
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
        "responses": {"default": {"description": "It is refused.", "content": {_JSON: {"schema": error}}}},
    }
    if route.body is not None:
        operation["requestBody"] = {"content": {_JSON: {"schema": book.schema_of(route.body)}}}
    if route.answer is not NoReturn:
        is_text = route.answer is TextFile
        schema = {"type": "string"} if is_text else {} if route.answer is Empty else book.schema_of(route.answer)
        content = {_TEXT if is_text else _JSON: {"schema": schema}}
        told = {"description": HTTPStatus(route.status).phrase, "content": content}
        operation["responses"][str(int(route.status))] = told
    if route.is_open:
        operation["security"] = []
    return operation


def _parameter(name: str, place: str) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": {"type": "string"}}
