"""A checkpoint directory has to keep what exactness rests on, and says what is wrong with it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.checkpoint.manifest_folder import name_of, newest_manifest
from headrace.checkpoint.store import CheckpointStore
from headrace.common.errors import CheckpointError, CheckpointStorageError, SavepointError
from headrace.state_processor import SavepointReader
from headrace.storage.folder import Folder, posix_folder
from tests.checkpoint.manifests import manifest


@pytest.mark.parametrize(
    ("method", "behaves", "told"),
    [
        ("create", lambda self, name, content: True, "does not create files exclusively"),
        ("read", lambda self, name: b"2", "does not create files exclusively"),
        ("names", lambda self: [], "does not list the files that are there"),
        ("size", lambda self, name: 0, "does not list the files that are there"),
    ],
)
def test_a_storage_that_does_not_do_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, behaves: Callable[..., Any], told: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Folder, method, behaves)
        if method == "create":
            patch.setattr(Folder, "read", lambda self, name: b"1")
        with pytest.raises(CheckpointStorageError, match=told):
            CheckpointStore(posix_folder(tmp_path / "checkpoints"))
    assert not any((tmp_path / "checkpoints").iterdir()), "what it was tried with is gone"


@pytest.mark.parametrize(("number", "told"), [(errno.EPERM, True), (errno.EOPNOTSUPP, True), (errno.ENOSPC, False)])
def test_a_file_system_without_hard_links_is_refused(
    number: int, told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(source: Path, target: Path) -> None:
        raise OSError(number, os.strerror(number), str(source), None, str(target))

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(CheckpointStorageError, match=os.strerror(number)) as refused:
        CheckpointStore(posix_folder(tmp_path / "checkpoints"))
    assert ("has no hard links, which are needed here" in str(refused.value)) is told
    assert not any((tmp_path / "checkpoints").iterdir())


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(posix_folder(tmp_path / "checkpoints"), num_retained=2)


def path_of(store: CheckpointStore, epoch: int) -> Path:
    return Path(str(store.storage)) / "manifests" / name_of(epoch)


def test_a_manifest_that_somebody_removed_is_missed(store: CheckpointStore) -> None:
    for epoch in (1, 2):
        store.write(manifest(epoch))
    path_of(store, 2).unlink()
    with pytest.raises(CheckpointError, match=f"{name_of(2)} is missing: output of epochs that are not in"):
        store.latest()


def test_an_older_manifest_that_is_damaged_goes_with_the_next_epochs(
    store: CheckpointStore, caplog: pytest.LogCaptureFixture
) -> None:
    for epoch in (1, 2):
        store.write(manifest(epoch))
    path_of(store, 1).write_bytes(b"{")
    other = CheckpointStore(store.storage, num_retained=2)
    mine = other.take_over(manifest(2))
    assert f"{name_of(1)} is damaged or cut short: 1 bytes" in caplog.text
    other.write(replace(mine, epoch=mine.epoch + 1))
    other.collect_garbage()
    assert not path_of(store, 1).exists()


def test_manifests_that_are_removed_while_the_job_runs(store: CheckpointStore) -> None:
    first = store.begin(manifest(0))
    assert first is not None
    store.write(replace(first, epoch=1))
    for path in path_of(store, 1).parent.iterdir():
        path.unlink()
    with pytest.raises(CheckpointError, match=r"the manifests of job 'job' have been removed from .*checkpoints"):
        store.restart(replace(first, epoch=1))


# --- as others read it, who know nothing of its job ------------------------------------------------------------------


def test_the_newest_manifest_is_found_while_the_job_goes_on(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each that is listed is gone by the time it is read, a few times."""
    epochs, listed = iter(range(2, 9)), Folder.names
    store.write(manifest(1))

    def superseded(folder: Folder) -> list[str]:
        names = listed(folder)
        if folder.path.endswith("/manifests") and (epoch := next(epochs, None)) is not None:
            path_of(store, epoch).write_bytes(manifest(epoch).to_bytes())
            path_of(store, epoch - 1).unlink()
        return names

    monkeypatch.setattr(Folder, "names", superseded)
    assert newest_manifest(store.storage) == manifest(8)


def test_a_link_that_leads_nowhere_in_the_place_of_a_manifest(store: CheckpointStore) -> None:
    store.write(manifest(1))
    path_of(store, 2).symlink_to("nowhere")
    for read in (store.latest, lambda: newest_manifest(store.storage)):
        with pytest.raises(CheckpointError, match=f"{name_of(2)} is listed, but cannot be found"):
            read()


def test_what_is_no_manifest_is_told(store: CheckpointStore) -> None:
    path_of(store, 3).mkdir()
    with pytest.raises(CheckpointError, match=f"{name_of(3)} is a folder, or something else that is no file"):
        SavepointReader.read(str(store.storage))


def test_a_directory_without_manifests_is_no_job(store: CheckpointStore, tmp_path: Path) -> None:
    for place in (store.storage, posix_folder(tmp_path / "nothing")):
        assert newest_manifest(place) is None
        with pytest.raises(SavepointError, match="is neither a savepoint nor a checkpoint directory"):
            SavepointReader.read(str(place))
