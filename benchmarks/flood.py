"""Clients of a job's server, in a process of their own: ``python -m benchmarks.flood ADDRESS RATE``.

Lines of their standard input tell them what to do: ``job ID``, the job that they ask for; ``ask KIND``, begin; ``end``,
end, and say how often they were answered.
"""

from __future__ import annotations

import json
import queue
import re
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

_CLIENTS = 4
_TIMEOUT_SECONDS = 30.0
_ROOT = Path(__file__).resolve().parent.parent

NOBODY = "nobody"
"""The clients work as ever, and answer themselves."""

_OF_BROWSER = {"HX-Request": "true", "Accept-Encoding": "gzip"}
"""The headers of a browser that refreshes its page."""

_KINDS: Mapping[str, Sequence[tuple[str, Mapping[str, str]]]] = {
    "rest": [
        ("/v1/overview", {}),
        ("/v1/jobs/overview", {}),
        ("/v1/jobs/{job}", {}),
        ("/v1/jobs/{job}/checkpoints", {}),
        ("/v1/jobs/{job}/exceptions", {}),
        ("/v1/jobs/{job}/metrics?get=numRecordsIn", {}),
    ],
    "pages": [("/dashboard", _OF_BROWSER), ("/dashboard/jobs/{job}", _OF_BROWSER)],
    NOBODY: [("/v1/jobs/{job}", {})],
}
"""What is asked for in turn, with headers."""

KINDS = ("rest", "pages")

_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)
_OWN_SECONDS = 0.0005
"""The time that an answer of their own takes, which is about that of a server."""

_OWN_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2048\r\n\r\n" + bytes(2048)


class FloodError(Exception):
    """The clients were not answered as often as they were to ask."""


@dataclass(slots=True)
class Answered:
    """What clients were answered while they asked.

    Attributes:
        statuses: the number of answers of each status.
        seconds: for how long they have asked.
        processor: the CPU time of the clients themselves.
    """

    statuses: Mapping[str, int]
    seconds: float
    processor: float

    @property
    def rate(self) -> float:
        """Answers in a second."""
        return sum(self.statuses.values()) / self.seconds if self.seconds else 0.0


class Flood:
    """The clients of a server.

    Args:
        address: the address of the server.
        rate: the requests of all of them in a second.
    """

    def __init__(self, address: str, rate: int) -> None:
        self._command = [sys.executable, "-m", "benchmarks.flood", address, str(rate)]
        self._rate = rate
        self._answered: Answered | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def tell_job(self, job_id: str) -> None:
        """From now on they ask for this job."""
        self._tell(f"job {job_id}")

    @contextmanager
    def asks(self, kind: str) -> Iterator[None]:
        """Inside, they ask.

        Raises:
            FloodError: when an answer was no success, or they could not keep their rate.
        """
        self._tell(f"ask {kind}")
        yield
        self._tell("end")
        assert self._process.stdout is not None
        found = Answered(**json.loads(self._process.stdout.readline()))
        if set(found.statuses) != {"200"} or found.rate < 0.9 * self._rate:
            raise FloodError(f"{kind}: {found}, and {self._rate} in a second were to be asked for")
        self._answered = found

    def answered(self) -> Answered:
        """What they were answered last."""
        assert self._answered is not None, "they have asked"
        return self._answered

    def _tell(self, order: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()


class _Connection:
    """A connection that is kept, with one request after the other.

    Args:
        host: the host of the server.
        port: its port.
    """

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), _TIMEOUT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        self._socket.close()

    def ask(self, request: bytes) -> int:
        """The status of the answer."""
        self._socket.sendall(request)
        answer = self._more(b"")
        while b"\r\n\r\n" not in answer:
            answer = self._more(answer)
        length = _LENGTH.search(answer)
        assert length is not None, "the server tells how long its answers are"
        until = answer.index(b"\r\n\r\n") + 4 + int(length[1])
        while len(answer) < until:
            answer = self._more(answer)
        return int(answer[9:12])

    def _more(self, answer: bytes) -> bytes:
        found = self._socket.recv(1 << 16)
        if not found:
            raise FloodError("the server has hung up")
        return answer + found


class _OwnConnection(_Connection):
    """A connection whose other end is here, too: it costs a client what the others do, and no server anything.

    That includes the wait for the answer: a client that is woken up twice disturbs who shares the machine with it.
    """

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            super().__init__(*listener.getsockname())
            self._other, _ = listener.accept()

    def close(self) -> None:
        super().close()
        self._other.close()

    def ask(self, request: bytes) -> int:
        self._socket.sendall(request)
        self._other.recv(1 << 16)
        time.sleep(_OWN_SECONDS)
        self._other.sendall(_OWN_ANSWER)
        return super().ask(b"")


class _Clients:
    """Clients that ask for the job that runs, each over a connection of its own.

    Args:
        address: the address of the server.
        rate: the requests of all in a second.
    """

    def __init__(self, address: str, rate: int) -> None:
        parts = urlsplit(address)
        assert parts.hostname is not None, address
        assert parts.port is not None, address
        self._place = (parts.hostname, parts.port)
        self._pause = 1 / rate
        self._orders = queue.SimpleQueue[list[str]]()
        self._job = ""

    def serve(self) -> None:
        """Do as the lines of the standard input say, until they end."""
        threading.Thread(target=self._read, daemon=True).start()
        while order := self._orders.get():
            self._obey(order)
            if order[0] == "ask":
                print(json.dumps(asdict(self._ask(order[1]))), flush=True)

    def _read(self) -> None:
        for line in sys.stdin:
            self._orders.put(line.split())
        self._orders.put([])

    def _obey(self, order: list[str]) -> None:
        if order[0] == "job":
            self._job = order[1]

    def _ask(self, kind: str) -> Answered:
        """Ask until that is to end; it begins when there is a job."""
        statuses = Counter[str]()
        while not self._job:
            self._obey(self._orders.get())
        with ExitStack() as opened:
            connections = []
            for _ in range(_CLIENTS):
                connections.append(_OwnConnection() if kind == NOBODY else _Connection(*self._place))
                opened.callback(connections[-1].close)
            due = begun = time.monotonic()
            processor = time.process_time()
            for connection, (path, headers) in zip(cycle(connections), cycle(_KINDS[kind]), strict=False):
                if self._ends_before(due):
                    break
                due += self._pause
                statuses[str(connection.ask(self._request(path, headers)))] += 1
            return Answered(dict(statuses), time.monotonic() - begun, time.process_time() - processor)

    def _ends_before(self, due: float) -> bool:
        while True:
            try:
                order = self._orders.get(timeout=max(0.0, due - time.monotonic()))
            except queue.Empty:
                return False
            if order[0] == "end":
                return True
            self._obey(order)

    def _request(self, path: str, headers: Mapping[str, str]) -> bytes:
        lines = [f"GET {path.format(job=self._job)} HTTP/1.1", f"Host: {self._place[0]}:{self._place[1]}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join((*lines, "", "")).encode()


if __name__ == "__main__":
    _Clients(sys.argv[1], int(sys.argv[2])).serve()
