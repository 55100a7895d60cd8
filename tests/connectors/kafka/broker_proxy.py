"""Between clients and a broker of Kafka: chosen requests are not done, not answered, or done when nobody expects it."""

from __future__ import annotations

import contextlib
import enum
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headrace.broker import HOST, KafkaCluster

_SIZE_BYTES: Final = 4
_PATIENCE: Final = 60.0


class Request(enum.IntEnum):
    """Kinds of requests, by the numbers that Kafka's protocol has for them."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28


class Fault(enum.Enum):
    """What goes wrong with a request; its connection breaks each time."""

    REFUSED = "it is not done"
    LOST = "it is done, and not answered"
    LATE = "it is sent again and answered, and done once more in the middle of a later transaction"


_DONE_AFTER: Final = {
    Request.END_TXN: Request.PRODUCE,
    Request.TXN_OFFSET_COMMIT: Request.TXN_OFFSET_COMMIT,
}
"""Behind which request of its client one is done that is late."""


@dataclass
class _Late:
    """A request that is held back.

    Attributes:
        server: the connection that it was sent by.
        frame: the request.
        was_sent_again: whether another one like it has been answered.
        is_done: when it has been answered itself.
    """

    server: socket.socket
    frame: bytes
    was_sent_again: bool = False
    is_done: threading.Event = field(default_factory=threading.Event)

    def has_come(self, answered: bytes) -> bool:
        """Note the answer to a request; whether that was the one to wait for."""
        if _client(answered) != _client(self.frame):
            return False
        kind = _kind(self.frame)
        if self.was_sent_again and _kind(answered) == _DONE_AFTER[kind]:
            return True
        self.was_sent_again |= _kind(answered) == kind
        return False


class BrokerProxy:
    """Passes on what is sent to a broker and what comes back, but for the requests that are to go wrong.

    Args:
        broker_port: where the broker listens.

    Attributes:
        port: where it listens itself.
        struck: what has gone wrong.
        late: how many requests have arrived late.
    """

    def __init__(self, broker_port: int) -> None:
        self._broker_port = broker_port
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self.struck: list[tuple[Request, int, Fault]] = []
        self.late = 0
        self._lock = threading.Lock()
        self._faults: dict[tuple[int, int], Fault] = {}
        self._seen: Counter[int] = Counter()
        self._held: _Late | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, request: Request, number: int, fault: Fault) -> None:
        """Have a request go wrong.

        Args:
            request: which kind.
            number: the how-manieth of its kind, counted over all connections from now on.
            fault: how.
        """
        with self._lock:
            self._seen[request] = 0
            self._faults[request, number] = fault

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection((HOST, self._broker_port))
                except OSError:
                    client.close()
                    continue
                _Connection(self, client, server).start()

    def _fault_of(self, kind: int) -> Fault | None:
        with self._lock:
            self._seen[kind] += 1
            number = self._seen[kind]
            fault = self._faults.pop((kind, number), None)
            if fault is not None:
                self.struck.append((Request(kind), number, fault))
            return fault

    def _hold(self, late: _Late) -> None:
        with self._lock:
            self._held = late

    def _answered(self, frame: bytes) -> None:
        """Let what is late go, before a client hears that the request is done which it waits for."""
        with self._lock:
            late = self._held
            if late is None or not late.has_come(frame):
                return
            self._held = None
        late.server.sendall(late.frame)
        assert late.is_done.wait(_PATIENCE)
        self.late += 1


class _Connection:
    """A client's connection and the one to the broker that stands for it."""

    def __init__(self, proxy: BrokerProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._sent: dict[bytes, bytes] = {}
        self._lost: bytes | None = None
        self._late: _Late | None = None

    def start(self) -> None:
        for work in (self._requests, self._answers):
            threading.Thread(target=work, daemon=True).start()

    def _requests(self) -> None:
        with contextlib.suppress(OSError):
            while (frame := _frame(self._client)) is not None:
                correlation = frame[8:12]
                fault = self._proxy._fault_of(_kind(frame))
                if fault is Fault.REFUSED:
                    break
                self._sent[correlation] = frame
                if fault is Fault.LATE:
                    self._late = _Late(self._server, frame)
                    self._lost = correlation
                    self._proxy._hold(self._late)
                    return _end(self._client)
                if fault is Fault.LOST:
                    self._lost = correlation
                self._server.sendall(frame)
        return _end(self._client, self._server)

    def _answers(self) -> None:
        with contextlib.suppress(OSError):
            while (frame := _frame(self._server)) is not None:
                correlation = frame[4:8]
                if correlation == self._lost:
                    break
                self._proxy._answered(self._sent.pop(correlation))
                self._client.sendall(frame)
        if self._late is not None:
            self._late.is_done.set()
        _end(self._client, self._server)


@contextmanager
def broker_behind_proxy(folder: Path) -> Iterator[tuple[KafkaCluster, BrokerProxy, str]]:
    """A broker that sends clients to a proxy, the proxy, and where clients find it."""
    (node,) = KafkaCluster(folder).nodes
    proxy = BrokerProxy(node.address.port)
    servers = f"{HOST}:{proxy.port}"
    with KafkaCluster(folder, settings={"advertised.listeners": f"PLAINTEXT://{servers}"}) as cluster:
        yield cluster, proxy, servers
    proxy.close()


def _kind(frame: bytes) -> int:
    return int.from_bytes(frame[4:6])


def _client(frame: bytes) -> bytes:
    """The client id of a request."""
    return frame[14 : 14 + int.from_bytes(frame[12:14])]


def _frame(source: socket.socket) -> bytes | None:
    """The next request or answer, with its size; None at the end."""
    size = _exactly(source, _SIZE_BYTES)
    if size is None:
        return None
    body = _exactly(source, int.from_bytes(size))
    return None if body is None else size + body


def _exactly(source: socket.socket, count: int) -> bytes | None:
    found = bytearray()
    while len(found) < count:
        data = source.recv(count - len(found))
        if not data:
            return None
        found += data
    return bytes(found)


def _end(*sockets: socket.socket) -> None:
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
