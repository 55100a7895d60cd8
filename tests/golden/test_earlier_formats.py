"""Checkpoints of an earlier format are read, and converted by ``headrace checkpoints upgrade``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headrace.checkpoint import manifest
from headrace.checkpoint.manifest import Manifest
from headrace.cli import checkpoints as checkpoints_module
from headrace.cli.main import app
from headrace.common.errors import CheckpointError
from headrace.savepoint import upgrade as upgrade_module
from headrace.savepoint.upgrade import upgrade
from headrace.storage.folder import Folder, posix_folder
from headrace.testing import Checkpoint, JobHarness
from tests.golden.earlier_job import job, left

FORMAT = manifest.FORMAT_VERSION


def headrace(*arguments: str) -> tuple[int, str]:
    ran = CliRunner().invoke(app, list(arguments))
    return ran.exit_code, ran.output


def newest(directory: Path) -> Path:
    return max((directory / "manifests").glob("*.json"))


def content(directory: Path) -> dict[str, bytes]:
    """What a checkpoint says; what is asked of a job, and probes of the storage, are no part of it."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files if path.parent.name != "requests"}


def shown(record: Any) -> Any:
    return record if isinstance(record, str) else tuple(record)


def results(directory: Path, parallelism: int = 3) -> dict[str, list[Any]]:
    """What the job gives that goes on from there."""
    with JobHarness(job, parallelism=parallelism, restore=Checkpoint(directory)) as harness:
        harness.push_all("amounts", [("a", 10), ("d", 7)], [5, 6])
        harness.advance_watermark("amounts", 20_000)
        harness.run_epoch()
        return {sink: sorted(map(shown, harness.results(sink))) for sink in ("totals", "reduced", "counted", "highest")}


WANTED = {
    "totals": [
        "a 14",
        "a ends with 14 of [1, 3, 10], [(1, 1), (3, 1), (10, 1)]",
        "b ends with 2 of [2], [(2, 1)]",
        "c ends with 5 of [5], [(5, 1)]",
        "d 7",
        "d ends with 7 of [7], [(7, 1)]",
    ],
    "reduced": [("a", 14), ("b", 2), ("c", 5), ("d", 7)],
    "counted": [("a", 0, 10_000, 3, 14), ("b", 0, 10_000, 1, 2), ("c", 0, 10_000, 1, 5), ("d", 0, 10_000, 1, 7)],
    "highest": [("a", 10), ("d", 7)],
}


def next_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the next release will be that has a format of its own."""
    for module in (manifest, upgrade_module, checkpoints_module):
        monkeypatch.setattr(module, "FORMAT_VERSION", FORMAT + 1)
    monkeypatch.setattr(manifest, "_NEXT", {FORMAT: dict})


def test_it_is_converted_and_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = left(tmp_path / "job")
    path, before = newest(directory), content(directory)
    earlier = Manifest.from_bytes(path.read_bytes(), "earlier")
    code, told = headrace("checkpoints", "upgrade", str(directory))
    assert (code, "nothing is to be done" in told, content(directory)) == (0, True, before)
    next_release(monkeypatch)
    code, told = headrace("checkpoints", "upgrade", str(directory), "--timeout", "0")
    assert code == 0, told
    assert f"is of format {FORMAT + 1} now (before: {FORMAT})" in told.replace("\n", " ")
    converted = Manifest.from_bytes(path.read_bytes(), "converted")
    assert (converted, converted.format) == (earlier, FORMAT + 1)
    changed = {file for file, there in content(directory).items() if before.get(file) != there}
    assert changed <= {f"manifests/{file.name}" for file in path.parent.iterdir()}, "an old copy stays one"
    assert results(directory) == WANTED


class Killed(BaseException):
    """In place of the end of the process."""


@pytest.mark.slow
@pytest.mark.parametrize("step", ["before", "after"])
def test_a_crash_leaves_the_one_or_the_other(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = left(tmp_path)
    write = Folder.write

    def killed(self: Folder, name: str, *arguments: Any, **options: Any) -> None:
        if name.endswith(".json") and self.locate("").rstrip("/").endswith("manifests"):
            if step == "after":
                write(self, name, *arguments, **options)
            raise Killed
        write(self, name, *arguments, **options)

    next_release(monkeypatch)
    with monkeypatch.context() as patched:
        patched.setattr(Folder, "write", killed)
        with pytest.raises(Killed):
            upgrade(posix_folder(directory), 0)
    assert Manifest.from_bytes(newest(directory).read_bytes(), "left").format == FORMAT + (step == "after")
    assert results(directory) == WANTED
    upgrade(posix_folder(directory), 0)
    assert results(directory) == WANTED


def flip(path: Path) -> None:
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 3] ^= 1
    path.write_bytes(damaged)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("file", ["manifests/0*.json", "state/*.state"])
@pytest.mark.parametrize("damage", [flip, Path.unlink])
def test_what_is_damaged_stays_as_it_is(
    file: str, damage: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = left(tmp_path)
    next_release(monkeypatch)
    path = next(directory.glob(file))
    damage(path)
    before = content(directory)
    code, told = headrace("checkpoints", "upgrade", str(directory), "--timeout", "0")
    assert code == 1
    assert path.name in told.replace("\n", "")
    assert content(directory) == before


def test_a_newer_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = left(tmp_path)
    monkeypatch.setattr(manifest, "FORMAT_VERSION", FORMAT - 1)
    with pytest.raises(CheckpointError, match=f"has format {FORMAT}, this headrace reads format {FORMAT - 1}"):
        upgrade(posix_folder(directory), 0)


def test_where_there_is_nothing_it_is_told_and_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds no checkpoints"):
        upgrade(posix_folder(tmp_path), 0)
    assert list(tmp_path.iterdir()) == []


def test_a_job_that_runs_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.savepoint.jobs import DEADLINE, Place, start, wait_for_records

    place = Place(tmp_path)
    place.write("a", {1: 1})
    client = start(place, "job", 1)
    wait_for_records(client, 1)
    directory = posix_folder(tmp_path / "job")
    with monkeypatch.context() as patched:
        next_release(patched)
        with pytest.raises(CheckpointError, match=r"the job 'totals' runs in .*: stop it first"):
            upgrade(directory, DEADLINE)
    client.stop_with_savepoint(False).result(DEADLINE)
    next_release(monkeypatch)
    assert upgrade(directory, 0.3)[1] == (FORMAT,)
    assert upgrade(directory, 0.3)[1] == ()
