"""An HTTP endpoint that nobody can exhaust its process with: few requests at a time, each for a short time."""

from __future__ import annotations

import contextlib
import errno
import socket
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import WSGIApplication

from headrace.common.logs import get_logger

logger = get_logger(__name__)

_AT_A_TIME: Final = 4
_WAITING: Final = 64
_SECONDS: Final = 10.0
"""After so long a connection is cut, whatever it is at."""

_LOOK_SECONDS: Final = 0.1


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        logger.debug(format, *args)


class _Server(WSGIServer):
    """Handles connections in a few threads; those that come while too many wait are closed at once."""

    request_queue_size = _WAITING

    def __init__(self, address: tuple[str, int], family: socket.AddressFamily) -> None:
        self.address_family = family
        self._pool = ThreadPoolExecutor(_AT_A_TIME, "headrace-metrics")
        self._room = threading.BoundedSemaphore(_AT_A_TIME + _WAITING)
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Bind, without asking a name server what the address is called."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            self._pool.submit(self._handle, request, client_address)
        else:
            self.shutdown_request(request)

    def _handle(self, request: socket.socket, client_address: Any) -> None:
        cut = threading.Timer(_SECONDS, _cut, (request,))
        cut.daemon = True
        cut.start()
        try:
            self.finish_request(request, client_address)
        except Exception:
            self.handle_error(request, client_address)
        finally:
            cut.cancel()
            self.shutdown_request(request)
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nobody needs to know of a client that has gone."""
        logger.debug("a request of %s failed", client_address, exc_info=sys.exc_info())

    def server_close(self) -> None:
        super().server_close()
        self._pool.shutdown(wait=False, cancel_futures=True)


def _cut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has gone meanwhile
        connection.shutdown(socket.SHUT_RDWR)


class ScrapeEndpoint:
    """Serves an application at the first port that is free.

    Args:
        host: the address.
        ports: the ports.
        application: what answers.

    Attributes:
        port: the port that it got.

    Raises:
        OSError: when none is free, or the address is not one of this machine.
    """

    def __init__(self, host: str, ports: Sequence[int], application: WSGIApplication) -> None:
        self._server = _bound(host, ports)
        self.port = self._server.server_port
        self._server.set_app(application)
        serve = self._server.serve_forever
        self._thread = threading.Thread(target=serve, args=(_LOOK_SECONDS,), name="headrace-metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer nobody any more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _bound(host: str, ports: Sequence[int]) -> _Server:
    for port in ports:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        try:
            return _Server((str(address[0]), int(address[1])), family)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    tried = f"{ports[0]}" if len(ports) == 1 else f"{ports[0]} to {ports[-1]}"
    raise OSError(f"port {tried} is taken, by another job perhaps: give a range, {ports[0]}-{ports[0] + 10} say")
