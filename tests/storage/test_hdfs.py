"""What is of its own on HDFS: renames in doubt, nodes that are silent or change, lost blocks, permissions."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.common.durable import Permissions
from headrace.common.errors import CheckpointStorageError
from headrace.storage.files import FileStore
from headrace.storage.folder import Folder
from headrace.storage.hdfs import HdfsFileSystem
from headrace.storage.locations import file_system_of, open_storage
from tests.reliability.support.file_sinks import by_name
from tests.reliability.support.small_jobs import CrashError
from tests.storage.hdfs_cluster import HdfsCluster
from tests.storage.remote_job import RemoteJob
from tests.storage.remote_output import RemoteOutput
from tests.storage.tcp_proxy import Fault, TcpProxy
from tests.waiting import PATIENCE, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture
def store(hdfs: HdfsCluster) -> HdfsCluster:
    """Of the proxy."""
    return hdfs


def proxied_folder(hdfs: HdfsCluster, proxy: TcpProxy) -> Folder:
    location, options = hdfs.through(proxy.port, hdfs.new_place())
    found = open_storage(location, options=options)
    found.make()
    return found


def storage_of(folder: Folder) -> HdfsFileSystem:
    assert isinstance(folder.file_system, HdfsFileSystem)
    return folder.file_system


# --- folders ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.REFUSED])
def test_a_rename_in_doubt_never_gives_a_name_to_two(hdfs: HdfsCluster, proxy: TcpProxy, fault: Fault) -> None:
    """Whoever is told that it created a file did so; who cannot be told anything gets an error."""
    folder, told, doubts = proxied_folder(hdfs, proxy), 0, list[OSError]()
    for number in range(5):
        with proxy.failing(fault, "rename2", f"/{number}") as struck:
            try:
                told += folder.create(f"{number}", b"mine")
            except OSError as error:
                doubts.append(error)
        assert struck == [1]
        assert not folder.create(f"{number}", b"other")
        assert folder.read(f"{number}") == b"mine"
    assert (told, len(doubts)) == ((5, 0) if fault is Fault.REFUSED else (0, 5))
    assert all("what was to get this name is gone" in str(error) for error in doubts)


@pytest.mark.parametrize("method", ["create", "addBlock", "complete", "rename2", "getBlockLocations", "delete"])
@pytest.mark.parametrize("fault", [Fault.LOST, Fault.REFUSED])
def test_a_file_that_is_written_is_there_whole_or_not_at_all(
    hdfs: HdfsCluster, proxy: TcpProxy, method: str, fault: Fault
) -> None:
    folder = proxied_folder(hdfs, proxy)
    folder.write("a", [b"before"])
    with proxy.failing(fault, method) as struck:
        try:
            folder.write("a", [b"after"])
        except OSError:
            assert folder.read("a") in (b"before", b"after")
        else:
            assert folder.read("a") == b"after"
        folder.remove("a")
    assert struck == [1]


def test_a_silent_name_node_is_given_up(hdfs: HdfsCluster, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = proxied_folder(hdfs, proxy)
    monkeypatch.setattr(hdfs, "DEADLINE_SECONDS", 1.0)
    with proxy.failing(Fault.SILENT, "rename2") as struck, pytest.raises(TimeoutError, match="no answer within 1 s"):
        folder.create("a", b"x")
    assert struck == [1]
    assert folder.read("a") == b"x", "it was done all the same, and the next request has a connection of its own"


def test_after_a_silent_name_node_the_other_one_is_asked(
    hdfs: HdfsCluster, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = hdfs.options() | {
        "dfs.namenode.rpc-address.cluster.nn0": f"localhost:{proxy.port}",
        "dfs.ha.namenodes.cluster": "nn0,nn1",
    }
    folder = open_storage(hdfs.new_place(), options=options)
    folder.make()
    folder.write("a", [b"x"])
    monkeypatch.setattr(hdfs, "DEADLINE_SECONDS", 1.0)
    with proxy.failing(Fault.SILENT, "getBlockLocations", times=1_000_000) as struck:
        hdfs.fail_over()
        try:
            with pytest.raises(TimeoutError):
                folder.read("a")
            assert folder.read("a") == b"x"
        finally:
            hdfs.fail_over()
    assert struck[0] >= 1


def test_a_cluster_that_stands_still_is_given_up(
    hdfs: HdfsCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections that are there already, and those that are begun anew."""
    folder = open_storage(hdfs.new_place(), options=hdfs.options())
    folder.make()
    folder.write("a", [b"x"])
    with monkeypatch.context() as patched, hdfs.standing_still():
        patched.setattr(hdfs, "DEADLINE_SECONDS", 1.0)
        for use in (lambda: folder.read("a"), lambda: folder.create("b", b"x"), folder.names, folder.names):
            with pytest.raises(TimeoutError, match=f"no answer within 1 s: '{folder}"):
                use()
    assert folder.read("a") == b"x"
    assert folder.create("c", b"x")


