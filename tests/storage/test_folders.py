"""What every kind of folder promises: on a POSIX file system, and on object stores, one of them in memory."""

from __future__ import annotations

import os
import pickle
import uuid
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.common.errors import CheckpointError, CheckpointStorageError
from headrace.storage.file_system import PosixFileSystem
from headrace.storage.folder import Folder, posix_folder
from headrace.storage.locations import open_storage
from headrace.storage.object_store import ObjectStore
from headrace.storage.remote import PIECE, WHOLE_BYTES, WrittenFiles
from tests.storage.azurite import Azurite
from tests.storage.hdfs_cluster import HdfsCluster
from tests.storage.s3_server import S3Server
from tests.storage.stores import Store, case, on
from tests.storage.tcp_proxy import Fault, TcpProxy


@pytest.fixture(params=["posix", "memory", *map(case, ("s3", "azure", "hdfs"))])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    made: Folder = posix_folder(tmp_path / "deep" / "root")
    if request.param == "memory":
        pytest.importorskip("obstore")
        made = Folder(ObjectStore(f"memory:///{uuid.uuid4().hex}"), "/deep/root")
    if request.param in ("s3", "azure"):
        server: S3Server | Azurite = request.getfixturevalue(request.param)
        made = open_storage(f"{server.new_bucket()}/deep/root", options=server.options())
    if request.param == "hdfs":
        cluster: HdfsCluster = request.getfixturevalue("hdfs")
        made = open_storage(f"{cluster.new_place()}/deep/root", options=cluster.options())
    made.make()
    return made


def test_it_travels(folder: Folder) -> None:
    folder.write("a", [b"content"])
    copy = pickle.loads(pickle.dumps(folder.folder("below").folder("deeper")))
    copy.make()
    assert copy.create("b", b"more")
    assert folder.folder("below").folder("deeper").read("b") == b"more"
    assert str(copy) == f"{folder}/below/deeper"
    assert copy.locate("b") == f"{folder}/below/deeper/b"


class Chunk(bytearray):
    """Bytes of which can be told whether somebody still has them."""


@pytest.mark.sampled(1)
def test_a_large_file_is_sent_as_it_comes_to_be(folder: Folder) -> None:
    """There is never more than some of it in memory: of object stores a dozen parts that are sent at once."""
    made: list[weakref.ref[Chunk]] = []
    held = []

    def chunks() -> Iterator[Chunk]:
        for number in range(300):
            chunk = Chunk(bytes([number % 200]) * (1 << 19))
            made.append(weakref.ref(chunk))
            held.append(sum(each() is not None for each in made))
            yield chunk

    folder.write("large", chunks())
    assert folder.size("large") == 300 << 19
    assert [folder.read_range("large", number << 19, 1) for number in (0, 77, 199)] == [b"\0", b"\x4d", b"\xc7"]
    assert max(held) < 200 or str(folder).startswith("memory"), "a store in memory keeps what it is given"


@pytest.mark.parametrize("good", [0, 1, 50], ids=lambda count: f"after {count} chunks")
def test_of_a_file_whose_content_cannot_be_made_there_is_nothing(folder: Folder, good: int) -> None:
    def chunks() -> Iterator[bytes]:
        yield from [bytes(1 << 19)] * good
        raise CheckpointError("there is no more")

    with pytest.raises(CheckpointError, match="there is no more"):
        folder.write("file", chunks())
    assert folder.names() == []


def test_a_file_is_created_once(folder: Folder) -> None:
    assert [folder.create("a", content) for content in (b"1", b"2", b"1", b"")] == [True, False, False, False]
    assert folder.read("a") == b"1"
    assert folder.remove("a")
    assert folder.create("a", b"2")


@pytest.mark.sampled(1)
def test_of_many_that_create_a_file_one_wins(folder: Folder) -> None:
    """Also when all of them write the same."""
    with ThreadPoolExecutor(8) as threads:
        for name in map(str, range(20)):
            assert sum(threads.map(lambda _, name=name: folder.create(name, b"same"), range(8))) == 1  # type: ignore[misc]
    assert folder.names() == sorted(map(str, range(20)))


def test_files_are_written_and_replaced(folder: Folder) -> None:
    folder.write("b", [b"x", pa.py_buffer(b"yz"), b"", memoryview(b"!")])
    folder.write("a", [], durable=False)
    assert (folder.read("b"), folder.read("a")) == (b"xyz!", b"")
    folder.write("b", [b"other"])
    assert folder.read("b") == b"other"
    assert (folder.size("b"), folder.size("a"), folder.size("c")) == (5, 0, None)
    assert folder.names() == ["a", "b"]
    assert folder.remove("b")
    folder.remove("b")
    assert folder.names() == ["a"]


def test_many_are_removed_at_once(folder: Folder) -> None:
    names = (
        [f"{number:04}" for number in range(1200)]
        if isinstance(folder.file_system, PosixFileSystem)
        else ["a", "b", "c"]
    )
    for name in names:
        folder.write(name, [b"x"], durable=False)
    folder.write("kept", [b"x"])
    assert set(names[:-1]) <= set(folder.remove_all(["missing", *names[:-1]]))
    assert folder.remove_all([]) == []
    assert folder.names() == sorted([names[-1], "kept"])


def test_what_is_not_there(folder: Folder) -> None:
    for read in (folder.read, folder.map, lambda name: folder.read_range(name, 0, 1)):
        with pytest.raises(FileNotFoundError):
            read("missing")
    assert folder.names() == []


