"""Which endpoint answers a path."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import uvicorn
from starlette.responses import PlainTextResponse, Response
from uvicorn.server import ServerState

from headrace.server.application import refuse
from headrace.server.connections import BoundedProtocol
from headrace.server.routing import Endpoint, RoutedApplication, RoutingTable, answers_again
from tests.server.test_slow_clients import Transport, simulated

if TYPE_CHECKING:
    from starlette.requests import Request

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


class Counted:
    """An endpoint that counts who asks it, and answers again what it has answered while that is fresh."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_fresh = True

    async def __call__(self, request: Request) -> Response:
        self.asked += 1
        answer = PlainTextResponse(f"{self.asked}: {request.headers['token']}")
        answers_again(request, lambda: answer if self.is_fresh else None)
        return answer


def answered(endpoint: Counted, requests: list[bytes]) -> list[bytes]:
    """The answers to requests on one connection, without their heads."""

    async def work() -> list[bytes]:
        config = uvicorn.Config(RoutedApplication([Endpoint("GET", "/", endpoint)], refuse), proxy_headers=False)
        transport, found = Transport(), []
        protocol = BoundedProtocol(config=config, server_state=ServerState(), app_state={})
        protocol.connection_made(transport)
        for request in requests:
            transport.sent = b""
            protocol.data_received(request)
            await asyncio.sleep(1.0)
            assert transport.sent.startswith(b"HTTP/1.1 200 OK\r\n")
            found.append(transport.sent.partition(b"\r\n\r\n")[2])
        protocol.connection_lost(None)
        return found

    found: list[bytes] = simulated(work())
    return found


def request_of(token: str, more: str = "", body: str = "") -> bytes:
    return f"GET / HTTP/1.1\r\nToken: {token}\r\n{more}\r\n{body}".encode()


def test_requests_with_one_head_are_answered_again() -> None:
    endpoint = Counted()
    assert answered(endpoint, [request_of("a")] * 4) == [b"1: a"] * 4
    assert endpoint.asked == 1


def test_requests_with_other_heads_or_bodies_are_not() -> None:
    with_body = request_of("a", "Content-Length: 1\r\n", "x")
    requests = [request_of("a"), request_of("b"), request_of("a"), with_body, with_body]
    assert answered(Counted(), requests) == [b"1: a", b"2: b", b"1: a", b"3: a", b"4: a"]


def test_nor_are_those_whose_answer_has_grown_old() -> None:
    endpoint = Counted()
    endpoint.is_fresh = False
    assert answered(endpoint, [request_of("a")] * 2) == [b"1: a", b"2: a"]
