"""A sink that is asked to commit an epoch again stores it once, whatever was lost in between."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from tests.reliability.support.file_sinks import KINDS, Kind, contents
from tests.reliability.support.outputs import hidden_files
from tests.reliability.support.small_jobs import COUNT, EPOCHS, SPLITS, CrashError, SmallJob, WatchedSink, expected

EPOCH = 5


@pytest.fixture(params=KINDS, ids=str)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "output"


@pytest.fixture
def sink(kind: Kind, output: Path) -> WatchedSink:
    return WatchedSink(kind.make(output))


@pytest.fixture
def job(tmp_path: Path, sink: WatchedSink) -> SmallJob:
    return SmallJob(tmp_path, sink)


def test_an_undisturbed_run_is_exact(kind: Kind, job: SmallJob, sink: WatchedSink, output: Path) -> None:
    assert job.run().completed == list(range(1, EPOCHS + 1))
    assert sink.asked == list(range(1, EPOCHS + 1))
    assert kind.records(output) == expected()
    assert len(expected()) == SPLITS * COUNT
    assert not hidden_files(output)


@pytest.mark.parametrize("epoch", [EPOCH, EPOCHS], ids=["in-between", "at-the-end"])
def test_the_note_that_sinks_have_committed_is_lost(
    epoch: int, kind: Kind, job: SmallJob, sink: WatchedSink, output: Path
) -> None:
    job.run(stop_after=epoch)
    assert sink.asked == list(range(1, epoch + 1))
    before = contents(output)
    job.go_back_to(epoch)
    job.run()
    asked = Counter(sink.asked)
    assert asked.keys() == {*range(1, epoch + 1), *range(epoch + 2, EPOCHS + 2)}  # the restart itself takes a number
    assert asked.pop(epoch) == 2
    # Commits run beside the epochs: the manifest may have been written before the epoch before was acknowledged.
    assert asked.pop(epoch - 1) in (1, 2)
    assert set(asked.values()) <= {1}
    assert kind.records(output) == expected()
    assert before.items() <= contents(output).items(), "a visible file is never changed"
    assert not hidden_files(output)


def test_the_manifest_is_lost_before_its_sinks_have_committed(
    kind: Kind, job: SmallJob, sink: WatchedSink, output: Path
) -> None:
    def die(epoch: int) -> None:
        if epoch == EPOCH:
            raise CrashError

    sink.before = die
    job.crash()
    job.go_back_to(EPOCH - 1)
    sink.before = lambda epoch: None
    job.run()
    # The commit of the epoch before was not acknowledged in its own manifest, so it is replayed as well
    assert sink.asked.count(EPOCH - 1) == 2
    assert kind.records(output) == expected()
    assert not hidden_files(output)


def test_a_commit_that_was_done_but_never_acknowledged(
    kind: Kind, job: SmallJob, sink: WatchedSink, output: Path
) -> None:
    def die(epoch: int) -> None:
        if epoch == EPOCH and sink.asked.count(EPOCH) == 1:
            raise CrashError

    sink.after = die
    job.crash()
    job.run()
    assert sink.asked.count(EPOCH) == 2
    assert kind.records(output) == expected()
    assert not hidden_files(output)


def test_several_epochs_wait_for_their_commits_when_the_driver_dies(
    kind: Kind, job: SmallJob, sink: WatchedSink, output: Path
) -> None:
    def die_two_epochs_later(epoch: int) -> None:
        if epoch != EPOCH or sink.asked.count(EPOCH) > 1:
            return
        end = time.monotonic() + 10
        while job.epochs()[-1] < EPOCH + 2 and time.monotonic() < end:
            time.sleep(0.002)
        raise CrashError

    sink.before = die_two_epochs_later
    job.crash()
    assert job.epochs()[-1] >= EPOCH + 2
    waiting = list(range(EPOCH, job.epochs()[-1] + 1))
    asked_before = len(sink.asked)
    job.run()
    assert sink.asked[asked_before : asked_before + len(waiting)] == waiting, "in epoch order, each with its own epoch"
    assert kind.records(output) == expected()
    assert not hidden_files(output)
