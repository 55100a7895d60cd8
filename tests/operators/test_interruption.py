"""Interrupted or not, a thread is as it was before: nothing is raised in it later, and it can be traced."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from headrace.operators import user_code
from headrace.operators.user_code import EpochCancelledError, InterruptibleRun
from tests.waiting import PATIENCE

_TRACED = """
import sys, threading
from headrace.operators.user_code import EpochCancelledError, InterruptibleRun

def work():
    if {interrupt}:
        other = threading.Thread(target=interruption.interrupt)
        other.start()
        other.join()

interruption = InterruptibleRun()
try:
    interruption.run(work)
except EpochCancelledError:
    print("interrupted")
calls = []
sys.settrace(lambda frame, event, argument: calls.append(event))
(lambda: None)()
sys.settrace(None)
print(len(calls))
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("interrupt", [False, True])
def test_a_tracer_works_afterwards(interrupt: bool) -> None:
    program = _TRACED.format(interrupt=interrupt)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout.split() == (["interrupted", "1"] if interrupt else ["1"])


def test_what_does_not_return_is_left() -> None:
    interruption = InterruptibleRun()
    begun = threading.Event()

    def endless() -> None:
        begun.set()
        while True:
            pass

    other = threading.Thread(target=lambda: (begun.wait(), interruption.interrupt()))
    other.start()
    with pytest.raises(EpochCancelledError):
        interruption.run(endless)
    other.join()


def test_an_interrupt_of_work_that_has_just_ended_is_not_raised_later() -> None:
    interruption = InterruptibleRun()
    stop = threading.Event()

    def interrupt_again_and_again() -> None:
        while not stop.is_set():
            interruption.interrupt()

    other = threading.Thread(target=interrupt_again_and_again)
    other.start()
    interrupted = 0
    try:
        until = time.monotonic() + 1
        while time.monotonic() < until or not interrupted:
            try:
                interruption.run(lambda: sum(range(1000)))
            except EpochCancelledError:
                interrupted += 1
            sum(range(1000))  # outside: what is raised here fails the test
    finally:
        stop.set()
        other.join()


def test_an_interrupt_that_python_drops_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    ask = user_code._raise_in_thread

    def dropped_once(thread: int, error: object) -> None:
        asked.append(thread)
        if len(asked) != 2:  # the second is that of leaving, which a callback of the garbage collector may have got
            ask(thread, error)

    monkeypatch.setattr(user_code, "_raise_in_thread", dropped_once)
    interruption = InterruptibleRun()
    with pytest.raises(EpochCancelledError):
        interruption.run(lambda: _interrupt_from_outside(interruption))
    assert len(asked) == 3


def _interrupt_from_outside(interruption: InterruptibleRun) -> None:
    other = threading.Thread(target=interruption.interrupt)
    other.start()
    other.join()
