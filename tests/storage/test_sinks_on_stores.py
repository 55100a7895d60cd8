"""File sinks that write to a remote store: every record is shown once, whatever happens to the job."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from headrace.connectors.file_system.staging import StagingArea
from headrace.storage.hdfs import HdfsFileSystem
from headrace.storage.object_store import ObjectStore
from tests.reliability.support.file_sinks import KINDS, Kind, by_name
from tests.reliability.support.small_jobs import CrashError
from tests.storage.remote_output import RemoteOutput
from tests.storage.stores import Store, case, on

ROLLED = by_name("csv-rolled-by-size")
AT_ONCE = by_name("text-a-file-an-epoch")


@pytest.fixture
def output(store: Store, tmp_path: Path) -> RemoteOutput:
    return RemoteOutput(store, tmp_path)


@on(slow=["azure"])
@pytest.mark.parametrize(
    "kind", [KINDS[1], *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != KINDS[1])], ids=str
)
def test_a_job_stops_and_goes_on(output: RemoteOutput, kind: Kind) -> None:
    output.job(kind).run(stop_after=4)
    before = output.visible()
    assert output.job(kind).run().restored[0] is not None
    output.check(kind)
    assert before.items() <= output.visible().items(), "what is visible is never changed"


@pytest.mark.sampled(1)
@on(slow=["azure"])
@pytest.mark.parametrize(
    "kind", [ROLLED, *(pytest.param(kind, marks=pytest.mark.slow) for kind in (AT_ONCE, KINDS[1]))], ids=str
)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_beside_a_commit(output: RemoteOutput, kind: Kind, moment: str) -> None:
    def die(epoch: int) -> None:
        if epoch >= 5:
            raise CrashError

    output.job(kind, **{moment: die}).crash()  # type: ignore[arg-type]
    output.job(kind).run()
    output.check(kind)


@on("azure", slow=["azure"])
@pytest.mark.parametrize(
    "kind", [ROLLED, *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != ROLLED)], ids=str
)
def test_a_job_stops_crashes_and_goes_on(output: RemoteOutput, kind: Kind) -> None:
    def die(epoch: int) -> None:
        if epoch >= 6:
            raise CrashError

    output.job(kind).run(stop_after=4)
    output.job(kind, after=die).crash()
    output.job(kind).run()
    output.check(kind)


def die_between(nth: int, patched: pytest.MonkeyPatch) -> None:
    """On an object store between a copy and the removal of what was copied, on HDFS behind a rename."""
    calls = itertools.count(1)
    remove, show = ObjectStore.remove, StagingArea.publish

    def dying_remove(self: ObjectStore, path: str) -> bool:
        if "/chunks/" in path and next(calls) == nth:
            raise CrashError
        return remove(self, path)

    def dying_show(self: StagingArea, source: str, target: str) -> bool:
        done = show(self, source, target)
        if isinstance(self.file_system, HdfsFileSystem) and next(calls) == nth:
            raise CrashError
        return done

    patched.setattr(ObjectStore, "remove", dying_remove)
    patched.setattr(StagingArea, "publish", dying_show)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ROLLED, AT_ONCE], ids=str)
@pytest.mark.parametrize(
    ("store", "nth"),
    [
        *(case("s3", nth, is_slow=nth % 2 == 0) for nth in range(1, 6)),
        *(case("azure", nth, is_slow=True) for nth in range(1, 6)),
        *(case("hdfs", nth) for nth in range(1, 5)),  # there are fewer renames than removals
    ],
    indirect=["store"],
)
def test_a_crash_in_the_middle_of_showing(
    output: RemoteOutput, kind: Kind, nth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        die_between(nth, patched)
        output.job(kind).crash()
    before = output.visible()
    assert before
    output.job(kind).run()
    output.check(kind)
    assert before.items() <= output.visible().items()


def staged(staging: StagingArea, name: str, content: bytes) -> str:
    file = staging.begin_chunk("", 1, 2, 3)
    file.write(content)
    file.finish()
    path = f"{staging.chunk_folder()}/{name}"
    file.keep(path)
    return path


@on()
def test_what_is_shown_replaces_nothing(output: RemoteOutput) -> None:
    staging = output.staging.for_committing()
    first, second = staged(staging, "a", b"first"), staged(staging, "b", b"second")
    target = f"{staging.base}/deep/target"
    assert staging.publish(first, target)
    assert not staging.publish(second, target)
    assert b"".join(staging.file_system.blocks(target)) == b"first"
    assert staging.size(second) == 6
    with pytest.raises(FileNotFoundError):
        staging.publish(first, f"{staging.base}/elsewhere")


@on()
def test_an_area_that_was_taken_away_shows_nothing(output: RemoteOutput) -> None:
    staging = output.staging.for_committing()
    folder = staging.publishing(1)
    staging.make_publishing_folder(folder)
    name = "0" * 32
    staging.write_for_publishing(folder, name, [b"x"])
    staging.fence(2)
    staging.fence(2)
    assert not staging.has_publishing_folder(folder)
    with pytest.raises(FileNotFoundError):
        staging.publish(f"{folder}/{name}", f"{staging.base}/target")
    with pytest.raises(FileNotFoundError):
        staging.write_for_publishing(folder, name, [b"x"])
    assert staging.file_system.list_folder(staging.root) == []


@on()
@pytest.mark.parametrize("size", [0, 1, (8 << 20) + 1, (16 << 20) + 1])
def test_a_file_of_any_size(output: RemoteOutput, size: int) -> None:
    staging = output.staging
    file = staging.begin_chunk("", 1, 2, 3)
    block = bytes(range(256)) * 4096
    for start in range(0, size, len(block)):
        file.write(block[: size - start])
    found, digest = file.finish()
    assert found == file.tell() == size
    path = f"{staging.chunk_folder()}/{digest}"
    file.keep(path)
    assert staging.size(path) == size
    assert b"".join(staging.file_system.blocks(path)) == (block * (size // len(block) + 1))[:size]
    assert [found for found, _ in staging.file_system.walk(staging.chunk_folder(), lambda _: True)] == [path]
