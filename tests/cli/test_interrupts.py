"""Ctrl-C, once, twice and three times."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

import pytest

from headrace.cli.run import InterruptGuard
from headrace.client import running
from tests.waiting import PATIENCE, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator


class FakeJob:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def interrupt(self) -> None:
        self.calls.append("stop")

    def cancel(self) -> None:
        self.calls.append("cancel")


@pytest.fixture
def job() -> Iterator[FakeJob]:
    fake = FakeJob()
    running.register(fake)  # type: ignore[arg-type]
    yield fake
    running.unregister(fake)  # type: ignore[arg-type]


def press(guard: InterruptGuard, presses: int, number: signal.Signals = signal.SIGINT) -> None:
    signal.raise_signal(number)
    wait_for(lambda: guard.presses == presses)


def test_the_first_stops_the_second_cancels_the_third_interrupts(job: FakeJob) -> None:
    said: list[str] = []
    with InterruptGuard(said.append) as guard:
        press(guard, 1)
        wait_for(lambda: job.calls == ["stop"] and len(said) == 1)
        press(guard, 2)
        wait_for(lambda: job.calls == ["stop", "cancel"] and len(said) == 2)
        with pytest.raises(KeyboardInterrupt):
            press(guard, 4)
    assert guard.presses == 3
    assert len(said) == 2


def test_without_a_job_it_interrupts_at_once() -> None:
    with InterruptGuard(print) as guard, pytest.raises(KeyboardInterrupt):
        press(guard, 2)
    assert guard.presses == 1


def test_a_signal_that_reaches_another_thread_counts(job: FakeJob) -> None:
    """Nothing would run a handler while the main thread waits for a lock."""
    with InterruptGuard(lambda text: None):
        ready = threading.Lock()
        ready.acquire()

        def interrupt() -> None:
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            wait_for(lambda: job.calls == ["stop"])
            ready.release()

        thread = threading.Thread(target=interrupt)
        thread.start()
        assert ready.acquire(timeout=PATIENCE)
        thread.join()
    assert job.calls == ["stop"]


def test_a_job_that_starts_after_it_is_stopped_as_well(job: FakeJob) -> None:
    with InterruptGuard(lambda text: None) as guard:
        guard.job_started()
        assert job.calls == []
        press(guard, 1)
        wait_for(lambda: job.calls == ["stop"])
        guard.job_started()
    assert job.calls == ["stop", "stop"]


def test_what_was_there_before_comes_back() -> None:
    handler, threads = signal.getsignal(signal.SIGINT), threading.active_count()
    with InterruptGuard(print):
        assert signal.getsignal(signal.SIGINT) is not handler
    assert signal.getsignal(signal.SIGINT) is handler
    assert signal.set_wakeup_fd(-1) == -1
    assert threading.active_count() == threads


def test_sigterm_counts_as_well(job: FakeJob) -> None:
    said: list[str] = []
    with InterruptGuard(said.append) as guard:
        signal.raise_signal(signal.SIGTERM)
        wait_for(lambda: job.calls == ["stop"] and len(said) == 1)
        assert "send SIGTERM again" in said[0]
        signal.raise_signal(signal.SIGTERM)
        wait_for(lambda: job.calls == ["stop", "cancel"] and len(said) == 2)
        with pytest.raises(SystemExit) as ended:
            press(guard, 4, signal.SIGTERM)
    assert ended.value.code == guard.exit_code == 143


def test_the_user_is_told_before_it_is_done(job: FakeJob) -> None:
    """Calling off an epoch may take a while."""
    with InterruptGuard(lambda text: job.calls.append("told")) as guard:
        press(guard, 1)
        wait_for(lambda: job.calls == ["told", "stop"])
        press(guard, 2)
        wait_for(lambda: job.calls == ["told", "stop", "told", "cancel"])


def test_a_signal_concerns_every_job_that_runs(job: FakeJob) -> None:
    told: list[str] = []
    another = FakeJob()
    running.register(another)
    try:
        assert running.end_all(1, "send it again", told.append)
        assert running.end_all(2, "send it again", told.append)
        assert not running.end_all(3, "send it again", told.append), "there is nothing more to do"
    finally:
        running.unregister(another)
    assert job.calls == another.calls == ["stop", "cancel"]
    assert told == [
        "stopping at the end of the running epoch; send it again to give it up",
        "giving up the running epoch; it will be run again when the job goes on",
    ]


def test_without_a_job_a_signal_ends_nothing() -> None:
    told: list[str] = []
    assert not running.end_all(1, "send it again", told.append)
    assert not told