@pytest.mark.parametrize(("start", "length"), [(0, 0), (0, 3), (2, 3), (0, 10), (8, 10), (10, 1), (99, 5), (99, 0)])
def test_a_range_ends_with_the_file(folder: Folder, start: int, length: int) -> None:
    folder.write("a", [b"0123456789"])
    assert folder.read_range("a", start, length) == b"0123456789"[start : start + length]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("size", [0, 1, 1 << 20, (16 << 20) + 1])
def test_a_mapped_file_stays_readable(folder: Folder, size: int) -> None:
    content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    folder.write("a", [content[: size // 2], content[size // 2 :]])
    mapped = [folder.map("a") for _ in range(3)]
    for file in mapped:
        file.fetch(0, size)
    folder.remove("a")
    assert all(file.buffer.equals(pa.py_buffer(content)) for file in mapped)
    with pytest.raises(FileNotFoundError):
        folder.map("a")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", "a\\b", "a\0"])
def test_names_lead_nowhere_else(folder: Folder, name: str) -> None:
    for use in (folder.read, folder.folder, folder.remove, lambda name: folder.create(name, b"")):
        with pytest.raises(CheckpointError, match="cannot be the name"):
            use(name)


def test_folders_in_it_are_among_its_names_and_are_not_removed(folder: Folder) -> None:
    below = folder.folder("below")
    below.make()
    below.write("a", [b"x"])
    assert folder.names() == ["below"]
    folder.remove("below")
    assert below.read("a") == b"x"


def test_a_folder_in_the_place_of_a_file(folder: Folder) -> None:
    folder.folder("a").make()
    folder.folder("a").write("x", [b"x"])
    for use in (folder.read, folder.map, lambda name: folder.read_range(name, 0, 1)):
        with pytest.raises(IsADirectoryError, match="a"):
            use("a")


@on("azure", "hdfs")
def test_large_files_are_fetched_in_pieces(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WrittenFiles, "take", lambda self, key: None)
    folder = open_storage(f"{store.new_place()}/root", options=store.options())
    folder.make()
    content = bytes(range(256)) * ((WHOLE_BYTES + 5 * PIECE) // 256) + b"end"
    folder.write("a", [content])
    mapped = folder.map("a")
    start = 7 * PIECE + 3
    mapped.fetch(start, start + 100)
    mapped.fetch(len(content) - 3, len(content))
    assert mapped.buffer.slice(start, 100).to_pybytes() == content[start : start + 100]
    assert mapped.buffer.slice(len(content) - 3, 3).to_pybytes() == b"end"
    assert mapped.fetched <= 3 * PIECE  # type: ignore[attr-defined]


@on("azure")
@pytest.mark.parametrize("fault", [Fault.LOST, Fault.REFUSED])
def test_whose_file_it_is_when_an_answer_is_lost(store: Store, proxy: TcpProxy, fault: Fault) -> None:
    """S3 and HDFS have tests of their own, since the one answers more than that, and the other cannot always tell."""
    location, options = store.through(proxy.port, store.new_place())
    folder = open_storage(location, options=options)
    for name in map(str, range(5)):
        with proxy.failing(fault, "PUT ", f"/{name} ") as struck:
            assert folder.create(name, b"mine")
        assert struck == [1]
        assert not folder.create(name, b"mine")


def test_what_was_not_finished_is_not_listed(tmp_path: Path) -> None:
    folder = posix_folder(tmp_path)
    for name in (f".a.{'0' * 32}.tmp", f".b.{'0' * 32}.tmp", ".hidden"):
        (tmp_path / name).touch()
    assert folder.names() == [".hidden"]
    assert folder.remove_unfinished(lambda name: name == "a") == [f".a.{'0' * 32}.tmp"]
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/a/b/", "s3://bucket/a/b"),
        ("S3A://bucket/a", "s3a://bucket/a"),
        ("gs://bucket/a", "gs://bucket/a"),
        ("az://container/a", "az://container/a"),
        ("abfss://container@account.dfs.core.windows.net/a", "abfss://container@account.dfs.core.windows.net/a"),
    ],
)
def test_locations_on_object_stores(location: str, shown: str) -> None:
    pytest.importorskip("obstore")
    options = {"account_name": "account"} if location.startswith("az") else {}
    options |= {"skip_signature": "true"}
    assert str(open_storage(location, options=options)) == shown


@pytest.mark.parametrize(
    "location", ["s3:///a", "s3://bucket/a//b", "s3://bucket/../b", "s3://bucket/a?b", "gs://b/a#x"]
)
def test_what_names_no_prefix(location: str) -> None:
    pytest.importorskip("obstore")
    with pytest.raises(CheckpointStorageError, match=r"expected .*://<bucket>/<prefix>"):
        open_storage(location)


@pytest.mark.parametrize("options", [{"nonsense": "1"}, {"retry_timeout": "soon"}, {"allow_http": "perhaps"}])
def test_options_that_do_not_fit(options: dict[str, str]) -> None:
    pytest.importorskip("obstore")
    with pytest.raises(CheckpointStorageError, match=r"headrace\.storage options"):
        open_storage("s3://bucket/a", options=options)


def test_secrets_are_not_shown() -> None:
    pytest.importorskip("obstore")
    folder = open_storage("s3://bucket/a", options={"access_key_id": "who", "secret_access_key": "hush"})
    assert "hush" not in f"{folder!r} {folder}"


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    folder = posix_folder(tmp_path)
    os.mkfifo(tmp_path / "a")
    for use in (folder.read, folder.map, lambda name: folder.read_range(name, 0, 1)):
        with pytest.raises(IsADirectoryError, match="no file"):
            use("a")
