"""Flink's own command line asks jobs of headrace."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.broker import maven_jars
from headrace.common.errors import InfrastructureError
from headrace.common.java import bundled_java_home, cache_directory, find_java
from headrace.server.settings import RestSettings
from tests.server.serving import Served
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.apart]

VERSION = "2.3.0"
TOKEN = "correct-horse-battery-staple"

Flink = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def flink(tmp_path_factory: pytest.TempPathFactory) -> Flink:
    """Runs ``flink`` with some arguments."""
    cache = cache_directory(os.environ) / "flink-clients"
    try:
        jars = maven_jars(cache, f"Flink {VERSION}", f"org.apache.flink:flink-clients:{VERSION}")
    except InfrastructureError as error:
        pytest.skip(str(error))
    java, folder = find_java(os.environ, bundled_java_home()), tmp_path_factory.mktemp("conf")
    (folder / "config.yaml").write_text("jobmanager.rpc.address: localhost\n")

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [str(java.home / "bin" / "java"), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]
        patience = ("-Drest.retry.max-attempts=1", "-Drest.retry.delay=10ms")
        action, *rest = arguments
        command += [":".join(map(str, jars)), "org.apache.flink.client.cli.CliFrontend", action, *patience, *rest]
        variables = os.environ | {"FLINK_CONF_DIR": str(folder)} | environment
        return subprocess.run(command, capture_output=True, text=True, env=variables, timeout=PATIENCE, check=False)

    return run


def test_flinks_own_command_line(flink: Flink, served: Served, tmp_path: Path) -> None:
    at = ("-m", served.server.address.removeprefix("http://"))
    first, second = served.start(rate=500)[1], served.start(rate=500)[1]

    def ran(*arguments: str) -> str:
        result = flink(*arguments)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    listed = ran("list", *at)
    assert f"{first} : served job (RUNNING)" in listed
    assert f"{second} : served job (RUNNING)" in listed
    taken = ran("savepoint", *at, first, str(tmp_path / "savepoints")).partition("Path: ")[2].split()[0]
    assert Path(taken).is_dir()
    assert f"for job {first} completed" in ran("checkpoint", *at, "--full", first)
    assert "Savepoint completed. Path: " in ran("stop", *at, "-p", str(tmp_path / "savepoints"), first)
    assert "disposed" in ran("savepoint", *at, "-d", taken)
    assert not Path(taken).exists()
    assert f"Cancelled job {second}." in ran("cancel", *at, second)
    ended = ran("list", "-a", *at)
    assert f"{first} : served job (FINISHED)" in ended
    assert f"{second} : served job (CANCELED)" in ended


def test_it_reads_why_something_cannot_be_done(flink: Flink, served: Served, tmp_path: Path) -> None:
    at = ("-m", served.server.address.removeprefix("http://"))
    _, job = served.start(rate=500)
    (tmp_path / "file").write_text("no folder")
    later = flink("savepoint", *at, job, str(tmp_path / "file"))
    assert later.returncode != 0
    assert "SavepointError: no savepoint was taken in" in later.stdout + later.stderr
    unknown = flink("cancel", *at, "0" * 32)
    assert f"Job {'0' * 32} not found" in unknown.stdout + unknown.stderr


def test_it_brings_a_token(flink: Flink) -> None:
    served = Served(RestSettings("127.0.0.1", (0,), token=TOKEN))
    try:
        at = ("-m", served.server.address.removeprefix("http://"))
        assert "Authorization: Bearer" in (refused := flink("list", *at)).stdout + refused.stderr
        headers = f"Authorization:Bearer {TOKEN}"
        assert "No running jobs." in flink("list", *at, FLINK_REST_CLIENT_HEADERS=headers).stdout
    finally:
        served.server.close()
