"""A checkpoint directory that is older than the output is found out before anything is written twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headrace.common.errors import CheckpointError
from tests.reliability.support.file_sinks import KINDS, Kind, contents
from tests.reliability.support.small_jobs import SmallJob, WatchedSink, expected

AT_EACH_EPOCH = [kind for kind in KINDS if "rolled" not in kind.name]


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "output"


def job(kind: Kind, tmp_path: Path, output: Path) -> SmallJob:
    return SmallJob(tmp_path, WatchedSink(kind.make(output)), {"execution.checkpointing.num-retained": "1"})


def copied(tmp_path: Path) -> Path:
    return Path(shutil.copytree(tmp_path / "checkpoints", tmp_path / "copy"))


def put_back(tmp_path: Path, copy: Path) -> None:
    shutil.rmtree(tmp_path / "checkpoints")
    shutil.move(copy, tmp_path / "checkpoints")


@pytest.mark.parametrize("kind", AT_EACH_EPOCH, ids=str)
@pytest.mark.parametrize("to_the_end", [False, True])
def test_an_old_copy_under_a_newer_output(to_the_end: bool, kind: Kind, tmp_path: Path, output: Path) -> None:
    job(kind, tmp_path, output).run(stop_after=3)
    copy = copied(tmp_path)
    job(kind, tmp_path, output).run(stop_after=None if to_the_end else 7)
    newest = tmp_path / "newest"
    shutil.move(tmp_path / "checkpoints", newest)
    shutil.move(copy, tmp_path / "checkpoints")
    before = contents(output)
    manifests = sorted((tmp_path / "checkpoints" / "manifests").iterdir())
    for _ in range(12):  # a supervisor that starts the job again and again must not wear it down
        with pytest.raises(CheckpointError, match=r"is at epoch 4, but .* holds output up to epoch \d+.*old copy"):
            job(kind, tmp_path, output).run()
    assert contents(output) == before
    assert sorted((tmp_path / "checkpoints" / "manifests").iterdir()) == manifests
    put_back(tmp_path, newest)
    job(kind, tmp_path, output).run()
    assert kind.records(output) == expected()


def test_the_newest_checkpoint_and_its_note_are_gone(tmp_path: Path, output: Path) -> None:
    """With several retained there is one to go on from; only the output tells that it is not the newest."""
    kind = AT_EACH_EPOCH[0]
    SmallJob(tmp_path, WatchedSink(kind.make(output))).run(stop_after=6)
    removed = SmallJob(tmp_path, WatchedSink(kind.make(output)))
    removed.go_back_to(4)
    with pytest.raises(CheckpointError, match="is at epoch 4, but"):
        removed.run()


def test_who_wants_to_go_on_from_it_moves_the_output_away(tmp_path: Path, output: Path) -> None:
    kind = AT_EACH_EPOCH[0]
    job(kind, tmp_path, output).run(stop_after=3)
    copy = copied(tmp_path)
    job(kind, tmp_path, output).run(stop_after=7)
    put_back(tmp_path, copy)
    (tmp_path / "away").mkdir()
    for path in output.glob("part-*"):
        if int(path.name.split("-")[-2]) > 4:
            path.rename(tmp_path / "away" / path.name)
    job(kind, tmp_path, output).run()
    assert kind.records(output) == expected()


def test_output_that_readers_cannot_see_is_written_again(tmp_path: Path, output: Path) -> None:
    """What an old copy does not know of but was not visible yet is as if it had never been."""
    (kind,) = (kind for kind in KINDS if kind.name == "text-rolled-at-the-end")
    job(kind, tmp_path, output).run(stop_after=3)
    copy = copied(tmp_path)
    job(kind, tmp_path, output).run(stop_after=7)
    put_back(tmp_path, copy)
    job(kind, tmp_path, output).run()
    assert kind.records(output) == expected()
