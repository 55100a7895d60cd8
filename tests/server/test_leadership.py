"""Which of several dispatchers leads, by files that are made exclusively; time is told by the tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.savepoint.requests import JobProcess
from headrace.server.cluster.leadership import Leadership
from headrace.server.cluster.records import AttemptEnd, RunRecords, StartedProcess, Submission
from headrace.storage.file_system import PosixFileSystem
from headrace.storage.folder import Folder, posix_folder
from tests.draws import draws

if TYPE_CHECKING:
    from pathlib import Path

LEASE = 10.0


class Seconds:
    """A clock of dispatchers."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return posix_folder(tmp_path / "leader")


def dispatcher(folder: Folder, name: str, clock: Seconds) -> Leadership:
    return Leadership(folder, f"http://{name}", LEASE, clock)


def test_the_first_one_leads_and_the_second_knows_where(folder: Folder) -> None:
    clock = Seconds()
    first, second = dispatcher(folder, "first", clock), dispatcher(folder, "second", clock)
    assert first.look()
    for _ in range(20):
        clock.now += LEASE / 5
        assert first.look()
        assert not second.look()
    assert second.leader is not None
    assert second.leader.address == "http://first"
    assert (first.generation, second.generation) == (0, None)


def test_one_takes_over_when_the_other_is_silent(folder: Folder) -> None:
    clock = Seconds()
    first, second = dispatcher(folder, "first", clock), dispatcher(folder, "second", clock)
    first.look()
    second.look()
    clock.now += LEASE * 0.9
    assert not second.look()
    clock.now += LEASE * 0.2
    assert second.look()
    assert not first.look()  # it was paused, and finds that it leads no more
    assert first.generation is None
    assert first.leader is None
    clock.now += 1.0
    second.look()
    assert not first.look()
    assert first.leader is not None
    assert first.leader.address == "http://second"


def test_one_that_leaves_is_followed_at_once(folder: Folder) -> None:
    clock = Seconds()
    first, second = dispatcher(folder, "first", clock), dispatcher(folder, "second", clock)
    first.look()
    second.look()
    first.leave()
    assert second.look()
    assert not first.look()


def test_one_whose_process_is_gone_is_followed_at_once(folder: Folder) -> None:
    clock = Seconds()
    dispatcher(folder, "first", clock).look()
    said = json.loads(folder.read("0.alive"))
    said["process"]["pid"] = 2**22 - 3
    folder.write("0.alive", [json.dumps(said).encode()])
    assert dispatcher(folder, "second", clock).look()


def test_one_that_has_claimed_and_died_before_it_said_so_is_followed_after_a_lease(folder: Folder) -> None:
    clock = Seconds()
    dispatcher(folder, "first", clock).look()
    folder.remove("0.alive")
    second = dispatcher(folder, "second", clock)
    assert not second.look()
    clock.now += LEASE * 1.1
    assert second.look()
    assert second.generation == 1


@settings(max_examples=draws(120), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.floats(0, 15)), max_size=40))
def test_whoever_looks_when_never_two_lead_that_have_both_looked(
    tmp_path_factory: pytest.TempPathFactory, looks: list[tuple[int, float]]
) -> None:
    folder, clock = posix_folder(tmp_path_factory.mktemp("leader")), Seconds()
    several = [dispatcher(folder, str(number), clock) for number in range(3)]
    for number, seconds in looks:
        clock.now += seconds
        if several[number].look():
            youngest = max(int(name) for name in folder.names() if name.isdecimal())
            assert several[number].generation == youngest
    assert sum(each.look() and each.generation is not None for each in [*several, *several]) <= 2
    assert sum(each.generation is not None for each in several if each.look()) <= 1


def process(pid: int) -> StartedProcess:
    return StartedProcess(JobProcess("here", pid, "1"), "/work")


def test_an_attempt_is_begun_by_one_and_run_by_one(tmp_path: Path) -> None:
    runs = RunRecords(posix_folder(tmp_path))
    run = runs.next_of("a" * 32)
    assert run.submission() is None
    assert run.submit(Submission("a" * 32, "job.py", ("x",), {"key": "value"}, time=1))
    assert not run.submit(Submission("a" * 32, "other.py"))
    assert run.submission() == Submission("a" * 32, "job.py", ("x",), {"key": "value"}, time=1)
    assert run.begin_attempt(1, 0)
    assert not run.begin_attempt(1, 7)
    assert run.claim_attempt(1, process(1))
    assert not run.claim_attempt(1, process(2))
    assert run.process_of(1) == process(1)
    run.end_attempt(1, AttemptEnd("", -9))
    run.end_attempt(1, AttemptEnd("FINISHED", 0))
    assert run.end_of(1) == AttemptEnd("", -9)
    assert runs.next_of("a" * 32).name.endswith("-0002")


def test_a_process_whose_attempt_is_not_the_last_one_does_not_run(tmp_path: Path) -> None:
    run = RunRecords(posix_folder(tmp_path)).next_of("a" * 32)
    run.begin_attempt(1, 0)
    run.begin_attempt(2, 1)
    assert not run.claim_attempt(1, process(1))
    assert run.claim_attempt(2, process(2))
    assert run.attempts() == [1, 2]


def test_a_job_that_has_ended_stays_so(tmp_path: Path) -> None:
    run = RunRecords(posix_folder(tmp_path)).next_of("a" * 32)
    run.submit(Submission("a" * 32, "job.py"))
    assert not run.is_cancelled
    run.cancel()
    run.cancel()
    assert run.is_cancelled
    assert run.finish(AttemptEnd("CANCELED", None, time=1))
    assert not run.finish(AttemptEnd("FINISHED", 0, time=2))
    assert run.end() == AttemptEnd("CANCELED", None, time=1)


def test_a_run_that_is_removed_never_looks_as_if_it_were_to_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = RunRecords(posix_folder(tmp_path))
    run = runs.next_of("a" * 32)
    run.submit(Submission("a" * 32, "job.py"))
    run.begin_attempt(1, 0)
    run.end_attempt(1, AttemptEnd("FINISHED", 0))
    run.finish(AttemptEnd("FINISHED", 0))
    removed = PosixFileSystem.remove
    seen = []

    def remove(self: PosixFileSystem, path: str) -> bool:
        seen.append(run.submission() is None or run.end() is not None)
        return removed(self, path)

    monkeypatch.setattr(PosixFileSystem, "remove", remove)
    run.remove()
    assert len(seen) == 4
    assert all(seen)
    assert runs.names() == []
