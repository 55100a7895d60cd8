"""Whole jobs whose checkpoint directory is on a remote store: their output is exact, whatever happens to them."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from headrace.cli.checkpoints import run_checkpoints
from headrace.common.errors import CheckpointError, JobSupersededError, StateCorruptedError
from headrace.storage import hdfs
from headrace.storage.remote import WrittenFiles
from tests.reliability.support import small_jobs
from tests.reliability.support.small_jobs import CrashError, WatchedSink
from tests.storage.hdfs_cluster import HdfsCluster
from tests.storage.remote_job import CSV, RemoteJob
from tests.storage.stores import Store, case, on
from tests.storage.tcp_proxy import Fault, TcpProxy
from tests.waiting import PATIENCE, wait_for


@pytest.fixture
def made(store: Store, tmp_path: Path) -> RemoteJob:
    return RemoteJob(f"{store.new_place()}/job", store.options(), tmp_path)


@pytest.fixture
def _read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is read comes from the store, as in another process."""
    monkeypatch.setattr(WrittenFiles, "take", lambda self, key: None)


@on()
def test_a_job_runs_to_its_end(made: RemoteJob) -> None:
    made.job().run()
    made.check()
    state = made.directory.folder("state").names()
    assert state
    assert all(name.endswith(".state") for name in state)
    made.job().run()
    made.check()


@pytest.mark.slow
@on(slow=["azure"])
@pytest.mark.usefixtures("_read_back")
@pytest.mark.parametrize("then", [3, *(pytest.param(then, marks=pytest.mark.slow) for then in (1, 2))])
def test_it_goes_on_where_it_was(made: RemoteJob, monkeypatch: pytest.MonkeyPatch, then: int) -> None:
    """At another parallelism, too."""
    made.job().run(stop_after=4)
    monkeypatch.setattr(small_jobs, "PARALLELISM", then)
    assert made.job().run().restored[0] is not None
    made.check()


@pytest.mark.sampled(1)
@on("s3")
@pytest.mark.parametrize("then", [1, 3])
def test_a_process_knows_what_it_has_written(made: RemoteJob, monkeypatch: pytest.MonkeyPatch, then: int) -> None:
    made.job().run(stop_after=4)
    monkeypatch.setattr(small_jobs, "PARALLELISM", then)
    assert made.job().run().restored[0] is not None
    made.check()


@pytest.mark.slow
@on("s3", "hdfs")
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_tasks_on_spark_reach_it_as_the_driver_does(made: RemoteJob) -> None:
    made.settings["headrace.runtime"] = "spark"
    made.job().run(stop_after=4)
    assert made.job().run().restored[0] is not None
    made.check()
    state = made.directory.folder("state").names()
    assert state
    assert all(name.endswith(".state") for name in state)


@pytest.mark.slow
@on(slow=["azure"])
def test_a_crash_in_the_middle_of_a_commit(made: RemoteJob) -> None:
    def die(epoch: int) -> None:
        if epoch >= 4:
            raise CrashError

    made.job(WatchedSink(CSV.make(made.output), before=die)).crash()
    made.job().run()
    made.check()


@on("azure")
@pytest.mark.usefixtures("_read_back")
def test_a_job_stops_crashes_and_goes_on(made: RemoteJob) -> None:
    def die(epoch: int) -> None:
        if epoch >= 6:
            raise CrashError

    made.job().run(stop_after=4)
    made.job(WatchedSink(CSV.make(made.output), before=die)).crash()
    assert made.job().run().restored[0] is not None
    made.check()


@on(slow=["azure"])
def test_the_older_of_two_job_managers_stops(made: RemoteJob) -> None:
    errors: list[BaseException] = []
    thread = made.job(pause=0.05).in_background(errors)
    wait_for(lambda: made.epochs() >= 3)
    assert made.job().run().restored[0] is not None
    thread.join(PATIENCE)
    assert [type(error) for error in errors] == [JobSupersededError], errors
    made.check()


@pytest.mark.slow
@on(slow=["azure"])
def test_damaged_state_is_named(made: RemoteJob) -> None:
    made.job().run(stop_after=4)
    state = made.directory.folder("state")
    intact = {name: state.read(name) for name in state.names()}
    for name, content in intact.items():
        state.write(name, [content[:-1] + bytes([content[-1] ^ 1])])
    with pytest.raises(StateCorruptedError, match=rf"\.state.*\(in {state}\)"):
        made.job().run()
    for name, content in intact.items():
        state.write(name, [content])
    made.job().run()
    made.check()


@pytest.mark.slow
@on(slow=["azure"])
def test_missing_state_is_named(made: RemoteJob) -> None:
    made.job().run(stop_after=4)
    state = made.directory.folder("state")
    for name in state.names():
        state.remove(name)
    with pytest.raises(StateCorruptedError, match="is missing"):
        made.job().run()


@on(slow=["azure"])
def test_the_command_line_shows_what_is_there(made: RemoteJob) -> None:
    with pytest.raises(CheckpointError, match=f"{made.location} holds no checkpoints"):
        run_checkpoints(made.location, made.options)
    made.job().run(stop_after=4)
    console = Console(file=io.StringIO(), width=200)
    run_checkpoints(made.location, made.options, console)
    assert "job small (job id" in console.file.getvalue()  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Request:
    """A request that goes wrong.

    Attributes:
        method: what it asks for.
        path: a part of its path.
        stop_after: the epoch after which the job is stopped; None when it runs to its end.
        is_sent: whether a job is certain to send it.
    """

    method: str
    path: str
    stop_after: int | None
    is_sent: bool = True


PLACES = ["/manifests/0", "/manifests/newest", "/state/", "/generations/", "/.probe-"]


def blob_requests(path: str) -> list[Request]:
    return [Request("PUT ", path, 4), Request("GET ", path, None)]


def hdfs_requests(path: str) -> list[Request]:
    temporary = "/.".join(path.rsplit("/", 1))
    is_read = path in ("/manifests/0", "/state/")
    return [
        Request("rename2", path, 3),
        Request("create", temporary, 5),
        Request("complete", "", 7),
        Request("getBlockLocations", path, None, is_read),
    ]


def cases() -> Iterator[object]:
    for path in PLACES[:4]:
        yield case("azure", path, Fault.LOST, is_slow=True)
    for path, fault in itertools.product(PLACES, Fault):
        yield case("hdfs", path, fault)


@pytest.mark.parametrize(("store", "path", "fault"), list(cases()), indirect=["store"])
@pytest.mark.usefixtures("_read_back")
def test_requests_that_go_wrong(
    store: Store,
    proxy: TcpProxy,
    tmp_path: Path,
    path: str,
    fault: Fault,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S3 has a test of its own, with more that a server may answer."""
    monkeypatch.setattr(hdfs, "DEADLINE_SECONDS", 1.0)
    made = RemoteJob(*store.through(proxy.port, f"{store.new_place()}/job"), tmp_path)
    for wrong in hdfs_requests(path) if isinstance(store, HdfsCluster) else blob_requests(path):
        with proxy.failing(fault, wrong.method, wrong.path) as struck:
            failures = made.run_at_last(wrong.stop_after)
        assert struck == [1] or not wrong.is_sent
        assert all(made.location in str(error) for error in failures), failures
    made.check()
