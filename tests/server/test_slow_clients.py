"""Uploads over slow links, and clients that only pretend to have one; in time that is simulated."""

from __future__ import annotations

import asyncio
import selectors
import tempfile
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from uvicorn.server import ServerState

from headrace.server.application import HeldResponse
from headrace.server.bodies import MOST_UPLOADS, Upload, UploadPlaces, receive
from headrace.server.connections import BoundedProtocol
from headrace.server.errors import RestError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

HEAD = b'--b\r\nContent-Disposition: form-data; name="jarfile"; filename="job.zip"\r\n\r\n'
TAIL = b"\r\n--b--\r\n"
MIB = 1 << 20


class SimulatedLoop(asyncio.SelectorEventLoop):
    """A loop that waits for nothing: its clock goes on to whatever comes next."""

    def __init__(self) -> None:
        loop = self

        class Selector(selectors.SelectSelector):
            def select(self, timeout: float | None = None) -> list[Any]:
                loop.now += timeout or 0.0
                return super().select(0)

        self.now = 0.0
        super().__init__(Selector())

    def time(self) -> float:
        return self.now


def simulated(work: Coroutine[Any, Any, Any]) -> Any:
    """What some work comes to."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(work)


class SlowRequest:
    """A request whose body comes in parts, each after a while."""

    headers: ClassVar = {"content-type": "multipart/form-data; boundary=b"}

    def __init__(self, parts: list[tuple[float, bytes]]) -> None:
        self._parts = parts

    async def stream(self) -> AsyncIterator[bytes]:
        for seconds, part in self._parts:
            await asyncio.sleep(seconds)
            yield part


def received(parts: list[tuple[float, bytes]], most: int = 100 * MIB) -> tuple[float, Upload]:
    """How long an upload takes, and what comes of it."""

    async def work() -> tuple[float, Upload]:
        request: Any = SlowRequest(parts)
        upload = await receive(request, file, most)
        return asyncio.get_running_loop().time(), upload

    with tempfile.TemporaryFile() as file:
        seconds, upload = simulated(work())
        assert b"".join(upload.blocks()) == b"".join(part for _, part in parts)[len(HEAD) : -len(TAIL)]
        return seconds, upload


def test_a_large_program_comes_over_a_slow_link() -> None:
    parts = [(0.0, HEAD), *((0.5, bytes(16_384)) for _ in range(640)), (0.0, TAIL)]
    seconds, upload = received(parts)
    assert (seconds, upload.name) == (320.0, "job.zip")


@pytest.mark.parametrize(
    ("parts", "cut_at"),
    [
        ([(0.0, HEAD), *((9.0, b"x") for _ in range(100))], 30),
        ([(0.0, HEAD), *((1.0, bytes(8_192)) for _ in range(1_000))], 60),
        ([(31.0, HEAD)], 30),
        ([(0.0, HEAD), *((10.0, bytes(163_841)) for _ in range(800))], 7_200),
    ],
    ids=["a byte now and then", "half the least rate", "nothing", "for hours"],
)
def test_what_comes_too_slowly_is_refused(parts: list[tuple[float, bytes]], cut_at: int) -> None:
    with pytest.raises(RestError, match=rf"the file comes too slowly: \d+ bytes of it have come in {cut_at} s") as cut:
        received(parts, 1 << 30)
    assert cut.value.status == 408


def test_only_so_many_uploads_are_on_their_way() -> None:
    places = UploadPlaces()
    with ExitStack() as taken:
        for _ in range(MOST_UPLOADS):
            taken.enter_context(places.take())
        with pytest.raises(RestError, match="ask again later"), places.take():
            pass
    with places.take() as place:
        assert place.write(b"x") == 1


class Transport(asyncio.Transport):
    """The transport of a client that reads everything, or nothing."""

    reader: BoundedProtocol | None = None

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.ended: float | None = None

    def write(self, data: Any) -> None:
        self.sent += data
        if self.reader is not None:
            self.reader.pause_writing()

    def abort(self) -> None:
        if self.ended is None:
            self.ended = asyncio.get_running_loop().time()

    def close(self) -> None:
        self.abort()

    def is_closing(self) -> bool:
        return self.ended is not None

    def pause_reading(self) -> None:
        """Nothing: a test sends as it likes."""

    def resume_reading(self) -> None:
        """Likewise."""


async def _count(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the number of bytes in a body; to `/refused` at once."""
    request = Request(scope, receive)
    count = -1 if request.url.path == "/refused" else len(await request.body())
    await PlainTextResponse(str(count))(scope, receive, send)


async def _pour(scope: Any, receive: Any, send: Any) -> None:
    """Answers without end."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while True:
        await send({"type": "http.response.body", "body": bytes(65_536), "more_body": True})
        await asyncio.sleep(0)  # to a client that has gone, sending does nothing and waits for nothing


def test_who_reads_no_answer_is_hung_up_on() -> None:
    async def work() -> tuple[float | None, int]:
        transport = Transport()
        protocol = BoundedProtocol(config=uvicorn.Config(_pour), server_state=ServerState(), app_state={})
        transport.reader = protocol
        protocol.connection_made(transport)
        protocol.data_received(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await asyncio.sleep(100.0)
        protocol.connection_lost(None)
        return transport.ended, len(transport.sent)

    ended, length = simulated(work())
    assert ended == 30.0
    assert length < 200_000


def connected(*sent: tuple[float, bytes], path: str = "/") -> tuple[float | None, bytes]:
    """When the server ends a connection on which something is sent now and then, and what it has answered."""

    async def work() -> tuple[float | None, bytes]:
        transport = Transport()
        protocol = BoundedProtocol(config=uvicorn.Config(_count), server_state=ServerState(), app_state={})
        protocol.connection_made(transport)
        protocol.data_received(f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n".encode())
        for seconds, data in sent:
            await asyncio.sleep(seconds)
            if transport.ended is None:
                protocol.data_received(data)
        await asyncio.sleep(100.0)
        protocol.connection_lost(None)
        return transport.ended, transport.sent

    found: tuple[float | None, bytes] = simulated(work())
    return found


def test_a_connection_stays_while_a_body_comes() -> None:
    ended, answer = connected((25.0, b"a"), (25.0, b"bc"), (25.0, b"def"))
    assert answer.endswith(b"\r\n6")
    assert ended is not None
    assert 75.0 < ended <= 85.0  # and then waits for another request


def test_a_connection_on_which_nothing_comes_is_cut() -> None:
    assert connected((25.0, b"a"), (31.0, b"bcdef")) == (55.0, b"")


def test_a_body_that_nobody_reads_holds_no_connection() -> None:
    ended, answer = connected(*[(4.0, b"a")] * 5, path="/refused")
    assert answer.endswith(b"\r\n-1")
    assert ended is not None
    assert ended <= 10.0


def test_a_long_answer_has_its_place_until_the_client_has_read_it() -> None:
    released: list[int] = []

    async def work() -> list[int]:
        sent: list[int] = []

        async def send(message: Any) -> None:
            sent.append(len(message.get("body", b"")))
            assert not released

        answer = HeldResponse(PlainTextResponse(b"x" * MIB), lambda: released.append(len(sent)))
        await answer({}, None, send)  # type: ignore[arg-type] # it reads nothing
        return sent

    sent = simulated(work())
    assert sum(sent) == MIB
    assert released == [len(sent)]
    assert max(sent) < MIB
