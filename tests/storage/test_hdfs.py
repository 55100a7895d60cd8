"""Folders, and whole jobs, on HDFS: exact, whatever happens to them and to the name nodes."""

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
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from headrace.common.durable import Permissions
from headrace.common.errors import CheckpointStorageError, JobSupersededError, StateCorruptedError
from headrace.connectors.file_system.paths import InputPaths
from headrace.storage import hdfs_connection
from headrace.storage.fetched_files import PIECE, WHOLE_BYTES, WrittenFiles
from headrace.storage.hdfs import HdfsFolder
from headrace.storage.hdfs_output import HdfsOutput
from headrace.storage.locations import open_files, open_output, open_storage
from tests.reliability.support import small_jobs
from tests.reliability.support.file_sinks import KINDS, Kind
from tests.reliability.support.small_jobs import CrashError, SmallJob, WatchedSink, expected
from tests.storage.hdfs_cluster import HdfsCluster
from tests.storage.remote_job import CSV, PATIENCE, RemoteJob, keys_of, wait_until
from tests.storage.tcp_proxy import Fault, TcpProxy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture
def proxy(hdfs: HdfsCluster) -> Iterator[TcpProxy]:
    made = TcpProxy(hdfs.active_port)
    yield made
    made.close()


def through(proxy: TcpProxy) -> dict[str, str]:
    """What a client is told that reaches the active name node by a proxy."""
    return {
        "dfs.nameservices": "proxied",
        "dfs.ha.namenodes.proxied": "one",
        "dfs.namenode.rpc-address.proxied.one": f"localhost:{proxy.port}",
    }


def proxied_folder(hdfs: HdfsCluster, proxy: TcpProxy) -> HdfsFolder:
    location = hdfs.new_place().replace("hdfs://cluster/", "hdfs://proxied/")
    found = open_storage(location, options=through(proxy))
    found.make()
    assert isinstance(found, HdfsFolder)
    return found


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
    monkeypatch.setattr(hdfs_connection, "DEADLINE_SECONDS", 1.0)
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
    monkeypatch.setattr(hdfs_connection, "DEADLINE_SECONDS", 1.0)
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
        patched.setattr(hdfs_connection, "DEADLINE_SECONDS", 1.0)
        for use in (lambda: folder.read("a"), lambda: folder.create("b", b"x"), folder.names, folder.names):
            with pytest.raises(TimeoutError, match=f"no answer within 1 s: '{folder}"):
                use()
    assert folder.read("a") == b"x"
    assert folder.create("c", b"x")


