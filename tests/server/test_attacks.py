"""What somebody may send who means harm: ambiguous requests, foreign hosts, names that are markup, odd values."""

from __future__ import annotations

import hmac
import http.client
import itertools
import json
import select
import socket
import ssl
import subprocess
import urllib.parse
from contextlib import ExitStack, contextmanager
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

from headrace.common import Configuration, Types, WatermarkStrategy
from headrace.connectors.ranges import DataGeneratorSource, RateLimiterStrategy
from headrace.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from headrace.datastream.state import ValueStateDescriptor
from headrace.server import connections, guard
from headrace.server.routes import ROUTES
from headrace.server.settings import RestSettings, TlsSettings
from tests.server.serving import Served
from tests.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = "correct-horse-battery-staple"


def raw(served: Served, data: bytes) -> bytes:
    """What comes back until the server hangs up."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as connection:
        connection.sendall(data)
        found = b""
        while chunk := connection.recv(65536):
            found += chunk
        return found


def ask(
    served: Served, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    try:
        connection.putrequest(method, path, skip_host="Host" in (headers or {}))
        for name, value in (headers or {}).items():
            connection.putheader(name, value.encode("latin-1"))
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers
    finally:
        connection.close()


# --- requests that two readers may take for different ones ------------------------------------------------------------

SMUGGLED = b"GET /v1/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
        b"Content-Length: 5, 6\r\n\r\nabcde",
        b"Content-Length: +5\r\n\r\nabcde",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: 0x5\r\n\r\nabcde",
        b"Content-Length : 5\r\n\r\nabcde",
        b"Content-Length: 99999999999999999999999\r\n\r\nabcde",
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\na\r\n0\r\n\r\n",
        b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
        b"A: b\x00c\r\n\r\n",
        b"A\x00: b\r\n\r\n",
        b"no header\r\n\r\n",
    ],
)
def test_ambiguous_requests_are_refused_and_the_connection_ends(served: Served, head: bytes) -> None:
    answer = raw(served, b"POST /v1/savepoint-disposal HTTP/1.1\r\nHost: localhost\r\n" + head + SMUGGLED)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"smuggled" not in answer


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /v1/jobs HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXA=\r\n",
        b"GET /v1/jobs HTTP/1.1\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\n",
        b"CONNECT localhost:22 HTTP/1.1\r\n",
        b"TRACE /v1/jobs HTTP/1.1\r\nSecret: hush\r\n",
    ],
    ids=["websocket", "h2c", "CONNECT", "TRACE"],
)
def test_the_server_speaks_http_and_nothing_else(served: Served, request_: bytes) -> None:
    answer = raw(served, request_.replace(b"\r\n", b"\r\nHost: localhost\r\n", 1) + b"Connection: close\r\n\r\n")
    assert answer.split(b" ", 2)[1] in (b"200", b"400", b"404", b"405")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"hush" not in answer


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.nip.io",
        "localhost:80@evil.example",
        "0.0.0.0",
        "[::ffff:10.0.0.1]",
        "2130706433",
        "[::1",
        "localhost evil.example",
        "",
    ],
)
def test_names_that_were_made_to_lead_here_are_refused(served: Served, host: str) -> None:
    for path in ("/v1/jobs", "/healthz", "/dashboard", "/openapi.json"):
        status, text, headers = ask(served, "GET", path, headers={"Host": host})
        assert status in (400, 403), (path, text)
        assert "Access-Control-Allow-Origin" not in headers


def test_two_hosts_are_one_too_many(served: Served) -> None:
    answer = raw(served, b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
    assert answer.split(b" ", 2)[1] in (b"400", b"403")


# --- tokens -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def guarded() -> Iterator[Served]:
    made = Served(RestSettings("127.0.0.1", (0,), token=TOKEN))
    yield made
    made.server.close()


@pytest.mark.parametrize(
    "given",
    [
        "Bearer",
        "Bearer ",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}\xe4",
        "Bearer \xff\xfe",
        "Basic \xe4",
        "Basic =",
        "Basic OmE=, Bearer x",
        "Digest x",
        TOKEN,
        f"Bearer x {TOKEN}",
    ],
)
def test_other_tokens_are_refused(guarded: Served, given: str) -> None:
    assert ask(guarded, "GET", "/v1/jobs", headers={"Authorization": given})[0] == 401
    assert ask(guarded, "GET", "/dashboard", headers={"Authorization": given})[0] == 401


def test_the_token_is_no_parameter_and_no_cookie(guarded: Served) -> None:
    for name in ("token", "access_token"):
        assert ask(guarded, "GET", f"/v1/jobs?{name}={TOKEN}")[0] == 401
    assert ask(guarded, "GET", "/v1/jobs", headers={"Cookie": f"token={TOKEN}"})[0] == 401


def test_tokens_are_compared_in_constant_time(guarded: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(given: bytes, token: bytes) -> bool:
        compared.append((given, token))
        return hmac.compare_digest(given, token)

    monkeypatch.setattr(guard, "hmac", type("hmac", (), {"compare_digest": staticmethod(compare)}))
    for given in ("", "c", TOKEN[:-1], "wrong"):
        assert ask(guarded, "GET", "/v1/jobs", headers={"Authorization": f"Bearer {given}"})[0] == 401
    assert compared == [(given.encode(), TOKEN.encode()) for given in ("", "c", TOKEN[:-1], "wrong")]


# --- TLS --------------------------------------------------------------------------------------------------------------


def certificate(folder: Path, name: str) -> Path:
    """A key with a certificate that it has signed itself, in one file."""
    made, key, cert = folder / f"{name}.pem", folder / f"{name}.key", folder / f"{name}.crt"
    request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    command = ["openssl", *request.split(), "-addext", "subjectAltName=DNS:localhost", "-keyout", str(key)]
    command += ["-out", str(cert)]
    subprocess.run(command, capture_output=True, check=True)
    made.write_text(key.read_text() + cert.read_text())
    return made


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("certificates")
    return {name: certificate(folder, name) for name in ("server", "client", "other")}


@contextmanager
def mutual(certificates: dict[str, Path]) -> Iterator[Served]:
    """A server that wants to see the client's certificate."""
    settings = {
        "rest.port": "0",
        "rest.bind-address": "127.0.0.1",
        "security.ssl.rest.enabled": "true",
        "security.ssl.rest.authentication-enabled": "true",
        "security.ssl.rest.keystore": str(certificates["server"]),
        "security.ssl.rest.truststore": str(certificates["client"].with_suffix(".crt")),
    }
    made = Served(RestSettings.of(Configuration.from_dict(settings)))
    yield made
    made.server.close()


