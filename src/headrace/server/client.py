"""A client of the REST API, of headrace's jobs or of Flink's: what commands ask with."""

import http.client
import json
import secrets
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from headrace.common import server_options as options
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, HeadraceError
from headrace.common.logs import get_logger
from headrace.server.models.cluster import LOG_POSITION

logger = get_logger(__name__)

_SECONDS: Final = 10.0
"""The time limit of a request: no answer waits for a job."""

_FIRST_LOOK_SECONDS: Final = 0.02
_LAST_LOOK_SECONDS: Final = 1.0


class RestClientError(HeadraceError):
    """A server cannot be reached, or refuses a request; the message says why."""


@dataclass(frozen=True, slots=True)
class RestClient:
    """Sends requests to one server.

    Attributes:
        address: ``http://host:port``.
        token: what it wants to see; None for nothing.
        tls: how its certificate is checked, and what it is shown; None for plain HTTP.
        seconds: the time limit of a request.
    """

    address: str
    token: str | None = None
    tls: ssl.SSLContext | None = None
    seconds: float = _SECONDS

    @staticmethod
    def at(address: str, configuration: Configuration, token_file: str | None = None) -> "RestClient":
        """The client of an address, ``HOST:PORT`` or a URL.

        Args:
            address: the address.
            configuration: with the token and the certificates, where it needs them.
            token_file: where the token is, if the configuration does not say it.

        Raises:
            ConfigurationError: when it is no address, or a file cannot be read.
        """
        tls = _tls(configuration) if configuration.get(options.REST_SSL) or address.startswith("https:") else None
        url = address if "://" in address else f"{'http' if tls is None else 'https'}://{address}"
        if urlsplit(url).hostname is None:
            raise ConfigurationError(f"{address!r} is no address: give HOST:PORT, such as localhost:8081")
        file = configuration.get(options.REST_TOKEN_FILE) or token_file
        return RestClient(url.rstrip("/"), _token(file) if file else None, tls)

    def get(self, *path: str, **query: object) -> Any:
        """Get the resource at a path."""
        return self.ask("GET", path, query)

    def log(self, *path: str, after: str = "") -> tuple[str, str]:
        """The log that is at a path, and where it ends.

        Args:
            path: the path.
            after: where an earlier answer ended, if only what came later is wanted.

        Raises:
            RestClientError: when there is none.
        """
        target = f"/v1/{'/'.join(quote(part, safe='') for part in path)}"
        target += f"?{urlencode({'after': after})}" if after else ""
        status, content, headers = self._exchange("GET", target, None, "")
        if status != http.client.OK:
            self._read(status, content)
        return content.decode(errors="replace"), headers.get(LOG_POSITION, "")

    def ask(
        self, method: str, path: tuple[str, ...], query: Mapping[str, object] | None = None, body: Any = None
    ) -> Any:
        """Ask for something.

        Args:
            method: of HTTP.
            path: its parts.
            query: what follows it.
            body: an object of JSON; None for none.

        Returns:
            The document of the answer.

        Raises:
            RestClientError: when there is no server, or it refuses that.
        """
        target = f"/v1/{'/'.join(quote(part, safe='') for part in path)}"
        target += f"?{urlencode(query)}" if query else ""
        return self._read(*self.forward(method, target, None if body is None else json.dumps(body).encode()))

    def forward(
        self, method: str, target: str, body: bytes | None, kind: str = "application/json"
    ) -> tuple[int, bytes]:
        """Send a request as it is.

        Args:
            method: of HTTP.
            target: the path, and what follows it.
            body: what it carries; None for nothing.
            kind: the type of that.

        Returns:
            The status and the body of the answer.

        Raises:
            RestClientError: when there is no server.
        """
        return self.relay(method, target, body, kind)[:2]

    def relay(self, method: str, target: str, body: bytes | None, kind: str) -> tuple[int, bytes, str]:
        """The same; the type of the answer comes last.

        Raises:
            RestClientError: when there is no server.
        """
        status, content, headers = self._exchange(method, target, body, kind)
        return status, content, headers.get("Content-Type", "application/json")

    def _exchange(
        self, method: str, target: str, body: bytes | None, kind: str
    ) -> tuple[int, bytes, http.client.HTTPMessage]:
        headers = {} if body is None else {"Content-Type": kind, "Content-Length": str(len(body))}
        headers |= {"Sec-Fetch-Site": "none"}  # as browsers mark what is no request of a page
        headers |= {"Authorization": f"Bearer {self.token}"} if self.token is not None else {}
        connection = self._connection()
        try:
            try:
                connection.request(method, target, body and _blocks(body), headers)
            except BrokenPipeError:
                logger.debug("%s has hung up on a request, perhaps behind an answer", self.address)
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers
        except (OSError, http.client.HTTPException) as error:
            raise RestClientError(f"{self.address} does not answer: {error}") from error
        finally:
            connection.close()

    def upload(self, program: Path) -> str:
        """Upload a program to a dispatcher.

        Returns:
            Its id.

        Raises:
            RestClientError: when there is no server, or it takes no such program.
        """
        boundary = secrets.token_hex(16)
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="jarfile"; filename="{program.name}"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        )
        body = head.encode() + program.read_bytes() + f"\r\n--{boundary}--\r\n".encode()
        kind = f"multipart/form-data; boundary={boundary}"
        answer = self._read(*self.forward("POST", "/v1/jars/upload", body, kind))
        return str(answer["filename"]).rpartition("/")[2]

    def outcome(self, *path: str, timeout: float) -> Any:
        """Wait for the outcome of something that was triggered.

        Args:
            path: that of the request.
            timeout: for how many seconds.

        Returns:
            The ``operation`` of the last answer.

        Raises:
            RestClientError: when it has failed, or is not there in time.
        """
        until, pause = time.monotonic() + timeout, _FIRST_LOOK_SECONDS
        while (found := self.get(*path))["status"]["id"] != "COMPLETED":
            if time.monotonic() >= until:
                raise RestClientError(f"{self.address}: no outcome within {timeout:g} s; the job may still come to it")
            time.sleep(pause)
            pause = min(pause * 1.5, _LAST_LOOK_SECONDS)
        operation = found.get("operation") or {}
        failure = operation.get("failure-cause") or operation.get("failureCause")
        if failure:
            raise RestClientError(_first_line(failure))
        return operation

    def _connection(self) -> http.client.HTTPConnection:
        url = urlsplit(self.address)
        if self.tls is not None:
            return http.client.HTTPSConnection(url.hostname or "", url.port, timeout=self.seconds, context=self.tls)
        return http.client.HTTPConnection(url.hostname or "", url.port, timeout=self.seconds)

    def _read(self, status: int, content: bytes) -> Any:
        try:
            document = json.loads(content) if content else {}
        except ValueError:
            raise RestClientError(f"{self.address} answers with no JSON: is it a server of jobs?") from None
        if status >= http.client.BAD_REQUEST:
            errors = document.get("errors") if isinstance(document, dict) else None
            raise RestClientError(f"{self.address}: {'; '.join(map(str, errors or [f'status {status}']))}")
        return document


