"""Runs a program in a fresh process, with a fresh JVM, an empty folder and nobody else's settings."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from benchmarks.memory import MemoryWatch, Peaks
from benchmarks.outcome import Assignment, Outcome

_ROOT = Path(__file__).resolve().parent.parent
_TIMEOUT_SECONDS = 3_600
_LOG_LINES = 40
_NOT_INHERITED = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_SUBMIT_ARGS")


class ProgramFailedError(Exception):
    """A program did not come to its end."""


def launch(
    program: str, assignment: Assignment, *, python: str = sys.executable, timeout: float = _TIMEOUT_SECONDS
) -> tuple[Outcome, Peaks]:
    """Run a program and wait for it.

    Args:
        program: the module in :mod:`benchmarks.programs`.
        assignment: what it is told; its folder is emptied before and removed afterwards.
        python: the interpreter.
        timeout: after how many seconds it is given up.

    Returns:
        What it gave back, and how much memory its processes took.

    Raises:
        ProgramFailedError: with the end of the program's output.
    """
    work = assignment.work
    shutil.rmtree(work, ignore_errors=True)
    for folder in (work, work / "tmp"):
        folder.mkdir(parents=True)
    told, given, log = work / "assignment.json", work / "outcome.json", work / "log.txt"
    told.write_text(assignment.to_json())
    command = [python, "-m", "benchmarks.child", program, str(told), str(given)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=_ROOT, env=_environment(work), stdout=output, stderr=output, start_new_session=True
        )
        with MemoryWatch(process.pid) as watch:
            code = _wait(process, timeout)
    if code != 0 or not given.exists():
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES:])
        raise ProgramFailedError(f"{program} ended with code {code}:\n{tail}")
    outcome = Outcome.from_json(given.read_text())
    shutil.rmtree(work, ignore_errors=True)
    return outcome, watch.peaks


def _wait(process: subprocess.Popen[bytes], timeout: float) -> int | None:
    """The exit code; None when it took too long. In any case nothing of the program lives on."""
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _environment(work: Path) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    paths = [str(_ROOT), str(_ROOT / "src"), *filter(None, [inherited.get("PYTHONPATH")])]
    return inherited | {
        "PYTHONPATH": os.pathsep.join(paths),
        "TMPDIR": str(work / "tmp"),
        "SPARK_LOCAL_DIRS": str(work / "spark"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
