"""Between a client and a server: answers get lost, or do not come, as it is told."""

from __future__ import annotations

import contextlib
import enum
import socket
import threading
from collections.abc import Iterator

from tests.storage.hadoop_rpc import PREAMBLE, PREAMBLE_BYTES, Messages, call_of_answer, call_of_request


class Fault(enum.Enum):
    """What goes wrong with a request."""

    REFUSED = "nothing is done, and the connection breaks"
    LOST = "it is done, and the connection breaks instead of an answer"
    SILENT = "it is done, and no answer ever comes"


class TcpProxy:
    """Passes on what is sent to a server and what comes back.

    Args:
        port: where the server listens.

    Attributes:
        port: where it listens itself.
    """

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._plan: tuple[Fault, bytes, int] | None = None
        self._struck = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @contextlib.contextmanager
    def failing(self, fault: Fault, method: str, path: str = "", times: int = 1) -> Iterator[list[int]]:
        """Have requests of a method go wrong that have a path in them; gives, at its end, how many did."""
        struck: list[int] = []
        self._plan, self._struck, self._path = (fault, method.encode(), times), 0, path.encode()
        try:
            yield struck
        finally:
            self._plan = None
            struck.append(self._struck)

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._server_port))
                except OSError:
                    client.close()
                    continue
                broken = _Broken()
                threading.Thread(target=self._requests, args=(client, server, broken), daemon=True).start()
                threading.Thread(target=self._answers, args=(client, server, broken), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, broken: _Broken) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                broken.saw_request(data)
                fault = self._fault_of(data)
                if fault is Fault.REFUSED:
                    break
                broken.fault = broken.fault or fault  # before the request is sent, so that its answer does not pass
                server.sendall(data)
        _end(client, server)

    def _answers(self, client: socket.socket, server: socket.socket, broken: _Broken) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                is_answered = broken.saw_answer(data)
                if broken.fault is Fault.LOST and is_answered:
                    break
                if broken.fault is None:
                    client.sendall(data)
        if broken.fault is not Fault.SILENT:
            _end(client, server)

    def _fault_of(self, request: bytes) -> Fault | None:
        if self._plan is None or self._struck >= self._plan[2]:
            return None
        fault, method, _ = self._plan
        if method not in request or self._path not in request:
            return None
        self._struck += 1
        return fault


class _Broken:
    """What has become of a connection.

    Hadoop sends several requests before it has an answer, and a name node drops what a connection asked for that ends
    before its turn. So the answer that is lost has to be that of the request.
    """

    def __init__(self) -> None:
        self.fault: Fault | None = None
        self._requests: Messages | None = None
        self._answers = Messages(0)
        self._last_call = -1

    def saw_request(self, data: bytes) -> None:
        """Note what is asked for."""
        if self.fault is not None:
            return
        if data.startswith(PREAMBLE):
            self._requests = Messages(PREAMBLE_BYTES)
        for message in () if self._requests is None else self._requests.cut(data):
            self._last_call = call_of_request(message)

    def saw_answer(self, data: bytes) -> bool:
        """Whether the last request before the fault is answered by it."""
        if self._requests is None:  # HTTP, whose connections wait for each answer
            return True
        return self._last_call in [call_of_answer(message) for message in self._answers.cut(data)]


def _end(*sockets: socket.socket) -> None:
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
