"""Which endpoint answers a path."""

from __future__ import annotations

import asyncio
import re
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
        self.application = RoutedApplication([Endpoint("GET", "/", self)], refuse)

    async def __call__(self, request: Request) -> Response:
        self.asked += 1
        answer = PlainTextResponse(f"{self.asked}: {request.headers['token']}")
        answers_again(request, lambda: answer if self.is_fresh else None)
        return answer


ANSWER = re.compile(rb"HTTP/1.1 200 OK\r\n(?:[^:\r]+: [^\r]+\r\n)+\r\n(\d+: [a-z])")


def talked(endpoint: Counted, parts: list[bytes], pause: float = 1.0) -> tuple[list[bytes], float | None]:
    """The answers on one connection on which something is sent now and then, and when that ended after all of it."""

    async def work() -> tuple[list[bytes], float | None]:
        config = uvicorn.Config(endpoint.application, proxy_headers=False)
        transport = Transport()
        protocol = BoundedProtocol(config=config, server_state=ServerState(), app_state={})
        protocol.connection_made(transport)
        for part in parts:
            protocol.data_received(part)
            await asyncio.sleep(pause)
        sent_until = asyncio.get_running_loop().time() - pause
        await asyncio.sleep(100.0)
        protocol.connection_lost(None)
        assert ANSWER.sub(b"", transport.sent) == b""
        return ANSWER.findall(transport.sent), None if transport.ended is None else transport.ended - sent_until

    found: tuple[list[bytes], float | None] = simulated(work())
    return found


def answered(endpoint: Counted, parts: list[bytes]) -> list[bytes]:
    """The answers on one connection, without their heads."""
    return talked(endpoint, parts)[0]


def request_of(token: str, more: str = "", body: str = "") -> bytes:
    return f"GET / HTTP/1.1\r\nToken: {token}\r\n{more}\r\n{body}".encode()


def test_requests_with_the_same_bytes_are_answered_again() -> None:
    endpoint = Counted()
    assert answered(endpoint, [request_of("a")] * 4) == [b"1: a"] * 4
    assert endpoint.asked == 1


def test_others_are_not() -> None:
    bodies = [request_of("a", "Content-Length: 1\r\n", body) for body in ("x", "x", "y")]
    requests = [request_of("a"), request_of("b"), request_of("a"), *bodies]
    assert answered(Counted(), requests) == [b"1: a", b"2: b", b"1: a", b"3: a", b"3: a", b"4: a"]


def test_nor_is_what_has_the_bytes_of_a_request_and_is_the_body_of_another() -> None:
    inner = request_of("a")
    outer = request_of("b", f"Content-Length: {len(inner)}\r\n")
    assert answered(Counted(), [inner, outer, inner, inner]) == [b"1: a", b"2: b", b"1: a"]


def test_requests_that_come_in_parts_or_several_at_once_are_read() -> None:
    request = request_of("a")
    assert answered(Counted(), [request[:9], request[9:], request, request[:9], request[9:]]) == [
        b"1: a",
        b"2: a",
        b"3: a",
    ]
    assert answered(Counted(), [request * 2, request * 2]) == [b"1: a", b"2: a", b"3: a", b"4: a"]


def test_a_request_after_which_the_connection_ends_is_not_answered_again() -> None:
    endpoint, request = Counted(), request_of("a", "Connection: close\r\n")
    assert [answered(endpoint, [request]) for _ in range(2)] == [[b"1: a"], [b"2: a"]]


@pytest.mark.parametrize("is_fresh", [True, False])
def test_who_asks_again_and_again_stays_connected_and_who_is_silent_does_not(is_fresh: bool) -> None:
    endpoint = Counted()
    endpoint.is_fresh = is_fresh
    answers, ended_after = talked(endpoint, [request_of("a")] * 20, pause=4.0)
    assert len(answers) == 20
    assert ended_after == 5.0


def test_nor_are_those_whose_answer_has_grown_old() -> None:
    endpoint = Counted()
    endpoint.is_fresh = False
    assert answered(endpoint, [request_of("a")] * 2) == [b"1: a", b"2: a"]