def test_a_process_ends_whose_request_is_not_answered(hdfs: HdfsCluster) -> None:
    folder = open_storage(hdfs.new_place(), options=hdfs.options())
    program = (
        "import pickle, sys\nfrom headrace.storage import hdfs_connection\nhdfs_connection.DEADLINE_SECONDS = 1.0\n"
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
            folder.hdfs.write_beside(f"{folder.path}/a", chunks())
        gc.collect()
    assert struck == [0]
    assert folder.hdfs.listing(folder.path) == []


def test_a_name_node_takes_over(hdfs: HdfsCluster) -> None:
    folder = open_storage(hdfs.new_place(), options=hdfs.options())
    folder.make()
    assert folder.create("a", b"1")
    for number in range(4):
        hdfs.fail_over()
        assert not folder.create("a", b"2")
        assert folder.create(f"b{number}", b"3")
    assert folder.read("a") == b"1"


def test_large_files_are_fetched_in_pieces(hdfs: HdfsCluster) -> None:
    folder = open_storage(hdfs.new_place(), options=hdfs.options())
    folder.make()
    content = os.urandom(PIECE) * (WHOLE_BYTES // PIECE + 5) + b"end"
    folder.write("a", [content])
    WrittenFiles.take(hdfs_fetched().written, (folder, "a"))
    mapped = folder.map("a")
    start = 7 * PIECE + 3
    mapped.fetch(start, start + 100)
    mapped.fetch(len(content) - 3, len(content))
    assert mapped.buffer.slice(start, 100).to_pybytes() == content[start : start + 100]
    assert mapped.buffer.slice(len(content) - 3, 3).to_pybytes() == b"end"
    assert mapped.fetched <= 3 * PIECE  # type: ignore[attr-defined]


def hdfs_fetched() -> Any:
    from headrace.storage import hdfs as module

    return module._fetched


def test_who_may_read_and_write(hdfs: HdfsCluster) -> None:
    location = hdfs.new_place()
    folder = open_storage(location, Permissions.OWNER, hdfs.options())
    folder.make()
    folder.write("a", [b"x"])
    assert folder.open_to_others() is None
    assert isinstance(folder, HdfsFolder)
    modes = [folder.hdfs.status(path).mode for path in (folder.path, f"{folder.path}/a")]  # type: ignore[union-attr]
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
    assert isinstance(folder, HdfsFolder)
    for name in "ab":
        folder.hdfs.write_beside(f"{folder.path}/{name}", [b"x"])
    assert folder.names() == []
    assert len(folder.remove_unfinished(lambda name: name == "a")) == 1
    assert len(folder.hdfs.listing(folder.path)) == 1


# --- jobs ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def made(hdfs: HdfsCluster, tmp_path: Path) -> RemoteJob:
    return RemoteJob(f"{hdfs.new_place()}/job", hdfs.options(), tmp_path)


@pytest.mark.parametrize("then", [1, 2, 3])
def test_it_goes_on_where_it_was(made: RemoteJob, monkeypatch: pytest.MonkeyPatch, then: int) -> None:
    monkeypatch.setattr(WrittenFiles, "take", lambda self, key: None)  # all of it is read from the data nodes
    made.job().run(stop_after=4)
    monkeypatch.setattr(small_jobs, "PARALLELISM", then)
    assert made.job().run().restored[0] is not None
    made.check()


@pytest.mark.spark
def test_tasks_on_spark_reach_it_as_the_driver_does(spark: SparkSession, made: RemoteJob) -> None:
    made.settings["headrace.runtime"] = "spark"
    made.job().run(stop_after=4)
    assert made.job().run().restored[0] is not None
    made.check()
    assert made.directory.folder("state").names()


def test_a_crash_in_the_middle_of_a_commit(made: RemoteJob) -> None:
    def die(epoch: int) -> None:
        if epoch >= 4:
            raise CrashError

    made.job(WatchedSink(CSV.make(made.output), before=die)).crash()
    made.job().run()
    made.check()


def test_the_older_of_two_job_managers_stops(made: RemoteJob) -> None:
    errors: list[BaseException] = []
    thread = made.job(pause=0.05).in_background(errors)
    wait_until(lambda: made.epochs() >= 3)
    assert made.job().run().restored[0] is not None
    thread.join(PATIENCE)
    assert [type(error) for error in errors] == [JobSupersededError], errors
    made.check()


def test_name_nodes_change_while_it_runs(made: RemoteJob, hdfs: HdfsCluster) -> None:
    errors: list[BaseException] = []
    thread = made.job(pause=0.05).in_background(errors)
    for epoch in (2, 4, 6):
        wait_until(lambda epoch=epoch: made.epochs() >= epoch)  # type: ignore[misc]
        hdfs.fail_over()
    thread.join(PATIENCE)
    assert not errors
    made.check()


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("path", ["/manifests/0", "/manifests/newest", "/state/", "/generations/", "/.probe-"])
def test_requests_that_go_wrong(
    hdfs: HdfsCluster, proxy: TcpProxy, tmp_path: Path, path: str, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hdfs_connection, "DEADLINE_SECONDS", 1.0)
    monkeypatch.setattr(WrittenFiles, "take", lambda self, key: None)
    location = f"{hdfs.new_place()}/job".replace("hdfs://cluster/", "hdfs://proxied/")
    made = RemoteJob(location, through(proxy), tmp_path)
    temporary = "/.".join(path.rsplit("/", 1))
    requests = {"rename2": path, "create": temporary, "complete": "", "getBlockLocations": path}
    for (method, what), stop_after in zip(requests.items(), (3, 5, 7, None), strict=True):
        with proxy.failing(fault, method, what) as struck:
            failures = made.run_at_last(stop_after)
        assert all(made.location in str(error) for error in failures), failures
        assert struck == [1] or (method == "getBlockLocations" and path not in ("/manifests/0", "/state/"))
    made.check()


def test_damaged_state_is_named(made: RemoteJob) -> None:
    made.job().run(stop_after=4)
    state = made.directory.folder("state")
    for name in state.names():
        content = state.read(name)
        state.write(name, [content[:-1] + bytes([content[-1] ^ 1])])
    with pytest.raises(StateCorruptedError, match=rf"\.state.*\(in {state}\)"):
        made.job().run()


# --- files -----------------------------------------------------------------------------------------------------------


class Output:
    """A folder on HDFS that jobs write to."""

    def __init__(self, cluster: HdfsCluster, folder: Path) -> None:
        self.folder = folder
        self.uri, self.options = f"{cluster.new_place()}/out", cluster.options()
        path = "/" + self.uri.split("/", 3)[3]
        self.tree = open_output("hdfs://cluster", path, self.options)

    def job(self, kind: Kind, **hooks: Any) -> SmallJob:
        settings = keys_of(self.options) | {"restart-strategy.exponential-delay.initial-backoff": "100 ms"}
        return SmallJob(self.folder, WatchedSink(kind.make(self.uri), **hooks), settings)  # type: ignore[arg-type]

    def visible(self) -> list[str]:
        return sorted(path for path in self.tree.files("") if not path.startswith("."))

    def check(self, kind: Kind) -> None:
        """Every record is there once, and nothing is left that is hidden."""
        copy = self.folder / "copy"
        for path in self.tree.files(""):
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            (copy / path).write_bytes(b"".join(self.tree.blocks(path)))
        assert kind.records(copy) == expected()
        assert sorted(self.tree.files("")) == self.visible()


@pytest.fixture
def output(hdfs: HdfsCluster, tmp_path: Path) -> Output:
    return Output(hdfs, tmp_path)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_sink_stops_and_goes_on(output: Output, kind: Kind) -> None:
    output.job(kind).run(stop_after=4)
    before = output.visible()
    assert output.job(kind).run().restored[0] is not None
    output.check(kind)
    assert set(before) <= set(output.visible()), "what is visible stays"


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("kind", KINDS[:2], ids=str)
def test_a_crash_beside_a_commit(output: Output, kind: Kind, moment: str) -> None:
    def die(epoch: int) -> None:
        if epoch >= 5:
            raise CrashError

    output.job(kind, **{moment: die}).crash()
    output.job(kind).run()
    output.check(kind)


@pytest.mark.parametrize("nth", range(1, 5))
def test_a_crash_in_the_middle_of_showing(output: Output, nth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shown, original = 0, HdfsOutput.show

    def show(self: HdfsOutput, source: str, target: str) -> bool:
        nonlocal shown
        done = original(self, source, target)
        shown += 1
        if shown == nth:
            raise CrashError
        return done

    with monkeypatch.context() as patched:
        patched.setattr(HdfsOutput, "show", show)
        output.job(CSV).crash()
    before = output.visible()
    assert before
    output.job(CSV).run()
    output.check(CSV)
    assert set(before) <= set(output.visible())


def test_what_is_shown_replaces_nothing(output: Output) -> None:
    for name, content in (("a", b"first"), ("b", b"second")):
        file = output.tree.stage("", f".{name}.tmp")
        file.write(content)
        file.finish()
        file.keep(name)
    assert output.tree.show("a", "deep/target")
    assert not output.tree.show("b", "deep/target")
    assert b"".join(output.tree.blocks("deep/target")) == b"first"
    assert output.tree.size("b") == 6
    with pytest.raises(FileNotFoundError):
        output.tree.show("a", "elsewhere")


def test_an_area_that_was_taken_away_shows_nothing(output: Output) -> None:
    tree = output.tree
    tree.open_area("hidden/publish-1")
    name = "0" * 32
    tree.put_together("hidden/publish-1", name, [b"x"])
    tree.take_away("hidden/publish-1", "hidden/fenced")
    tree.take_away("hidden/publish-1", "hidden/fenced-again")
    assert not tree.has_area("hidden/publish-1")
    with pytest.raises(FileNotFoundError):
        tree.show(f"hidden/publish-1/{name}", "target")
    with pytest.raises(FileNotFoundError):
        tree.put_together("hidden/publish-1", name, [b"x"])
    tree.clear_area("hidden/fenced")
    assert tree.areas("hidden") == []


def test_which_files_paths_stand_for(hdfs: HdfsCluster) -> None:
    place, options = hdfs.new_place(), hdfs.options()
    root = "/" + place.split("/", 3)[3]
    store: Any = open_files("hdfs://cluster", options)
    for path in (
        "a.csv",
        "b.txt",
        "deep/c.csv",
        "deep/er/d.csv",
        "_hidden/e.csv",
        ".f.csv",
        "deep/_g.csv",
        "empty.csv",
    ):
        folder = f"{root}/{path}".rpartition("/")[0]
        store.hdfs.make_folder(folder)
        store.hdfs.write(f"{root}/{path}", [b"" if path == "empty.csv" else b"0123456789"])

    def found(*paths: str) -> list[str]:
        statuses = InputPaths([f"{place}/{path}".rstrip("/") for path in paths], options).find()
        return [status.path.removeprefix(f"{place}/") for status in statuses]

    assert found("") == ["a.csv", "b.txt", "deep/c.csv", "deep/er/d.csv"]
    assert found("*.csv") == ["a.csv"]
    assert found("**/*.csv") == ["a.csv", "deep/c.csv", "deep/er/d.csv"]
    assert found("deep/*") == ["deep/c.csv", "deep/er/d.csv"]
    assert found("_hidden/*.csv", "a.csv", ".f.csv") == [".f.csv", "_hidden/e.csv", "a.csv"]
    assert found("missing", "*/missing") == []
    assert store.missing(f"{place}/nothing") is not None
    assert store.is_lost(f"{place}/nothing")
    assert not store.is_lost(place)
    with store.open(f"{place}/a.csv") as file:
        file.seek(3)
        assert file.read(4) == b"3456"


def test_a_long_read_is_many_requests(hdfs: HdfsCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a deadline, which the whole of a large file would miss."""
    place, options = hdfs.new_place(), hdfs.options()
    root = "/" + place.split("/", 3)[3]
    store: Any = open_files("hdfs://cluster", options)
    content = random.Random(7).randbytes(9_000_001)
    store.hdfs.make_folder(root)
    store.hdfs.write(f"{root}/large", [content])
    reader, asked = store.hdfs.open(f"{root}/large"), []
    piece = type(reader)._piece
    monkeypatch.setattr(type(reader), "_piece", lambda self, at, size: asked.append(size) or piece(self, at, size))
    assert reader.range(1, 20_000_000) == content[1:]
    assert asked == [4 << 20, 4 << 20, 9_000_000 - (8 << 20)]
    assert reader.range(9_000_001, 5) == b""


def test_parquet_is_read(hdfs: HdfsCluster, tmp_path: Path) -> None:
    import pyarrow as pa

    table = pa.table({"x": range(200_000)})
    pq.write_table(table, tmp_path / "a.parquet")
    place, store = hdfs.new_place(), open_files("hdfs://cluster", hdfs.options())
    root = "/" + place.split("/", 3)[3]
    store.hdfs.make_folder(root)  # type: ignore[attr-defined]
    store.hdfs.write(f"{root}/a.parquet", [(tmp_path / "a.parquet").read_bytes()])  # type: ignore[attr-defined]
    assert pq.read_table(store.open_for_arrow(f"{place}/a.parquet")).equals(table)


def test_names_that_hdfs_does_not_have(hdfs: HdfsCluster) -> None:
    with pytest.raises(CheckpointStorageError, match="expected hdfs://"):
        open_storage(f"{hdfs.new_place()}/a:b", options=hdfs.options())
