"""What a Python worker of Spark does beside running tasks."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from headrace.runtime.spark.worker import _LongLived


@pytest.fixture
def nothing_frozen() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("nothing_frozen")
def test_what_is_there_in_the_first_tasks_of_a_job_is_not_looked_at_again() -> None:
    long_lived = _LongLived()
    long_lived.freeze()
    assert gc.get_freeze_count() == 0  # no job, nothing to import

    long_lived.expect_imports()
    long_lived.freeze()
    first = gc.get_freeze_count()
    assert first > 10_000
    imported_later = [[number] for number in range(1000)]
    long_lived.freeze()
    assert gc.get_freeze_count() > first + len(imported_later) // 2  # a few of those from before may be gone


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_frozen")
def test_it_is_over_after_a_few_tasks() -> None:
    long_lived = _LongLived()
    long_lived.expect_imports()
    for _ in range(4):
        long_lived.freeze()
    frozen = gc.get_freeze_count()
    of_a_task = [[number] for number in range(1000)]
    long_lived.freeze()
    assert gc.get_freeze_count() <= frozen
    assert of_a_task