def _blocks(body: bytes) -> Iterator[memoryview]:
    """A body in parts, of which each may take the time of a request: over a slow link all of it would take too long."""
    view = memoryview(body)
    return (view[start : start + _BLOCK_BYTES] for start in range(0, len(body), _BLOCK_BYTES))


_BLOCK_BYTES: Final = 1 << 16


def _first_line(failure: Mapping[str, str]) -> str:
    """The message of a failure; the first line of its trace has the class before it."""
    first = failure.get("stack-trace", "").split("\n", maxsplit=1)[0]
    return first.removeprefix(f"{failure.get('class', '')}: ") or failure.get("class", "the operation has failed")


def _token(file: str) -> str:
    try:
        return Path(file).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{options.REST_TOKEN_FILE.key}: {file} cannot be read: {error}") from None


def _tls(configuration: Configuration) -> ssl.SSLContext:
    """Return the context that checks a server's certificate and shows the client's own."""
    authorities = configuration.get(options.REST_TRUSTSTORE)
    keystore, password = (
        configuration.get(options.REST_KEYSTORE),
        configuration.get(options.REST_KEY_PASSWORD),
    )
    try:
        context = ssl.create_default_context(cafile=authorities)
        if keystore is not None and configuration.get(options.REST_SSL_AUTHENTICATION):
            context.load_cert_chain(keystore, password=lambda: password or "")
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"{options.REST_TRUSTSTORE.key}, {options.REST_KEYSTORE.key}: the certificates cannot be used: {error}"
        ) from None
    return context
