"""An S3 to test against: moto's, in this process, on a real socket. It fails, is slow and is gone as it is told."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import urllib.request
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from headrace.storage.object_store import client

SECRET = "hush-hush"

Request = tuple[str, str]
"""Method and path."""

Fault = Callable[[Callable[[], Iterable[bytes]], Any], Iterable[bytes]]
"""Gets what answers a request, and what begins an answer."""


def answered(status: str, body: str) -> Fault:
    """Nothing is done."""

    def fault(serve: Callable[[], Iterable[bytes]], start: Any) -> Iterable[bytes]:
        start(status, [("Content-Length", str(len(body)))])
        return [body.encode()]

    return fault


def refused(status: str) -> Fault:
    """Nothing is done, and nothing is said."""
    return answered(status, "")


def done_but_late(seconds: float) -> Fault:
    """It is done, but the answer comes when the client may have given up."""

    def fault(serve: Callable[[], Iterable[bytes]], start: Any) -> Iterable[bytes]:
        list(serve())
        time.sleep(seconds)
        start("200 OK", [("Content-Length", "0"), ("ETag", '"0"')])
        return [b""]

    return fault


def done_but(status: str) -> Fault:
    """It is done, but the answer says something else."""

    def fault(serve: Callable[[], Iterable[bytes]], start: Any) -> Iterable[bytes]:
        list(serve())
        start(status, [("Content-Length", "0")])
        return [b""]

    return fault


class LostAnswer(Exception):
    """The connection breaks instead of an answer."""


def done_and_lost(serve: Callable[[], Iterable[bytes]], start: Any) -> Iterable[bytes]:
    """It is done, but nobody hears of it."""
    list(serve())
    raise LostAnswer


class ObjectServer(ABC):
    """What the servers of all object stores have in common.

    Attributes:
        port: where it listens.
    """

    port: int

    @abstractmethod
    def new_bucket(self) -> str:
        """The URI of a bucket of its own."""

    @abstractmethod
    def options(self, port: int | None = None) -> dict[str, str]:
        """What a client has to be told; it may reach the server by another port."""

    @property
    def serving_port(self) -> int:
        return self.port

    def new_place(self) -> str:
        """The URI of a folder of its own."""
        return f"{self.new_bucket()}/deep/place"

    def through(self, port: int, place: str) -> tuple[str, dict[str, str]]:
        """A place, and what a client has to be told, for clients that reach the server by another port."""
        return place, self.options(port)

    def put(self, uri: str, content: bytes) -> None:
        """Create or replace an object."""
        import obstore

        scheme, _, path = uri.partition("//")
        bucket, _, key = path.partition("/")
        obstore.put(client(f"{scheme}//{bucket}", tuple(sorted(self.options().items()))), key, content)


class S3Server(ObjectServer):
    """One server; buckets live as long as the process.

    Attributes:
        faults: asked for each request whether it goes wrong; None when it does not.
        requests: all that have come.
        ignores_conditions: whether it puts what it is asked to, whatever is there.
        heeds_conditions_of_copies: whether a copy heeds them too, as AWS's do, and moto's do not.
    """

    def __init__(self) -> None:
        from moto.server import create_backend_app

        self._app = create_backend_app("s3")
        self._lock = threading.Lock()  # S3 does one thing with a key after the other
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.faults: Callable[[str, str], Fault | None] = lambda method, path: None
        self.requests: list[Request] = []
        self.ignores_conditions = False
        self.heeds_conditions_of_copies = False
        self._server: Any = None
        self.begin()

    def begin(self) -> None:
        """Serve."""
        from werkzeug.serving import WSGIRequestHandler, make_server

        class Quiet(WSGIRequestHandler):
            protocol_version = "HTTP/1.1"

            def log(self, *arguments: Any) -> None:
                pass

        self._server = make_server("127.0.0.1", self.port, self._answer, threaded=True, request_handler=Quiet)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def end(self) -> None:
        """Be gone; what is under way is still answered."""
        self._server.shutdown()
        self._server.server_close()

    def end_for(self, seconds: float) -> None:
        """Be gone for a while."""
        self.end()
        threading.Timer(seconds, self.begin).start()

    def new_bucket(self) -> str:
        """The URI of a bucket of its own."""
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{name}", method="PUT")
        with urllib.request.urlopen(request):
            return f"s3://{name}"

    def options(self, port: int | None = None) -> dict[str, str]:
        """What a client has to be told; it may reach the server by another port."""
        return {
            "endpoint": f"http://127.0.0.1:{port or self.port}",
            "region": "us-east-1",
            "access_key_id": "testing",
            "secret_access_key": SECRET,
            "retry_timeout": "2 s",
        }

    @contextlib.contextmanager
    def failing(self, fault: Fault, method: str, path: str, times: int = 1) -> Iterator[list[Request]]:
        """Have requests of a method go wrong whose path has something in it; gives those that did."""
        struck: list[Request] = []

        def faults(its_method: str, its_path: str) -> Fault | None:
            if its_method != method or path not in its_path or len(struck) >= times:
                return None
            struck.append((its_method, its_path))
            return fault

        before, self.faults = self.faults, faults
        try:
            yield struck
        finally:
            self.faults = before

    def _answer(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        self.requests.append((method, path))
        if self.ignores_conditions:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        is_conditional_copy = {"HTTP_IF_NONE_MATCH", "HTTP_X_AMZ_COPY_SOURCE"} <= environ.keys()
        begun: list[tuple[str, list[tuple[str, str]]]] = []

        def serve() -> list[bytes]:
            with self._lock:
                if self.heeds_conditions_of_copies and is_conditional_copy and self._exists(environ):
                    begun.append(("412 Precondition Failed", [("Content-Length", "0")]))
                    return [b""]
                return list(self._app(environ, lambda status, headers, *_: begun.append((status, headers))))

        fault = self.faults(method, path)
        if fault is None:
            content = serve()
            start(*begun[-1])
            return content
        try:
            return fault(serve, start)
        except LostAnswer:
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            raise ConnectionAbortedError from None

    def _exists(self, environ: dict[str, Any]) -> bool:
        statuses: list[str] = []
        asked = {key: value for key, value in environ.items() if not key.startswith("HTTP_X_AMZ_COPY")}
        asked |= {"REQUEST_METHOD": "HEAD", "QUERY_STRING": ""}
        asked.pop("HTTP_IF_NONE_MATCH")
        list(self._app(asked, lambda status, *_: statuses.append(status)))
        return statuses[-1].startswith("200")
