"""An owner that goes on after a failure of its own, from what its directory says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.checkpoint.directory import Generations
from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.store import CheckpointStore, TemporaryStore
from headrace.common.errors import CheckpointError, JobSupersededError
from headrace.storage.folder import Folder, posix_folder

FIRST = Manifest(0, 0, "job", "numbers", 128, 0)


def begun(folder: Path) -> tuple[CheckpointStore, Manifest]:
    store = CheckpointStore(posix_folder(folder))
    first = store.begin(FIRST)
    assert first is not None
    return store, first


def epoch(previous: Manifest) -> Manifest:
    return replace(previous, epoch=previous.epoch + 1)


def test_it_goes_on_from_the_newest_manifest_under_a_new_generation(tmp_path: Path) -> None:
    store, first = begun(tmp_path)
    store.write(epoch(first))
    store.write(epoch(epoch(first)))
    again = store.restart(epoch(first))
    assert (again.epoch, again.generation) == (3, first.generation + 1)
    assert store.latest() == again


def test_before_the_first_manifest_it_goes_on_with_what_it_began(tmp_path: Path) -> None:
    store, first = begun(tmp_path)
    assert store.restart(first) == replace(first, generation=first.generation + 1)
    assert store.latest() is None


def test_who_was_taken_over_does_not_take_over_again(tmp_path: Path) -> None:
    store, first = begun(tmp_path)
    store.write(epoch(first))
    CheckpointStore(posix_folder(tmp_path)).take_over(epoch(first))
    with pytest.raises(JobSupersededError):
        store.restart(epoch(first))


def test_a_generation_that_was_claimed_with_an_error_is_nobody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, first = begun(tmp_path)
    store.write(epoch(first))
    original = Folder.create

    def create(self: Folder, name: str, content: bytes) -> bool:
        original(self, name, content)
        raise OSError("the folder cannot be synchronised")

    monkeypatch.setattr(Folder, "create", create)
    for _ in range(2):
        with pytest.raises(OSError, match="synchronised"):
            store.restart(epoch(first))
        assert store.is_owned_by(first.generation)
    monkeypatch.undo()
    again = store.restart(epoch(first))
    assert again.generation == first.generation + 3
    assert store.is_owned_by(again.generation)
    assert not CheckpointStore(posix_folder(tmp_path)).is_owned_by(first.generation), "for anybody else it is"


def test_manifests_that_have_gone_are_not_made_up(tmp_path: Path) -> None:
    store, first = begun(tmp_path)
    store.write(epoch(first))
    for path in (tmp_path / "manifests").iterdir():
        path.unlink()
    with pytest.raises(CheckpointError, match="have been removed"):
        store.restart(epoch(first))


def test_without_a_directory_the_newest_manifest_is_in_memory() -> None:
    store = TemporaryStore()
    assert store.restart(FIRST).generation == 1
    store.write(epoch(FIRST))
    assert [store.restart(FIRST).generation for _ in range(2)] == [1, 2], "a failed epoch is of another generation"
    again = store.restart(FIRST)
    assert again.epoch == 4, "a restart takes a number, as with a directory"
    (Path(str(store.state)) / "left").touch()
    assert store.remove_leftovers(again.generation) == ["left"]
    store.close()


def test_a_manifest_that_came_too_late_stays_when_it_is_the_newest(tmp_path: Path) -> None:
    """Else its number would come free, and be given to another one, while somebody goes on from what he has read."""
    older, first = begun(tmp_path)
    older.write(epoch(first))
    younger = CheckpointStore(posix_folder(tmp_path))
    found = younger.latest()
    assert found is not None
    late = epoch(epoch(first))
    original = older.is_owned_by

    def is_owned_by(generation: int) -> bool:
        Generations(posix_folder(tmp_path / "generations")).claim(found.generation + 1, found.job_id)
        return original(generation)

    older.is_owned_by = is_owned_by  # type: ignore[method-assign]
    with pytest.raises(JobSupersededError):
        older.write(late)
    assert younger.latest() == late
    assert younger.take_over(found).epoch == late.epoch + 1


def test_a_manifest_that_came_much_too_late_goes(tmp_path: Path) -> None:
    older, first = begun(tmp_path)
    younger = CheckpointStore(posix_folder(tmp_path))
    mine = younger.begin(FIRST)
    assert mine is not None
    for _ in range(3):
        mine = epoch(mine)
        younger.write(mine)
        younger.collect_garbage()
    with pytest.raises(JobSupersededError):
        older.write(epoch(first))
    assert younger.latest() == mine
    assert [path.name for path in (tmp_path / "manifests").glob("0*")] == ["000000000003.json"]


def test_a_manifest_that_is_only_a_name_is_an_error(tmp_path: Path) -> None:
    store, first = begun(tmp_path)
    store.write(epoch(first))
    (tmp_path / "manifests" / "000000000002.json").symlink_to(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match=r"000000000002\.json is listed, but cannot be found"):
        store.latest()


@pytest.mark.parametrize("name", ["007", "+1", "1_0"])
def test_what_is_no_generation(tmp_path: Path, name: str) -> None:
    (tmp_path / "generations").mkdir()
    (tmp_path / "generations" / name).write_text("a note")
    _, first = begun(tmp_path)
    assert (first.generation, first.job_id) == (0, "job")


def test_starts_do_not_leave_manifest_after_manifest(tmp_path: Path) -> None:
    """A job that has finished, or that fails again and again, is started any number of times."""
    store, first = begun(tmp_path)
    known = epoch(first)
    store.write(known)
    store.write(known := replace(epoch(known), counters={"n": 1}))
    for _ in range(5):
        known = store.restart(known)
        other = CheckpointStore(posix_folder(tmp_path), 2)
        known = other.take_over(known)
        store = other
    left = sorted(path.name for path in (tmp_path / "manifests").glob("0*"))
    assert left == ["000000000001.json", "000000000002.json", f"{known.epoch:012}.json"], "the last of each content"
    store.write(replace(epoch(known), counters={"n": 2}))
    store.collect_garbage()
    assert len(list((tmp_path / "manifests").glob("0*"))) == 2


def test_who_takes_over_much_too_late_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, first = begun(tmp_path)
    store.write(epoch(first))
    older, younger = (CheckpointStore(posix_folder(tmp_path)) for _ in range(2))
    original = older._manifests.create
    newest: list[Manifest] = []

    def create(manifest: Manifest) -> bool:
        if not newest:
            newest.append(younger.take_over(epoch(first)))
            for number in range(3):
                newest.append(replace(epoch(newest[-1]), counters={"n": number}))
                younger.write(newest[-1])
                younger.collect_garbage()
        return original(manifest)

    monkeypatch.setattr(older._manifests, "create", create)
    with pytest.raises(JobSupersededError):
        older.take_over(epoch(first))
    assert [path.name for path in (tmp_path / "manifests").glob("0*")] == [f"{newest[-1].epoch:012}.json"]
