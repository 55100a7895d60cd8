"""Programs that are uploaded: bounded, kept apart, and taken from nobody who has no right to."""

from __future__ import annotations

import io
import itertools
import json
import pickle
import tempfile
import urllib.error
import urllib.request
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click import unstyle
from typer.testing import CliRunner

from headrace.cli.main import app
from headrace.common.errors import ConfigurationError
from headrace.server.bodies import file_in
from headrace.server.client import RestClient, RestClientError
from headrace.server.errors import RestError
from tests.server.clusters import Cluster
from tests.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = "correct-horse-battery-staple"
MOST = 200_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A dispatcher that nobody gets to start a process."""
    folder = tmp_path_factory.mktemp("programs")
    token = folder / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    made = Cluster(
        folder / "cluster",
        **{"rest.authentication.token-file": str(token), "rest.server.max-content-length": str(MOST)},
    )
    wait_for(lambda: made.service.dispatcher.leads)
    yield made
    made.service.stop()


def sent(cluster: Cluster, name: str, content: bytes = b"pass\n", **headers: str) -> tuple[int, Any]:
    """Upload a file of some name; gives the status and the answer."""
    head = f'--b\r\nContent-Disposition: form-data; name="jarfile"; filename="{name}"\r\n\r\n'.encode()
    given = {"Content-Type": "multipart/form-data; boundary=b", "Authorization": f"Bearer {TOKEN}"} | headers
    asked = urllib.request.Request(
        f"{cluster.service.address}/v1/jars/upload", head + content + b"\r\n--b--\r\n", given, method="POST"
    )
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_a_program_is_uploaded_listed_and_removed(cluster: Cluster) -> None:
    content = bytes(range(256)) * 500
    status, told = sent(cluster, "my job.zip", content)
    assert (status, told["status"]) == (200, "success")
    [listed] = cluster.rest.get("jars")["files"]
    assert (listed["id"], listed["name"]) == (told["filename"], "my job.zip")
    assert listed["entry"] == [{"name": "main.py", "description": None}]
    [stored] = (cluster.storage / "programs").glob("*/my job.zip")
    assert stored.read_bytes() == content
    cluster.rest.ask("DELETE", ("jars", listed["id"]))
    assert cluster.rest.get("jars")["files"] == []
    with pytest.raises(RestClientError, match="not found"):
        cluster.rest.ask("POST", ("jars", listed["id"], "run"))


@pytest.mark.parametrize(
    ("name", "kept"), [("../../evil.py", "evil.py"), ("C:\\jobs\\job.py", "job.py"), ("/etc/cron.d/job.py", "job.py")]
)
def test_a_name_leads_nowhere_else(cluster: Cluster, name: str, kept: str) -> None:
    status, told = sent(cluster, name)
    assert status == 200
    assert told["filename"].endswith(f"_{kept}")
    assert (cluster.storage / "programs" / told["filename"] / kept).is_file()
    cluster.rest.ask("DELETE", ("jars", told["filename"]))


@pytest.mark.parametrize(
    "name", ["job.jar", "job", "..py", ".py", "a..py", "job.pickle", "a\x00b.py", "j\u00f6b.py", "a" * 200 + ".py"]
)
def test_other_names_are_refused(cluster: Cluster, name: str) -> None:
    assert sent(cluster, name.encode("utf-8").decode("latin-1"))[0] == 400
    assert cluster.rest.get("jars")["files"] == []


def test_nobody_without_the_token_and_no_page_of_another_site(cluster: Cluster) -> None:
    assert sent(cluster, "job.py", Authorization="Bearer wrong")[0] == 401
    assert sent(cluster, "job.py", Origin="http://evil.example")[0] == 403
    assert sent(cluster, "job.py", Host="evil.example")[0] == 403
    with pytest.raises(RestClientError, match="token"):
        RestClient(cluster.service.address).get("jars")
    assert cluster.rest.get("jars")["files"] == []


class _Touches:
    """Leaves a file where it is unpickled."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self._place,)


def test_programs_are_bytes_to_the_dispatcher(cluster: Cluster, tmp_path: Path) -> None:
    traces = [tmp_path / name for name in ("unpickled", "imported", "customized")]
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        for name in ("main.py", "__main__.py", "sitecustomize.py"):
            archive.writestr(name, f"open({str(traces[2])!r}, 'w')")
    contents = (pickle.dumps(_Touches(traces[0])), f"open({str(traces[1])!r}, 'w')".encode(), zipped.getvalue())
    for content, kind in itertools.product(contents, ("py", "sql", "zip")):
        status, told = sent(cluster, f"job.{kind}", content)
        assert status == 200
        assert told["filename"] in [each["id"] for each in cluster.rest.get("jars")["files"]]
        cluster.rest.ask("DELETE", ("jars", told["filename"]))
    assert not any(trace.exists() for trace in traces)
    pickle.loads(contents[0])  # it would have been seen
    assert traces[0].exists()


