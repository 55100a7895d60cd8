"""A checkpoint directory on S3 whose requests go wrong: who has created a file is known all the same."""

from __future__ import annotations

import threading
import urllib.request
from dataclasses import replace

import pytest

from headrace.checkpoint.directory import probe
from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.store import CheckpointStore
from headrace.common.errors import CheckpointError, CheckpointStorageError, InfrastructureError, JobSupersededError
from headrace.storage.folder import Folder
from headrace.storage.locations import open_storage
from tests.storage.s3_server import Fault, S3Server, done_and_lost, done_but, refused

FIRST = Manifest(0, 0, "job", "numbers", 128, 0)
FAULTS = {
    "done, but answered with an error": done_but("500 Internal Server Error"),
    "done, but the answer is lost": done_and_lost,
    "not done, an error": refused("503 Slow Down"),
    "not done, a conflict": refused("409 Conflict"),
    "not done, although it says that it is there": refused("412 Precondition Failed"),
}


@pytest.fixture
def folder(s3: S3Server) -> Folder:
    return open_storage(f"{s3.new_bucket()}/job", options=s3.options())


def following(manifest: Manifest) -> Manifest:
    return replace(manifest, epoch=manifest.epoch + 1)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_who_creates_a_file_knows_it_whatever_the_answer(s3: S3Server, folder: Folder, fault: Fault) -> None:
    with s3.failing(fault, "PUT", "/job/a") as struck:
        assert folder.create("a", b"mine")
    assert len(struck) == 1
    assert folder.read("a") == b"mine"
    assert not folder.create("a", b"mine")


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_who_comes_second_knows_it_too(s3: S3Server, folder: Folder, fault: Fault) -> None:
    assert folder.create("a", b"theirs")
    with s3.failing(fault, "PUT", "/job/a") as struck:
        assert not folder.create("a", b"theirs"), "also when it would write the same"
    assert len(struck) == 1


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_reading_is_tried_again(s3: S3Server, folder: Folder, method: str) -> None:
    folder.write("a", [b"content"])
    with s3.failing(refused("500 Internal Server Error"), method, "job", times=2) as struck:
        assert (folder.read("a"), folder.size("a"), folder.names()) == (b"content", 7, ["a"])
    assert len(struck) == 2


@pytest.mark.slow
def test_a_server_that_is_gone_may_come_back(s3: S3Server, folder: Folder) -> None:
    folder.write("a", [b"content"])
    s3.end()
    try:
        for use in (folder.read, folder.size, folder.remove, lambda name: folder.create(name, b"")):
            with pytest.raises(OSError, match=r"s3://bucket-.*/job/a") as raised:
                use("a")
            assert not isinstance(raised.value, FileNotFoundError)
    finally:
        s3.begin()
    assert folder.read("a") == b"content"


def test_a_store_that_does_not_heed_conditions_is_refused(s3: S3Server, folder: Folder) -> None:
    s3.ignores_conditions = True
    try:
        with pytest.raises(CheckpointStorageError, match="does not create files exclusively"):
            probe(folder)
    finally:
        s3.ignores_conditions = False
    probe(folder)
    assert folder.names() == []


def test_what_cannot_be_used(s3: S3Server, folder: Folder) -> None:
    missing = open_storage("s3://there-is-no-such-bucket/job", options=s3.options())
    with pytest.raises(
        CheckpointStorageError, match=r"s3://there-is-no-such-bucket/job.*: there is no such bucket.*NoSuchBucket"
    ):
        CheckpointStore(missing)
    with (
        s3.failing(refused("403 Forbidden"), "PUT", "/job/", times=9),
        pytest.raises(CheckpointStorageError, match="cannot be used") as raised,
    ):
        CheckpointStore(folder)
    assert isinstance(raised.value.__cause__, PermissionError)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("below", ["", "manifests/", "generations/", "generations/9/"])
def test_objects_that_tools_put_in_the_place_of_folders(s3: S3Server, below: str) -> None:
    bucket = s3.new_bucket()
    folder = open_storage(f"{bucket}/job", options=s3.options())
    put(s3, f"{bucket}/job/{below}")
    store = CheckpointStore(folder)
    first = store.begin(FIRST)
    assert first is not None
    store.write(following(first))
    again = store.restart(following(first))
    assert store.latest() == again


