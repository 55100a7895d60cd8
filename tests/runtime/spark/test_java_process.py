"""Java started, reached, ended; and started early, for the session that the program will probably want."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, JobExecutionError
from headrace.runtime.spark import session_start
from headrace.runtime.spark.session_start import EarlyJava, JavaProcess, SessionRequest, SessionStart
from tests.waiting import PATIENCE, wait_for

LISTENS = """
printf '\\0\\0\\1\\2\\0\\0\\0\\6secret' > $_PYSPARK_DRIVER_CONN_INFO_PATH.new
mv $_PYSPARK_DRIVER_CONN_INFO_PATH.new $_PYSPARK_DRIVER_CONN_INFO_PATH
cat
"""


def spark_with(submit: str, folder: Path, **variables: str) -> dict[str, str]:
    """The environment in which spark-submit is a script of the test's own."""
    program = folder / "spark" / "bin" / "spark-submit"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{submit}")
    program.chmod(0o755)
    return {"PATH": os.environ["PATH"], "SPARK_HOME": str(folder / "spark"), **variables}


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_it_says_how_to_reach_it_and_ends_with_its_input(tmp_path: Path) -> None:
    told = tmp_path / "told"
    environment = spark_with(f'echo "$@" > {told}\ncp $2 {told}.conf\nenv > {told}.env\n{LISTENS}', tmp_path, MINE="1")

    java = JavaProcess(SessionStart({"spark.secret": "s3cret"}, {"JAVA_HOME": "/java"}), environment)
    variables = java.wait()

    assert variables == {"PYSPARK_GATEWAY_PORT": "258", "PYSPARK_GATEWAY_SECRET": "secret"}
    arguments = shlex.split(told.read_text())
    assert arguments[2:] == ["--load-spark-defaults", "pyspark-shell"]
    assert "s3cret" not in told.read_text()
    assert Path(f"{told}.conf").read_text() == "spark.secret=s3cret\n"
    assert not Path(arguments[1]).exists(), "the file of settings goes when Java is up"
    assert {"MINE=1", "JAVA_HOME=/java"} <= set(Path(f"{told}.env").read_text().splitlines())
    assert java.process.stdin is not None
    java.process.stdin.close()
    assert java.process.wait(PATIENCE) == 0


@pytest.mark.parametrize(
    ("given", "found"), [("C", "C.UTF-8"), ("POSIX", "C.UTF-8"), ("de_DE.UTF-8", "de_DE.UTF-8"), (None, "")]
)
def test_it_can_name_all_files(given: str | None, found: str, tmp_path: Path) -> None:
    environment = spark_with(f'printf "%s" "$LC_ALL" > {tmp_path}/told\n{LISTENS}', tmp_path)
    java = JavaProcess(SessionStart({}, {}), environment | ({} if given is None else {"LC_ALL": given}))
    java.wait()
    java.end()
    assert (tmp_path / "told").read_text() == found


def test_one_that_ends_at_once_is_an_error(tmp_path: Path) -> None:
    java = JavaProcess(SessionStart({}, {}), spark_with("exit 3", tmp_path))

    with pytest.raises(JobExecutionError, match="Java ended with code 3"):
        java.wait()


def test_one_without_a_program_is_an_error_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    with pytest.raises(OSError, match="spark-submit"):
        JavaProcess(SessionStart({}, {}), {"SPARK_HOME": str(tmp_path / "nowhere")})

    assert list(tmp_path.iterdir()) == []


def test_its_end_is_that_of_all_it_has_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    environment = spark_with(f"sleep 1000 & echo $$ $! > {pids}.new\nmv {pids}.new {pids}\nwait", tmp_path)
    java = JavaProcess(SessionStart({}, {}), environment)
    wait_for(pids.exists)

    java.end()

    for pid in map(int, pids.read_text().split()):
        wait_for(lambda pid=pid: not is_alive(pid))


class Started:
    """Stands for `JavaProcess` and counts."""

    def __init__(self) -> None:
        self.made: list[SessionStart] = []
        self.ended = 0

    def __call__(self, start: SessionStart, environment: Any) -> Started:
        self.made.append(start)
        return self

    def end(self) -> None:
        self.ended += 1


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    fake = Started()
    monkeypatch.setattr(session_start, "JavaProcess", fake)
    monkeypatch.setattr(session_start, "prepare", lambda request, given: SessionStart(request.settings, {}))
    return fake


REQUEST = SessionRequest({"spark.a": "1"}, None, True, {"MINE": "as it was"})


