"""A job that has run for long takes no more than one that has not: memory, threads, open files, room on the disk.

In a checkpoint directory there are the state that the newest manifest names, which expires as fast as it comes; what
pins keep for savepoints, of which there are two at most; and files that nobody names any more, or not yet. So the first
may not grow, and none of the last may stay: then the whole has a bound, however much its size varies with savepoints.

Two minutes long, or as long as ``HEADRACE_SOAK_MINUTES`` says: ``make test-soak`` takes half an hour.
"""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from pathlib import Path

import psutil
import pytest

from tests.processes import Launcher, Running

MINUTES = float(os.environ.get("HEADRACE_SOAK_MINUTES", "2"))

WARM_UP = 0.3
"""The part of the time in which caches and pools may grow."""

LIMITS = {
    "MB of the driver": (1.10, 5.0),
    "MB of workers": (1.10, 10.0),
    "threads of the driver": (1.0, 3.0),
    "open files of the driver": (1.0, 12.0),
    "MB of the state": (1.25, 2.0),
    "files of the state": (1.25, 10.0),
    "files beside the state": (1.0, 5.0),
}
"""How much more the second half may take than the first one: by a factor, and by so much besides."""

MOST_SECONDS_UNNAMED = 60.0
"""In 16 epochs it is looked which savepoints are gone; on a machine that others keep busy these take half of that."""


def taken_by(running: Running) -> dict[str, float]:
    """What the processes of a job take now."""
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
    return found


class CheckpointDirectory:
    """What is in a checkpoint directory, and for how long nobody has named what nobody names.

    Args:
        folder: the directory.

    Attributes:
        unnamed: by name, for how many seconds at most neither a manifest nor a pin has named a file.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._since: dict[str, float] = {}
        self.unnamed: dict[str, float] = {}

    def look(self) -> dict[str, float]:
        """What there is now."""
        now, names = time.monotonic(), [path.name for path in (self._folder / "state").iterdir()]
        # Read behind that: a file is named after it has come into being.
        manifests = [_text(path) for path in sorted(self._folder.glob("manifests/0*.json"))]
        pins = [_text(path) for path in self._folder.glob("pins/*")]
        newest, every = next(filter(None, reversed(manifests)), ""), "".join([*manifests, *pins])
        self._since = {name: self._since.get(name, now) for name in names if name not in every}
        for name, since in self._since.items():
            self.unnamed[name] = max(now - since, self.unnamed.get(name, 0.0))
        sizes = {name: _size(self._folder / "state" / name) / 1e6 for name in names}
        return {
            "MB of the state": sum(size for name, size in sizes.items() if name in newest),
            "files of the state": sum(name in newest for name in names),
            "files beside the state": sum(path.is_file() for path in self._folder.rglob("*")) - len(names),
            "MB of all": sum(sizes.values()),
        }


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("runtime", ["local", pytest.param("spark", marks=pytest.mark.integration)])
def test_what_runs_for_long_takes_no_more(runtime: str, programs: Launcher, tmp_path: Path) -> None:
    running = programs.start("soak", tmp_path, runtime)
    running.wait_until("savepoint", times=2)
    pause, seen, directory = threading.Event(), list[dict[str, float]](), CheckpointDirectory(tmp_path / "checkpoints")
    for _ in range(int(MINUTES * 60)):
        seen.append(taken_by(running) | directory.look())
        assert running.code is None, running.wait()
        pause.wait(1)
    savepoints = running.output.count("savepoint ")
    running.kill()
    assert savepoints >= MINUTES * 2
    assert len(list((tmp_path / "savepoints").iterdir())) <= 2, "the others were disposed of"
    steady = seen[int(len(seen) * WARM_UP) :]
    halves = steady[: len(steady) // 2], steady[len(steady) // 2 :]
    found = {what: [max(each[what] for each in half) for half in halves] for what in (*LIMITS, "MB of all")}
    told = [f"{what}: at most {before:,.1f}, then {after:,.1f}" for what, (before, after) in found.items()]
    longest = max(directory.unnamed.values(), default=0.0)
    told.append(f"seconds for which a file was there that nobody named: at most {longest:.0f}")
    print(f"{runtime}, {MINUTES:g} minutes, {savepoints} savepoints", *told, sep="\n")
    assert [name for name, seconds in directory.unnamed.items() if seconds > MOST_SECONDS_UNNAMED] == []
    for what, (factor, besides) in LIMITS.items():
        before, after = found[what]
        assert after <= before * factor + besides, what
