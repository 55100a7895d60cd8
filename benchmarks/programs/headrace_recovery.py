"""A driver that is killed, and its successor: how long the first new output takes, in headrace.

A process of its own runs a job like that of the latency benchmark, is killed (SIGKILL) in the middle, and the same
program is started again at once. What it takes until Java is up and Spark's session is there is told apart.

Options: ``rate`` (records a second), ``seconds`` (for how long there are some), ``kills`` (how often).
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.outcome import Assignment, Epoch, Outcome, median

_LOOK_SECONDS = 0.01
_TIMEOUT_SECONDS = 120.0
_EPOCHS_BEFORE = 10
NOTES = "notes.json"
"""What the driver notes, in the folder of the assignment."""


def run(assignment: Assignment) -> Outcome:
    """Kill the driver again and again."""
    found: list[dict[str, float]] = []
    driver = _started(assignment)
    try:
        for _ in range(assignment.options["kills"]):
            _notes(assignment, driver, epochs=_EPOCHS_BEFORE)
            driver.send_signal(signal.SIGKILL)
            driver.wait()
            killed = time.time()
            (assignment.work / NOTES).unlink()
            driver = _started(assignment)
            notes = _notes(assignment, driver, epochs=_EPOCHS_BEFORE)
            found.append(_parts(killed, notes, assignment.work / "output"))
    finally:
        driver.kill()
        driver.wait()
    details = {"recovery": {name: median([each[name] for each in found]) for name in found[0]}}
    seconds = details["recovery"]["from the session to the first output"]
    return Outcome((Epoch(1, seconds),), {"rows": len(found)}, details)


def _started(assignment: Assignment) -> subprocess.Popen[bytes]:
    told = assignment.work / "driver.json"
    told.write_text(assignment.to_json())
    return subprocess.Popen([sys.executable, "-m", "benchmarks.programs.recovering_driver", str(told)])


def _notes(assignment: Assignment, driver: subprocess.Popen[bytes], epochs: int) -> dict[str, Any]:
    """What the driver has noted when it has come through so many epochs.

    Raises:
        RuntimeError: when it ends before, or takes too long.
    """
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while time.monotonic() < deadline and driver.poll() is None:
        path = assignment.work / NOTES
        if path.exists():
            notes: dict[str, Any] = json.loads(path.read_text())
            if len(notes["epochs"]) >= epochs:
                return notes
        time.sleep(_LOOK_SECONDS)
    raise RuntimeError(f"the driver has not come through {epochs} epochs; its exit code is {driver.poll()}")


def _parts(killed: float, notes: dict[str, Any], output: Path) -> dict[str, float]:
    """Where the time goes, in seconds; the first output is that of the first epoch, published behind its end."""
    session, opened, first = notes["session"], notes["opened"], notes["epochs"][0]
    visible = [path.stat().st_ctime for path in output.iterdir() if not path.name.startswith(".")]
    shown = min(when for when in visible if when >= first)
    return {
        "(left out) imports, the program, Java, the session": session - killed,
        "planning, the directory, taking it over": opened - session,
        "the first epoch": first - opened,
        "publishing": shown - first,
        "from the session to the first output": shown - session,
    }
