"""A full disk is told, and once there is room again the job goes on exactly: no committed epoch is destroyed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.common.errors import HeadraceError
from headrace.jobmanager import sinks
from headrace.storage import file_system
from tests.reliability.support.file_sinks import KINDS, KINDS_AND_MARKS, Kind
from tests.reliability.support.full_disk import FullDisk
from tests.reliability.support.outputs import hidden_files
from tests.reliability.support.small_jobs import SmallJob, WatchedSink, expected

NO_RESTARTS = {"restart-strategy.type": "none"}


@pytest.fixture(params=KINDS_AND_MARKS, ids=str)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "room", [pytest.param(100, marks=pytest.mark.slow), 3_000, pytest.param(6_000, marks=pytest.mark.slow)]
)
def test_the_disk_of_a_sink_is_full(kind: Kind, room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "output"
    disk = FullDisk(lambda path: path.startswith(str(output)), room)
    monkeypatch.setattr(os, "write", disk.write)
    monkeypatch.setattr(file_system, "_BUFFER_BYTES", 256)
    monkeypatch.setattr(sinks, "_LAST_RETRY_SECONDS", 0.01)
    job = SmallJob(tmp_path, WatchedSink(kind.make(output)), NO_RESTARTS)
    with pytest.raises((OSError, HeadraceError), match="No space left"):
        job.run()
    assert (disk.short, disk.failed > 0) == (1, True)
    assert set(kind.records(output)) <= set(expected())
    disk.is_full = False
    SmallJob(tmp_path, WatchedSink(kind.make(output))).run()
    assert kind.records(output) == expected()
    assert not hidden_files(output)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("room", [pytest.param(100, marks=pytest.mark.slow), 10_000, 30_000])
def test_the_disk_of_the_checkpoints_is_full(room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, output = KINDS[0], tmp_path / "output"
    disk = FullDisk(lambda path: path.startswith(str(tmp_path / "checkpoints")), room)
    monkeypatch.setattr(os, "write", disk.write)
    job = SmallJob(tmp_path, WatchedSink(kind.make(output)), NO_RESTARTS)
    with pytest.raises((OSError, HeadraceError), match="No space left"):
        job.run()
    assert disk.failed > 0
    disk.is_full = False
    SmallJob(tmp_path, WatchedSink(kind.make(output))).run()
    assert kind.records(output) == expected()