def over_tls(served: Served, certificates: dict[str, Path], own: str | None) -> bytes:
    """The answer to a client that shows a certificate; empty where the server hangs up."""
    context = ssl.create_default_context(cafile=str(certificates["server"].with_suffix(".crt")))
    if own is not None:
        context.load_cert_chain(str(certificates[own]))
    try:
        with (
            socket.create_connection(("127.0.0.1", served.port), timeout=60) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as connection,
        ):
            connection.sendall(b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return connection.recv(65_536)
    except (ssl.SSLError, ConnectionError):
        return b""


def test_only_clients_whose_certificate_is_known_are_answered(certificates: dict[str, Path]) -> None:
    with mutual(certificates) as served:
        assert over_tls(served, certificates, "client").startswith(b"HTTP/1.1 200 ")
        assert over_tls(served, certificates, None) == b""
        assert over_tls(served, certificates, "other") == b""  # of the same name, and signed by somebody else
        assert over_tls(served, certificates, "server") == b""
        assert not raw(served, b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n\r\n").startswith(b"HTTP/1.1 200 ")


def test_old_versions_of_tls_are_refused(certificates: dict[str, Path]) -> None:
    found = TlsSettings(str(certificates["server"]), None, None).context()
    assert found.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_who_never_ends_the_handshake_is_hung_up_on(
    certificates: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_HANDSHAKE_SECONDS", 0.1)
    with mutual(certificates) as served:
        assert raw(served, b"") == b""


def test_connections_count_before_their_handshake(
    certificates: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_HANDSHAKE_SECONDS", 300.0)
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 20)
    with mutual(certificates) as served, ExitStack() as opened:
        idle = [opened.enter_context(socket.create_connection(("127.0.0.1", served.port), 30)) for _ in range(30)]
        wait_for(lambda: len(select.select(idle, [], [], 0.1)[0]) >= 10)
        assert len(select.select(idle, [], [], 0.5)[0]) == 10
        for each in idle:
            each.close()
        wait_for(lambda: over_tls(served, certificates, "client").startswith(b"HTTP/1.1 200 "))


# --- values that nobody would think of --------------------------------------------------------------------------------

ODD = (
    "../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "%00",
    "%ff%fe",
    "%ed%a0%80",
    "-1",
    "9" * 30,
    "\u0663",
    "1e9",
    "a" * 5_000,
    "%0d%0aSet-Cookie:%20a=b",
    "<script>alert(1)</script>",
    "{{7*7}}",
)


def test_odd_paths_and_parameters_are_never_the_servers_fault(served: Served) -> None:
    _, job = served.start()
    vertex = served.rest.get("jobs", job)["vertices"][0]["id"]
    known = {":jobid": job, ":applicationid": job, ":vertexid": vertex, ":subtaskindex": "0", ":attempt": "0"}
    for route, odd in itertools.product(ROUTES, ODD):
        names = [part for part in route.path.split("/") if part.startswith(":")]
        shown = urllib.parse.quote(odd, safe="%")
        for name in names:
            path = "/".join(shown if part == name else known.get(part, part) for part in route.path.split("/"))
            status, text, headers = ask(served, route.method, path)
            assert status < 500 or status == 501, (route.method, path, text)
            assert "Set-Cookie" not in headers
    for route, odd in itertools.product((each for each in ROUTES if each.query and each.method == "GET"), ODD):
        path = "/".join(known.get(part, part) for part in route.path.split("/"))
        status, text, _ = ask(
            served, "GET", f"{path}?{'&'.join(f'{name}={odd}' for name in route.query)}".replace("\u0663", "%D9%A3")
        )
        assert status < 500, (path, odd, text)
    assert served.rest.get("jobs", job, "status") == {"status": "RUNNING"}


VALUES: tuple[Any, ...] = (
    "",
    " ",
    "\x00",
    "\ud800",
    "a" * 100_000,
    "~nobody-has-this-name/x",
    "s3://key:hush@bucket/a",
    "file:///proc/self/mem",
    "/dev/full",
    -1,
    1e308,
    10**400,
    [],
    {},
    True,
    None,
)


def test_what_is_refused_is_told_in_short(served: Served) -> None:
    _, job = served.start()
    body = json.dumps({"drain": "https://a:" * 80_000}).encode()
    status, text, _ = ask(served, "POST", f"/jobs/{job}/stop", body)
    assert status == 400
    assert len(text) < 5_000


def test_odd_bodies_are_never_the_servers_fault_and_no_job_ends_by_them(served: Served) -> None:
    client, job = served.start()
    vertex = served.rest.get("jobs", job)["vertices"][0]["id"]
    keys = (
        "target-directory",
        "targetDirectory",
        "savepoint-path",
        "checkpointType",
        "formatType",
        "triggerId",
    )
    routes = [r for r in ROUTES if r.method in ("POST", "PUT") and r.path.startswith(("/jobs/:jobid/", "/savepoint"))]
    assert len(routes) >= 5
    for route, key, value in itertools.product(routes, (*keys, vertex), VALUES):
        if route.path.endswith("/stop") and key != "targetDirectory":
            continue  # without a directory it is refused by the job, and with one it ends
        path = route.path.replace(":jobid", job)
        body = json.dumps({key: value, "target-directory": "/dev/null/x"} | {key: value}).encode()
        status, text, _ = ask(served, route.method, path, body)
        assert status < 500, (path, key, value, text)
    completed = client.snapshot().completed
    wait_for(lambda: client.snapshot().completed > completed + 1)
    assert client.snapshot().failures == ()
    assert served.rest.get("jobs", job, "status") == {"status": "RUNNING"}


# --- names that are markup --------------------------------------------------------------------------------------------

EVIL = "\"'><img src=x onerror=alert(1)><script>alert(2)</script>{{7*7}}\r\nSet-Cookie: a=b"


class Markup(HTMLParser):
    """The elements of a page that nobody but an attacker would put there."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.foreign: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        is_own = (found.get("src") or "").startswith("/dashboard/static/") or found.get("type") == "application/json"
        if tag in ("img", "script") and not is_own:
            self.foreign.append(tag)
        self.foreign += [name for name in found if name.startswith("on")]
        self.foreign += [value for value in found.values() if (value or "").strip().lower().startswith("javascript:")]


class _Counting(KeyedProcessFunction):
    def __init__(self, fails: bool) -> None:
        self._fails = fails

    def open(self, runtime_context: Any) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor(f"count {EVIL}", Types.LONG()))

    def process_element(self, value: str, ctx: Any) -> Iterator[str]:
        self._count.update((self._count.value() or 0) + 1)
        if self._fails:
            raise ValueError(f"{EVIL} {value}")
        yield value


def evil_job(served: Served, *, fails: bool) -> tuple[Any, str]:
    """A job in which every name is markup, and the failure as well."""
    settings = {"headrace.runtime": "local", "parallelism.default": "1", f"my.{EVIL}": EVIL}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    rate = RateLimiterStrategy.per_second(200)
    source = DataGeneratorSource(lambda number: f"{EVIL} {number}", None, rate, Types.STRING())
    texts = env.from_source(source, WatermarkStrategy.no_watermarks(), f"source {EVIL}").uid(f"source {EVIL}")
    gated = texts.expect(f"expectation {EVIL}", lambda text: text.endswith("1"))
    counted = gated.key_by(lambda text: text[-1], Types.STRING()).process(_Counting(fails), Types.STRING())
    counted.name(f"operator {EVIL}").uid(f"operator {EVIL}").filter(lambda _: False).name(f"none {EVIL}").print()
    client = env.execute_async(f"job {EVIL}")
    served.serve(client, settings)
    wait_for(lambda: client.snapshot().end or client.snapshot().completed > 1)
    return client, str(client.get_job_id())


def test_names_and_errors_are_never_markup_and_never_headers(served: Served) -> None:
    _, failed = evil_job(served, fails=True)
    _, running = evil_job(served, fails=False)
    quoted = urllib.parse.quote(EVIL)
    places = ["/dashboard", "/", f"/dashboard/{quoted}", f"/dashboard/jobs/{quoted}"]
    for job in (failed, running):
        place = f"/dashboard/jobs/{job}"
        places += [place, f"{place}/actions/{quoted}"]
        places += [f"{place}/actions/{name}" for name in ("savepoint", "rescale", "stop", "cancel", "release")]
        places += [f"{place}/actions/savepoint/outcome?trigger={quoted}"]
    shown = ""
    for place, is_part in itertools.product(places, (False, True)):
        _, text, headers = ask(served, "GET", place, headers={"HX-Request": "true"} if is_part else {})
        assert "Set-Cookie" not in headers
        if headers.get("Content-Type", "").startswith("application/json"):  # a place that is no page's
            assert headers["X-Content-Type-Options"] == "nosniff"
            continue
        assert Markup(text).foreign == [], place
        shown += text
    for what in ("job", "source", "operator", "expectation", "count"):
        assert f"{what} &#34;&#39;&gt;&lt;img src=x" in shown, what
    form = urllib.parse.urlencode({"directory": EVIL, "parallelism": EVIL, "token": EVIL}).encode()
    for name in ("savepoint", "rescale"):
        _, text, headers = ask(served, "POST", f"/dashboard/jobs/{running}/actions/{name}", form)
        assert Markup(text).foreign == []
        assert "Set-Cookie" not in headers


def test_what_the_rest_api_says_of_them_is_json(served: Served) -> None:
    _, failed = evil_job(served, fails=True)
    for path in ("", "/exceptions", "/plan", "/config", "/archive"):
        _, text, headers = ask(served, "GET", f"/v1/jobs/{failed}{path}")
        assert json.loads(text)
        assert headers["Content-Type"].startswith("application/json")
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "Set-Cookie" not in headers
