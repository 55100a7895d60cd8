from __future__ import annotations

import math
from pathlib import Path

from benchmarks.outcome import Assignment, Epoch, Outcome, median, medians, steady_seconds

EPOCHS = [Epoch(10, 9.0), Epoch(40, 3.0), Epoch(40, 1.0), Epoch(40, 2.0), Epoch(5, 0.5)]


def test_only_full_epochs_after_the_first_one_are_steady() -> None:
    assert steady_seconds(EPOCHS, 40) == [3.0, 1.0, 2.0]


def test_the_first_epoch_does_not_count_even_when_it_is_full() -> None:
    assert steady_seconds(EPOCHS[1:], 40) == [1.0, 2.0]


def test_warm_up_counts_epochs_and_after_counts_records() -> None:
    assert steady_seconds(EPOCHS, 40, warm_up=3) == [2.0]
    assert steady_seconds(EPOCHS, 40, after=50) == [1.0, 2.0]
    assert steady_seconds(EPOCHS, 40, after=51) == [2.0]


def test_epochs_of_any_size_count_where_they_differ() -> None:
    assert steady_seconds(EPOCHS, None, after=50) == [1.0, 2.0, 0.5]


def test_median_of_nothing_is_not_a_number() -> None:
    assert median([3, 1, 2]) == 2
    assert math.isnan(median([]))


def test_what_a_sample_lacks_counts_as_zero() -> None:
    assert medians([{"a": 1.0}, {"a": 2.0, "b": 4.0}, {"a": 3.0, "b": 6.0}]) == {"a": 2.0, "b": 4.0}


def test_assignments_and_outcomes_survive_json() -> None:
    assignment = Assignment(Path("/in"), 5, Path("/work"), {"store": "hdfs"})
    outcome = Outcome((Epoch(5, 1.5),), {"rows": 3.0}, {"seconds": {"planning": 0.1}})
    assert Assignment.from_json(assignment.to_json()) == assignment
    assert Outcome.from_json(outcome.to_json()) == outcome
