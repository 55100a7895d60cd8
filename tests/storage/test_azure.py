"""Whole jobs on Azure Blob Storage: their checkpoints, what they read and what they write."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import obstore
import pytest

from headrace.common.errors import JobSupersededError
from headrace.connectors.file_system.paths import InputPaths
from headrace.storage.fetched_files import PIECE, WHOLE_BYTES, WrittenFiles
from headrace.storage.locations import open_files, open_storage
from headrace.storage.object_client import client
from tests.reliability.support.file_sinks import KINDS, Kind
from tests.reliability.support.small_jobs import CrashError, SmallJob, WatchedSink, expected
from tests.storage.azurite import Azurite
from tests.storage.remote_job import CSV, PATIENCE, RemoteJob, keys_of, wait_until
from tests.storage.tcp_proxy import Fault, TcpProxy

pytestmark = pytest.mark.integration


@pytest.fixture
def proxy(azure: Azurite) -> Iterator[TcpProxy]:
    made = TcpProxy(azure.port)
    yield made
    made.close()


@pytest.fixture
def made(azure: Azurite, tmp_path: Path) -> RemoteJob:
    return RemoteJob(f"{azure.new_bucket()}/jobs/small", azure.options(), tmp_path)


def test_a_job_stops_crashes_and_goes_on(made: RemoteJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WrittenFiles, "take", lambda self, key: None)  # all of it is read from the store

    def die(epoch: int) -> None:
        if epoch >= 6:
            raise CrashError

    made.job().run(stop_after=4)
    made.job(WatchedSink(CSV.make(made.output), before=die)).crash()
    assert made.job().run().restored[0] is not None
    made.check()


@pytest.mark.slow
def test_the_older_of_two_job_managers_stops(made: RemoteJob) -> None:
    errors: list[BaseException] = []
    thread = made.job(pause=0.05).in_background(errors)
    wait_until(lambda: made.epochs() >= 3)
    assert made.job().run().restored[0] is not None
    thread.join(PATIENCE)
    assert [type(error) for error in errors] == [JobSupersededError], errors
    made.check()


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.REFUSED])
def test_whose_file_it_is_when_an_answer_is_lost(azure: Azurite, proxy: TcpProxy, fault: Fault) -> None:
    folder = open_storage(f"{azure.new_bucket()}/root", options=azure.options(proxy.port))
    for name in map(str, range(5)):
        with proxy.failing(fault, "PUT ", f"/root/{name} ") as struck:
            assert folder.create(name, b"mine")
        assert struck == [1]
        assert not folder.create(name, b"mine")


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/manifests/0", "/manifests/newest", "/state/", "/generations/"])
def test_answers_that_are_lost(
    azure: Azurite, proxy: TcpProxy, tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WrittenFiles, "take", lambda self, key: None)
    made = RemoteJob(f"{azure.new_bucket()}/job", azure.options(proxy.port), tmp_path)
    for method, stop_after in (("PUT ", 4), ("GET ", None)):
        with proxy.failing(Fault.LOST, method, path) as struck:
            failures = made.run_at_last(stop_after)
        assert struck == [1]
        assert all(made.location in str(error) for error in failures), failures
    made.check()


def test_large_files_are_fetched_in_pieces(azure: Azurite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WrittenFiles, "take", lambda self, key: None)
    folder = open_storage(f"{azure.new_bucket()}/root", options=azure.options())
    content = bytes(range(256)) * ((WHOLE_BYTES + 5 * PIECE) // 256) + b"end"
    folder.write("a", [content])
    mapped = folder.map("a")
    start = 7 * PIECE + 3
    mapped.fetch(start, start + 100)
    mapped.fetch(len(content) - 3, len(content))
    assert mapped.buffer.slice(start, 100).to_pybytes() == content[start : start + 100]
    assert mapped.buffer.slice(len(content) - 3, 3).to_pybytes() == b"end"
    assert mapped.fetched <= 3 * PIECE  # type: ignore[attr-defined]


def test_a_file_is_the_same_however_it_is_found(azure: Azurite) -> None:
    """Its version, too, which the store spells in two ways."""
    place = azure.new_bucket()
    store = client(place, tuple(sorted(azure.options().items())))
    obstore.put(store, "in/deep/a.csv", b"1\n2\n")
    obstore.put(store, "in/_hidden/b.csv", b"3\n")
    (found,) = InputPaths([f"{place}/in"], azure.options()).find()
    files = open_files(place, azure.options())
    assert files.status(found.path) == found
    with files.open(found.path) as file:
        assert file.read() == b"1\n2\n"
    obstore.put(store, "in/deep/a.csv", b"1\n3\n")
    assert files.status(found.path) != found


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_sink_stops_crashes_and_goes_on(azure: Azurite, tmp_path: Path, kind: Kind) -> None:
    place, options = azure.new_bucket(), azure.options()
    store: Any = client(place, tuple(sorted(options.items())))

    def job(**hooks: Any) -> SmallJob:
        settings = keys_of(options) | {"restart-strategy.exponential-delay.initial-backoff": "100 ms"}
        return SmallJob(tmp_path, WatchedSink(kind.make(f"{place}/deep/out"), **hooks), settings)

    def die(epoch: int) -> None:
        if epoch >= 6:
            raise CrashError

    job().run(stop_after=4)
    job(after=die).crash()
    job().run()
    paths = [entry["path"] for entry in itertools.chain.from_iterable(obstore.list(store, "deep/out"))]
    for path in paths:
        target = tmp_path / "copy" / path.removeprefix("deep/out/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(bytes(obstore.get(store, path).bytes()))
    assert kind.records(tmp_path / "copy") == expected()
    assert not any("/." in path for path in paths)
