"""Which endpoint answers a path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.server.routing import Endpoint, RoutingTable

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

PATHS = (
    ("GET", "/"),
    ("GET", "/jobs"),
    ("GET", "/jobs/:id"),
    ("DELETE", "/jobs/:id"),
    ("GET", "/jobs/overview"),
    ("GET", "/jobs/:id/checkpoints/:number"),
    ("GET", "/jobs/:id/checkpoints/config"),
    ("GET", "/jobs/:id/checkpoints/details/:number"),
    ("GET", "/pages"),
    ("GET", "/pages/*"),
    ("POST", "/pages/form"),
)


async def answers(_: Request) -> Response:
    raise AssertionError("nobody asks")


TABLE = RoutingTable(Endpoint(method, path, answers) for method, path in PATHS)


@pytest.mark.parametrize(
    ("method", "path", "methods", "parameters"),
    [
        ("GET", "/", {"GET"}, {}),
        ("GET", "/jobs", {"GET"}, {}),
        ("GET", "/jobs/7", {"GET", "DELETE"}, {"id": "7"}),
        ("GET", "/jobs/overview", {"GET"}, {}),
        ("DELETE", "/jobs/overview", {"GET", "DELETE"}, {"id": "overview"}),
        ("PATCH", "/jobs/7", {"GET", "DELETE"}, {"id": "7"}),
        ("GET", "/jobs/7/checkpoints/5", {"GET"}, {"id": "7", "number": "5"}),
        ("GET", "/jobs/7/checkpoints/config", {"GET"}, {"id": "7"}),
        ("GET", "/jobs/7/checkpoints/details", {"GET"}, {"id": "7", "number": "details"}),
        ("GET", "/jobs/7/checkpoints/details/3", {"GET"}, {"id": "7", "number": "3"}),
        ("GET", "/pages/any/where", {"GET"}, {}),
        ("GET", "/pages/form", {"GET"}, {}),
        ("POST", "/pages/form", {"POST"}, {}),
        ("GET", "/pages/", {"GET"}, {}),
    ],
)
def test_the_path_that_leaves_less_open_answers(
    method: str, path: str, methods: set[str], parameters: dict[str, str]
) -> None:
    found = TABLE.find(method, path)
    assert found is not None
    assert (set(found.methods), dict(found.parameters)) == (methods, parameters)


@pytest.mark.parametrize("path", ["/nothing", "/jobs/", "/jobs/7/", "/jobs//checkpoints/1", "/jobs/7/more", "", "jobs"])
def test_other_paths_have_nobody(path: str) -> None:
    assert TABLE.find("GET", path) is None
