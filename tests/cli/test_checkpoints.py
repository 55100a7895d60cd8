"""``headrace checkpoints`` over what jobs leave."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from headrace.checkpoint.manifest import Manifest, PartitionSnapshot, SourceSnapshot, SplitSnapshot, StageSnapshot
from headrace.cli.checkpoints import run_checkpoints, run_upgrade, state_bytes, watermark_of
from headrace.cli.run import run_program
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.errors import CheckpointError
from headrace.state.state_file import VersionRef
from headrace.storage.folder import Folder, posix_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def manifest(*splits: SplitSnapshot, **more: object) -> Manifest:
    values: dict[str, object] = {
        "epoch": 7,
        "generation": 2,
        "job_id": "ab12",
        "job_name": "totals [v2]",
        "max_parallelism": 128,
        "processing_time": 1_431_864_000_000,
        "sources": {"orders": SourceSnapshot(None, splits)},
    }
    return Manifest(**{**values, **more})  # type: ignore[arg-type]


def store(directory: Path, *manifests: Manifest) -> Path:
    (directory / "manifests").mkdir(parents=True)
    (directory / "state").mkdir()
    for each in manifests:
        (directory / "manifests" / f"{each.epoch:012}.json").write_bytes(each.to_bytes())
    return directory


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_it_tells_of_files_that_were_skipped(tmp_path: Path, console: Console) -> None:
    store(tmp_path, manifest(counters={"numFilesMissing": 2}))
    run_checkpoints(str(tmp_path), {}, console)
    assert "when it is run again; 2 missing files skipped" in shown(console)


def test_it_lists_manifests_and_where_sources_go_on(tmp_path: Path, console: Console) -> None:
    split = SplitSnapshot("file[0]", 0, {"file": "a.log", "offset": 512}, {"ts": 1_431_857_103_000})
    first = manifest(split, epoch=6, counters={"numRecordsRead": 1000})
    run_checkpoints(str(store(tmp_path, first, manifest(split))), {}, console)
    lines = shown(console).splitlines()
    assert lines[0] == (
        "job totals [v2] (job id ab12, 128 key groups), last written 2015-05-17 12:00:00 UTC; "
        "it goes on from here when it is run again"
    )
    assert "skipped" not in lines[0]
    assert any("6" in line and "1,000" in line and "2015-05-17 10:05:03" in line for line in lines)
    assert any("file[0]" in line and '{"file": "a.log", "offset": 512}' in line for line in lines)


def test_foreign_files_beside_manifests_are_not_taken_for_one(tmp_path: Path, console: Console) -> None:
    folder = store(tmp_path, manifest()) / "manifests"
    for name in ("1-copy.json", "000000000007.json.bak", "README", "7.json"):
        (folder / name).write_text("not ours")
    run_checkpoints(str(tmp_path), {}, console)


def test_splits_that_ended_long_ago_are_counted(tmp_path: Path, console: Console) -> None:
    sources = {
        "one": SourceSnapshot(None, (), ("[day]",)),
        "many": SourceSnapshot(None, (SplitSnapshot("now", 3, 1),), ("a", "b", "c")),
    }
    run_checkpoints(str(store(tmp_path, manifest(sources=sources))), {}, console)
    lines = shown(console).splitlines()
    assert any("one" in line and "[day]" in line and "finished" in line for line in lines)
    assert any("many" in line and "3 splits" in line and "finished" in line for line in lines)


def test_it_reads_what_a_job_wrote_and_leaves_it_alone(
    script: Callable[..., Path], tmp_path: Path, console: Console, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "checkpoints"
    settings = {"headrace.runtime": "local", "execution.checkpointing.dir": str(directory)}
    assert run_program(script("execute(doubling(5))\n"), [], settings, console=Console(file=io.StringIO())) == 0
    before = sorted(path for path in directory.rglob("*"))
    run_checkpoints(str(directory), {}, console)
    assert "job doubling" in shown(console)
    assert "ended" in shown(console)
    assert "finished" in shown(console)
    assert sorted(path for path in directory.rglob("*")) == before


def test_an_older_manifest_that_a_running_job_forgets_meanwhile_is_left_out(
    tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, forgotten = store(tmp_path, manifest(epoch=5), manifest(epoch=6), manifest()), []
    read = Folder.read

    def forgetting(folder: Folder, name: str) -> bytes:
        if name == "000000000005.json":
            (directory / "manifests" / name).unlink()
            forgotten.append(name)
        return read(folder, name)

    monkeypatch.setattr(Folder, "read", forgetting)
    run_checkpoints(str(directory), {}, console)
    assert len(forgotten) == 1
    listed = [words[0] for line in shown(console).splitlines() if (words := line.split())]
    assert "6" in listed
    assert "7" in listed
    assert "5" not in listed


def test_a_folder_without_checkpoints(tmp_path: Path, console: Console) -> None:
    with pytest.raises(CheckpointError, match="holds no checkpoints"):
        run_checkpoints(str(tmp_path), {}, console)


def test_a_damaged_manifest_is_named(tmp_path: Path, console: Console) -> None:
    directory = store(tmp_path, manifest())
    (directory / "manifests" / "000000000008.json").write_bytes(b"{")
    with pytest.raises(CheckpointError, match=r"000000000008\.json is damaged"):
        run_checkpoints(str(directory), {}, console)


def test_the_watermark_is_that_of_the_slowest_split_that_still_reads() -> None:
    done = SplitSnapshot("a", 0, 1, {"ts": 5}, finished=True)
    slow, fast = SplitSnapshot("b", 1, 1, {"ts": 10}), SplitSnapshot("c", 2, 1, {"ts": 20})
    assert watermark_of(manifest(done, slow, fast)) == 10
    assert watermark_of(manifest(done)) == MAX_WATERMARK
    assert watermark_of(manifest()) == MIN_WATERMARK
    assert watermark_of(manifest(slow, finished=True)) == MAX_WATERMARK
    assert watermark_of(manifest(sources={"orders": SourceSnapshot(None, (), ("a",))})) == MAX_WATERMARK
    assert watermark_of(manifest(sources={"orders": SourceSnapshot(None, (slow,), ("a",))})) == 10


def test_a_manifest_says_how_large_the_state_is(tmp_path: Path) -> None:
    found = Manifest.from_bytes(manifest(state_bytes=1234).to_bytes(), "it")
    assert state_bytes(found, posix_folder(tmp_path)) == 1234


def test_the_state_of_an_older_one_is_counted_in_files_and_in_the_manifest(tmp_path: Path) -> None:
    directory = store(tmp_path)
    (directory / "state" / "one").write_bytes(b"x" * 100)
    versions = [VersionRef(1, 0, 7, "one", files=("one",)), VersionRef(1, 1, 7, inline=b"y" * 30), None]
    stage = StageSnapshot({}, tuple(PartitionSnapshot(version) for version in versions))
    assert state_bytes(manifest(stages=(stage,)), posix_folder(directory)) == 130


def test_what_is_a_file_is_not_converted(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("")
    for place in (tmp_path / "job.py", tmp_path, tmp_path / "nowhere"):
        with pytest.raises(CheckpointError, match=f"{place} holds no checkpoints"):
            run_upgrade(str(place), {}, 0)
