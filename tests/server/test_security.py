"""Who is let in, and what is done about requests that are too large, too slow, malformed or of foreign pages."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import resource
import socket
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.common import Configuration
from headrace.common.errors import ConfigurationError
from headrace.server import bodies, connections
from headrace.server.client import RestClient, RestClientError
from headrace.server.settings import RestSettings
from tests.server.serving import Served
from tests.waiting import PATIENCE, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = "correct-horse-battery-staple"


def ask(served: Served, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"null")
    finally:
        connection.close()


def raw(served: Served, data: bytes) -> bytes:
    """What comes back until the server hangs up."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as connection:
        connection.sendall(data)
        found = b""
        while chunk := connection.recv(65536):
            found += chunk
        return found


@pytest.fixture
def guarded() -> Iterator[Served]:
    made = Served(RestSettings("127.0.0.1", (0,), token=TOKEN))
    yield made
    made.server.close()


def test_without_the_token_nobody_is_told_anything_but_that_the_server_lives(guarded: Served) -> None:
    assert ask(guarded, "/v1/jobs")[0] == 401
    assert ask(guarded, "/v1/jobs", Authorization="Bearer wrong")[0] == 401
    assert ask(guarded, "/v1/jobs", Authorization="Basic !!!")[0] == 401
    assert ask(guarded, "/v1/jobs", Authorization=f"Bearer {TOKEN}") == (200, {"jobs": []})
    as_password = base64.b64encode(f"anybody:{TOKEN}".encode()).decode()
    assert ask(guarded, "/v1/jobs", Authorization=f"Basic {as_password}") == (200, {"jobs": []})
    assert ask(guarded, "/healthz") == (200, {"status": "ok"})
    assert guarded.rest.get("jobs") == {"jobs": []}


def test_off_this_machine_nobody_is_served_without_token_or_certificates(tmp_path: Path) -> None:
    def of(**more: str) -> RestSettings:
        return RestSettings.of(Configuration.from_dict({"rest.port": "0", "rest.bind-address": "0.0.0.0"} | more))

    with pytest.raises(ConfigurationError, match="any client that reaches it could stop the job"):
        of()
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    token.chmod(0o644)
    with pytest.raises(ConfigurationError, match="others can read"):
        of(**{"rest.authentication.token-file": str(token)})
    token.chmod(0o600)
    assert of(**{"rest.authentication.token-file": str(token)}).token == TOKEN
    token.write_text("short")
    with pytest.raises(ConfigurationError, match="16 characters"):
        of(**{"rest.authentication.token-file": str(token)})
    with pytest.raises(ConfigurationError, match=r"openssl pkcs12"):
        of(**{"security.ssl.rest.enabled": "true", "security.ssl.rest.keystore": "server.jks"})


def test_pages_of_other_sites_change_nothing(served: Served) -> None:
    _, job = served.start()
    cancel = f"/jobs/{job}/yarn-cancel"
    assert ask(served, cancel, Origin="http://evil.example")[0] == 403
    assert ask(served, cancel, Sec_Fetch_Site="cross-site")[0] == 403
    assert ask(served, f"/v1/jobs/{job}", "PATCH", Origin="null")[0] == 403
    assert ask(served, f"/v1/jobs/{job}", "PATCH", Origin="http://[")[0] == 403
    assert ask(served, cancel)[0] == 403  # the image of a page, as a browser asks for it over plain HTTP
    assert ask(served, cancel, Referer="http://evil.example/page")[0] == 403
    assert ask(served, cancel, Authorization="Basic Og==")[0] == 403
    assert ask(served, "/v1/jobs", Host="evil.example")[0] == 403  # a name that was made to lead here
    assert served.rest.get("jobs", job, "status") == {"status": "RUNNING"}
    own = f"127.0.0.1:{served.port}"
    for proof in ({"Origin": f"http://{own}"}, {"Referer": f"http://{own}/"}, {"Sec_Fetch_Site": "same-origin"}):
        assert ask(served, cancel, Host=own, **proof)[0] in (202, 409)  # it may have ended by the one before


def test_errors_are_those_that_flinks_clients_read(served: Served) -> None:
    assert ask(served, "/v1/nothing") == (404, {"errors": ["Not found: /v1/nothing"]})
    assert ask(served, "/v1/jobs/../../etc/passwd")[0] in (400, 404)
    assert ask(served, "/v1/jobs/%2e%2e%2f%2e%2e%2fetc%2fpasswd")[0] in (400, 404)
    status, document = ask(served, "/v1/jobs/abc")
    assert (status, len(document["errors"])) == (400, 1)
    assert ask(served, "/v1/overview", "DELETE")[0] == 405
    assert ask(served, "/v1/jobs/", "GET")[0] == 404  # and no redirect, at which Flink's client fails


@pytest.mark.parametrize("body", [b"{", b"[1]", b'"text"', b"\xff\xfe", b"[" * 100_000])
def test_malformed_bodies_are_refused(served: Served, body: bytes) -> None:
    status, document = ask(served, "/v1/savepoint-disposal", "POST", body)
    assert (status, list(document)) == (400, ["errors"])


