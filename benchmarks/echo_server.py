"""A service for asynchronous requests: a process of its own that gives each request back after a while."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

HOST = "127.0.0.1"
FRAME = 8
"""Bytes of a request, and of its answer."""


class Frames(asyncio.Protocol):
    """One end of a connection: the frames that come in, each of them whole.

    Attributes:
        transport: where frames are sent.
    """

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        whole = len(data) - len(data) % FRAME
        self._rest = data[whole:]
        if whole:
            self.frames_received(data[:whole])

    def frames_received(self, frames: bytes) -> None:
        """Some frames have come, one after the other."""
        raise NotImplementedError


class _Echo(Frames):
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def frames_received(self, frames: bytes) -> None:
        asyncio.get_running_loop().call_later(self._seconds, self.transport.write, frames)


@contextmanager
def echo_server(seconds: float) -> Iterator[int]:
    """The port of a server that answers after so many seconds; it is gone afterwards."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs, seconds), daemon=True)
    process.start()
    theirs.close()  # so that a server that does not come up is the end of the file, and nobody waits for it
    try:
        yield ours.recv()
    finally:
        process.kill()
        process.join()


def _serve(port: Connection, seconds: float) -> None:
    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(lambda: _Echo(seconds), HOST, 0)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())
