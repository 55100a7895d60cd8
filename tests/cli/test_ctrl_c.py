"""Ctrl-C and SIGTERM in a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import psutil
import pytest

import headrace
from tests.forks import Forks
from tests.processes import Launcher
from tests.waiting import PATIENCE


def begin(folder: Path, *arguments: str, errors: IO[str] | int = subprocess.PIPE) -> subprocess.Popen[str]:
    """Start Python, with a pipe to read what it prints from."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(Path(headrace.__file__).parent.parent), "PYTHONUNBUFFERED": "1"},
    )


def stop_reading(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None


@pytest.mark.slow
@pytest.mark.long
def test_ctrl_c_stops_at_an_epoch_and_the_same_command_goes_on(
    programs: Launcher, forks: Forks, script: Callable[..., Path]
) -> None:
    path = script("execute(doubling(10**9, rate=2000)); print('the program went on')\n")
    arguments = ("run", "--runtime", "local", "-D", "execution.checkpointing.dir=checkpoints", path)
    process = programs.start_command(*arguments)
    process.wait_for_output()
    process.interrupt()
    ended = process.wait()
    assert ended.code == 130
    assert "stopping at the end of the running epoch" in ended.errors
    assert "run the same command again to go on from there" in ended.errors
    assert "Traceback" not in ended.errors
    assert ended.output.endswith("the program went on\n")

    again = forks.start_command(*arguments)
    again.wait_for_output()
    again.interrupt()
    ended = again.wait()
    assert "restored epoch" in ended.errors
    assert ended.code == 130


REFRESHES = """
CREATE TABLE counter (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '10');
CREATE MATERIALIZED TABLE streamed WITH ('connector' = 'blackhole') FRESHNESS = INTERVAL '1' SECOND
AS SELECT n FROM counter;
CREATE MATERIALIZED TABLE whole WITH ('connector' = 'filesystem', 'path' = 'whole', 'format' = 'parquet')
FRESHNESS = INTERVAL '1' SECOND REFRESH_MODE = FULL AS SELECT * FROM (VALUES ('a', 1)) AS v(card, amount);
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_refreshes_of_materialized_tables(
    forks: Forks, tmp_path: Path, number: signal.Signals
) -> None:
    path = tmp_path / "refreshes.sql"
    path.write_text(REFRESHES)
    process = forks.start_command("sql", "--runtime", "local", "-f", path)
    process.wait_until("`streamed`_continuous_refresh_job' starts afresh")
    process.wait_until("`whole`_periodic_refresh_job' ended")
    if number is signal.SIGINT:
        process.interrupt()
    else:
        process.terminate()
    ended = process.wait()
    assert ended.code == 128 + number, ended
    assert "`streamed`_continuous_refresh_job' stopped" in ended.errors
    assert "stopped after epoch" in ended.errors


def test_a_program_that_goes_on_gets_an_error_in_place_of_results(forks: Forks, script: Callable[..., Path]) -> None:
    """Not the records that there are by chance: none, say."""
    path = script(
        """
        from headrace.common.errors import JobCancelledError
        from headrace.datastream import StreamExecutionEnvironment

        execute(doubling(10**9, rate=2000))
        for catches in (True, False):
            try:
                print(StreamExecutionEnvironment.get_execution_environment().from_sequence(1, 3)
                    .execute_and_collect(limit=10))
            except JobCancelledError as error:
                print(error)
                if not catches:
                    raise
        print("the end")
        """
    )
    process = forks.start_command("run", "--runtime", "local", path)
    process.wait_for_output()
    process.interrupt()
    ended = process.wait()
    assert ended.code == 130
    assert "Traceback" not in ended.errors
    assert "[]" not in ended.output
    assert ended.output.count("was stopped by a signal (Ctrl-C, SIGTERM) after epoch 0") == 2
    assert not ended.output.endswith("the end\n")


def test_ctrl_c_without_checkpoints_says_what_would_help(forks: Forks, script: Callable[..., Path]) -> None:
    process = forks.start_command("run", "--runtime", "local", script("execute(doubling(10**9, rate=2000))\n"))
    process.wait_for_output()
    process.interrupt()
    ended = process.wait()
    assert ended.code == 130
    assert "--checkpoint-dir" in ended.errors


def waiting(folder: Path) -> Path:
    """A program that runs no job."""
    path = folder / "waiting.py"
    path.write_text("import time; print('here', flush=True); time.sleep(500)\n")
    return path


def test_ctrl_c_ends_a_program_that_runs_no_job(forks: Forks, tmp_path: Path) -> None:
    process = forks.start_command("run", waiting(tmp_path))
    process.wait_for_output()
    process.interrupt()
    ended = process.wait()
    assert ended.code == 130
    assert "interrupted" in ended.errors
    assert "Traceback" not in ended.errors


@pytest.mark.slow
def test_the_exit_code_is_the_commands_own_where_ctrl_c_came_while_python_ran_a_text(
    programs: Launcher, tmp_path: Path
) -> None:
    """As the import of a dataclass does; Python itself would have the process end by the signal."""
    path = tmp_path / "text.py"
    path.write_text("exec('import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(500)')\n")
    ended = programs.start_command("run", path).wait()
    assert ended.code == 130
    assert "interrupted" in ended.errors


ENDLESS = """
    import headrace.client.job_client, time
    headrace.client.job_client.CANCEL_SECONDS = 0.5

    def never_returns(value):
        print("entered", flush=True)
        {body}

    graph = StreamGraph()
    graph.add(specs.SourceSpec(DataGeneratorSource(lambda index: index, 10, type_info=Types.LONG())), "numbers")
    graph.add(specs.MapSpec(never_returns, Types.LONG()), "map", (Edge(0),))
    graph.add(specs.SinkSpec(PrintSink()), "print", (Edge(1),))
    execute(graph)
"""


@pytest.mark.parametrize(("body", "number"), [("while True: pass", signal.SIGINT), ("time.sleep(1e9)", signal.SIGTERM)])
def test_the_second_signal_ends_a_function_that_never_returns(
    forks: Forks, script: Callable[..., Path], body: str, number: signal.Signals
) -> None:
    process = forks.start_command("run", "--runtime", "local", script(ENDLESS.format(body=body)))
    process.wait_for_output()
    os.kill(process.pid, number)
    process.wait_until("stopping at the end of the running epoch")
    os.kill(process.pid, number)
    ended = process.wait()
    assert ended.code == 128 + number
    assert "giving up the running epoch" in ended.errors
    assert "Traceback" not in ended.errors


def test_sigterm_stops_at_an_epoch_like_ctrl_c(forks: Forks, script: Callable[..., Path]) -> None:
    path = script("execute(doubling(10**9, rate=2000)); print('the program went on')\n")
    process = forks.start_command("run", "--runtime", "local", "--checkpoint-dir", "checkpoints", path)
    process.wait_for_output()
    process.terminate()
    ended = process.wait()
    assert ended.code == 143
    assert "stopping at the end of the running epoch; send SIGTERM again to give it up" in ended.errors
    assert "run the same command again to go on from there" in ended.errors
    assert ended.output.endswith("the program went on\n")


def test_sigterm_ends_a_program_that_runs_no_job(forks: Forks, tmp_path: Path) -> None:
    process = forks.start_command("run", waiting(tmp_path))
    process.wait_for_output()
    process.terminate()
    ended = process.wait()
    assert ended.code == 143
    assert "Traceback" not in ended.errors


@pytest.mark.slow
def test_a_job_ends_when_nobody_reads_what_it_prints(forks: Forks, script: Callable[..., Path], tmp_path: Path) -> None:
    path = script("execute(doubling(10**9, rate=2000))\n")
    arguments = ("run", "--runtime", "local", "--checkpoint-dir", "checkpoints", str(path))
    process = begin(tmp_path, "-m", "headrace", *arguments)
    assert process.stdout is not None
    assert process.stdout.readline()
    stop_reading(process)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 141
    assert "error" not in errors
    assert "failed" not in errors
    again = forks.start_command(*arguments)
    again.wait_for_output()
    again.terminate()
    assert "restored epoch" in again.wait().errors


PROGRAM = """
from headrace.common import Configuration, Types, WatermarkStrategy
from headrace.connectors.ranges import DataGeneratorSource, RateLimiterStrategy
from headrace.datastream import StreamExecutionEnvironment

settings = {"headrace.runtime": "local", "parallelism.default": "1", "execution.checkpointing.dir": "checkpoints"}
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
source = DataGeneratorSource(lambda number: number, None, RateLimiterStrategy.per_second(2000), Types.LONG())
env.from_source(source, WatermarkStrategy.no_watermarks(), "endless").uid("endless").print()
try:
    env.execute("numbers")
finally:
    print("finally", flush=True)
print("the program went on")
"""


def test_sigterm_stops_a_program_that_waits_for_its_job(tmp_path: Path) -> None:
    """Without the command line; the epoch that runs is completed, so nothing is printed twice."""
    (tmp_path / "program.py").write_text(PROGRAM)
    printed: list[str] = []
    for _ in range(2):
        errors = (tmp_path / "errors").open("w+")
        process = begin(tmp_path, "program.py", errors=errors)
        assert process.stdout is not None
        printed.append(process.stdout.readline().strip())
        process.terminate()
        *lines, last = process.stdout.read().split()
        assert process.wait(PATIENCE) == 143
        with errors:
            errors.seek(0)
            said = errors.read()
        assert "SIGTERM: stopping at the end of the running epoch; send SIGTERM again to give it up" in said
        assert "Traceback" not in said
        assert last == "finally", "the program ends"
        printed += lines
    assert list(map(int, printed)) == list(range(len(printed)))


@pytest.mark.slow
def test_a_program_ends_quietly_when_nobody_reads_what_it_prints(tmp_path: Path) -> None:
    """Without the command line, as in ``python program.py | head -1``."""
    (tmp_path / "program.py").write_text(PROGRAM)
    process = begin(tmp_path, "program.py")
    assert process.stdout is not None
    assert process.stdout.readline() == "0\n"
    stop_reading(process)
    assert "Error" not in process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 141


TWO_JOBS = """
import sys
from headrace.common import Configuration, Types, WatermarkStrategy
from headrace.connectors.ranges import DataGeneratorSource, RateLimiterStrategy
from headrace.datastream import StreamExecutionEnvironment

def endless(keep):
    settings = {"headrace.runtime": "local", "parallelism.default": "1"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    source = DataGeneratorSource(lambda number: number, None, RateLimiterStrategy.per_second(2000), Types.LONG())
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "endless").uid("endless")
    numbers.filter(keep).print()
    return env

def wait_for_the_other(number):
    import time
    from headrace.client import running
    while len(running.jobs()) > 1:
        time.sleep(0.01)
    return False

beside = endless(wait_for_the_other).execute_async("beside")
try:
    endless(lambda number: True).execute("waited for")
finally:
    print("beside:", beside.get_job_status().result().name, file=sys.stderr, flush=True)
"""


@pytest.mark.slow
def test_sigterm_lets_every_job_of_a_program_end_its_epoch(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(TWO_JOBS)
    process = begin(tmp_path, "program.py")
    assert process.stdout is not None
    assert process.stdout.readline()
    process.terminate()
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 143
    assert "beside: SUSPENDED" in errors
    assert "Traceback" not in errors


@pytest.mark.spark
@pytest.mark.apart
def test_ctrl_c_stops_at_an_epoch_on_spark_as_well(programs: Launcher, script: Callable[..., Path]) -> None:
    """PySpark sets a handler of its own when a session starts; it must not have the last word.

    The Java of the session is the one that was started beside the program.
    """
    path = script("execute(doubling(10**9, rate=2000))\n")
    process = programs.start_command("run", "--master", "local[2]", "-p", 1, path)
    children = psutil.Process(process.pid).children
    wait_for(children, is_of_spark)
    early = [child.pid for child in children() if is_of_spark(child)]
    process.wait_for_output()
    assert [child.pid for child in children() if is_of_spark(child)] == early
    os.kill(process.pid, signal.SIGINT)
    ended = process.wait()
    assert "stopping at the end of the running epoch" in ended.errors
    assert "job 'doubling' stopped at epoch" in ended.errors
    assert ended.code == 130


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.apart
@pytest.mark.parametrize(
    ("moment", "number", "expected"),
    [
        ("Java starts, beside the program", signal.SIGINT, "interrupted before the first epoch"),
        pytest.param("Java is up", signal.SIGTERM, "interrupted while Spark starts", marks=pytest.mark.slow),
    ],
)
def test_a_signal_while_spark_starts_leaves_no_process_behind(
    programs: Launcher, script: Callable[..., Path], moment: str, number: signal.Signals, expected: str
) -> None:
    process = programs.start_command("run", "--master", "local[1]", script("execute(doubling(10**9, rate=2000))\n"))
    children = psutil.Process(process.pid).children
    wait_for(children, is_of_spark)
    if moment == "Java is up":
        wait_for(children, lambda child: child.name() == "java" and bool(child.net_connections()))
    started = children(recursive=True)
    os.kill(process.pid, number)
    ended = process.wait()
    assert ended.code == 128 + number
    assert expected in ended.errors
    assert "Traceback" not in ended.errors
    assert "Exception" not in ended.errors
    gone, alive = psutil.wait_procs(started, timeout=PATIENCE)
    assert gone
    assert not alive


def is_of_spark(process: psutil.Process) -> bool:
    return "pyspark-shell" in process.cmdline()


def wait_for(processes: Callable[[], list[psutil.Process]], is_so: Callable[[psutil.Process], bool]) -> None:
    """Until something is true of one of some processes."""
    deadline = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(psutil.Error):  # one that ends meanwhile
            if any(map(is_so, processes())):
                return
        assert time.monotonic() < deadline
        time.sleep(0.01)
