"""The garbage collector is held back, and always comes back as it was."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from headrace.common.garbage import gc_paused
from headrace.runtime.task.runner import gc_relaxed


@pytest.fixture(autouse=True)
def usual_collector() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_a_pause_ends_whatever_happens() -> None:
    with gc_paused():
        assert not gc.isenabled()
        with gc_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(RuntimeError), gc_paused():
        raise RuntimeError
    assert gc.isenabled()


def test_a_task_raises_the_threshold_and_puts_it_back() -> None:
    with gc_relaxed():
        assert gc.get_threshold()[0] > 1_000_000
    assert gc.get_threshold() == (700, 10, 10)
    with pytest.raises(RuntimeError), gc_relaxed():
        raise RuntimeError
    assert gc.get_threshold() == (700, 10, 10)


def test_tasks_may_overlap() -> None:
    first, second = gc_relaxed(), gc_relaxed()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold()[0] > 1_000_000
    second.__exit__(None, None, None)
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("threshold", [0, 50_000_000])
def test_a_user_who_has_set_more_or_switched_it_off_keeps_that(threshold: int) -> None:
    gc.set_threshold(threshold, 5, 5)
    with gc_relaxed():
        assert gc.get_threshold() == (threshold, 5, 5)
    assert gc.get_threshold() == (threshold, 5, 5)


def test_cycles_are_collected_while_a_task_runs() -> None:
    class Node:
        def __init__(self) -> None:
            self.me = self

    seen = weakref.ref(Node())
    assert seen() is not None
    with gc_relaxed():
        kept = [[] for _ in range(gc.get_threshold()[0] + 1000)]  # that many new containers
    assert seen() is None
    assert kept
