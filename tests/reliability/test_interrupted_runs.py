"""Ctrl-C stops a job where it can go on, and the same command goes on from there."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from headrace.checkpoint.manifest import Manifest
from tests.reliability.support import canonical
from tests.reliability.support.outputs import hidden_files
from tests.reliability.support.processes import PATIENCE, PROGRAMS, Launcher, Running


@pytest.mark.parametrize(
    ("runtime", "presses"),
    [
        ("local", [2, 5]),
        pytest.param("spark", [3], marks=[pytest.mark.integration, pytest.mark.timeout(900)]),
    ],
    ids=["local", "spark"],
)
def test_ctrl_c_stops_at_an_epoch_boundary(
    runtime: str, presses: list[int], programs: Launcher, tmp_path: Path
) -> None:
    command = "run", PROGRAMS / "canonical.py", tmp_path, tmp_path / "faults", runtime, "local[2]", 0.1
    for at_least in presses:
        running = programs.start_command(*command)
        wait_for_manifest(at_least, running, tmp_path)
        running.interrupt()
        ended = running.wait()
        assert ended.code == 130, ended
        assert "run the same command again" in ended.errors or "the same command goes on" in ended.errors, ended
        assert "Traceback" not in ended.errors, ended
        manifest = newest_manifest(tmp_path)
        assert not manifest.finished
        assert manifest.pending == (), "everything that was written is visible"
        written = canonical.verify(tmp_path / "output")
        assert written.outputs == manifest.counters["numRecordsRead"] < canonical.EXACT.outputs
        assert (written.duplicates, written.unknown, written.out_of_order) == (0, 0, 0)
    ended = programs.start_command(*command).wait()
    assert ended.code == 0, ended
    assert canonical.verify(tmp_path / "output") == canonical.EXACT
    assert not hidden_files(tmp_path / "output")


def newest_manifest(folder: Path) -> Manifest:
    path = max((folder / "checkpoints" / "manifests").glob("[0-9]*.json"))
    return Manifest.from_bytes(path.read_bytes(), str(path))


def wait_for_manifest(number: int, running: Running, folder: Path) -> None:
    manifests, end = folder / "checkpoints" / "manifests", time.monotonic() + PATIENCE
    while not any(int(path.stem) >= number for path in manifests.glob("[0-9]*.json")):
        assert time.monotonic() < end
        assert running.process.poll() is None, running.wait()
        time.sleep(0.02)
