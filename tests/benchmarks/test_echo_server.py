"""The service that asynchronous requests are measured with, and the client that asks it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from benchmarks.echo_server import FRAME, HOST, echo_server
from benchmarks.programs.headrace_async import Client


def test_each_request_comes_back_on_one_connection() -> None:
    numbers = [*range(3_000), 1 << 60]

    async def ask(port: int) -> Sequence[bytes]:
        transport, client = await asyncio.get_running_loop().create_connection(Client, HOST, port)
        answers = await asyncio.gather(*map(client.ask, numbers))
        transport.close()
        return answers

    with echo_server(0.001) as port:
        answers = asyncio.run(ask(port))
    assert [int.from_bytes(answer, "little") for answer in answers] == numbers


def test_frames_may_come_in_pieces() -> None:
    class Silent(asyncio.Transport):
        def write(self, data: object) -> None:
            pass

    async def ask() -> list[bool]:
        client = Client()
        client.connection_made(Silent())
        asked = [client.ask(number) for number in (1, 2)]
        answer = b"".join(number.to_bytes(FRAME, "little") for number in (1, 2))
        seen = []
        for piece in (answer[:3], answer[3 : FRAME + 1], answer[FRAME + 1 :]):
            client.data_received(piece)
            seen += [future.done() for future in asked]
        return seen

    assert asyncio.run(ask()) == [False, False, True, False, True, True]
