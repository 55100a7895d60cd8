"""Flink's own web UI out of a jar, with a server of jobs behind it."""

from __future__ import annotations

import json
import socket
import threading
import urllib.error
import urllib.request
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn

from headrace.common.errors import ConfigurationError
from headrace.server.client import RestClient
from headrace.server.flink_web import FlinkWeb, flink_web_application
from headrace.server.settings import RestSettings
from tests.waiting import PATIENCE, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.server.serving import Served


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    path = tmp_path / "flink-runtime-web.jar"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("web/index.html", "<title>Apache Flink Web Dashboard</title>")
        made.writestr("web/main.js", "boot()")
        made.writestr("META-INF/secret", "not of the page")
    return path


@pytest.fixture
def page(jar: Path, served: Served) -> Iterator[str]:
    app = flink_web_application(FlinkWeb(jar), RestClient(served.server.address), RestSettings("localhost", (0,)))
    bound = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    wait_for(lambda: server.started)
    yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    server.should_exit = True
    thread.join(PATIENCE)
    bound.close()


def fetched(url: str, method: str = "GET", **headers: str) -> tuple[int, str, bytes]:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    asked = urllib.request.Request(url, method=method, headers=given)
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read()


def test_files_come_out_of_the_jar_and_all_else_from_the_jobs(page: str, served: Served) -> None:
    _, job = served.start()
    assert fetched(f"{page}/")[1:] == ("text/html; charset=utf-8", b"<title>Apache Flink Web Dashboard</title>")
    assert fetched(f"{page}/main.js")[2] == b"boot()"
    status, kind, overview = fetched(f"{page}/jobs/overview")
    assert (status, kind) == (200, "application/json; charset=UTF-8")
    found: Any = json.loads(overview)
    assert [line["jid"] for line in found["jobs"]] == [job]
    assert fetched(f"{page}/META-INF/secret")[0] == 404
    assert fetched(f"{page}/../META-INF/secret")[0] == 404
    assert fetched(f"{page}/jobs/{job}/yarn-cancel", Origin="http://evil.example")[0] == 403
    assert fetched(f"{page}/jobs", Host="evil.example")[0] == 403
    assert fetched(f"{page}/jobs/{job}/yarn-cancel")[0] == 403
    assert fetched(f"{page}/jobs/{job}/yarn-cancel", Sec_Fetch_Site="same-origin")[0] == 202
    served.server.close()
    assert fetched(f"{page}/config")[0] == 502


def test_a_jar_of_something_else_is_refused(jar: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jar"
    with zipfile.ZipFile(other, "w") as made:
        made.writestr("README", "")
    with pytest.raises(ConfigurationError, match="flink-runtime-web"):
        FlinkWeb(other)
    other.write_text("no archive")
    with pytest.raises(ConfigurationError, match="is no jar"):
        FlinkWeb(other)
    folder = tmp_path / "web"
    folder.mkdir()
    (folder / "index.html").write_text("page")
    assert FlinkWeb(folder).file("/") == b"page"