def test_an_early_one_is_taken_once_by_an_equal_request(started: Started) -> None:
    early = EarlyJava(REQUEST)

    assert early.take(replace(REQUEST)) == (SessionStart({"spark.a": "1"}, {}), started)
    assert early.take(REQUEST) is None
    early.discard()
    assert (len(started.made), started.ended) == (1, 0)


OTHERS = [
    replace(REQUEST, settings={"spark.a": "2"}),
    replace(REQUEST, master="local[3]"),
    replace(REQUEST, uses_class_archive=False),
    replace(REQUEST, environment={"MINE": "set by the program"}),
    replace(REQUEST, folder=Path("/")),
]


@pytest.mark.parametrize("request_", OTHERS)
def test_an_early_one_is_ended_when_another_session_is_wanted(started: Started, request_: SessionRequest) -> None:
    early = EarlyJava(REQUEST)
    wait_for(early._started.done)

    assert early.take(request_) is None
    assert early.take(REQUEST) is None
    assert (len(started.made), started.ended) == (1, 1)


def test_an_early_one_that_is_not_wanted_before_it_starts_never_does(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()

    def prepare(request: SessionRequest, given: Any) -> SessionStart:
        assert goes_on.wait(PATIENCE)
        return SessionStart({}, {})

    monkeypatch.setattr(session_start, "prepare", prepare)
    early = EarlyJava(REQUEST)
    early.discard()
    goes_on.set()

    assert early._started.result(PATIENCE) is None
    assert started.made == []


@pytest.mark.parametrize("error", [ConfigurationError("twice"), OSError("no room")])
def test_an_early_one_that_cannot_start_leaves_the_error_to_the_session(
    started: Started, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def prepare(request: SessionRequest, given: Any) -> SessionStart:
        raise error

    monkeypatch.setattr(session_start, "prepare", prepare)

    assert EarlyJava(REQUEST).take(REQUEST) is None


@pytest.mark.parametrize(
    ("text", "settings", "expected"),
    [
        ("env.execute()", {}, True),
        ("env.execute()", {"headrace.spark.master": "local[2]", "spark.executor.memory": "2g"}, True),
        ("env.execute()", {"headrace.runtime": "local"}, False),
        ("config.set('headrace.runtime', 'local')", {}, False),
        ("from pyspark.sql import SparkSession", {}, False),
        ("env.execute()", {"python.executable": "/a", "spark.pyspark.python": "/b"}, False),
        (None, {}, False),
    ],
)
def test_which_programs_get_one(
    started: Started, tmp_path: Path, text: str | None, settings: dict[str, str], expected: bool
) -> None:
    script = tmp_path / "program.py"
    if text is not None:
        script.write_text(text)

    early = EarlyJava.for_program(script, Configuration.from_dict(settings))

    assert (early is not None) == expected
    if early is not None:
        assert early.take(SessionRequest.of(Configuration.from_dict(settings))) is not None
    assert len(started.made) == expected


def test_there_is_none_where_spark_submit_has_started_java(
    started: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    script = tmp_path / "program.py"
    script.write_text("")

    assert EarlyJava.for_program(script, Configuration()) is None


PROGRAM = """
import json
from headrace.common import Configuration
from headrace.datastream import StreamExecutionEnvironment

from headrace.client.running import current_defaults

_, early = current_defaults().early_java._started.result()
configuration = Configuration()
{more}
env = StreamExecutionEnvironment.get_execution_environment(configuration)
records = list(env.from_collection([1, 2]).map(lambda x: x + 1).execute_and_collect())
from sys import modules
used = modules["py" + "spark"].SparkContext._gateway.proc
print(json.dumps([early.process.pid, early.process.poll() is None, used.pid, sorted(records)]))
"""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("memory", [None, "1g"])
def test_a_program_gets_the_early_one_if_it_is_the_right_one(tmp_path: Path, memory: str | None) -> None:
    script = tmp_path / "program.py"
    more = f"configuration.set('spark.driver.memory', {memory!r})" if memory else ""
    script.write_text(PROGRAM.replace("{more}", more))
    command = [sys.executable, "-m", "headrace", "run", "--master", "local[1]", "--no-progress", str(script)]

    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)

    assert done.returncode == 0, done.stderr
    early, is_early_alive, used, records = json.loads(done.stdout.splitlines()[-1])
    assert records == [2, 3]
    assert (early == used) == is_early_alive == (memory is None)
