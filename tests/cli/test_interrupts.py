"""Ctrl-C, once, twice and three times."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from headrace.cli.interrupts import InterruptGuard
from headrace.client import running

if TYPE_CHECKING:
    from collections.abc import Iterator


class FakeJob:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def stop(self) -> None:
        self.calls.append("stop")

    def cancel(self) -> None:
        self.calls.append("cancel")


@pytest.fixture
def job() -> Iterator[FakeJob]:
    fake = FakeJob()
    running.register(fake)  # type: ignore[arg-type]
    yield fake
    running.unregister(fake)  # type: ignore[arg-type]


def test_the_first_stops_the_second_cancels_the_third_interrupts(job: FakeJob) -> None:
    said: list[str] = []
    with InterruptGuard(said.append) as guard:
        signal.raise_signal(signal.SIGINT)
        assert job.calls == ["stop"]
        signal.raise_signal(signal.SIGINT)
        assert job.calls == ["stop", "cancel"]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert guard.presses == 3
    assert len(said) == 2


def test_without_a_job_it_interrupts_at_once() -> None:
    with InterruptGuard(print), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_job_that_starts_after_it_is_stopped_as_well(job: FakeJob) -> None:
    with InterruptGuard(lambda text: None) as guard:
        guard.job_started()
        assert job.calls == []
        signal.raise_signal(signal.SIGINT)
        guard.job_started()
    assert job.calls == ["stop", "stop"]


def test_the_handler_from_before_comes_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with InterruptGuard(print):
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
