"""Ctrl-C in a process of its own."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

pytestmark = pytest.mark.timeout(60)

Start = Callable[..., "subprocess.Popen[str]"]


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
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "stopping at the end of the running epoch" in errors
    assert "run the same command again to go on from there" in errors
    assert "Traceback" not in errors
    assert output.endswith("the program went on\n")

    again = start(*arguments)
    wait_for_output(again)
    again.send_signal(signal.SIGINT)
    _, errors = again.communicate(timeout=30)
    assert "restored epoch" in errors
    assert again.returncode == 130


def test_ctrl_c_without_checkpoints_says_what_would_help(start: Start, script: Callable[..., Path]) -> None:
    process = start("run", "--runtime", "local", script("execute(doubling(10**9, rate=2000))\n"))
    wait_for_output(process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "--checkpoint-dir" in errors


def test_ctrl_c_ends_a_program_that_runs_no_job(start: Start, script: Callable[..., Path]) -> None:
    process = start("run", script("import time; print('here', flush=True); time.sleep(50)\n"))
    wait_for_output(process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted" in errors
    assert "Traceback" not in errors


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_ctrl_c_stops_at_an_epoch_on_spark_as_well(start: Start, script: Callable[..., Path]) -> None:
    """PySpark sets a handler of its own when a session starts; it must not have the last word."""
    process = start("run", "--master", "local[2]", "-p", 1, script("execute(doubling(10**9, rate=2000))\n"))
    wait_for_output(process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert "stopping at the end of the running epoch" in errors
    assert "job 'doubling' ended at epoch" in errors
    assert process.returncode == 130