def test_programs_of_one_name_are_kept_apart(cluster: Cluster) -> None:
    one, other = (sent(cluster, "job.py", content)[1]["filename"] for content in (b"one", b"other"))
    assert one != other
    assert (cluster.storage / "programs" / one / "job.py").read_bytes() == b"one"
    cluster.rest.ask("DELETE", ("jars", one))
    assert (cluster.storage / "programs" / other / "job.py").read_bytes() == b"other"
    cluster.rest.ask("DELETE", ("jars", other))


def test_a_program_has_a_bounded_size(cluster: Cluster) -> None:
    status, told = sent(cluster, "job.py", b"#" * (2 * MOST))
    assert status == 413
    assert "max-content-length" in told["errors"][0]
    assert cluster.rest.get("jars")["files"] == []


@pytest.mark.parametrize(
    ("path", "match"),
    [
        (("jars", "../leader", "run"), "not found"),
        (("jars", "..", "run"), "not found"),
        (("jars", "0" * 32 + "_../../job.py", "run"), "not found"),
        (("jars", "0" * 32 + "_none.py", "plan"), "not found"),
    ],
)
def test_ids_lead_nowhere_else(cluster: Cluster, path: tuple[str, ...], match: str) -> None:
    with pytest.raises(RestClientError, match=f"(?i){match}"):
        cluster.rest.ask("POST", path)


def test_what_cannot_be_run_is_refused_before_it_is_recorded(cluster: Cluster) -> None:
    program = cluster.upload("pass")

    def refused(**body: Any) -> str:
        with pytest.raises(RestClientError) as caught:
            cluster.rest.ask("POST", ("jars", program, "run"), body=body)
        return str(caught.value)

    assert "parallelism" in refused(parallelism="many")
    assert "programArgs" in refused(programArgs="'open")
    assert "programArgsList" in refused(programArgsList="a b")
    assert "jobId" in refused(jobId="short")
    assert "flinkConfiguration" in refused(flinkConfiguration=[])
    assert "$internal" in refused(flinkConfiguration={"$internal.pipeline.job-id": "0" * 32})
    assert "headrace.no-such-key" in refused(flinkConfiguration={"headrace.no-such-key": "1"})
    assert "client mode" in refused(flinkConfiguration={"spark.submit.deployMode": "cluster"})
    assert "setting of the dispatcher" in refused(flinkConfiguration={"rest.port": "1"})
    assert "entryClass" in refused(entryClass=3)
    assert cluster.rest.get("jobs", "overview")["jobs"] == []
    assert [*(cluster.storage / "jobs").iterdir()] == []


def test_job_graphs_of_java_are_refused_with_what_to_do(cluster: Cluster) -> None:
    with pytest.raises(RestClientError, match="headrace run -d"):
        cluster.rest.ask("POST", ("jobs",), body={})


def upload_of(body: bytes, kind: str = "multipart/form-data; boundary=b") -> bytes:
    with tempfile.TemporaryFile() as file:
        file.write(body)
        return b"".join(file_in(file, len(body), kind).blocks())


HEAD = b'--b\r\nContent-Disposition: form-data; name="jarfile"; filename="job.py"\r\n\r\n'


def test_a_file_is_found_among_other_fields() -> None:
    other = b'--b\r\nContent-Disposition: form-data; name="x"\r\n\r\nvalue\r\n'
    assert upload_of(other + HEAD + b"a\r\n-\r\n--\r\n" + b"\r\n--b--\r\n") == b"a\r\n-\r\n--\r\n"
    assert upload_of(b"preamble\r\n" + HEAD + b"\r\n--b--") == b""


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nothing of it",
        HEAD,
        HEAD + b"cut short",
        b"--b\r\n" + b"x" * 20_000,
        b"--b--\r\n",
        b"--b\r\nContent-Disposition: form-data; name=x\r\n\r\nno file\r\n--b--\r\n",
        HEAD + b"one\r\n" + HEAD + b"two\r\n--b--\r\n",
    ],
)
def test_malformed_bodies_are_refused(body: bytes) -> None:
    with pytest.raises(RestError):
        upload_of(body)


@pytest.mark.parametrize("kind", ["", "application/json", "multipart/form-data", "multipart/form-data; boundary="])
def test_bodies_of_other_types_are_refused(kind: str) -> None:
    with pytest.raises(RestError, match="multipart"):
        upload_of(HEAD + b"x\r\n--b--\r\n", kind)


def test_off_this_machine_a_dispatcher_needs_a_token(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="token-file"):
        Cluster(tmp_path / "cluster", **{"rest.bind-address": "0.0.0.0"})


def test_a_submission_has_no_options_without_effect(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("pass")
    for option in ("--rest", "--no-progress", "--traceback"):
        result = CliRunner().invoke(app, ["run", "-d", option, str(tmp_path / "job.py")])
        assert result.exit_code == 2
        assert "leave out --rest" in " ".join(unstyle(result.output).replace("│", "").split())


def test_without_submission_nothing_is_taken(tmp_path: Path) -> None:
    closed = Cluster(tmp_path / "cluster", **{"web.submit.enable": "false"})
    wait_for(lambda: closed.service.dispatcher.leads)
    assert closed.rest.get("config")["features"]["web-submit"] is False
    with pytest.raises(RestClientError, match=r"web\.submit\.enable"):
        closed.upload("pass")
    closed.service.stop()