def test_a_process_ends_whose_request_is_not_answered(hdfs: HdfsCluster) -> None:
    folder = open_storage(hdfs.new_place(), options=hdfs.options())
    program = (
        "import pickle, sys\nfrom headrace.storage import hdfs\nhdfs.DEADLINE_SECONDS = 1.0\n"
        "try:\n    pickle.load(sys.stdin.buffer).names()\nexcept TimeoutError:\n    print('given up')\n"
    )
    with hdfs.standing_still():
        done = subprocess.run(
            [sys.executable, "-c", program],
            input=pickle.dumps(folder),
            capture_output=True,
            check=True,
            timeout=PATIENCE,
        )
    assert done.stdout == b"given up\n"


def test_what_is_given_up_while_it_is_written_is_forgotten_without_a_request(
    hdfs: HdfsCluster, proxy: TcpProxy
) -> None:
    folder = proxied_folder(hdfs, proxy)

    def chunks() -> Iterator[bytes]:
        yield b"x"
        raise CrashError

    with proxy.failing(Fault.SILENT, "complete") as struck:
        with contextlib.suppress(CrashError):
            storage_of(folder).write_beside(f"{folder.path}/a", chunks())
        gc.collect()
    assert struck == [0]
    assert storage_of(folder).list_folder(folder.path) == []


def test_a_name_node_takes_over(hdfs: HdfsCluster) -> None:
    folder = open_storage(hdfs.new_place(), options=hdfs.options())
    folder.make()
    assert folder.create("a", b"1")
    for number in range(4):
        hdfs.fail_over()
        assert not folder.create("a", b"2")
        assert folder.create(f"b{number}", b"3")
    assert folder.read("a") == b"1"


def test_who_may_read_and_write(hdfs: HdfsCluster) -> None:
    location = hdfs.new_place()
    folder = open_storage(location, Permissions.OWNER, hdfs.options())
    folder.make()
    folder.write("a", [b"x"])
    assert folder.open_to_others() is None
    modes = [storage_of(folder).stat(path).mode for path in (folder.path, f"{folder.path}/a")]  # type: ignore[union-attr]
    assert modes == [0o700, 0o600]
    program = (
        "import pickle, sys\nfolder = pickle.load(sys.stdin.buffer)\n"
        "for use in (lambda: folder.read('a'), lambda: folder.write('b', [b'x']), lambda: folder.names()):\n"
        "    try:\n        use()\n    except PermissionError as error:\n        print('refused', error.filename)\n"
    )
    other = {**os.environ, "HADOOP_USER_NAME": "somebody-else"}
    done = subprocess.run(
        [sys.executable, "-c", program], input=pickle.dumps(folder), capture_output=True, env=other, check=True
    )
    assert done.stdout.decode().split("\n")[:-1] == [f"refused {location}{rest}" for rest in ("/a", "", "")] or (
        done.stdout.count(b"refused") == 3
    )


def test_unfinished_files_are_removed(hdfs: HdfsCluster) -> None:
    folder = open_storage(hdfs.new_place(), options=hdfs.options())
    folder.make()
    for name in "ab":
        storage_of(folder).write_beside(f"{folder.path}/{name}", [b"x"])
    assert folder.names() == []
    assert len(folder.remove_unfinished(lambda name: name == "a")) == 1
    assert len(storage_of(folder).list_folder(folder.path)) == 1


@pytest.mark.parametrize(
    ("umask", "modes"), [(None, [0o755, 0o644]), ("027", [0o750, 0o640]), ("g=rwx,u=rwx", [0o770, 0o660])]
)
def test_hadoops_umask_holds(hdfs: HdfsCluster, umask: str | None, modes: list[int]) -> None:
    options = hdfs.options() | ({} if umask is None else {"fs.permissions.umask-mode": umask})
    folder = open_storage(hdfs.new_place(), Permissions.UMASK, options)
    folder.make()
    folder.write("a", [b"x"])
    assert [storage_of(folder).stat(path).mode for path in (folder.path, f"{folder.path}/a")] == modes  # type: ignore[union-attr]


def test_a_lost_block_is_told_in_short(hdfs: HdfsCluster) -> None:
    folder = open_storage(hdfs.new_place(), options=hdfs.options())
    folder.make()
    folder.write("a", [b"x"])
    assert hdfs.lose(folder.locate("a")) == 1
    with pytest.raises(OSError, match=r"no data node (gives|has) a block of it") as told:
        folder.read("a")
    assert len(str(told.value)) < 200
    folder.write("a", [b"y"])
    assert folder.read("a") == b"y"


# --- jobs ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def made(hdfs: HdfsCluster, tmp_path: Path) -> RemoteJob:
    return RemoteJob(f"{hdfs.new_place()}/job", hdfs.options(), tmp_path)


