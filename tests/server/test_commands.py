"""``headrace run --rest``, and the commands that ask jobs that are served."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from headrace.cli.main import app
from headrace.cli.settings import with_rest
from headrace.common import Configuration, Types
from headrace.common.errors import ConfigurationError
from headrace.datastream import StreamExecutionEnvironment
from headrace.expressions import col
from headrace.server import local_servers
from tests.waiting import PATIENCE, wait_for

if TYPE_CHECKING:
    from tests.server.serving import Served


@pytest.fixture(autouse=True)
def own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers of other tests are not those of this one, and no width is told, by which tables would be folded."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("COLUMNS", raising=False)


def ran(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output.strip()


@pytest.mark.parametrize(
    ("address", "settings"),
    [
        (None, {}),
        ("", {"rest.bind-port": "8081-8180"}),
        ("9000", {"rest.port": "9000", "rest.bind-port": "9000"}),
        (":9000", {"rest.port": "9000", "rest.bind-port": "9000"}),
        ("host", {"rest.bind-address": "host", "rest.bind-port": "8081-8180"}),
        ("host:9000", {"rest.bind-address": "host", "rest.port": "9000", "rest.bind-port": "9000"}),
        ("[::1]:9000", {"rest.bind-address": "::1", "rest.port": "9000", "rest.bind-port": "9000"}),
    ],
)
def test_rest_says_host_and_port(address: str | None, settings: dict[str, str]) -> None:
    assert with_rest({"a": "b"}, address) == {"a": "b"} | settings


def test_a_port_that_is_configured_holds() -> None:
    assert with_rest({"rest.port": "7"}, "") == {"rest.port": "7"}
    with pytest.raises(ConfigurationError, match=r"rest\.port"):
        with_rest({}, "host:port")


def test_rest_alone_leaves_the_program_its_own_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def run(script: Path, arguments: list[str], settings: dict[str, str], **_: object) -> int:
        seen.update(arguments=arguments, settings=settings)
        return 0

    monkeypatch.setattr("headrace.cli.run.run_program", run)
    script = tmp_path / "job.py"
    script.write_text("")
    ran("run", "--rest", "-p", "2", str(script), "--rest", "x")
    assert seen["arguments"] == ["--rest", "x"]
    assert seen["settings"] == {"parallelism.default": "2", "rest.bind-port": "8081-8180"}


def test_the_only_job_of_this_machine_needs_no_name(served: Served, tmp_path: Path) -> None:
    _, job = served.start()
    line = next(line for line in ran("list").splitlines() if job in line)
    assert line.split()[1:4] == ["served", "job", "RUNNING"]
    assert "one more" in ran("info")
    assert int(ran("checkpoint")) > 0
    assert ran("rescale", "-p", "1").endswith("parallelism 1")
    savepoint = ran("stop", "-p", str(tmp_path / "savepoints"))
    assert Path(savepoint).is_dir()
    wait_for(lambda: served.rest.get("jobs", job, "status")["status"] == "FINISHED")
    assert ran("list") == "no jobs run"
    assert "FINISHED" in ran("list", "--all")


def test_info_tells_what_stands_out(served: Served) -> None:
    configuration = Configuration.from_dict({"headrace.runtime": "local"})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.from_collection([1, -1], Types.LONG()).expect("positive", col(0) > 0, "hold").uid("gate").print().uid("out")
    client = env.execute_async()
    served.server.add(client, configuration)
    wait_for(lambda: client.snapshot().held)
    assert "RUNNING, epoch 1 held" in ran("list")
    told = ran("info")
    assert "Epoch 1 is held back" in told
    assert "the expectation 'positive' is violated: col(0) > 0 is not true; record: -1" in told
    result = CliRunner().invoke(app, ["checkpoint", "--timeout", "0.2"])
    assert (result.exit_code, "waiting: epoch 1 is held back" in result.output) == (1, True)
    client.cancel().result(timeout=PATIENCE)


def test_one_of_several_jobs_is_named(served: Served, tmp_path: Path) -> None:
    address = served.server.address.removeprefix("http://")
    first, second = served.start()[1], served.start()[1]
    result = CliRunner().invoke(app, ["cancel", "-m", address])
    assert result.exit_code == 1
    assert f"{first}  served job" in result.output
    assert ran("cancel", first, "-m", address) == f"job {first} is being cancelled"
    assert Path(ran("savepoint", second, str(tmp_path / "one"), "-m", address)).is_dir()
    result = CliRunner().invoke(app, ["cancel", "f" * 32, "-m", address])
    assert "no job ffffffff" in result.output


def test_nothing_is_served_here() -> None:
    result = CliRunner().invoke(app, ["stop"])
    assert result.exit_code == 1
    assert "headrace run --rest" in result.output
    assert ran("list") == "no jobs"


def test_processes_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    file = local_servers.note("http://localhost:1", "")
    assert file is not None
    document = json.loads(file.read_text())
    document["process"]["pid"] = 2**22 - 3
    file.write_text(json.dumps(document))
    assert local_servers.known_servers() == []
    assert not file.exists()
    file.parent.chmod(0o777)
    local_servers.note("http://localhost:1", "")
    assert local_servers.known_servers() == []  # anybody could have written there


def test_a_job_is_asked_by_its_directory_to_complete_a_checkpoint_and_to_give_up(
    served: Served, tmp_path: Path
) -> None:
    client, _ = served.start(**{"execution.checkpointing.dir": str(tmp_path / "checkpoints")})
    before = client.snapshot().completed
    assert int(ran("checkpoint", str(tmp_path / "checkpoints"))) > before
    assert ran("cancel", str(tmp_path / "checkpoints")) == "the job is cancelled"
    assert type(client.get_job_execution_result().exception(timeout=PATIENCE)).__name__ == "JobCancelledError"


JOB = """
from headrace.common import Types, WatermarkStrategy
from headrace.connectors.ranges import DataGeneratorSource, RateLimiterStrategy
from headrace.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda number: number, None, RateLimiterStrategy.per_second(100), Types.LONG())
env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").filter(lambda number: False).print()
env.execute("numbers")
"""


@pytest.mark.apart
@pytest.mark.integration
def test_a_program_says_first_where_it_is_served_and_tells_the_outcome_before_it_ends(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(JOB)
    options = ["--rest=localhost:0", "--runtime", "local", "--checkpoint-dir", str(tmp_path / "checkpoints")]
    with subprocess.Popen(
        [sys.executable, "-m", "headrace", "run", *options, str(script)], stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stderr is not None
        first = program.stderr.readline()
        assert first.startswith("dashboard at http://localhost:")
        address = first.split()[2].removesuffix(",")
        wait_for(lambda: "RUNNING" in ran("list", "-m", address))
        assert Path(ran("stop", "-m", address, "-p", str(tmp_path / "savepoints"))).is_dir()
        assert program.wait(PATIENCE) == 0