def test_values_of_other_types_are_refused(served: Served) -> None:
    _, job = served.start()
    for body in ({"cancel-job": "yes"}, {"target-directory": 5}, {"formatType": "BEST"}, {"triggerId": "../x"}):
        content = json.dumps({"target-directory": "/tmp"} | body).encode()
        assert ask(served, f"/v1/jobs/{job}/savepoints", "POST", content)[0] == 400, body


def test_huge_bodies_are_refused_before_they_are_read(served: Served) -> None:
    status, document = ask(served, "/v1/savepoint-disposal", "POST", b"x" * (bodies.MOST_BYTES + 1))
    assert (status, document["errors"]) == (413, [f"a body has {bodies.MOST_BYTES} bytes at most"])


def test_slow_clients_are_hung_up_on(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_HEAD_SECONDS", 0.3)
    monkeypatch.setattr(bodies, "_READ_SECONDS", 0.3)
    assert raw(served, b"GET /v1/jobs HTT") == b""
    head = b"POST /v1/savepoint-disposal HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
    assert b" 408 " in raw(served, head)


def test_what_is_no_http_is_refused(served: Served) -> None:
    assert b" 400 " in raw(served, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\r\n\r\n")
    assert b" 400 " in raw(served, b"GET / HTTP/1.1\r\n" + b"A: " + b"b" * 100_000 + b"\r\n\r\n")


def until_hung_up(served: Served, data: bytes) -> bytes:
    """What comes back until the server hangs up, which it may do while there is something to read."""
    found = b""
    place = ("127.0.0.1", served.port)
    with contextlib.suppress(ConnectionError), socket.create_connection(place, PATIENCE) as connection:
        connection.sendall(data)
        while chunk := connection.recv(65536):
            found += chunk
    return found


CHUNKED = b"POST /v1/savepoint-disposal HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "data",
    [
        b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 20_000,
        b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n" + b"X: x\r\n" * 5_000,
        b"GET /" + b"x" * 20_000,
        CHUNKED + b"2\r\n{}\r\n0\r\nX: " + b"x" * 1_000_000,
        CHUNKED + b"2\r\n{}\r\n0\r\n" + b"X: x\r\n" * 5_000,
        CHUNKED + b"2;" + b"x" * 1_000_000,
    ],
    ids=["a header", "headers", "a target", "a trailer", "trailers", "a chunk"],
)
def test_what_comes_to_no_request_is_not_kept(served: Served, data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_HEAD_SECONDS", 2 * PATIENCE)
    answer = until_hung_up(served, data)
    assert b" 200 " not in answer


def test_requests_that_wait_are_few(served: Served) -> None:
    one, last = (f"GET /healthz HTTP/1.1\r\nHost: localhost\r\n{more}\r\n" for more in ("", "Connection: close\r\n"))
    assert raw(served, (one * 3 + last).encode()).count(b" 200 ") == 4
    many = until_hung_up(served, (one * 1_000 + last).encode())
    assert many.count(b" 200 ") <= connections._MOST_WAITING + 1


def test_many_idle_clients_keep_nobody_out_for_long(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_HEAD_SECONDS", 1.0)
    idle = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(connections.MOST_CONNECTIONS + 50)]
    try:
        time.sleep(1.5)
        assert ask(served, "/healthz")[0] == 200
    finally:
        for connection in idle:
            connection.close()


def test_certificates_of_both_sides_are_checked(tmp_path: Path) -> None:
    pem = tmp_path / "server.pem"
    request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    names = "-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout key.pem -out cert.pem"
    made = subprocess.run(["openssl", *request.split(), *names.split()], cwd=tmp_path, capture_output=True, check=False)
    assert made.returncode == 0, made.stderr
    pem.write_text((tmp_path / "key.pem").read_text() + (tmp_path / "cert.pem").read_text())
    configuration = Configuration.from_dict(
        {
            "rest.port": "0",
            "rest.bind-address": "127.0.0.1",
            "security.ssl.rest.enabled": "true",
            "security.ssl.rest.authentication-enabled": "true",
            "security.ssl.rest.keystore": str(pem),
            "security.ssl.rest.truststore": str(tmp_path / "cert.pem"),
        }
    )
    served = Served(RestSettings.of(configuration))
    try:
        assert served.server.address.startswith("https://")
        assert RestClient.at(served.server.address, configuration).get("jobs") == {"jobs": []}
        configuration.set("security.ssl.rest.authentication-enabled", False)
        with pytest.raises(RestClientError):
            RestClient.at(served.server.address, configuration).get("jobs")
        with pytest.raises((OSError, http.client.HTTPException)):
            ask(served, "/v1/jobs")
    finally:
        served.server.close()


def is_served(served: Served) -> bool:
    try:
        return ask(served, "/healthz")[0] == 200
    except (OSError, http.client.HTTPException):
        return False


@pytest.mark.slow
def test_ten_thousand_idle_connections_disturb_no_job(served: Served) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 12_000:
        pytest.skip("this process may not have as many connections open")
    client, _ = served.start()
    resource.setrlimit(resource.RLIMIT_NOFILE, (12_000, hard))
    try:
        with ExitStack() as opened:
            for _ in range(10_000):
                opened.enter_context(socket.create_connection(("127.0.0.1", served.port), 60))
            completed = client.snapshot().completed
            wait_for(lambda: client.snapshot().completed > completed + 3)
            wait_for(lambda: is_served(served))
        assert client.snapshot().failures == ()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
