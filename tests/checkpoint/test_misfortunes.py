"""What stands still in the middle of a step, or lies on a broken place of the disk, does no harm."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.checkpoint.store import CheckpointStore
from headrace.common.errors import JobSupersededError
from headrace.storage.folder import Folder, posix_folder
from tests.checkpoint.manifests import manifest

COPIED = "4-0-1-0-0123456789abcdef.state"
"""A file of another job, whose generations were its own; brought in by a start from that job's savepoint."""


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return posix_folder(tmp_path / "checkpoints")


@pytest.mark.parametrize("is_finished", [True, False])
def test_what_others_have_brought_in_is_no_leftover(
    is_finished: bool, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = CheckpointStore(folder)
    begun = slow.begin(manifest(0))
    assert begun is not None
    restarted = slow.restart(begun)
    name = COPIED if is_finished else f".{COPIED}.{'0' * 32}.tmp"
    names, remove_unfinished = Folder.names, Folder.remove_unfinished
    others: list[CheckpointStore] = []

    def another_starts() -> None:
        if not others:
            others.append(CheckpointStore(folder))
            assert others[0].begin(manifest(0)) is not None
            Path(folder.path, "state", name).write_bytes(b"brought in")

    def names_after_a_pause(state: Folder) -> list[str]:
        if state.path.endswith("/state"):
            another_starts()
        return names(state)

    def unfinished_after_a_pause(state: Folder, *given: object) -> list[str]:
        if state.path.endswith("/state") and not is_finished:
            another_starts()
        return remove_unfinished(state, *given)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "names", names_after_a_pause)
        patch.setattr(Folder, "remove_unfinished", unfinished_after_a_pause)
        slow.remove_leftovers(restarted.generation)
    assert others
    assert Path(folder.path, "state", name).read_bytes() == b"brought in"


@pytest.mark.parametrize("call", ["link", "replace"])
def test_one_whose_unfinished_file_was_removed_by_who_took_over_is_superseded(
    call: str, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stood still before its manifest, or the note of it, got its name; it writes no other manifest."""
    CheckpointStore(folder).write(manifest(1))
    slow, original = CheckpointStore(folder), getattr(os, call)

    def after_a_pause(source: Path, target: Path) -> None:
        if f"/manifests/{'0' if call == 'link' else 'newest'}" in str(target):
            monkeypatch.setattr(os, call, original)
            other = CheckpointStore(folder)
            newest = other.latest()
            assert newest is not None
            other.remove_leftovers(other.take_over(other.take_over(newest)).generation)
        original(source, target)

    monkeypatch.setattr(os, call, after_a_pause)

    def goes_on() -> None:
        mine = slow.take_over(manifest(1))
        slow.write(replace(mine, epoch=mine.epoch + 1))

    with pytest.raises(JobSupersededError, match="another job manager has taken over"):
        goes_on()


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ("manifests/000000000002.json", "an older manifest cannot be read and goes with the next epochs"),
        ("generations/0", "cannot be read: whether"),
        ("manifests/newest", "cannot be read: whether a manifest is missing cannot be told"),
    ],
)
def test_a_broken_place_of_the_disk_keeps_no_job_from_starting_that_has_lost_nothing(
    broken: str, told: str, folder: Folder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = CheckpointStore(folder, 3)
    assert store.begin(replace(manifest(0), generation=0)) is not None
    for epoch in (1, 2, 3):
        store.write(manifest(epoch))
    original = Folder.read

    def read(where: Folder, name: str) -> bytes:
        if where.locate(name).endswith(f"/{broken}"):
            raise OSError(errno.EIO, "Input/output error", where.locate(name))
        return original(where, name)

    monkeypatch.setattr(Folder, "read", read)
    again = CheckpointStore(folder, 3)
    newest = again.latest()
    assert newest is not None
    assert again.take_over(newest).epoch == 4
    assert told in caplog.text
    assert broken in caplog.text
