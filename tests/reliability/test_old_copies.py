"""A checkpoint directory that is older than the output is found out before anything is written twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.common.errors import CheckpointError
from tests.reliability.support.file_sinks import KINDS, Kind, contents
from tests.reliability.support.small_jobs import SmallJob, WatchedSink, expected
from tests.reliability.support.storages import CheckpointDirectory

AT_EACH_EPOCH = [kind for kind in KINDS if "rolled" not in kind.name]


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "output"


def job(kind: Kind, checkpoints: CheckpointDirectory, output: Path) -> SmallJob:
    settings = checkpoints.settings | {"execution.checkpointing.num-retained": "1"}
    return SmallJob(output.parent, WatchedSink(kind.make(output)), settings)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("checkpoints", "kind"),
    [
        *(("posix", kind) for kind in AT_EACH_EPOCH),
        *(pytest.param("s3", kind, marks=pytest.mark.slow) for kind in AT_EACH_EPOCH),
    ],
    ids=str,
    indirect=["checkpoints"],
)
@pytest.mark.parametrize("to_the_end", [False, True])
def test_an_old_copy_under_a_newer_output(
    to_the_end: bool, kind: Kind, checkpoints: CheckpointDirectory, output: Path
) -> None:
    job(kind, checkpoints, output).run(stop_after=3)
    old = checkpoints.copy()
    job(kind, checkpoints, output).run(stop_after=None if to_the_end else 7)
    before = contents(output)
    epochs = old.epochs()
    for _ in range(3):  # a supervisor that starts the job again and again must not wear it down
        with pytest.raises(CheckpointError, match=r"is at epoch 4, but .* holds output up to epoch \d+.*old copy"):
            job(kind, old, output).run()
    assert contents(output) == before
    assert old.epochs() == epochs
    job(kind, checkpoints, output).run()
    assert kind.records(output) == expected()


def test_the_newest_checkpoint_and_its_note_are_gone(tmp_path: Path, output: Path) -> None:
    """With several retained there is one to go on from; only the output tells that it is not the newest."""
    kind = AT_EACH_EPOCH[0]
    SmallJob(tmp_path, WatchedSink(kind.make(output))).run(stop_after=6)
    removed = SmallJob(tmp_path, WatchedSink(kind.make(output)))
    removed.go_back_to(4)
    with pytest.raises(CheckpointError, match="is at epoch 4, but"):
        removed.run()


ON_EACH_STORAGE = pytest.mark.parametrize(
    "checkpoints", ["posix", pytest.param("s3", marks=pytest.mark.slow)], indirect=True
)


@ON_EACH_STORAGE
def test_who_wants_to_go_on_from_it_moves_the_output_away(checkpoints: CheckpointDirectory, output: Path) -> None:
    kind = AT_EACH_EPOCH[0]
    job(kind, checkpoints, output).run(stop_after=3)
    old = checkpoints.copy()
    job(kind, checkpoints, output).run(stop_after=7)
    away = output.with_name("away")
    away.mkdir()
    for path in output.glob("part-*"):
        if int(path.name.split("-")[-2]) > 4:
            path.rename(away / path.name)
    job(kind, old, output).run()
    assert kind.records(output) == expected()


@ON_EACH_STORAGE
def test_output_that_readers_cannot_see_is_written_again(checkpoints: CheckpointDirectory, output: Path) -> None:
    """What an old copy does not know of but was not visible yet is as if it had never been."""
    (kind,) = (kind for kind in KINDS if kind.name == "text-rolled-at-the-end")
    job(kind, checkpoints, output).run(stop_after=3)
    old = checkpoints.copy()
    job(kind, checkpoints, output).run(stop_after=7)
    job(kind, old, output).run()
    assert kind.records(output) == expected()
