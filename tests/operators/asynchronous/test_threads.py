"""Threads that functions are called in which may never return."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import CancelledError, Future

import pytest

from headrace.operators.asynchronous.event_loop import DaemonThreads
from tests.waiting import PATIENCE


def test_no_more_threads_than_are_needed_and_than_may_be() -> None:
    threads, begun, goes_on = DaemonThreads(3, "test"), threading.Semaphore(0), threading.Event()

    def call(number: int) -> tuple[int, int]:
        begun.release()
        assert goes_on.wait(PATIENCE)
        return number, threading.get_ident()

    calls = [threads.submit(call, number) for number in range(20)]
    for _ in range(3):
        assert begun.acquire(timeout=PATIENCE)
    assert not begun.acquire(blocking=False)
    goes_on.set()
    results = [future.result(PATIENCE) for future in calls]
    assert [number for number, _ in results] == [*range(20)]
    assert len({thread for _, thread in results}) <= 3
    threads.shutdown()


def test_one_after_the_other_they_share_a_thread() -> None:
    threads = DaemonThreads(1, "test")
    assert len({threads.submit(threading.get_ident).result(PATIENCE) for _ in range(5)}) == 1
    threads.shutdown()


def test_what_a_call_raises_is_raised_by_its_future() -> None:
    threads = DaemonThreads(2, "test")
    with pytest.raises(SystemExit):
        threads.submit(exit, 3).result(PATIENCE)
    assert threads.submit(int, "7").result(PATIENCE) == 7
    threads.shutdown()


def test_a_call_that_ends_an_iteration_is_told() -> None:
    """A future of an event loop takes no ``StopIteration``, and whoever awaits it would wait for ever."""
    threads = DaemonThreads(1, "test")
    with pytest.raises(RuntimeError, match=r"the function raised StopIteration: next\(\.\.\., None\)"):
        threads.submit(next, iter([])).result(PATIENCE)
    threads.shutdown()


class Result:
    """Something that can be referred to weakly."""


def test_nothing_of_a_call_lives_on_in_its_thread() -> None:
    threads = DaemonThreads(1, "test")
    result = weakref.ref(threads.submit(Result).result(PATIENCE))
    while threads._idle._value == 0:  # the thread has yet to be done with it
        pass
    gc.collect()
    assert result() is None
    threads.shutdown()


def test_there_are_no_calls_behind_the_end() -> None:
    threads = DaemonThreads(3, "test")
    assert threads.submit(int, "7").result(PATIENCE) == 7
    for _ in range(2):
        threads.shutdown(cancel_futures=True)
    with pytest.raises(RuntimeError, match="after shutdown"):
        threads.submit(int, "7")
    assert not any(thread.is_alive() for thread in threads._begun)


def test_calls_that_have_not_begun_are_cancelled_or_made_before_the_end() -> None:
    for cancels in (True, False):
        threads, begun, goes_on = DaemonThreads(1, "test"), threading.Event(), threading.Event()
        first: Future[bool] = threads.submit(lambda: begun.set() or goes_on.wait(PATIENCE))  # noqa: B023 - called before the next
        second = threads.submit(int, "7")
        assert begun.wait(PATIENCE)
        threads.shutdown(wait=False, cancel_futures=cancels)
        goes_on.set()
        assert first.result(PATIENCE)
        if cancels:
            with pytest.raises(CancelledError):
                second.result(PATIENCE)
        else:
            assert second.result(PATIENCE) == 7
