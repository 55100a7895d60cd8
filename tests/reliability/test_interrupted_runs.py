"""Ctrl-C stops a job where it can go on, and the same command goes on from there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.forks import Forks
from tests.processes import PROGRAMS
from tests.reliability.support import canonical
from tests.reliability.support.checkpoints import newest_manifest, wait_for_manifest
from tests.reliability.support.outputs import hidden_files


@pytest.mark.long
@pytest.mark.parametrize("runtime", ["local", pytest.param("spark", marks=[pytest.mark.integration, pytest.mark.slow])])
def test_ctrl_c_stops_at_an_epoch_boundary(runtime: str, forks: Forks, tmp_path: Path) -> None:
    command = "run", PROGRAMS / "canonical.py", tmp_path, tmp_path / "faults", runtime, "local[2]", 0.1
    running = forks.start_command(*command)
    wait_for_manifest(3, running, tmp_path)
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
    ended = forks.start_command(*command).wait()
    assert ended.code == 0, ended
    assert canonical.verify(tmp_path / "output") == canonical.EXACT
    assert not hidden_files(tmp_path / "output")
