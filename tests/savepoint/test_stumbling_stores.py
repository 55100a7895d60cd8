"""Savepoints on a store that stumbles, is slow to answer, or is gone for good."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.store import CheckpointStore
from headrace.common.errors import SavepointError, SavepointMissingError
from headrace.savepoint.disposal import dispose
from headrace.savepoint.metadata import read_metadata
from headrace.storage.locations import open_storage
from tests.savepoint.jobs import DEADLINE, Place, start, wait_for_records
from tests.storage.s3_server import Fault, S3Server, done_and_lost, refused

FROM = "execution.state-recovery.path"
AMOUNTS = {key: key for key in range(20)}
ENDS = sorted(f"k{key} ends with {key} at {10_000 + key}" for key in range(20))
FOR_EVER = 10_000
KINDS = ["canonical", "native"]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write("a", AMOUNTS)
    return place


def settings_of(server: S3Server, target: str) -> dict[str, str]:
    options = {f"headrace.storage.{key.replace('_', '-')}": value for key, value in server.options().items()}
    return {"execution.checkpointing.savepoint-dir": target, **options}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("fault", "method", "path"),
    [
        (refused("503 Slow Down"), "PUT", "savepoint-"),
        (done_and_lost, "PUT", "_metadata.json"),
        (done_and_lost, "PUT", "savepoint-"),
        (refused("500 Internal Server Error"), "GET", "savepoint-"),
    ],
    ids=["refused", "the last answer is lost", "an answer is lost", "not read"],
)
def test_it_stumbles(kind: str, fault: Fault, method: str, path: str, place: Place, s3: S3Server) -> None:
    settings = settings_of(s3, s3.new_place())
    client = start(place, "job", 2, settings=settings)
    wait_for_records(client, 20)
    with s3.failing(fault, method, path, times=1) as struck:
        savepoint = client.stop_with_savepoint(False, format_type=kind).result(DEADLINE)
        again = start(place, "again", 3, ends=True, settings=settings | {FROM: savepoint})
        again.get_job_execution_result().result(DEADLINE)
    assert len(struck) == 1
    assert sorted(place.lines("out-again")) == ENDS
    open_ = partial(open_storage, options=s3.options())
    dispose(open_(savepoint), open_)
    with pytest.raises(SavepointMissingError):
        read_metadata(open_(savepoint))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", ["_metadata.json", "savepoint-"])
def test_it_takes_nothing_any_more(kind: str, path: str, place: Place, s3: S3Server) -> None:
    target = s3.new_place()
    client = start(place, "job", 2, settings=settings_of(s3, target))
    wait_for_records(client, 20)
    with s3.failing(refused("503 Slow Down"), "PUT", path, times=FOR_EVER) as struck:
        with pytest.raises(SavepointError, match=r"no savepoint was taken in s3://.*The job goes on"):
            client.stop_with_savepoint(False, format_type=kind).result(DEADLINE)
        assert struck
        place.write("b", {30: 30})
        wait_for_records(client, 21)
    assert list((place.root / "job" / "pins").iterdir()) == []
    savepoint = client.stop_with_savepoint(False, format_type=kind).result(DEADLINE)
    assert read_metadata(open_storage(savepoint, options=s3.options())).format == kind


@pytest.mark.parametrize("is_written", [True, False])
def test_whether_the_manifest_of_what_is_published_for_one_was_written_is_not_known(
    is_written: bool, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job goes on, as it says, also where it is to end with its first failure."""
    client = start(place, "job", 2, settings={"restart-strategy.type": "none"})
    wait_for_records(client, 20)
    write = CheckpointStore.write

    def stumbling(store: CheckpointStore, manifest: Manifest) -> None:
        monkeypatch.setattr(CheckpointStore, "write", write)
        if is_written:
            write(store, manifest)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(CheckpointStore, "write", stumbling)
    with pytest.raises(SavepointError, match=r"Input/output error.*The job goes on"):
        client.trigger_savepoint().result(DEADLINE)
    place.write("b", {30: 30})
    wait_for_records(client, 21)
    savepoint = client.stop_with_savepoint(False).result(DEADLINE)
    start(place, "again", 3, ends=True, settings={FROM: savepoint}).get_job_execution_result().result(DEADLINE)
    assert len(place.lines("out-job")) == len(AMOUNTS) + 1
    assert len(place.lines("out-again")) == len(AMOUNTS) + 1
