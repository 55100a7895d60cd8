"""The second phase: in order, again after a passing fault, never after a refusal, and not too far behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from headrace.checkpoint.manifest import PendingCommit
from headrace.common.errors import (
    CommitRefusedError,
    InfrastructureError,
    JobCancelledError,
    JobSupersededError,
    UserFunctionError,
)
from headrace.connectors.sink import Committer
from headrace.jobmanager.sinks import MAX_PENDING_EPOCHS, CommitCoordinator
from tests.waiting import PATIENCE


class Recorder(Committer):
    """Remembers what it is asked for; a test plants faults and makes it wait."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, tuple[Any, ...]]] = []
        self.faults: list[Exception] = []
        self.later_faults: list[Exception] = []
        self.followed: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.events: list[str] = []

    def commit(self, epoch: int, committables: Sequence[Any], processing_time: int) -> None:
        assert self.gate.wait(PATIENCE)
        if self.faults:
            raise self.faults.pop(0)
        self.calls.append((epoch, tuple(committables)))

    def post_commit(self, epoch: int, committables: Sequence[Any], processing_time: int) -> None:
        if self.later_faults:
            raise self.later_faults.pop(0)
        self.followed.append(f"{epoch} with {list(committables)} after {len(self.calls)}")

    def recover(self, in_progress: Any) -> None:
        self.events.append(f"recover {in_progress} after {len(self.calls)}")

    def finish(self) -> None:
        self.events.append(f"finish after {len(self.calls)}")

    def close(self) -> None:
        self.events.append("close")


@pytest.fixture
def sink() -> Recorder:
    return Recorder()


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def commits(sink: Recorder, slept: list[float]) -> Iterator[CommitCoordinator]:
    committers = {"files": sink, "print": Recorder()}
    coordinator = CommitCoordinator(committers, frozenset({"files"}), {"files": "My files"}, slept.append)
    yield coordinator
    sink.gate.set()
    coordinator.close()


def of(epoch: int, *items: Any, sink: str = "files") -> list[PendingCommit]:
    return [PendingCommit(epoch, sink, 5, items)]


def test_epochs_are_committed_in_order(commits: CommitCoordinator, sink: Recorder) -> None:
    for epoch in range(1, 9):
        commits.submit(of(epoch, epoch))
    commits.drain()
    assert sink.calls == [(epoch, (epoch,)) for epoch in range(1, 9)]
    assert commits.pending() == ()


def test_what_is_not_acknowledged_belongs_into_the_next_manifest(commits: CommitCoordinator, sink: Recorder) -> None:
    sink.gate.clear()
    commits.submit(of(1, "a"))
    commits.submit(of(2, "b", sink="print"))  # is not durable: only the living driver shows it
    assert commits.pending(of(3, "c")) == (*of(1, "a"), *of(3, "c"))
    sink.gate.set()
    commits.drain()
    assert commits.pending(of(3, "c")) == tuple(of(3, "c"))


def test_a_passing_fault_is_tried_again(commits: CommitCoordinator, sink: Recorder, slept: list[float]) -> None:
    sink.faults = [OSError("busy"), OSError("still busy")]
    commits.submit(of(1, "a"))
    commits.submit(of(2, "b"))
    commits.drain()
    assert [epoch for epoch, _ in sink.calls] == [1, 2]
    assert slept == [0.1, 0.2]


def test_what_follows_a_commit_is_done_before_the_next_one(
    commits: CommitCoordinator, sink: Recorder, slept: list[float]
) -> None:
    sink.later_faults = [OSError("busy")]
    commits.submit(of(1, "a"))
    commits.submit(of(2, "b", "c"))
    commits.drain()
    assert sink.followed == ["1 with ['a'] after 1", "2 with ['b', 'c'] after 2"]
    assert slept == [0.1], "only what follows is tried again"


def test_what_follows_a_commit_belongs_to_it(commits: CommitCoordinator, sink: Recorder) -> None:
    sink.later_faults = [LookupError("no such table")]
    commits.submit(of(1, "a"))
    with pytest.raises(UserFunctionError, match=r"(?s)what follows the commit of sink .*, epoch 1 failed.*no such"):
        commits.drain()
    assert sink.calls == [(1, ("a",))]
    assert commits.pending() == tuple(of(1, "a")), "who goes on commits it again"


def test_a_fault_that_does_not_pass(commits: CommitCoordinator, sink: Recorder, slept: list[float]) -> None:
    sink.faults = [OSError("full")] * 100
    commits.submit(of(1, "a"))
    with pytest.raises(InfrastructureError, match=r"commit of sink .*: full"):
        commits.drain()
    assert len(slept) == 7
    assert commits.pending() == tuple(of(1, "a"))


def test_a_refusal_is_for_good_and_nothing_follows(commits: CommitCoordinator, sink: Recorder) -> None:
    sink.faults = [CommitRefusedError("table is gone")]
    sink.gate.clear()
    commits.submit(of(1, "a"))
    commits.submit(of(2, "b"))
    sink.gate.set()
    with pytest.raises(CommitRefusedError, match=r"sink 'My files' \(uid files\), epoch 1: table is gone"):
        commits.drain()
    assert sink.calls == []
    assert commits.pending() == (*of(1, "a"), *of(2, "b"))
    commits.submit(of(3, "c"))
    with pytest.raises(CommitRefusedError):
        commits.drain(MAX_PENDING_EPOCHS)


def test_a_sink_that_the_program_has_lost(commits: CommitCoordinator) -> None:
    commits.submit(of(1, "a", sink="gone"))
    with pytest.raises(CommitRefusedError, match="uid gone, which the program no longer has"):
        commits.drain()


