"""State files that savepoints need stay, whatever manifests come to do without."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.checkpoint.directory import PINS, Pin
from headrace.checkpoint.store import LOOK_AT_PINS, CheckpointStore
from headrace.common.errors import CheckpointError
from headrace.storage.folder import Folder, posix_folder
from tests.checkpoint.manifests import manifest

FILES = ("1-0-1-0-aa.state", "1-0-1-1-bb.state")
NEWER = "2-0-1-0-cc.state"


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    store = CheckpointStore(posix_folder(tmp_path / "checkpoints"))
    for name in (*FILES, NEWER):
        store.state.write(name, [b"state"])
    store.write(manifest(1, *FILES))
    return store


def files(store: CheckpointStore) -> set[str]:
    return set(store.state.names())


@pytest.mark.parametrize("lasts", [True, False])
def test_garbage_is_what_neither_manifests_nor_pins_need(store: CheckpointStore, *, lasts: bool) -> None:
    store.pin("savepoint-one", Pin("/savepoints/one", FILES, lasts))
    store.write(manifest(2, NEWER, FILES[1]))
    assert store.collect_garbage() == []
    assert files(store) == {*FILES, NEWER}
    assert store.unpin("savepoint-one") == [FILES[0]]
    assert files(store) == {FILES[1], NEWER}


def test_of_two_pins_each_keeps_its_files(store: CheckpointStore) -> None:
    store.pin("savepoint-one", Pin("one", FILES, lasts=True))
    store.pin("savepoint-two", Pin("two", FILES[:1], lasts=False))
    store.write(manifest(2, NEWER))
    store.collect_garbage()
    assert store.unpin("savepoint-one") == [FILES[1]]
    assert store.unpin("savepoint-two") == [FILES[0]]


def test_files_of_a_savepoint_that_others_dispose_of_go_while_the_job_runs(store: CheckpointStore) -> None:
    store.pin("savepoint-one", Pin("one", FILES, lasts=True))
    store.pin("savepoint-two", Pin("two", FILES[:1], lasts=True))
    store.write(manifest(2, NEWER))
    store.collect_garbage()
    store.storage.folder(PINS).remove("savepoint-one")
    deleted = [store.collect_garbage() for _ in range(LOOK_AT_PINS)]
    assert [each for each in deleted if each] == [[FILES[1]]]
    assert files(store) == {FILES[0], NEWER}


def test_where_all_pins_have_gone_with_their_folder_nothing_is_deleted(store: CheckpointStore) -> None:
    store.pin("savepoint-one", Pin("one", FILES, lasts=True))
    store.write(manifest(2, NEWER))
    pins = Path(store.storage.locate(PINS))
    pins.rename(pins.with_name("elsewhere"))
    assert not any(store.collect_garbage() for _ in range(2 * LOOK_AT_PINS))
    assert files(store) == {*FILES, NEWER}


@pytest.mark.parametrize("lasts", [True, False])
def test_whoever_takes_over_knows_of_them(store: CheckpointStore, *, lasts: bool) -> None:
    pin = Pin("/savepoints/one", FILES, lasts)
    store.pin("savepoint-one", pin)
    store.write(manifest(2, NEWER))
    store.collect_garbage()
    other = CheckpointStore(store.storage)
    mine = other.take_over(manifest(2, NEWER))
    other.remove_leftovers(mine.generation)
    assert files(other) == {*FILES, NEWER}
    assert other.left_pins() == ({} if lasts else {"savepoint-one": pin}), "what became of it is to be found out"


@pytest.mark.parametrize("completed", [True, False])
def test_one_that_was_left_lasts_or_goes(store: CheckpointStore, *, completed: bool) -> None:
    store.pin("savepoint-one", Pin("/savepoints/one", FILES, lasts=False))
    store.write(manifest(2, NEWER))
    store.collect_garbage()
    other = CheckpointStore(store.storage)
    other.take_over(manifest(2, NEWER))
    if completed:
        other.pin("savepoint-one", replace(other.left_pins()["savepoint-one"], lasts=True))
    else:
        assert other.unpin("savepoint-one") == list(FILES)
    assert other.left_pins() == {}
    assert files(other) == ({*FILES, NEWER} if completed else {NEWER})
    assert bool(store.storage.folder(PINS).names()) is completed


def test_one_that_was_removed_keeps_nothing_after_the_next_start(store: CheckpointStore) -> None:
    store.pin("savepoint-one", Pin("/savepoints/one", FILES, lasts=True))
    store.write(manifest(2, NEWER))
    store.collect_garbage()
    store.storage.folder(PINS).remove("savepoint-one")
    other = CheckpointStore(store.storage)
    mine = other.take_over(manifest(2, NEWER))
    other.remove_leftovers(mine.generation)
    assert files(other) == {NEWER}


def test_one_that_is_removed_just_now_keeps_nothing(store: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its savepoint is disposed of while a job takes the directory over."""
    store.pin("savepoint-one", Pin("/savepoints/one", FILES, lasts=True))
    store.pin("savepoint-two", Pin("/savepoints/two", FILES[:1], lasts=True))
    store.write(manifest(2, NEWER))
    store.collect_garbage()
    listed = Folder.names

    def removed_behind(folder: Folder) -> list[str]:
        names = listed(folder)
        if folder.path.endswith(f"/{PINS}"):
            folder.remove("savepoint-one")
        return names

    monkeypatch.setattr(Folder, "names", removed_behind)
    other = CheckpointStore(store.storage)
    mine = other.take_over(manifest(2, NEWER))
    other.remove_leftovers(mine.generation)
    assert files(other) == {FILES[0], NEWER}


def test_a_damaged_one_is_told_before_anything_is_deleted(store: CheckpointStore) -> None:
    store.storage.folder(PINS).make()
    store.storage.folder(PINS).write("savepoint-one", [b"{"])
    with pytest.raises(CheckpointError, match=r"pins/savepoint-one is damaged"):
        CheckpointStore(store.storage).take_over(manifest(1, *FILES))
    assert files(store) == {*FILES, NEWER}


def test_what_others_have_put_there_is_none(store: CheckpointStore) -> None:
    store.storage.folder(PINS).make()
    store.storage.folder(PINS).write("README", [b"mine"])
    other = CheckpointStore(store.storage)
    other.take_over(manifest(1, *FILES))
    assert other.left_pins() == {}
    assert store.storage.folder(PINS).names() == ["README"]
