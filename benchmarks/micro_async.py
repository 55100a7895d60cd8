"""How many requests a second asynchronous functions make: ``python benchmarks/micro_async.py``.

A server in a process of its own answers each request 20 ms after it has come. A whole job of one subtask asks it, with
1,000 requests in flight. Then the server answers after 100 ms, and 100 requests are in flight: the memory of
the job is looked at while many more records wait than are answered.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headrace.common import Configuration, Time, Types
from headrace.datastream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from headrace.datastream import RuntimeContext

LONG = Types.LONG()
FRAME = 8


class Server(asyncio.Protocol):
    """Gives each number back after a while."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._rest = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        whole = len(data) - len(data) % FRAME
        self._rest = data[whole:]
        if whole:
            asyncio.get_running_loop().call_later(self._seconds, self._transport.write, data[:whole])


def serve(port: Connection, seconds: float) -> None:
    """The process of the server."""

    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(lambda: Server(seconds), "127.0.0.1", 0)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


@contextmanager
def server(seconds: float) -> Iterator[int]:
    """The port of a server that answers after so many seconds."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs, seconds), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.kill()
        process.join()


class Client(asyncio.Protocol):
    """A connection on which many requests are under way."""

    def __init__(self) -> None:
        self._waiting: dict[bytes, asyncio.Future[bytes]] = {}
        self._rest = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        whole = len(data) - len(data) % FRAME
        self._rest = data[whole:]
        for start in range(0, whole, FRAME):
            key = data[start : start + FRAME]
            self._waiting.pop(key).set_result(key)

    def ask(self, number: int) -> asyncio.Future[bytes]:
        """What the server answers."""
        key = number.to_bytes(FRAME, "little")
        future = self._waiting[key] = asyncio.get_running_loop().create_future()
        self._transport.write(key)
        return future


class Ask(AsyncFunction):
    """A request for each number."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def open(self, runtime_context: RuntimeContext) -> None:
        loop = asyncio.get_running_loop()
        _, self._client = await loop.create_connection(Client, "127.0.0.1", self._port)

    async def async_invoke(self, value: int) -> list[int]:
        return [int.from_bytes(await self._client.ask(value), "little")]


def run(runtime: str, port: int, records: int, capacity: int) -> None:
    """The job, of one subtask; its results are summed up, and the sum is looked at."""
    settings = {"headrace.runtime": runtime, "parallelism.default": "1"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    numbers = env.from_sequence(1, records)
    answers = AsyncDataStream.unordered_wait(numbers, Ask(port), Time.seconds(60), capacity, LONG)
    before, started = cpu_seconds(), time.perf_counter()
    with answers.map_batches(summed, LONG).execute_and_collect() as sums:
        assert sum(sums) == records * (records + 1) // 2
    seconds = time.perf_counter() - started
    print(
        f"{runtime:<6} capacity {capacity:>5,}: {records:>9,} records in {seconds:6.1f} s = {records / seconds:>8,.0f}"
        f" records/s, {cpu_seconds() - before:6.1f} s of CPU, most memory {peak_mebibytes():,.0f} MiB"
    )


def summed(batch: Any) -> Any:
    """One row with the sum of a batch."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pa.RecordBatch.from_arrays([pa.array([pc.sum(batch.column(0)).as_py()])], batch.schema.names)


def cpu_seconds() -> float:
    """Of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_mebibytes() -> float:
    """The most memory that this process has had."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def main() -> None:
    """All figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runtime", choices=["local", "spark"], default="local")
    parser.add_argument("--records", type=int, default=400_000)
    arguments = parser.parse_args()
    with server(0.02) as port:
        for _ in range(3):
            run(arguments.runtime, port, arguments.records, 1000)
    with server(0.1) as port:
        for share in (40, 20, 10):
            run(arguments.runtime, port, arguments.records // share, 100)


if __name__ == "__main__":
    main()