def test_the_job_waits_when_too_many_epochs_are_pending(commits: CommitCoordinator, sink: Recorder) -> None:
    sink.gate.clear()
    for epoch in range(MAX_PENDING_EPOCHS):
        commits.submit(of(epoch, epoch))
        commits.drain(MAX_PENDING_EPOCHS)
    commits.submit(of(99, 99))
    waits = threading.Thread(target=commits.drain, args=(MAX_PENDING_EPOCHS,))
    waits.start()
    waits.join(0.1)
    assert waits.is_alive()
    sink.gate.set()
    waits.join(PATIENCE)
    assert not waits.is_alive()
    commits.drain()
    assert [epoch for epoch, _ in sink.calls] == [*range(MAX_PENDING_EPOCHS), 99]


def test_leftovers_are_removed_and_the_rest_is_published_after_everything_is_committed(
    commits: CommitCoordinator, sink: Recorder
) -> None:
    commits.submit([*of(1, "a"), *of(2, "b")])
    commits.recover({"files": "b"})
    commits.submit(of(3, "c"))
    commits.finish()
    assert sink.events == ["recover b after 2", "finish after 3"]


def coordinator(sink: Recorder, **arguments: Any) -> CommitCoordinator:
    return CommitCoordinator({"files": sink}, frozenset({"files"}), {"files": "My files"}, **arguments)


def test_a_job_that_was_taken_over_commits_nothing_any_more(sink: Recorder) -> None:
    asked: list[int] = []

    def check_owner() -> None:
        asked.append(1)
        if len(asked) == 3:
            raise JobSupersededError("another one has it")

    commits = coordinator(sink, check_owner=check_owner, sleep=lambda seconds: None)
    sink.faults = [OSError("busy")]
    commits.submit(of(1, "a"))
    commits.submit(of(2, "b"))
    with pytest.raises(JobSupersededError):
        commits.drain()
    commits.close()
    assert sink.calls == [(1, ("a",))]
    assert len(asked) == 3, "it is asked before every attempt"


def test_nobody_can_tell_while_the_directory_cannot_be_read(sink: Recorder, slept: list[float]) -> None:
    faults: list[Exception] = [OSError("away"), OSError("away")]

    def check_owner() -> None:
        if faults:
            raise faults.pop()

    commits = coordinator(sink, check_owner=check_owner, sleep=slept.append)
    commits.submit(of(1, "a"))
    commits.drain()
    commits.close()
    assert sink.calls == [(1, ("a",))]
    assert len(slept) == 2


@pytest.mark.parametrize("wait", ["drain", "drain all but a few", "recover", "finish", "join"])
def test_nobody_waits_for_a_sink_once_the_job_is_cancelled(
    sink: Recorder, wait: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("headrace.jobmanager.sinks.CLOSE_SECONDS", 0.05)
    cancelled = threading.Event()
    commits = coordinator(sink, cancelled=cancelled)
    sink.gate.clear()
    for epoch in range(MAX_PENDING_EPOCHS + 1):
        commits.submit(of(epoch, epoch))
    waits: dict[str, Callable[[], None]] = {
        "drain": commits.drain,
        "drain all but a few": lambda: commits.drain(MAX_PENDING_EPOCHS),
        "recover": lambda: commits.recover({}),
        "finish": commits.finish,
        "join": commits.join,
    }
    threading.Timer(0.05, cancelled.set).start()
    with pytest.raises(JobCancelledError):
        waits[wait]()
    commits.close()
    assert "the commit of sink 'My files' (uid files), epoch 0 has not ended" in caplog.text
    sink.gate.set()
    commits._thread.join(PATIENCE)
    assert sink.calls == [(0, (0,))], "what was left behind goes on to nothing else"


def test_what_a_committer_raises_is_told_with_sink_and_epoch(commits: CommitCoordinator, sink: Recorder) -> None:
    sink.faults = [ValueError("no such table")]
    commits.submit(of(1, "a"))
    with pytest.raises(
        UserFunctionError, match=r"commit of sink .*epoch 1 failed\n  ValueError: no such table"
    ) as failed:
        commits.drain()
    assert isinstance(failed.value.__cause__, ValueError)


def test_a_sink_that_is_tried_again_does_not_hold_up_the_end(sink: Recorder) -> None:
    commits = coordinator(sink)
    sink.faults = [OSError("busy")] * 100
    commits.submit(of(1, "a"))
    commits.close()
    assert not commits._thread.is_alive()
    assert commits.pending() == tuple(of(1, "a"))
    assert len(sink.faults) >= 97, "no further attempts"


def test_nothing_follows_a_sink_that_was_left_behind(sink: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sinks of one epoch: the first one hangs until the job is over, the second one is never asked."""
    monkeypatch.setattr("headrace.jobmanager.sinks.CLOSE_SECONDS", 0.05)
    second = Recorder()
    commits = CommitCoordinator({"files": sink, "more": second}, frozenset({"files", "more"}), {})
    sink.gate.clear()
    commits.submit([*of(1, "a"), *of(1, "b", sink="more")])
    commits.close()
    sink.gate.set()
    commits._thread.join(PATIENCE)
    assert sink.calls == [(1, ("a",))]
    assert second.calls == []


def test_what_was_restored_is_pending_before_it_is_started(sink: Recorder) -> None:
    commits = coordinator(sink, restored=[*of(1, "a"), *of(2, "b")])
    assert commits.pending() == (*of(1, "a"), *of(2, "b"))
    commits.drain()
    assert sink.calls == []
    commits.start()
    commits.drain()
    assert sink.calls == [(1, ("a",)), (2, ("b",))]
    assert commits.pending() == ()
    commits.close()
