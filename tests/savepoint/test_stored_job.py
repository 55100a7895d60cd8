"""A job that is read while it runs: files go with checkpoints, and the next checkpoint is read instead."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.common.errors import StateCorruptedError
from headrace.savepoint.stored_job import StoredJob, fixed, open_job, read_with_retries
from headrace.storage.folder import Folder
from tests.checkpoint.manifests import manifest
from tests.savepoint.jobs import DEADLINE, Place, start, wait_for_records


class Job:
    """One that is an epoch further whenever it is looked at, as long as it runs."""

    def __init__(self, *, last: int) -> None:
        self._epoch, self._last = 0, last

    def stored(self) -> StoredJob:
        self._epoch = min(self._epoch + 1, self._last)
        return StoredJob("job", manifest(self._epoch), later=self.stored)


def readable_from(epoch: int, job: StoredJob) -> int:
    if job.manifest.epoch < epoch:
        raise StateCorruptedError(f"a file of epoch {job.manifest.epoch} is missing")
    return job.manifest.epoch


def test_a_later_checkpoint_is_read_where_files_have_gone() -> None:
    job, found = read_with_retries(Job(last=9).stored(), lambda job: readable_from(3, job))
    assert job.manifest.epoch == found == 3


@pytest.mark.parametrize(("last", "tried"), [(2, 2), (1000, 101)], ids=["it does not run", "it is too fast"])
def test_what_is_never_there_is_damage(last: int, tried: int) -> None:
    with pytest.raises(StateCorruptedError, match=f"a file of epoch {tried} is missing"):
        read_with_retries(Job(last=last).stored(), lambda job: readable_from(2000, job))


def test_files_of_a_savepoint_are_not_looked_for_again() -> None:
    savepoint = replace(Job(last=100).stored(), later=None)
    with pytest.raises(StateCorruptedError, match="a file of epoch 1 is missing"):
        read_with_retries(savepoint, lambda job: readable_from(3, job))


def test_a_file_of_a_source_that_goes_while_it_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(tmp_path)
    place.write("a", {0: 1})
    client = start(place, "job", 1)
    wait_for_records(client, 1)
    client.stop().result(DEADLINE)
    listed, removed = Folder.names, dict[Path, bytes]()

    def removed_behind(folder: Folder) -> list[str]:
        names = listed(folder)
        for log in Path(folder.path).glob("files-*.log"):
            removed[log] = log.read_bytes()
            log.unlink()
        return names

    def later() -> StoredJob:
        monkeypatch.undo()
        for log, content in removed.items():
            log.write_bytes(content)
        return replace(job, manifest=replace(job.manifest, epoch=job.manifest.epoch + 1))

    monkeypatch.setattr(Folder, "names", removed_behind)
    job = open_job(tmp_path / "job", {})
    with pytest.raises(StateCorruptedError, match=r"files-\d+\.log is missing; put it back"):
        fixed(job)
    for log, content in removed.items():
        log.write_bytes(content)
    copied = fixed(replace(job, later=later))
    assert copied.manifest.epoch == job.manifest.epoch + 1
    assert [content for _, _, content in copied.source_files()] == list(removed.values())
