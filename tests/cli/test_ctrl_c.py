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

import psutil
import pytest

import headrace

pytestmark = pytest.mark.timeout(240)

Start = Callable[..., subprocess.Popen[str]]


def wait_for_output(process: subprocess.Popen[str]) -> None:
    """Until the job has printed something: it runs."""
    assert process.stdout is not None
    assert process.stdout.readline()


def test_ctrl_c_stops_at_an_epoch_and_the_same_command_goes_on(
    start: Start, script: Callable[..., Path], tmp_path: Path
) -> None:
    path = script("execute(doubling(10**9, rate=2000)); print('the program went on')\n")
    arguments = ("run", "--runtime", "local", "-D", "execution.checkpointing.dir=checkpoints", path)
    process = start(*arguments)
    wait_for_output(process)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=200)
    assert process.returncode == 130
    assert "stopping at the end of the running epoch" in errors
    assert "run the same command again to go on from there" in errors
    assert "Traceback" not in errors
    assert output.endswith("the program went on\n")

    again = start(*arguments)
    wait_for_output(again)
    again.send_signal(signal.SIGINT)
    _, errors = again.communicate(timeout=200)
    assert "restored epoch" in errors
    assert again.returncode == 130


def test_a_program_that_goes_on_gets_an_error_in_place_of_results(start: Start, script: Callable[..., Path]) -> None:
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
    process = start("run", "--runtime", "local", path)
    wait_for_output(process)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=200)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert "[]" not in output
    assert output.count("was stopped by a signal (Ctrl-C, SIGTERM) after epoch 0") == 2
    assert not output.endswith("the end\n")


