"""Nobody can exhaust a process by the endpoint of its metrics."""

from __future__ import annotations

import socket
import threading
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from headrace.reporters import prometheus
from headrace.reporters.prometheus import ScrapeEndpoint
from tests.reporters.jobs import free_port
from tests.waiting import wait_for


def hello(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"hello"]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScrapeEndpoint]:
    monkeypatch.setattr(prometheus, "_SECONDS", 0.2)
    made = ScrapeEndpoint("127.0.0.1", [free_port()], hello)
    yield made
    made.close()


def answer(served: ScrapeEndpoint) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{served.port}/metrics", timeout=60) as found:
        text: bytes = found.read()
    return text


def test_idle_connections_take_few_threads_and_are_cut(served: ScrapeEndpoint) -> None:
    before = threading.active_count()
    with ExitStack() as held:
        idle = [
            held.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=60)) for _ in range(200)
        ]
        idle[0].sendall(b"GET /metr")  # and no more
        assert threading.active_count() - before <= 2 * 4, "a thread and a timer for each of four"
        for connection in (idle[0], idle[-1]):
            assert connection.recv(1) == b"", "closed"
        wait_for(lambda: _answers(served))
    assert answer(served) == b"hello"


def _answers(served: ScrapeEndpoint) -> bool:
    try:
        return answer(served) == b"hello"
    except OSError:  # there is no room yet
        return False


def test_what_is_no_http_is_told_nobody(served: ScrapeEndpoint, capfd: pytest.CaptureFixture[str]) -> None:
    for sent in (b"\x16\x03\x01 no HTTP\r\n\r\n", b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n", b""):
        with socket.create_connection(("127.0.0.1", served.port), timeout=60) as connection:
            connection.sendall(sent)
    assert answer(served) == b"hello"
    assert capfd.readouterr().err == ""