def test_the_note_of_the_newest_manifest_is_lost(
    made: RemoteJob, hdfs: HdfsCluster, caplog: pytest.LogCaptureFixture
) -> None:
    made.job().run(stop_after=4)
    assert hdfs.lose(f"{made.location}/manifests/newest") == 1
    made.job().run(stop_after=6)
    assert "manifests/newest cannot be read: whether a manifest is missing cannot be told" in caplog.text
    caplog.clear()
    assert made.job().run().restored[0] is not None
    assert "cannot be read" not in caplog.text, "it is written anew"
    made.check()


def test_what_killed_attempts_have_left_goes_when_it_is_started_again(made: RemoteJob) -> None:
    made.job().run(stop_after=4)
    directory = made.directory
    for folder, name in (("generations", "0"), ("manifests", "000000000001.json"), ("manifests", "newest")):
        storage_of(directory).write_beside(f"{directory.path}/{folder}/{name}", [b"half"])
    made.job().run()
    made.check()
    found = [
        entry.name
        for folder in ("generations", "manifests")
        for entry in storage_of(directory).list_folder(f"{directory.path}/{folder}")
    ]
    assert not [name for name in found if name.endswith(".tmp")]


def test_name_nodes_change_while_it_runs(made: RemoteJob, hdfs: HdfsCluster) -> None:
    errors: list[BaseException] = []
    thread = made.job(pause=0.05).in_background(errors)
    for epoch in (2, 4, 6):
        wait_for(lambda epoch=epoch: made.epochs() >= epoch)  # type: ignore[misc]
        hdfs.fail_over()
    thread.join(PATIENCE)
    assert not errors
    made.check()


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.REFUSED])
def test_a_part_whose_rename_was_not_answered_counts_when_the_name_node_has_answered(
    hdfs: HdfsCluster, proxy: TcpProxy, tmp_path: Path, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled, original = list[str](), HdfsFileSystem.settle

    def settle(self: HdfsFileSystem, folder: str) -> None:
        original(self, folder)
        settled.append(folder)

    monkeypatch.setattr(HdfsFileSystem, "settle", settle)
    output, kind = RemoteOutput(hdfs, tmp_path), by_name("text-rolled-at-the-end")
    output.uri, output.options = hdfs.through(proxy.port, output.uri)
    output.place = "hdfs://proxied"
    with proxy.failing(fault, "rename2", "/out/part-") as struck:
        output.job(kind).run()  # parts are shown when nothing else uses the connection any more
    assert struck == [1]
    folder = "/" + output.uri.split("/", 3)[3]
    assert settled == ([folder] if fault is Fault.LOST else [])
    output.check(kind)


def test_a_part_that_is_gone_when_the_name_node_has_answered_is_shown_again(hdfs: HdfsCluster, tmp_path: Path) -> None:
    """It was seen on a name node that did not outlast it."""
    staging = RemoteOutput(hdfs, tmp_path).staging
    staging.file_system.make_folder(staging.base)
    staging.file_system.put(f"{staging.base}/a", [b"x"])
    staging.confirm([f"{staging.base}/a"])
    with pytest.raises(OSError, match=r"gone before that was certain: 'hdfs://cluster/.*/out/b'"):
        staging.confirm([f"{staging.base}/a", f"{staging.base}/b"])


# --- files -----------------------------------------------------------------------------------------------------------


def test_a_folder_that_is_gone_is_told(hdfs: HdfsCluster) -> None:
    place, store = hdfs.new_place(), FileStore(file_system_of("hdfs://cluster", hdfs.options()))
    hdfs.put(f"{place}/a.csv", b"x")
    assert store.missing(f"{place}/nothing") is not None
    assert store.is_lost(f"{place}/nothing")
    assert not store.is_lost(place)


def test_a_long_read_is_many_requests(hdfs: HdfsCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a deadline, which the whole of a large file would miss."""
    place, options = hdfs.new_place(), hdfs.options()
    root = "/" + place.split("/", 3)[3]
    files = file_system_of("hdfs://cluster", options)
    content = random.Random(7).randbytes(9_000_001)
    files.make_folder(root)
    files.put(f"{root}/large", [content])
    asked, piece = list[int](), HdfsFileSystem._piece
    monkeypatch.setattr(HdfsFileSystem, "_piece", lambda *given: asked.append(given[-1]) or piece(*given))
    assert files.read_range(f"{root}/large", 1, 20_000_000) == content[1:]
    assert asked == [4 << 20, 4 << 20, 9_000_000 - (8 << 20)]
    assert files.read_range(f"{root}/large", 9_000_001, 5) == b""


def test_names_that_hdfs_does_not_have(hdfs: HdfsCluster) -> None:
    with pytest.raises(CheckpointStorageError, match="expected hdfs://"):
        open_storage(f"{hdfs.new_place()}/a:b", options=hdfs.options())