@pytest.mark.parametrize("key", ["000000000009.json/", "000000000009.json/x"])
def test_a_folder_with_the_name_of_a_manifest_is_named(s3: S3Server, key: str) -> None:
    bucket = s3.new_bucket()
    store = CheckpointStore(open_storage(f"{bucket}/job", options=s3.options()))
    put(s3, f"{bucket}/job/manifests/{key}")
    with pytest.raises(CheckpointError, match=r"manifests/000000000009\.json is a folder"):
        store.latest()


@pytest.mark.parametrize("key", ["/x", "/", "a%01b", "%2E%2E/x"])
def test_a_key_that_cannot_be_listed_is_named(s3: S3Server, key: str) -> None:
    """Trying again is of no use."""
    bucket = s3.new_bucket()
    store = CheckpointStore(open_storage(f"{bucket}/job", options=s3.options()))
    put(s3, f"{bucket}/job/manifests/{key}")
    with pytest.raises(CheckpointError, match="/job/manifests holds an object that is not the job's"):
        store.latest()


def put(s3: S3Server, uri: str) -> None:
    """Put an empty object, whatever its key."""
    address = f"http://127.0.0.1:{s3.port}/{uri.removeprefix('s3://')}"
    with urllib.request.urlopen(urllib.request.Request(address, b"", method="PUT")):
        pass


def test_a_client_that_breaks_down(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token\n")
    with pytest.raises(CheckpointStorageError, match=r"has broken down .*: see the credentials"):
        CheckpointStore(open_storage(f"{s3.new_bucket()}/job", options=s3.options()))


def test_of_many_that_claim_a_generation_each_gets_its_own(folder: Folder) -> None:
    stores = [CheckpointStore(folder) for _ in range(4)]
    begun: list[Manifest | None] = []
    threads = [threading.Thread(target=lambda store=store: begun.append(store.begin(FIRST))) for store in stores]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(manifest.generation for manifest in begun if manifest is not None) == [0, 1, 2, 3]


@pytest.mark.slow
def test_taking_over_while_the_owner_writes_manifest_after_manifest(folder: Folder) -> None:
    first = CheckpointStore(folder)
    first.write(following(FIRST))
    errors: list[BaseException] = []
    written: list[int] = []

    def own() -> None:
        store = CheckpointStore(folder)
        try:
            newest = store.latest()
            assert newest is not None
            mine = store.take_over(newest)
            for _ in range(8):
                mine = following(mine)
                try:
                    store.write(mine)
                except InfrastructureError:  # an older one has just written that number
                    mine = store.restart(mine)
                else:
                    written.append(mine.epoch)
                store.collect_garbage()
        except JobSupersededError:
            pass
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=own) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(written) == len(set(written)), "two job managers have written the same epoch"
    newest = first.latest()
    assert newest is not None
    assert newest.epoch >= max(written)


def test_a_manifest_whose_put_was_not_answered_is_found_by_a_restart(s3: S3Server, folder: Folder) -> None:
    store = CheckpointStore(folder)
    begun = store.begin(FIRST)
    assert begun is not None
    with (
        s3.failing(done_but("400 Bad Request"), "PUT", "000000000001.json", times=9) as struck,
        pytest.raises(OSError, match=r"000000000001\.json"),
    ):
        store.write(following(begun))
    assert struck
    again = store.restart(begun)
    assert (again.epoch, again.generation) == (2, 1)
    assert store.latest() == again


def test_a_manifest_that_is_gone_is_missed(folder: Folder) -> None:
    store = CheckpointStore(folder, num_retained=2)
    begun = store.begin(FIRST)
    assert begun is not None
    for number in (1, 2):
        store.write(replace(begun, epoch=number))
    folder.folder("manifests").remove("000000000002.json")
    with pytest.raises(CheckpointError, match=r"s3://.*/job/manifests/000000000002\.json is missing"):
        CheckpointStore(folder).latest()


def test_a_manifest_that_is_damaged_is_named(folder: Folder) -> None:
    store = CheckpointStore(folder)
    store.write(following(FIRST))
    manifests = folder.folder("manifests")
    content = bytearray(manifests.read("000000000001.json"))
    content[len(content) // 2] ^= 1
    manifests.write("000000000001.json", [content])
    with pytest.raises(CheckpointError, match=r"s3://.*/job/manifests/000000000001\.json"):
        store.latest()
