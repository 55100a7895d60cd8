"""Requests of an ``AsyncFunction`` about the numbers of a sequence, by one subtask of headrace.

Options: ``port`` of an :func:`~benchmarks.echo_server.echo_server`, ``records``, ``capacity`` (how many requests are
in flight at most) and ``ordered``, whether results keep the order of their records.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from benchmarks.echo_server import FRAME, HOST, Frames
from benchmarks.outcome import Assignment, Outcome
from benchmarks.programs.counting_sink import CountingSink
from benchmarks.programs.headrace_job import EpochTimes, open_environment, run_job
from headrace.common import Row, Types
from headrace.common.time import Time
from headrace.datastream import AsyncDataStream, AsyncFunction

if TYPE_CHECKING:
    from headrace.datastream import RuntimeContext

_ANSWER = Types.ROW_NAMED(["number"], [Types.LONG()])
_TIMEOUT = Time.seconds(60)


class Client(Frames):
    """A connection on which many requests are under way."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[bytes, asyncio.Future[bytes]] = {}

    def ask(self, number: int) -> asyncio.Future[bytes]:
        """What the server answers; only one request is under way about each number."""
        frame = number.to_bytes(FRAME, "little")
        answer = self._waiting[frame] = asyncio.get_running_loop().create_future()
        self.transport.write(frame)
        return answer

    def frames_received(self, frames: bytes) -> None:
        for start in range(0, len(frames), FRAME):
            frame = frames[start : start + FRAME]
            self._waiting.pop(frame).set_result(frame)


class Ask(AsyncFunction):
    """A request for each number.

    Args:
        port: the server's.
    """

    def __init__(self, port: int) -> None:
        self._port = port

    async def open(self, runtime_context: RuntimeContext) -> None:
        loop = asyncio.get_running_loop()
        self._transport, self._client = await loop.create_connection(Client, HOST, self._port)

    async def async_invoke(self, value: int) -> list[Row]:
        return [Row(number=int.from_bytes(await self._client.ask(value), "little"))]

    async def close(self) -> None:
        self._transport.close()


def run(assignment: Assignment) -> Outcome:
    """Run the job over all numbers."""
    options = assignment.options
    environment = open_environment(assignment, parallelism=1)
    numbers = environment.from_sequence(1, options["records"])
    wait = AsyncDataStream.ordered_wait if options["ordered"] else AsyncDataStream.unordered_wait
    sink = CountingSink((("sum", "number", "sum"),))
    wait(numbers, Ask(options["port"]), _TIMEOUT, options["capacity"], _ANSWER).uid("answers").sink_to(sink)
    times = EpochTimes()
    run_job(environment, times)
    return Outcome(tuple(times.epochs), sink.totals, times.summary())