def test_ctrl_c_without_checkpoints_says_what_would_help(start: Start, script: Callable[..., Path]) -> None:
    process = start("run", "--runtime", "local", script("execute(doubling(10**9, rate=2000))\n"))
    wait_for_output(process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 130
    assert "--checkpoint-dir" in errors


def waiting(folder: Path) -> Path:
    """A program that runs no job."""
    path = folder / "waiting.py"
    path.write_text("import time; print('here', flush=True); time.sleep(500)\n")
    return path


def test_ctrl_c_ends_a_program_that_runs_no_job(start: Start, tmp_path: Path) -> None:
    process = start("run", waiting(tmp_path))
    wait_for_output(process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 130
    assert "interrupted" in errors
    assert "Traceback" not in errors


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
    start: Start, script: Callable[..., Path], body: str, number: signal.Signals
) -> None:
    process = start("run", "--runtime", "local", script(ENDLESS.format(body=body)))
    wait_for_output(process)
    process.send_signal(number)
    assert process.stderr is not None
    while "stopping at the end of the running epoch" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(number)
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 128 + number
    assert "giving up the running epoch" in errors
    assert "Traceback" not in errors


def test_sigterm_stops_at_an_epoch_like_ctrl_c(start: Start, script: Callable[..., Path]) -> None:
    path = script("execute(doubling(10**9, rate=2000)); print('the program went on')\n")
    process = start("run", "--runtime", "local", "--checkpoint-dir", "checkpoints", path)
    wait_for_output(process)
    process.terminate()
    output, errors = process.communicate(timeout=200)
    assert process.returncode == 143
    assert "stopping at the end of the running epoch; send SIGTERM again to give it up" in errors
    assert "run the same command again to go on from there" in errors
    assert output.endswith("the program went on\n")


def test_sigterm_ends_a_program_that_runs_no_job(start: Start, tmp_path: Path) -> None:
    process = start("run", waiting(tmp_path))
    wait_for_output(process)
    process.terminate()
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 143
    assert "Traceback" not in errors


def test_a_job_ends_when_nobody_reads_what_it_prints(start: Start, script: Callable[..., Path]) -> None:
    path = script("execute(doubling(10**9, rate=2000))\n")
    process = start("run", "--runtime", "local", "--checkpoint-dir", "checkpoints", path)
    wait_for_output(process)
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 141
    assert "error" not in errors
    assert "failed" not in errors
    again = start("run", "--runtime", "local", "--checkpoint-dir", "checkpoints", path)
    wait_for_output(again)
    again.terminate()
    assert "restored epoch" in again.communicate(timeout=200)[1]


PROGRAM = """
from headrace.common import Configuration, Types, WatermarkStrategy
from headrace.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
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
    source = str(Path(headrace.__file__).parent.parent)
    printed: list[str] = []
    for _ in range(2):
        errors = (tmp_path / "errors").open("w+")
        process = subprocess.Popen(
            [sys.executable, "program.py"],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": source, "PYTHONUNBUFFERED": "1"},
        )
        assert process.stdout is not None
        printed.append(process.stdout.readline().strip())
        process.terminate()
        *lines, last = process.stdout.read().split()
        assert process.wait(200) == 143
        with errors:
            errors.seek(0)
            said = errors.read()
        assert "SIGTERM: stopping at the end of the running epoch; send SIGTERM again to give it up" in said
        assert "Traceback" not in said
        assert last == "finally", "the program ends"
        printed += lines
    assert list(map(int, printed)) == list(range(len(printed)))


def test_a_program_ends_quietly_when_nobody_reads_what_it_prints(tmp_path: Path) -> None:
    """Without the command line, as in ``python program.py | head -1``."""
    (tmp_path / "program.py").write_text(PROGRAM)
    process = subprocess.Popen(
        [sys.executable, "program.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(headrace.__file__).parent.parent)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "0\n"
    process.stdout.close()
    process.stdout = None
    assert "Error" not in process.communicate(timeout=200)[1]
    assert process.returncode == 141


TWO_JOBS = """
import sys
from headrace.common import Configuration, Types, WatermarkStrategy
from headrace.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
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


def test_sigterm_lets_every_job_of_a_program_end_its_epoch(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(TWO_JOBS)
    process = subprocess.Popen(
        [sys.executable, "program.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(headrace.__file__).parent.parent), "PYTHONUNBUFFERED": "1"},
    )
    wait_for_output(process)
    process.terminate()
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 143
    assert "beside: SUSPENDED" in errors
    assert "Traceback" not in errors


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_ctrl_c_stops_at_an_epoch_on_spark_as_well(start: Start, script: Callable[..., Path]) -> None:
    """PySpark sets a handler of its own when a session starts; it must not have the last word.

    The Java of the session is the one that was started beside the program.
    """
    process = start("run", "--master", "local[2]", "-p", 1, script("execute(doubling(10**9, rate=2000))\n"))
    children = psutil.Process(process.pid).children
    wait_for(children, is_of_spark)
    early = [child.pid for child in children() if is_of_spark(child)]
    wait_for_output(process)
    assert [child.pid for child in children() if is_of_spark(child)] == early
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert "stopping at the end of the running epoch" in errors
    assert "job 'doubling' stopped at epoch" in errors
    assert process.returncode == 130


@pytest.mark.spark
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("moment", "number", "expected"),
    [
        ("Java starts, beside the program", signal.SIGINT, "interrupted before the first epoch"),
        pytest.param("Java is up", signal.SIGTERM, "interrupted while Spark starts", marks=pytest.mark.slow),
    ],
)
def test_a_signal_while_spark_starts_leaves_no_process_behind(
    start: Start, script: Callable[..., Path], moment: str, number: signal.Signals, expected: str
) -> None:
    process = start("run", "--master", "local[1]", script("execute(doubling(10**9, rate=2000))\n"))
    children = psutil.Process(process.pid).children
    wait_for(children, is_of_spark)
    if moment == "Java is up":
        wait_for(children, lambda child: child.name() == "java" and bool(child.net_connections()))
    started = children(recursive=True)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert expected in errors
    assert "Traceback" not in errors
    assert "Exception" not in errors
    gone, alive = psutil.wait_procs(started, timeout=30)
    assert gone
    assert not alive


def is_of_spark(process: psutil.Process) -> bool:
    return "pyspark-shell" in process.cmdline()


def wait_for(processes: Callable[[], list[psutil.Process]], is_so: Callable[[psutil.Process], bool]) -> None:
    """Until something is true of one of some processes."""
    deadline = time.monotonic() + 60
    while True:
        with contextlib.suppress(psutil.Error):  # one that ends meanwhile
            if any(map(is_so, processes())):
                return
        assert time.monotonic() < deadline
        time.sleep(0.01)
