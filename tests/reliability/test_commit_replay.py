"""A sink that is asked to commit an epoch again stores it once, whatever was lost in between."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from headrace.jobmanager.sinks import MAX_PENDING_EPOCHS
from tests.reliability.support.file_sinks import KINDS_AND_MARKS, Kind, contents
from tests.reliability.support.outputs import hidden_files
from tests.reliability.support.small_jobs import COUNT, EPOCHS, SPLITS, CrashError, SmallJob, WatchedSink, expected
from tests.waiting import PATIENCE


@pytest.fixture(params=KINDS_AND_MARKS, ids=str, scope="module")
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "output"


@pytest.fixture(scope="module")
def commits(kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> list[int]:
    """The epochs that have something to commit; a sink that puts several together has nothing in between."""
    folder = tmp_path_factory.mktemp("undisturbed")
    sink = WatchedSink(kind.make(folder / "output"))
    SmallJob(folder, sink).run()
    return sink.asked


@pytest.fixture
def epoch(commits: list[int]) -> int:
    """One of them, with others before it where there are."""
    return commits[len(commits) // 2]


@pytest.fixture
def sink(kind: Kind, output: Path) -> WatchedSink:
    return WatchedSink(kind.make(output))


@pytest.fixture
def job(tmp_path: Path, sink: WatchedSink) -> SmallJob:
    return SmallJob(tmp_path, sink)


@pytest.mark.sampled(1)
def test_an_undisturbed_run_is_exact(
    kind: Kind, job: SmallJob, sink: WatchedSink, output: Path, commits: list[int]
) -> None:
    assert job.run().completed == list(range(1, EPOCHS + 1))
    assert sink.asked == commits
    assert commits == list(range(1, EPOCHS + 1)) or "rolled" in kind.name
    assert commits[-1] == EPOCHS
    assert kind.records(output) == expected()
    assert len(expected()) == SPLITS * COUNT
    assert not hidden_files(output)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("at_the_end", [False, True])
def test_the_note_that_sinks_have_committed_is_lost(
    at_the_end: bool, kind: Kind, job: SmallJob, sink: WatchedSink, output: Path, commits: list[int], epoch: int
) -> None:
    epoch = EPOCHS if at_the_end else epoch
    job.run(stop_after=epoch)
    done = [number for number in commits if number <= epoch]
    assert sink.asked == done
    before = contents(output)
    job.go_back_to(epoch)
    job.run()
    asked = Counter(sink.asked)
    assert list(asked) == [*done, *(number + 1 for number in commits if number > epoch)], "a restart takes a number"
    assert asked.pop(epoch) == 2
    # Commits run beside the epochs: the manifest may have been written before those before it were acknowledged.
    for lag in range(1, MAX_PENDING_EPOCHS + 1):
        assert asked.pop(epoch - lag, 1) in (1, 2)
    assert set(asked.values()) <= {1}
    assert kind.records(output) == expected()
    assert before.items() <= contents(output).items(), "a visible file is never changed"
    assert not hidden_files(output)


@pytest.mark.sampled(1)
def test_the_manifest_is_lost_before_its_sinks_have_committed(
    kind: Kind, job: SmallJob, sink: WatchedSink, output: Path, commits: list[int], epoch: int
) -> None:
    def die(number: int) -> None:
        if number == epoch:
            raise CrashError

    sink.before = die
    job.crash()
    job.go_back_to(epoch - 1)
    sink.before = lambda epoch: None
    job.run()
    # The commit of the epoch before was not acknowledged in its own manifest, so it is replayed as well
    assert sink.asked.count(epoch - 1) == (2 if epoch - 1 in commits else 0)
    assert kind.records(output) == expected()
    assert not hidden_files(output)


@pytest.mark.sampled(1)
def test_a_commit_that_was_done_but_never_acknowledged(
    kind: Kind, job: SmallJob, sink: WatchedSink, output: Path, epoch: int
) -> None:
    def die(number: int) -> None:
        if number == epoch and sink.asked.count(epoch) == 1:
            raise CrashError

    sink.after = die
    job.crash()
    before = len(sink.asked)
    job.run()
    assert sink.asked.count(epoch) == 2
    assert epoch in sink.waiting
    assert tuple(sink.asked[before : before + len(sink.waiting)]) == sink.waiting
    assert kind.records(output) == expected()
    assert not hidden_files(output)


@pytest.mark.sampled(1)
def test_several_epochs_wait_for_their_commits_when_the_driver_dies(
    kind: Kind, job: SmallJob, sink: WatchedSink, output: Path, commits: list[int]
) -> None:
    first, last = commits[0], min(commits[0] + 2, EPOCHS)

    def die_some_epochs_later(number: int) -> None:
        if number != first or sink.asked.count(first) > 1:
            return
        end = time.monotonic() + PATIENCE
        while job.epochs()[-1] < last and time.monotonic() < end:
            time.sleep(0.002)
        raise CrashError

    sink.before = die_some_epochs_later
    job.crash()
    assert job.epochs()[-1] >= last
    waiting = [number for number in commits if number <= job.epochs()[-1]]
    asked_before = len(sink.asked)
    job.run()
    assert sink.asked[asked_before : asked_before + len(waiting)] == waiting, "in epoch order, each with its own epoch"
    assert kind.records(output) == expected()
    assert not hidden_files(output)
