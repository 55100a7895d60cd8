"""A job that has run for long takes no more than one that has not: memory, threads, open files, room on the disk.

Two minutes long, or as long as ``HEADRACE_SOAK_MINUTES`` says: ``make test-soak`` takes half an hour.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from pathlib import Path

import psutil
import pytest

from tests.reliability.support.processes import Launcher, Running

MINUTES = float(os.environ.get("HEADRACE_SOAK_MINUTES", "2"))

WARM_UP = 0.3
"""The part of the time in which caches and pools may grow."""

LIMITS = {
    "MB of the driver": (1.10, 5.0),
    "MB of workers": (1.10, 10.0),
    "threads of the driver": (1.0, 3.0),
    "open files of the driver": (1.0, 12.0),
    "MB of checkpoints": (1.25, 1.0),
    "files of checkpoints": (1.25, 20.0),
}
"""How much more the second half may take than the first one: by a factor, and by so much besides."""


def taken_by(running: Running, folder: Path) -> dict[str, float]:
    """What a job takes now."""
    driver = psutil.Process(running.pid)
    found: dict[str, float] = defaultdict(float)
    found["MB of the driver"] = driver.memory_full_info().uss / 1e6
    found["threads of the driver"] = driver.num_threads()
    found["open files of the driver"] = driver.num_fds()
    for process in driver.children(recursive=True):
        try:
            if "worker_daemon" in " ".join(process.cmdline()):
                found["MB of workers"] += process.memory_full_info().uss / 1e6
        except psutil.NoSuchProcess:
            continue  # it has ended since it was listed
    sizes = [_size(path) for path in (folder / "checkpoints").rglob("*")]
    found["MB of checkpoints"], found["files of checkpoints"] = sum(sizes) / 1e6, len(sizes)
    return found


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("runtime", ["local", pytest.param("spark", marks=pytest.mark.integration)])
def test_what_runs_for_long_takes_no_more(runtime: str, programs: Launcher, tmp_path: Path) -> None:
    running = programs.start("soak.py", tmp_path, runtime)
    running.wait_until("savepoint", times=2)
    pause, seen = threading.Event(), list[dict[str, float]]()
    for _ in range(int(MINUTES * 60)):
        seen.append(taken_by(running, tmp_path))
        assert running.code is None, running.wait()
        pause.wait(1)
    savepoints = running.output.count("savepoint ")
    running.kill()
    assert savepoints >= MINUTES * 2
    assert len(list((tmp_path / "savepoints").iterdir())) <= 2, "the others were disposed of"
    steady = seen[int(len(seen) * WARM_UP) :]
    halves = steady[: len(steady) // 2], steady[len(steady) // 2 :]
    found = {what: [max(each[what] for each in half) for half in halves] for what in LIMITS}
    told = [f"{what}: at most {before:,.1f}, then {after:,.1f}" for what, (before, after) in found.items()]
    print(f"{runtime}, {MINUTES:g} minutes, {savepoints} savepoints", *told, sep="\n")
    for what, (factor, besides) in LIMITS.items():
        before, after = found[what]
        assert after <= before * factor + besides, what
