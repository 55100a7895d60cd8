"""Stopping with a savepoint: nothing happens behind it, and where it fails the job goes on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.common import JobStatus
from headrace.common.errors import SavepointError
from headrace.datastream.connectors.file_system import OnCheckpointRollingPolicy
from tests.reliability.support.full_disk import FullDisk
from tests.savepoint.jobs import DEADLINE, Place, start, wait_for_records

FROM = "execution.state-recovery.path"
BUSY = {
    "headrace.epoch.max-records": "5",
    "headrace.epoch.target-duration": "60s",
    "headrace.epoch.min-interval": "0 ms",
}
AMOUNTS = dict.fromkeys(range(50), 1)
ALL = sorted(f"k{key} {total}" for key in range(50) for total in range(1, 21))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    for number in range(20):
        place.write(f"{number:02}", AMOUNTS)
    return place


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["canonical", "native"])
def test_a_busy_job_shows_nothing_behind_it(place: Place, kind: str) -> None:
    client = start(place, "job", 1, settings=BUSY, policy=OnCheckpointRollingPolicy())
    wait_for_records(client, 200)
    savepoint = client.stop_with_savepoint(False, format_type=kind).result(DEADLINE)
    before = place.lines("out-job")
    assert 200 <= len(before) < 1000
    start(place, "again", 1, ends=True, settings={FROM: savepoint}).get_job_execution_result().result(DEADLINE)
    after = [line for line in place.lines("out-again") if "ends" not in line]
    assert sorted(before + after) == ALL


@pytest.mark.slow
@pytest.mark.parametrize("room", [*(pytest.param(room, marks=pytest.mark.slow) for room in (0, 100)), 3_000])
def test_a_job_that_cannot_have_one_goes_on(place: Place, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FullDisk(lambda path: path.startswith(str(place.root / "savepoints")), room)
    monkeypatch.setattr(os, "write", disk.write)
    client = start(place, "job", 2, settings=BUSY, policy=OnCheckpointRollingPolicy())
    wait_for_records(client, 200)
    for _ in range(2):
        with pytest.raises(SavepointError, match=r"no savepoint was taken in .*No space left.*The job goes on"):
            client.stop_with_savepoint(False).result(DEADLINE)
    assert disk.failed >= 2
    assert list((place.root / "savepoints").iterdir()) == [], "what was written of them is removed"
    assert list((place.root / "job" / "pins").iterdir()) == []
    wait_for_records(client, 1000)
    disk.is_full = False
    savepoint = client.stop_with_savepoint(False).result(DEADLINE)
    start(place, "again", 1, ends=True, settings={FROM: savepoint}).get_job_execution_result().result(DEADLINE)
    assert sorted(place.lines("out-job")) == ALL
    assert {line for line in place.lines("out-again") if "ends" not in line} == set()


def test_a_job_that_cannot_have_one_at_its_end_has_ended(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FullDisk(lambda path: path.startswith(str(place.root / "savepoints")), 0)
    monkeypatch.setattr(os, "write", disk.write)
    client = start(place, "job", 1)
    wait_for_records(client, 1000)
    with pytest.raises(SavepointError, match=r"No space left on device.*The job has ended; its checkpoint directory"):
        client.stop_with_savepoint(True).result(DEADLINE)
    assert disk.failed
    client.get_job_execution_result().result(DEADLINE)
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert len(place.lines("out-job")) == 1050
