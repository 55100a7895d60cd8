"""File sinks that write to a remote store: every record is shown once, whatever happens to the job."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from headrace.storage.folder import OutputTree
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
    remove, show = ObjectStore.remove, OutputTree.publish

    def dying_remove(self: ObjectStore, path: str) -> bool:
        if "/chunks/" in path and next(calls) == nth:
            raise CrashError
        return remove(self, path)

    def dying_show(self: OutputTree, source: str, target: str) -> bool:
        done = show(self, source, target)
        if isinstance(self.file_system, HdfsFileSystem) and next(calls) == nth:
            raise CrashError
        return done

    patched.setattr(ObjectStore, "remove", dying_remove)
    patched.setattr(OutputTree, "publish", dying_show)


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


def staged(tree: OutputTree, name: str, content: bytes) -> None:
    file = tree.stage("hidden", f".{name}.tmp")
    file.write(content)
    file.finish()
    tree.keep(file, f"hidden/{name}")


@on()
def test_what_is_shown_replaces_nothing(output: RemoteOutput) -> None:
    tree = output.tree.for_committing("hidden")
    for name, content in (("a", b"first"), ("b", b"second")):
        staged(tree, name, content)
    assert tree.publish("hidden/a", "deep/target")
    assert not tree.publish("hidden/b", "deep/target")
    assert b"".join(tree.blocks("deep/target")) == b"first"
    assert tree.size("hidden/b") == 6
    with pytest.raises(FileNotFoundError):
        tree.publish("hidden/a", "elsewhere")


@on()
def test_an_area_that_was_taken_away_shows_nothing(output: RemoteOutput) -> None:
    tree = output.tree.for_committing("hidden")
    tree.make_publishing_folder("hidden/publish-1")
    name = "0" * 32
    tree.write_for_publishing("hidden/publish-1", name, [b"x"])
    tree.fence("hidden/publish-1", "hidden/fenced")
    tree.fence("hidden/publish-1", "hidden/fenced-again")
    assert not tree.has_publishing_folder("hidden/publish-1")
    with pytest.raises(FileNotFoundError):
        tree.publish(f"hidden/publish-1/{name}", "target")
    with pytest.raises(FileNotFoundError):
        tree.write_for_publishing("hidden/publish-1", name, [b"x"])
    tree.clear_publishing_folder("hidden/fenced")
    assert tree.folder_names("hidden") == []


@on()
@pytest.mark.parametrize("size", [0, 1, (8 << 20) + 1, (16 << 20) + 1])
def test_a_file_of_any_size(output: RemoteOutput, size: int) -> None:
    tree: Any = output.tree
    file = tree.stage("folder", "name")
    block = bytes(range(256)) * 4096
    for start in range(0, size, len(block)):
        file.write(block[: size - start])
    found, digest = file.finish()
    assert found == file.tell() == size
    tree.keep(file, f"folder/{digest}")
    assert tree.size(f"folder/{digest}") == size
    assert b"".join(tree.blocks(f"folder/{digest}")) == (block * (size // len(block) + 1))[:size]
    assert list(tree.files("folder")) == [f"folder/{digest}"]
