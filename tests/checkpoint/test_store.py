"""The checkpoint directory: manifests are made once, by one job manager, and what they need stays."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from unittest import mock

import pytest

from headrace.checkpoint.directory import Generations
from headrace.checkpoint.manifest import (
    Manifest,
)
from headrace.checkpoint.store import CheckpointStore
from headrace.common.errors import CheckpointError, CheckpointStorageError, InfrastructureError, JobSupersededError
from headrace.state.state_file import VersionName
from headrace.storage.folder import Folder, posix_folder, source_folder
from headrace.storage.locations import local_path
from tests.checkpoint.disk import Disk, Power, PowerFailureError
from tests.checkpoint.manifests import manifest


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(posix_folder(tmp_path / "checkpoints"))


def root(store: CheckpointStore) -> Path:
    return Path(str(store.storage))


def put(store: CheckpointStore, *names: str) -> None:
    for name in names:
        (root(store) / "state" / name).write_bytes(b"state")


def state_files(store: CheckpointStore) -> set[str]:
    return {path.name for path in (root(store) / "state").iterdir()}


def test_a_manifest_comes_back_as_it_was(store: CheckpointStore) -> None:
    assert store.latest() is None
    store.write(manifest(1, "1-0-1-0-aa.state"))
    assert store.latest() == manifest(1, "1-0-1-0-aa.state")


def test_of_two_that_take_over_the_younger_one_owns(store: CheckpointStore) -> None:
    store.write(manifest(1))
    other = CheckpointStore(store.storage)
    first = store.take_over(manifest(1))
    second = other.take_over(manifest(1))
    assert second.generation > first.generation
    assert second.epoch == first.epoch + 1
    with pytest.raises(JobSupersededError, match="another job manager has taken over"):
        store.write(replace(first, epoch=first.epoch + 1))
    other.write(replace(second, epoch=second.epoch + 1))


def written_between_check_and_end(store: CheckpointStore, mine: Manifest, between: Callable[[], None]) -> None:
    """Lets ``store`` write a manifest and does something before it finds out who owns the job."""
    create = store._manifests.create

    def create_and_pause(new: Manifest) -> bool:
        done = create(new)
        between()
        return done

    with mock.patch.object(store._manifests, "create", create_and_pause), pytest.raises(JobSupersededError):
        store.write(mine)


def test_what_a_superseded_owner_wrote_last_stays_while_it_is_the_newest(store: CheckpointStore) -> None:
    store.write(manifest(1))
    other = CheckpointStore(store.storage)
    first = store.take_over(manifest(1))
    late = replace(first, epoch=first.epoch + 1)
    written_between_check_and_end(store, late, lambda: other._generations.claim(late.generation + 1, late.job_id))
    assert other.latest() == late


def test_what_a_superseded_owner_wrote_too_late_goes(store: CheckpointStore) -> None:
    store.write(manifest(1))
    other = CheckpointStore(store.storage)
    first = store.take_over(manifest(1))
    late = replace(first, epoch=first.epoch + 1)
    taken: list[Manifest] = []
    written_between_check_and_end(store, late, lambda: taken.append(other.take_over(first)))
    assert taken[0].epoch == late.epoch + 1
    assert other.latest() == taken[0]
    assert late.epoch not in other._manifests.numbers()


def test_taking_over_while_the_owner_writes_epoch_after_epoch(tmp_path: Path) -> None:
    """The owner writes and forgets manifests as fast as it can; others take over in between."""
    folder = posix_folder(tmp_path / "checkpoints")
    first = CheckpointStore(folder)
    first.write(manifest(1))
    errors: list[BaseException] = []
    written: dict[int, list[int]] = {}

    def own(number: int) -> None:
        store = CheckpointStore(folder)
        try:
            newest = store.latest()
            assert newest is not None
            mine = store.take_over(newest)
            for _ in range(25):
                mine = replace(mine, epoch=mine.epoch + 1)
                try:
                    store.write(mine)
                except InfrastructureError:  # an older one has just written that number
                    mine = store.restart(mine)
                else:
                    written.setdefault(number, []).append(mine.epoch)
                store.collect_garbage()
        except JobSupersededError:
            pass
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=own, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    epochs = [epoch for one in written.values() for epoch in one]
    assert len(epochs) == len(set(epochs)), "two job managers have written the same epoch"
    newest = first.latest()
    assert newest is not None
    assert newest.epoch >= max(epochs)


@pytest.mark.parametrize("retained", [1, 2, 3])
def test_what_retained_manifests_need_is_kept(tmp_path: Path, retained: int) -> None:
    store = CheckpointStore(posix_folder(tmp_path / "checkpoints"), retained)
    names = [f"{epoch}-0-1-0-aa.state" for epoch in range(1, 7)]
    put(store, *names)
    for epoch in range(1, 7):
        store.write(manifest(epoch, *names[max(0, epoch - 2) : epoch]))  # each needs the one before as well
        store.collect_garbage()
    kept = names[6 - retained - 1 :]
    assert state_files(store) == set(kept)


def test_what_an_older_life_left_is_removed_after_a_restart(store: CheckpointStore) -> None:
    needed, left, mine = "1-0-1-0-aa.state", "2-0-1-0-bb.state", "3-1-1-0-cc.state"
    compacted, its, random = "compacted-0-1-0-dd.state", "compacted-1-1-0-ee.state", "0" * 32
    shared = "shared-3-0-1-aa-dd.state"
    unfinished, of_mine = f".{left}.{random}.tmp", f".{mine}.{random}.tmp"
    foreign = ["README", "x.tmp", ".snapshot", "lost+found", "1-0-1-0-aa.state.bak", "compacted.state"]
    put(store, needed, left, mine, compacted, shared, its, unfinished, of_mine, *foreign)
    store.write(manifest(1, needed))
    again = CheckpointStore(store.storage)
    owned = again.take_over(manifest(1, needed))
    assert owned.generation == 1
    assert set(again.remove_leftovers(owned.generation)) == {left, compacted, shared}
    assert state_files(again) == {needed, mine, its, of_mine, *foreign}


def test_unfinished_manifests_are_removed(store: CheckpointStore) -> None:
    store.write(manifest(1))
    random = "0" * 32
    over = root(store) / "manifests" / f".{1:012}.json.{random}.tmp"
    kept = [
        root(store) / "manifests" / f".{99:012}.json.{random}.tmp",
        root(store) / "generations" / f".1.{random}.tmp",
    ]
    for path in (over, *kept):
        path.write_bytes(b"half")
    again = CheckpointStore(store.storage)
    again.remove_leftovers(again.take_over(manifest(1)).generation)
    assert [path for path in (over, *kept) if path.exists()] == kept, "a living job manager may write the others"


def test_a_manifest_under_the_name_of_another_one(store: CheckpointStore) -> None:
    for epoch in (1, 2):
        store.write(manifest(epoch))
    folder = root(store) / "manifests"
    (folder / "000000000002.json").write_bytes((folder / "000000000001.json").read_bytes())
    with pytest.raises(CheckpointError, match=r"000000000002\.json is that of epoch 1"):
        store.latest()


def test_a_manifest_of_another_job(tmp_path: Path) -> None:
    stores = []
    for number, job in enumerate(("id", "other")):
        store = CheckpointStore(posix_folder(tmp_path / str(number)))
        begun = store.begin(replace(manifest(0), job_id=job))
        assert begun is not None
        store.write(replace(begun, epoch=1))
        stores.append(root(store))
    ours, theirs = (folder / "manifests" / "000000000001.json" for folder in stores)
    ours.write_bytes(theirs.read_bytes())
    with pytest.raises(CheckpointError, match=r"000000000001\.json is of job other"):
        CheckpointStore(posix_folder(stores[0])).latest()


def test_generations_are_not_used_again_when_their_files_are_lost(store: CheckpointStore) -> None:
    store.write(manifest(1, generation=3))
    for path in (root(store) / "generations").iterdir():
        path.unlink()
    assert store.take_over(manifest(1, generation=3)).generation == 4


def test_a_damaged_note_is_no_more_than_less_certainty(
    store: CheckpointStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.write(manifest(1))
    note = root(store) / "manifests" / "newest"
    content = note.read_bytes()
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 1
        note.write_bytes(bytes(changed))
        assert store.latest() == manifest(1)
    assert "newest is damaged" in caplog.text


def test_a_note_that_cannot_be_read_is_no_more_than_less_certainty(
    store: CheckpointStore, caplog: pytest.LogCaptureFixture
) -> None:
    """It is only a hint: manifests are listed, and whoever takes over writes it anew."""
    store.write(manifest(1))
    original, failed = Folder.read, list[str]()

    def read(folder: Folder, name: str) -> bytes:
        if name == "newest" and not failed:
            failed.append(name)
            raise OSError(errno.EIO, "no data node has a block of it", folder.locate(name))
        return original(folder, name)

    with mock.patch.object(Folder, "read", read):
        assert store.take_over(manifest(1)).epoch == 2
    assert failed == ["newest"]
    assert "newest cannot be read: whether a manifest is missing cannot be told" in caplog.text
    assert "no data node has a block of it" in caplog.text


@pytest.mark.parametrize(
    "error",
    [
        PermissionError(errno.EACCES, "not yours"),
        CheckpointStorageError("no bucket"),
        TimeoutError(errno.ETIMEDOUT, "no answer within 60 s"),
        OSError(errno.ESTALE, "replaced on another machine, so the listing may be as old"),
    ],
)
def test_a_note_that_may_be_read_later_is_an_error(store: CheckpointStore, error: OSError) -> None:
    """Manifests may be missing in the listing for the same reason."""
    store.write(manifest(1))
    original = Folder.read

    def read(folder: Folder, name: str) -> bytes:
        if name == "newest":
            raise error
        return original(folder, name)

    with mock.patch.object(Folder, "read", read), pytest.raises(type(error)) as raised:
        store.latest()
    assert raised.value is error


def test_who_is_slow_to_claim_a_generation_gets_the_next_one(store: CheckpointStore) -> None:
    """Others have come meanwhile, who remove what is left of claims before theirs."""
    folder, link, first = store.storage.folder("generations"), os.link, [True]

    def meanwhile(source: Path, target: Path) -> None:
        if target.name == "0" and first:
            first.clear()
            others = [Generations(folder), Generations(folder)]
            assert [other.claim(0, "id") for other in others] == [0, 1]
            others[1].remove_unfinished(1)
            assert not source.exists()
        link(source, target)

    with mock.patch.object(os, "link", meanwhile):
        assert Generations(folder).claim(0, "id") == 2
    assert not first


def version(generation: int) -> str:
    return str(VersionName(5, generation, 1, 0, "0" * 32))


def test_what_dead_attempts_have_left_goes_at_the_next_start(store: CheckpointStore) -> None:
    begun = store.begin(manifest(0))
    assert begun is not None
    store.write(replace(begun, epoch=1))
    left = {
        "generations": ("0", "1", "2", "README"),
        "manifests": ("newest", "000000000001.json", "000000000009.json"),
        "state": (version(generation=0), version(generation=1)),
        "": (f".probe-{time.time() - 4000:.0f}-{'0' * 32}", f".probe-{time.time():.0f}-{'0' * 32}"),
    }
    for folder, names in left.items():
        for name in names:
            (root(store) / folder / f".{name}.{'0' * 32}.tmp").touch()
    again = CheckpointStore(store.storage)
    mine = again.take_over(replace(begun, epoch=1))
    assert mine.generation == 1
    again.remove_leftovers(mine.generation)
    found = sorted(path.name[1:-37] for path in root(store).rglob("*.tmp"))
    assert found == sorted(["1", "2", "README", "000000000009.json", version(generation=1), *left[""][1:]])


class _AnyOrder(Disk):
    """A store that removes many files in an order of its own, as object stores do."""

    def folder(self, name: str) -> Folder:
        return _AnyOrder(self._power, self._tree, f"{self._path}{name}/")

    def remove_all(self, names: Sequence[str]) -> list[str]:
        return super().remove_all(sorted(names, reverse=True))


def test_power_fails_while_checkpoints_are_deleted_on_a_store_that_removes_in_any_order() -> None:
    """The newest goes last: a job that went on from an older one would publish once more what came after it."""
    for step in count():
        power, tree = Power(), dict[str, bytes]()
        store = CheckpointStore(_AnyOrder(power, tree), num_retained=3)
        first = store.begin(manifest(0))
        assert first is not None
        for epoch in (1, 2, 3):
            store.write(manifest(epoch, generation=first.generation))
        power.steps = step
        with suppress(PowerFailureError):
            store.discard(manifest(3, generation=first.generation), ())
        has_failed, power.steps = power.steps == 0, None
        left = CheckpointStore(_AnyOrder(power, tree)).latest()
        assert left is None or left.epoch == 3
        if not has_failed:
            break
    assert left is None
    assert step > 4


def test_foreign_files_and_folders_are_left_alone(store: CheckpointStore) -> None:
    for folder in ("manifests", "generations", "state", ""):
        for name in ("README", "x.tmp", "000000000001.json.bak", "lost+found", "²"):
            (root(store) / folder / name).mkdir() if name == "lost+found" else (root(store) / folder / name).touch()
    before = sorted(root(store).rglob("*"))
    begun = store.begin(manifest(0))
    assert begun is not None
    store.write(replace(begun, epoch=1))
    store.collect_garbage()
    again = CheckpointStore(store.storage)
    again.remove_leftovers(again.take_over(replace(begun, epoch=1)).generation)
    assert set(before) <= set(root(store).rglob("*"))


def test_a_folder_in_the_place_of_a_manifest(store: CheckpointStore) -> None:
    store.write(manifest(1))
    (root(store) / "manifests" / "000000000002.json").mkdir()
    with pytest.raises(CheckpointError, match=r"000000000002\.json is a folder"):
        store.latest()


def test_a_pipe_in_the_place_of_a_manifest(store: CheckpointStore) -> None:
    """Nobody waits for somebody to write to it."""
    store.write(manifest(1))
    os.mkfifo(root(store) / "manifests" / "000000000002.json")
    with pytest.raises(CheckpointError, match=r"000000000002\.json is a folder, or something else that is no file"):
        store.latest()


def test_a_pipe_in_the_place_of_the_note(store: CheckpointStore) -> None:
    store.write(manifest(1))
    (root(store) / "manifests" / "newest").unlink()
    os.mkfifo(root(store) / "manifests" / "newest")
    with pytest.raises(CheckpointError, match=r"newest is a folder, or something else that is no file"):
        store.latest()


@pytest.mark.parametrize("content", ["", "a note", "0", "job", "the job's secret 0123456789abcdef0123456789abcde"])
def test_a_stranger_among_the_generations_does_not_make_the_job_id(store: CheckpointStore, content: str) -> None:
    (root(store) / "generations" / "0").write_text(content)
    begun = store.begin(manifest(0))
    assert begun is not None
    assert (begun.job_id, begun.generation) == (manifest(0).job_id, 1)
    again = CheckpointStore(store.storage).begin(replace(manifest(0), job_id="another"))
    assert again is not None
    assert (again.job_id, again.generation) == (manifest(0).job_id, 2), "of whoever had it before"


def test_what_killed_starts_have_left_of_their_probes_is_removed(store: CheckpointStore) -> None:
    random = "0123456789abcdef" * 2
    old, young = f".probe-{time.time() - 7200:.0f}-{random}", f".probe-{time.time():.0f}-{random}"
    strangers = [".probe-", f".probe-x-{random}", f"{old}.bak"]
    for name in (old, young, f".probe-{random}", *strangers):
        (root(store) / name).touch()
    CheckpointStore(store.storage)
    found = {path.name for path in root(store).iterdir() if path.name.startswith(".probe")}
    assert found == {young, *strangers}, "another one may be starting"


def test_nobody_else_reads_what_is_in_a_checkpoint(tmp_path: Path) -> None:
    store = CheckpointStore(posix_folder(tmp_path / "checkpoints"))
    begun = store.begin(manifest(0))
    assert begun is not None
    store.write(replace(begun, epoch=1))
    everything = [root(store), *root(store).rglob("*")]
    assert len(everything) > 5
    assert {path.stat().st_mode & 0o077 for path in everything} == {0}


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b'{"format":99}', b'{"format":1,"checksum":"00000000"}', b"\xff\xfe"]
)
def test_a_damaged_manifest_is_named(store: CheckpointStore, content: bytes) -> None:
    path = root(store) / "manifests" / "000000000001.json"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"000000000001\.json"):
        store.latest()


def test_places_that_cannot_be_used(tmp_path: Path) -> None:
    for elsewhere in ("s3:/folder", "hdfs:/folder", "webhdfs://host/folder", "file://host/folder"):
        with pytest.raises(CheckpointStorageError, match=rf"{elsewhere}.*(it can be a folder|its own protocol only)"):
            local_path(elsewhere)
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointStorageError, match="cannot be used"):
        CheckpointStore(posix_folder(tmp_path / "file" / "below"))


def test_every_source_has_a_folder_of_its_own(store: CheckpointStore) -> None:
    uids = ["a b", "a_b", "a/b", "..", ".", "", "source", "Ä" * 300, "Ä" * 301, "a\nb"]
    folders = [Path(str(source_folder(store.storage, uid))) for uid in uids]
    assert len(set(folders)) == len(uids)
    for folder in folders:
        folder.mkdir(parents=True)
        assert folder.parent == root(store) / "sources"


def test_a_location_is_a_path_or_a_file_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert local_path("checkpoints") == local_path(str(tmp_path / "checkpoints")) == tmp_path / "checkpoints"
    assert local_path("~/checkpoints") == Path.home() / "checkpoints"
    for scheme in ("file://", "file:", "file://localhost", "FILE:"):
        assert local_path(f"{scheme}/data/a%20b") == Path("/data/a b")
    assert local_path("/data/a%20b:/c") == Path("/data/a%20b:/c"), "a path is what it says"
