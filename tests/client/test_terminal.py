"""A program that is run by ``python`` shows progress where it has a terminal, and nowhere else."""

from __future__ import annotations

import io
import logging
import os
import pty
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

import headrace
from headrace.client.displays import LivePanel
from headrace.common import Configuration
from headrace.datastream import StreamExecutionEnvironment
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from rich.console import Console

PROGRAM = """
from headrace.common import Configuration
from headrace.datastream import StreamExecutionEnvironment

def double(value):
    return value * 2

settings = Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": "1"})
EXTRA

def run():
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.from_sequence(1, 3).map(double).print()
    env.execute("doubling")

run()
"""

UNWANTED = """
import sys

settings.set("headrace.progress", "false")
print("-- next", file=sys.stderr, flush=True)
run()
settings = Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": "1"})
sys.ps1 = ">>> "  # an interactive session: its prompt and a panel do not go together
print("-- next", file=sys.stderr, flush=True)
run()
"""

WANTED = """
import sys

settings.set("headrace.progress", "true")
print("-- next", file=sys.stderr, flush=True)
run()
"""


def run_on_a_terminal(
    tmp_path: Path, extra: str = "", *, has_terminal: bool = True, behind: str = ""
) -> tuple[str, str]:
    """What a program prints: to its standard output, a pipe, and to its standard error, a terminal."""
    path = tmp_path / "job.py"
    path.write_text(PROGRAM.replace("EXTRA", extra) + behind)
    leader, follower = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(Path(headrace.__file__).parent.parent), "TERM": "xterm"}
    stderr = follower if has_terminal else subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, path], stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment
    ) as program:
        os.close(follower)
        said = b""
        while has_terminal:
            try:
                said += os.read(leader, 4096)
            except OSError:  # the program has closed its end
                break
        out, err = program.communicate(timeout=PATIENCE)
    os.close(leader)
    return out, said.decode() if has_terminal else err


def test_progress_is_shown_on_a_terminal(tmp_path: Path) -> None:
    """But not to who does not want it: not even the cursor is hidden then."""
    out, err = run_on_a_terminal(tmp_path, behind=UNWANTED)
    assert out.splitlines() == ["2", "4", "6"] * 3
    shown, unwanted, interactive = err.split("-- next\r\n")
    assert "job 'doubling' starts afresh" in shown
    assert "job 'doubling' ended at epoch 1: 3 records in" in shown
    assert "\x1b[?25h" in shown  # the cursor that the panel has hidden is there again
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
    assert (unwanted, interactive) == ("", "")


@pytest.mark.slow
def test_nothing_is_shown_without_one(tmp_path: Path) -> None:
    """Unless it is asked for: in lines then."""
    out, err = run_on_a_terminal(tmp_path, has_terminal=False, behind=WANTED)
    assert out == "2\n4\n6\n" * 2
    silent, asked_for = err.split("-- next\n")
    assert silent == ""
    assert asked_for.startswith("job 'doubling' starts afresh")


@pytest.mark.slow
def test_nothing_is_shown_where_the_standard_error_is_an_object_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=written.append, flush=written.clear))
    configuration = Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": "1"})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    assert list(env.from_collection([1]).execute_and_collect()) == [1]
    assert written == []


@pytest.mark.slow
def test_a_job_that_fails_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    _, err = run_on_a_terminal(tmp_path, "def double(value):\n    return value // 0")
    assert "job 'doubling' failed" in err
    assert "ZeroDivisionError" in err
    assert err.rindex("\x1b[?25h") > err.rindex("\x1b[?25l")


def test_handlers_of_logging_print_above_the_panel(terminal: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """They know the terminal itself, from before the panel; what they wrote there would end up inside it."""
    stderr, file = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    to_terminal, to_file = logging.StreamHandler(), logging.StreamHandler(file)
    root = logging.getLogger()
    root.addHandler(to_terminal)
    root.addHandler(to_file)
    try:
        panel = LivePanel(terminal, lambda: "the panel")
        assert to_terminal.stream is sys.stderr is not stderr
        assert to_file.stream is file
        logging.getLogger("program").warning("said meanwhile")
        panel.close()
        assert to_terminal.stream is sys.stderr is stderr
    finally:
        root.removeHandler(to_terminal)
        root.removeHandler(to_file)
    assert isinstance(terminal.file, io.StringIO)
    assert "said meanwhile\n" in terminal.file.getvalue()
    assert (stderr.getvalue(), file.getvalue()) == ("", "said meanwhile\n")
